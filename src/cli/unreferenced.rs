//! `--unreferenced`: resources that no row tests.

use clap::ValueEnum;

use super::{Exit, output::Output};
use crate::report::{Run, coverage};
use kyvtest_go_compat::diagnostic::Severity;

/// The treatment of resources that no row tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Unreferenced {
    /// Report them
    Warn,
    /// Report them and exit with code 5
    Reject,
}

/// Reports the resources that no row tests, if requested. The runs must include coverage.
pub(super) fn check(word: Option<Unreferenced>, runs: &[Run<'_>], output: &mut Output) -> Exit {
    let Some(word) = word else {
        return Exit::Success;
    };
    let mut exit = Exit::Success;
    for (run, sources) in runs {
        for finding in run.coverage.iter().flat_map(coverage::unreferenced) {
            let finding = if word == Unreferenced::Reject {
                exit = Exit::BelowThreshold;
                finding.with_severity(Severity::Error)
            } else {
                finding
            };
            output.diagnostic(&finding, sources);
        }
    }
    exit
}
