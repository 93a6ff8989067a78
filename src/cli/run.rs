//! `kyvtest run`: suites, and what Kyverno decides on them.

use std::io::Write as _;

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};

use super::{
    Exit, Failure, github, interrupt,
    output::Output,
    report_file::ReportFile,
    suites::{Executed, Suites, Timed},
};
use crate::{
    diagnostic::{Code, Diagnostic, Sources},
    report::{self, Format, Per, Run, Standing, Summary, View, human},
    run::{Extras, SuiteRun},
};

/// Run kyverno-test.yaml suites
///
/// Decides every row as Kyverno 1.19 would on a cluster, and checks the answer against the result that the row expects. A row
/// that no rule answers fails; `--compat` gives the verdicts that `kyverno test` prints instead, with a warning for those
/// that pass although nothing answered.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    suites: Suites,

    /// How to print the result
    #[arg(short = 'o', long = "output-format", value_name = "FORMAT", default_value = "human", value_parser = formats())]
    format: Format,

    /// Write a report to a file, too: `junit=PATH`, or any other format; may be given several times
    #[arg(long, value_name = "FORMAT=PATH")]
    report: Vec<ReportFile>,

    /// What a test case of a JUnit report stands for
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    junit_per: JunitPer,

    /// Also list every answer of every policy, asked for by a row or not (JSON)
    #[arg(long)]
    all_responses: bool,

    /// Print passing cases too, and messages in tables
    #[arg(long)]
    detailed_results: bool,

    /// List only what is not well; counts are still those of the whole run
    #[arg(long)]
    fail_only: bool,

    /// Say of each policy whether its native twin is the same for all requests, as `kyvtest prove` does
    #[arg(long)]
    prove: bool,

    /// Show what the suites never try of their policies, in HTML and Markdown; `kyvtest cover` says more
    #[arg(long)]
    coverage: bool,

    /// What it means that there is nothing to run
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    no_tests: NoTests,

    /// With `--compat`: fail if there is no suite
    #[arg(long)]
    require_tests: bool,

    /// End with 0 whatever the expectations and the engines say
    #[arg(long)]
    exit_zero: bool,

    /// Accepted for the sake of scripts; output to a pipe has no colours
    #[arg(long, hide = true)]
    remove_color: bool,

    /// Accepted for the sake of scripts; images are never asked for over the network
    #[arg(long, hide = true)]
    registry: bool,

    /// Accepted for the sake of scripts; addresses are refused whatever the branch
    #[arg(short = 'b', long, hide = true)]
    git_branch: Option<String>,
}

fn formats() -> impl clap::builder::TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).map(|name| Format::named(&name).unwrap_or_default())
}

/// What a test case of a JUnit report stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum JunitPer {
    /// A case, with both engines in its text
    #[default]
    Case,
    /// What one engine says about a case
    Engine,
}

/// What it means that there is nothing to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum NoTests {
    #[default]
    Fail,
    Warn,
    Pass,
}

impl Args {
    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        self.suites.extras = Extras {
            coverage: self.coverage,
            behaviours: false,
            proofs: self.prove,
            stop: self.prove.then(interrupt::flag),
        };
        let compat = self.suites.compat;
        if self.suites.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "there is no path to look for suites in");
            output.diagnostic(
                &diagnostic.with_help("`kyvtest run .` looks in this folder"),
                &Sources::new(),
            );
            return Ok(if compat { Exit::Mismatch } else { Exit::Input });
        }
        let mut executed = self.suites.execute()?;
        for remark in &executed.remarks.0 {
            output.diagnostic(remark, &executed.remarks.1);
        }
        let exit = self.report(&mut executed, output)?;
        // Kyverno forgives a selector that it cannot read, unless there is nothing else to say.
        let nothing = executed.found == 0 && (self.require_tests || !executed.remarks.0.is_empty());
        if compat && nothing {
            return Ok(Exit::Mismatch);
        }
        let exit = if compat { exit.compat() } else { exit };
        let forgiven = matches!(exit, Exit::Mismatch | Exit::Divergence | Exit::BelowThreshold) && self.exit_zero;
        Ok(if forgiven { Exit::Success } else { exit })
    }

    /// Shows what came of the suites, on the streams and in files.
    fn report(&self, executed: &mut Executed, output: &mut Output) -> Result<Exit, Failure> {
        let mut exit = Exit::Success;
        for Timed { run, sources, .. } in &executed.runs {
            for diagnostic in &run.diagnostics {
                output.diagnostic(diagnostic, sources);
            }
            exit = exit.combine(exit_of(run));
        }
        if executed.runs.iter().all(|timed| timed.run.cases.is_empty()) {
            exit = exit.combine(self.no_tests(output));
        }
        let whole: Vec<&SuiteRun> = executed.runs.iter().map(|timed| &timed.run).collect();
        let mut closing = human::summary(&whole);
        if executed.stopped {
            closing.push_str("stopped early: there is more to run\n");
        }
        let summary = Summary::of(whole);
        if self.fail_only {
            for timed in &mut executed.runs {
                timed.run.cases.retain(|case| Standing::of(case).is_problem());
            }
        }
        let listed: Vec<Run<'_>> = executed.runs.iter().map(|timed| (&timed.run, &timed.sources)).collect();
        let view = View {
            runs: &listed,
            summary: &summary,
            closing: &closing,
            compat: self.suites.compat,
            all_responses: self.all_responses,
            detailed: self.detailed_results,
            fail_only: self.fail_only,
            times: &executed.times(),
            junit_per: match self.junit_per {
                JunitPer::Case => Per::Case,
                JunitPer::Engine => Per::Engine,
            },
        };
        for file in &self.report {
            if let Err(diagnostic) = file.write(&report::render(file.format, &view)) {
                output.diagnostic(&diagnostic, &Sources::new());
                exit = exit.combine(Exit::Input);
            }
        }
        output
            .artefact()
            .write_all(report::render(self.format, &view).as_bytes())?;
        if self.format != Format::Human {
            output.remark(&closing);
        }
        if let Err(diagnostic) = github::tell(&view, self.format, output) {
            output.diagnostic(&diagnostic, &Sources::new());
            exit = exit.combine(Exit::Input);
        }
        Ok(exit)
    }

    fn no_tests(&self, output: &mut Output) -> Exit {
        match self.no_tests {
            NoTests::Fail => Exit::NoTests,
            NoTests::Pass => Exit::Success,
            NoTests::Warn => {
                let diagnostic = Diagnostic::new(Code::NoTests, "there is nothing to run");
                output.diagnostic(&diagnostic, &Sources::new());
                Exit::Success
            }
        }
    }
}

/// What a suite's run means for the exit code.
fn exit_of(run: &SuiteRun) -> Exit {
    let broken = run.is_broken().then_some(Exit::Input);
    let cases = run.cases.iter().map(|case| {
        if case.outcome.fails() {
            Exit::Mismatch
        } else if case.diverges() {
            Exit::Divergence
        } else {
            Exit::Success
        }
    });
    broken.into_iter().chain(cases).collect()
}
