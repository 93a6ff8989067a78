//! `kyvtest cover`: the parts of policies that suites do not exercise.

use std::{io::Write as _, sync::atomic::Ordering};

use super::{
    Exit, Failure,
    format::{OutputFormat, ReportFormat},
    interrupt,
    output::Output,
    suites::Suites,
    unreferenced::{self, Unreferenced},
};
use crate::{
    report::{Run, analysis, coverage},
    run::Extras,
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};

/// Show which parts of policies no test exercises
///
/// Runs the suites and lists which rules, filters, conditions, expressions and branches were never true, never false or
/// never reached, with their locations. Only requests that a row or a case tests count. A part that is not covered can
/// change without failing a test.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    suites: Suites,

    /// Group all requests by how the policies treat them, and show which of these behaviours no row tests
    ///
    /// Each missing behaviour comes with an example request; `kyvtest fill` writes it as a case.
    #[arg(long)]
    behaviours: bool,

    /// Exit with code 5 if less than PERCENT is covered
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    min: Option<u8>,

    #[command(flatten)]
    output: OutputFormat<ReportFormat>,

    /// Report resources that no row tests; `reject` also exits with code 5
    #[arg(long, value_name = "WORD", value_enum)]
    unreferenced: Option<Unreferenced>,
}

impl Args {
    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        if self.suites.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "no path given");
            return Err(diagnostic
                .with_help("`kyvtest cover .` searches the current directory")
                .into());
        }
        self.suites.extras = Extras {
            coverage: !self.behaviours,
            behaviours: self.behaviours,
            proofs: false,
            to: None,
            stop: self.behaviours.then(interrupt::flag),
        };
        let planned = self.suites.plan()?;
        planned.show_remarks(output);
        let executed = planned.execute_quietly();
        let mut exit = Exit::Success;
        for timed in &executed.runs {
            let errors = timed.run.diagnostics.iter();
            for diagnostic in errors.filter(|found| found.severity == Severity::Error) {
                output.diagnostic(diagnostic, &timed.sources);
            }
            if timed.run.is_broken() {
                exit = exit.combine(Exit::Input);
            }
        }
        let runs = executed.listed();
        if runs.iter().all(|(run, _)| run.cases.is_empty()) {
            exit = exit.combine(Exit::NoTests);
        }
        let now = executed.times.now.as_str();
        match self.output.format {
            ReportFormat::Human if self.behaviours => output.styled(&analysis::behaviours_human(&runs))?,
            ReportFormat::Json if self.behaviours => {
                let text = format!("{}\n", analysis::behaviours_json(&runs, now));
                output.artefact().write_all(text.as_bytes())?;
            }
            ReportFormat::Markdown if self.behaviours => {
                output
                    .artefact()
                    .write_all(analysis::behaviours_markdown(&runs).as_bytes())?;
            }
            ReportFormat::Human => {
                let text = coverage::human(&runs, true);
                output.styled(&text)?;
            }
            ReportFormat::Json => {
                let text = format!("{}\n", coverage::json(&runs, now, self.suites.selection.shard));
                output.artefact().write_all(text.as_bytes())?;
            }
            ReportFormat::Markdown => output.artefact().write_all(coverage::markdown(&runs).as_bytes())?,
        }
        exit = exit.combine(unreferenced::check(self.unreferenced, &runs, output));
        exit = exit.combine(self.check_minimum(&runs, output));
        if self.behaviours && interrupt::flag().load(Ordering::Relaxed) {
            exit = exit.combine(Exit::Interrupted);
        }
        Ok(exit)
    }

    fn check_minimum(&self, runs: &[Run<'_>], output: &mut Output) -> Exit {
        let (what, score) = if self.behaviours {
            ("coverage of behaviours", analysis::exercised(runs))
        } else {
            ("coverage", coverage::total(runs))
        };
        match self.min {
            Some(min) if score.seen * 100 < u64::from(min) * score.total => {
                let message = format!("{what} is {} %, less than {min} %", score.percent());
                output.diagnostic(&Diagnostic::new(Code::BelowMinimum, message), &Sources::new());
                Exit::BelowThreshold
            }
            _ => Exit::Success,
        }
    }
}
