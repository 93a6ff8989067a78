//! `kyvtest run`: suites, and what Kyverno decides on them.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};

use super::{
    Exit, Failure, github, interrupt,
    output::Output,
    overrides::Override,
    report_file::ReportFile,
    suites::{Event, Executed, Order, Stop, Suites, Timed},
    unreferenced::{self, Unreferenced},
    update::Update,
};
use crate::{
    report::{self, Format, Level, Per, Run, Standing, Summary, View, human},
    run::{Extras, SuiteRun},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    value::{Document, diff},
};

/// Run kyverno-test.yaml suites
///
/// Decides every row as Kyverno 1.19 would on a cluster, and checks the answer against the result that the row expects. A row
/// that no rule answers fails; `--compat` gives the verdicts that `kyverno test` prints instead, with a warning for those
/// that pass although nothing answered.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) suites: Suites,

    /// How to print the result
    #[arg(short = 'o', long = "output-format", value_name = "FORMAT", default_value = "human", value_parser = formats())]
    format: Format,

    /// Write a report to a file, too: `junit=PATH`, or any other format; may be given several times
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(super) report: Vec<ReportFile>,

    /// What a test case of a JUnit report stands for
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    junit_per: JunitPer,

    /// Also list every answer of every policy, asked for by a row or not (JSON)
    #[arg(long)]
    all_responses: bool,

    /// Which cases people are shown as they are decided
    ///
    /// Each level has what the one before it has: `none`, `fail`, `diverge` (which is the default), `skip` for what is not
    /// decided, `pass`, `all`.
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    status_level: Option<Level>,

    /// Which cases people are shown once more at the end, a line each
    #[arg(long, value_name = "LEVEL", default_value = "diverge", value_parser = levels())]
    final_status_level: Level,

    /// Show how the engines came to their answers: what matched, which expressions were evaluated, and what their parts
    /// came to
    #[arg(short, long)]
    verbose: bool,

    /// Run everything twice, the second time in another order and on another number of threads, and compare
    ///
    /// The engines are pure functions: any difference is a bug, and ends the run with 70. Limits of time are off meanwhile.
    #[arg(long)]
    pub(super) check_determinism: bool,

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

    /// What to do about resources that no row is about: say so, or end with 5
    #[arg(long, value_name = "WORD", value_enum)]
    unreferenced: Option<Unreferenced>,

    #[command(flatten)]
    pub(super) update: Update,

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

fn levels() -> impl clap::builder::TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name)).map(|name| Level::named(&name).unwrap_or_default())
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
    /// What the configuration says of single cases.
    pub(super) fn set_overrides(&mut self, overrides: Vec<Override>) {
        self.suites.overrides = overrides;
    }

    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        self.update.check()?;
        if self.suites.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "there is no path to look for suites in");
            output.diagnostic(
                &diagnostic.with_help("`kyvtest run .` looks in this folder"),
                &Sources::new(),
            );
            return Ok(if self.suites.compat {
                Exit::Mismatch
            } else {
                Exit::Input
            });
        }
        let (exit, executed) = self.once(output)?;
        if !self.update.update || executed.stopped.is_some() {
            return Ok(exit);
        }
        let accepted = self.update.apply(&self.suites, &executed, output)?;
        if accepted.is_empty() || !matches!(exit, Exit::Mismatch | Exit::Divergence) {
            return Ok(exit);
        }
        // What was changed has an answer of its own now.
        let others = executed.runs.iter().filter(|timed| !accepted.contains(&timed.run.path));
        let others: Exit = others.map(|timed| exit_of(&timed.run)).collect();
        self.suites.only = Some(accepted);
        let again = self.suites.execute()?;
        let again: Exit = again.runs.iter().map(|timed| exit_of(&timed.run)).collect();
        Ok(others.combine(again))
    }

    /// Runs the suites and reports what came of them.
    pub(super) fn once(&mut self, output: &mut Output) -> Result<(Exit, Executed), Failure> {
        self.suites.extras = Extras {
            coverage: self.coverage || self.unreferenced.is_some(),
            behaviours: false,
            proofs: self.prove,
            stop: self.prove.then(interrupt::flag),
        };
        let compat = self.suites.compat;
        if self.check_determinism {
            // The clock is no part of what must be the same.
            self.suites.forget_timeouts();
        }
        self.suites.trace = self.verbose;
        let replay = self.suites.replay();
        let look = self.look(&replay, output.is_colored());
        let live = self.format == Format::Human;
        let mut unwritten = None;
        let mut listen = |event: Event<'_>| match event {
            Event::Remark(remark, sources) => {
                output.diagnostic(remark, sources);
                true
            }
            Event::Decided(Timed { run, sources, .. }) => {
                for diagnostic in &run.diagnostics {
                    output.diagnostic(diagnostic, sources);
                }
                if live && unwritten.is_none() {
                    let text = human::suite(run, sources, look);
                    let written = output.styled(&text).and_then(|()| output.flush());
                    unwritten = written.err();
                }
                // Reports are still wanted if nobody looks on.
                unwritten.is_none() || !self.report.is_empty()
            }
        };
        let mut executed = self.suites.execute_with(Order::Sorted, &mut listen)?;
        let mut exit = Exit::Success;
        if self.check_determinism && executed.stopped.is_none() {
            exit = exit.combine(self.again(&executed, look, output)?);
        }
        exit = exit.combine(self.report(&mut executed, look, unwritten, output)?);
        if let Some(Stop::Interrupted(_)) = executed.stopped {
            exit = exit.combine(Exit::Interrupted);
        }
        // Kyverno forgives a selector that it cannot read, unless there is nothing else to say.
        let nothing = executed.found == 0 && (self.require_tests || !executed.remarks.0.is_empty());
        if compat && nothing {
            return Ok((Exit::Mismatch, executed));
        }
        exit = exit.combine(unreferenced::check(self.unreferenced, &executed.listed(), output));
        let exit = if compat { exit.compat() } else { exit };
        let forgiven = matches!(exit, Exit::Mismatch | Exit::Divergence | Exit::BelowThreshold) && self.exit_zero;
        Ok((if forgiven { Exit::Success } else { exit }, executed))
    }

    /// How people are shown cases.
    fn look<'l>(&self, replay: &'l str, color: bool) -> human::Look<'l> {
        let level = match self.status_level {
            Some(level) => level,
            None if self.fail_only => Level::Diverge,
            None if self.detailed_results || self.verbose => Level::Pass,
            None => Level::Diverge,
        };
        human::Look {
            level,
            color,
            verbose: self.verbose,
            folders: self.suites.compat,
            replay,
        }
    }

    /// Runs everything once more, in another order and on another number of threads: nothing may be different.
    fn again(&self, first: &Executed, look: human::Look<'_>, output: &mut Output) -> Result<Exit, Failure> {
        let second = self.suites.execute_with(Order::Shuffled, &mut |_| true)?;
        if second.stopped.is_some() {
            return Ok(Exit::Success);
        }
        let text = |executed: &Executed| {
            let listed = executed.listed();
            let summary = Summary::of(executed.runs.iter().map(|timed| &timed.run));
            let view = View {
                all_responses: true,
                ..self.view(&listed, &summary, look, executed)
            };
            report::json::render(&view)
        };
        let (first, second) = (text(first), text(&second));
        if first == second {
            return Ok(Exit::Success);
        }
        let changes = diff(Document::from(&first).root(), Document::from(&second).root());
        let place = changes.first().map_or("", |change| change.path.as_str());
        let message = format!("a second run comes to something else: `{place}` of the JSON report");
        let diagnostic = Diagnostic::new(Code::NotDeterministic, message);
        output.diagnostic(&diagnostic, &Sources::new());
        Ok(Exit::Internal)
    }

    fn view<'r>(
        &self,
        runs: &'r [Run<'r>],
        summary: &'r Summary,
        look: human::Look<'r>,
        executed: &'r Executed,
    ) -> View<'r> {
        View {
            runs,
            summary,
            closing: "",
            look,
            stopped: executed.stopped.map(Stop::as_str),
            compat: self.suites.compat,
            all_responses: self.all_responses,
            detailed: self.detailed_results,
            fail_only: self.fail_only,
            times: executed.times(),
            junit_per: match self.junit_per {
                JunitPer::Case => Per::Case,
                JunitPer::Engine => Per::Engine,
            },
        }
    }

    /// Shows what came of the suites, on the streams and in files. What people are shown of each case has been written by now,
    /// unless that could not be written.
    fn report(
        &self,
        executed: &mut Executed,
        look: human::Look<'_>,
        unwritten: Option<io::Error>,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut exit: Exit = executed.runs.iter().map(|timed| exit_of(&timed.run)).collect();
        if executed.runs.iter().all(|timed| timed.run.cases.is_empty()) && executed.stopped.is_none() {
            exit = exit.combine(self.no_tests(output));
        }
        let whole = || executed.runs.iter().map(|timed| &timed.run);
        let mut counts = human::summary(whole(), executed.elapsed());
        match executed.stopped {
            None | Some(Stop::Unread) => {}
            Some(Stop::MaxFail) => counts.push_str("stopped early: there is more to run\n"),
            Some(Stop::Interrupted(1)) => counts.push_str("interrupted: 1 test file was not run\n"),
            Some(Stop::Interrupted(left)) => {
                let _ = writeln!(counts, "interrupted: {left} test files were not run");
            }
        }
        let mut closing = human::list(whole(), self.final_status_level);
        if !closing.is_empty() {
            closing.insert(0, '\n');
        }
        closing.push_str(&counts);
        let summary = Summary::of(whole());
        if self.fail_only {
            for timed in &mut executed.runs {
                timed.run.cases.retain(|case| Standing::of(case).is_problem());
            }
        }
        let listed = executed.listed();
        let view = View {
            closing: &closing,
            ..self.view(&listed, &summary, look, executed)
        };
        for file in &self.report {
            if let Err(diagnostic) = file.write(&report::render(file.format, &view)) {
                output.diagnostic(&diagnostic, &Sources::new());
                exit = exit.combine(Exit::Input);
            }
        }
        if let Some(error) = unwritten {
            return Err(error.into());
        }
        if self.format == Format::Human {
            output.styled(&closing)?;
        } else {
            output
                .artefact()
                .write_all(report::render(self.format, &view).as_bytes())?;
            output.remark(&counts);
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
