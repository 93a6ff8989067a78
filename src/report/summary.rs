//! The counts of a run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::{Outcome, SuiteRun};

/// The numbers of suites and cases, by result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Documents of test files, including unusable ones and unreadable paths.
    pub suites: usize,
    pub cases: usize,
    /// Passing cases, including those that `kyverno test` skips.
    pub pass: usize,
    /// Failing cases.
    pub fail: usize,
    /// Cases of policies that Kyverno rejects.
    pub error: usize,
    /// Cases that only an image registry can decide.
    pub needs_registry: usize,
    /// Cases that no engine evaluates.
    pub unsupported: usize,
    /// Cases without a result of a policy or rule.
    pub unmatched: usize,
    /// Divergences by class.
    pub divergences: BTreeMap<&'static str, usize>,
    /// Cases that pass although the engines differ in a way that fails a run.
    pub diverging: usize,
    /// Cases whose divergence is accepted.
    pub accepted: usize,
    /// Cases that `kyverno test` skips; they are included in `pass`.
    pub skipped: usize,
    /// Suites that could not be run.
    pub broken: usize,
}

impl Summary {
    pub fn of<'r>(runs: impl IntoIterator<Item = &'r SuiteRun>) -> Self {
        let mut summary = Self::default();
        for run in runs {
            summary.suites += 1;
            summary.broken += usize::from(run.is_broken());
            for case in &run.cases {
                summary.cases += 1;
                summary.skipped += usize::from(case.outcome == Outcome::Skip);
                summary.accepted += usize::from(case.accepted_because().is_some());
                match case.outcome {
                    Outcome::Pass | Outcome::Skip => summary.pass += 1,
                    Outcome::Fail => summary.fail += 1,
                    Outcome::Error => summary.error += 1,
                    Outcome::NeedsRegistry => summary.needs_registry += 1,
                    Outcome::Unsupported => summary.unsupported += 1,
                    Outcome::Unmatched => summary.unmatched += 1,
                    Outcome::Silent => {}
                }
                if let Some(divergence) = &case.divergence {
                    *summary.divergences.entry(divergence.class.as_str()).or_default() += 1;
                    summary.diverging += usize::from(case.outcome == Outcome::Pass && case.diverges());
                }
            }
        }
        summary
    }

    /// The object of the JSON report.
    pub fn json(&self) -> Value {
        json!({
            "suites": self.suites,
            "cases": self.cases,
            "pass": self.pass,
            "fail": self.fail,
            "error": self.error,
            "needsRegistry": self.needs_registry,
            "unsupported": self.unsupported,
            "unmatched": self.unmatched,
            "skipped": self.skipped,
            "diverging": self.diverging,
            "accepted": self.accepted,
            "divergences": self.divergences,
        })
    }
}
