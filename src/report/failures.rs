//! Groups the failures of a suite by cause: a misspelt rule fails every row that names it.

use crate::run::{Case, Outcome, SuiteRun};

use super::CaseStatus;

/// Cases of one rule that fail for the same cause.
#[derive(Debug)]
pub(super) struct Failures<'r> {
    /// Shown in full.
    pub(super) first: &'r Case,
    /// The others, in the order of the suite.
    pub(super) others: Vec<&'r Case>,
}

/// The failing cases of a suite, grouped by policy, rule and cause, in the order of the first ones.
pub(super) fn failures(run: &SuiteRun) -> Vec<Failures<'_>> {
    let mut groups: Vec<Failures<'_>> = Vec::new();
    for case in run.cases.iter().filter(|case| CaseStatus::of(case).rank() == 0) {
        match groups.iter_mut().find(|group| is_same(group.first, case)) {
            Some(group) => group.others.push(case),
            None => groups.push(Failures {
                first: case,
                others: Vec::new(),
            }),
        }
    }
    groups
}

/// Whether two cases fail for the same cause. Messages name resources, so that only their codes are compared.
fn is_same(one: &Case, other: &Case) -> bool {
    let cause = |case: &Case| {
        let codes: Vec<_> = case.findings.iter().map(|finding| finding.code).collect();
        // A missing rule fails every row that names it, regardless of the expected result.
        let verdict = (case.outcome == Outcome::Fail).then(|| {
            let status = case.kyverno.as_ref().map(|answer| (answer.status, answer.effect));
            (case.expected, status)
        });
        (case.outcome, verdict, codes)
    };
    // A named case is never grouped with others.
    one.name == other.name
        && (&one.policy, &one.rule) == (&other.policy, &other.rule)
        && cause(one) == cause(other)
        && (!one.findings.is_empty() || one.reason == other.reason)
}
