//! `kyvtest list`: lists the cases that `kyvtest run` would run.

use std::{fmt::Write as _, io::Write as _};

use clap::ValueEnum;
use serde_json::json;

use super::{Exit, Failure, format::OutputFormat, output::Output, suites::Suites};
use crate::{
    report::place,
    run::{Stop, overrides::Override, source_map},
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};

/// List the cases that `kyvtest run` would run
///
/// Accepts the same paths and filters. Diagnostics go to standard error, as in a run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    suites: Suites,

    #[command(flatten)]
    output: OutputFormat<ListFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// A line for each case
    Human,
    /// One JSON object
    Json,
}

impl Args {
    /// Sets the configuration's overrides for single cases.
    pub(super) fn set_overrides(&mut self, overrides: Vec<Override>) {
        self.suites.overrides = overrides;
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        if self.suites.paths.is_empty() {
            let message = "no path given";
            let diagnostic = Diagnostic::new(Code::CommandLine, message);
            return Err(diagnostic
                .with_help("`kyvtest list .` searches the current directory")
                .into());
        }
        let planned = self.suites.plan()?;
        planned.show_remarks(output);
        let executed = planned.execute_quietly();
        let mut exit = match executed.stopped {
            Some(Stop::Interrupted(_)) => Exit::Interrupted,
            Some(Stop::MaxFail(_)) | None => Exit::Success,
        };
        for timed in &executed.runs {
            if timed.run.is_broken() {
                exit = exit.combine(Exit::Input);
            }
            for diagnostic in &timed.run.diagnostics {
                output.diagnostic(diagnostic, &timed.sources);
            }
        }
        let mut lines = String::new();
        let mut objects = Vec::new();
        for timed in &executed.runs {
            let run = &timed.run;
            for case in &run.cases {
                match self.output.format {
                    ListFormat::Human => {
                        let _ = writeln!(lines, "{} :: {}", run.path, case.title());
                    }
                    ListFormat::Json => {
                        let (file, line, column) = place(case.place, &timed.sources);
                        objects.push(json!({
                            "id": source_map::id(run, case),
                            "suite": run.path,
                            "doc": run.doc,
                            "row": case.row,
                            "name": case.name,
                            "policy": case.policy,
                            "rule": case.rule,
                            "resource": crate::report::key(&case.resource),
                            "operation": case.operation.as_str(),
                            "expected": Some(case.expected).filter(|word| !word.is_empty()),
                            "file": file,
                            "line": line,
                            "column": column,
                        }));
                    }
                }
            }
        }
        if executed.runs.iter().all(|timed| timed.run.cases.is_empty()) {
            exit = exit.combine(Exit::NoTests);
        }
        if self.output.format == ListFormat::Json {
            lines = format!("{}\n", json!({"version": 1, "cases": objects}));
        }
        output.artefact().write_all(lines.as_bytes())?;
        Ok(exit)
    }
}
