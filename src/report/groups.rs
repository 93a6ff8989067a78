//! Groups divergences by cause: a library of policies converts with few hazards, each of which explains many cases.

use crate::run::{Case, DivergenceClass, SuiteRun};

use super::CaseStatus;

/// A diverging case with its suite.
pub type Member<'r> = (&'r SuiteRun, &'r Case);

/// Cases that diverge in the same way for the same cause.
#[derive(Debug)]
pub struct Group<'r> {
    pub class: DivergenceClass,
    /// The hazard, if known.
    pub code: Option<&'r str>,
    /// The cause; with a hazard, that of the first case.
    pub cause: &'r str,
    /// The cases by policy, both in the order of the input.
    pub policies: Vec<(&'r str, Vec<Member<'r>>)>,
}

impl Group<'_> {
    /// The number of cases.
    pub fn len(&self) -> usize {
        self.policies.iter().map(|(_, cases)| cases.len()).sum()
    }

    /// Always false: a group has at least one case.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }
}

/// The divergences that fail a run, grouped by class and cause; the largest group comes first.
pub fn groups<'r>(runs: impl IntoIterator<Item = &'r SuiteRun>) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    for run in runs {
        for case in run
            .cases
            .iter()
            .filter(|case| CaseStatus::of(case) == CaseStatus::Diverge)
        {
            let Some(found) = &case.divergence else { continue };
            let code = found.code.as_deref();
            // Without a hazard only the message distinguishes causes.
            let same = |group: &Group<'_>| {
                group.class == found.class && group.code == code && (code.is_some() || group.cause == found.cause)
            };
            let at = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Group {
                    class: found.class,
                    code,
                    cause: &found.cause,
                    policies: Vec::new(),
                });
                groups.len() - 1
            });
            let Some(group) = groups.get_mut(at) else { continue };
            match group.policies.iter_mut().find(|(policy, _)| *policy == case.policy) {
                Some((_, cases)) => cases.push((run, case)),
                None => group.policies.push((&case.policy, vec![(run, case)])),
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}
