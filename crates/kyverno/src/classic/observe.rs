//! The results of the parts of a classic rule, for observers: conditions, patterns of `anyPattern`, loops.
//!
//! Nothing is kept here: the rule is walked and the observer is queried for each part.

use super::{
    condition::{Condition, Conditions},
    validation::{Check, Validation},
};
use crate::observe::{Part, PartKind};
use kyvtest_cel::observe::{Observer, OutcomeCounts};
use kyvtest_go_compat::value::Data;

/// Gathers parts.
pub(crate) struct Parts<'o> {
    pub(crate) observer: &'o Observer,
    pub(crate) found: Vec<Part>,
}

impl Parts<'_> {
    fn add(&mut self, path: String, kind: PartKind, ways: OutcomeCounts) {
        self.found.push(Part { path, kind, ways });
    }

    /// The conditions of a block.
    pub(super) fn conditions(&mut self, path: &str, conditions: Option<&Conditions>) {
        let mut list = |path: &str, list: &[Condition]| {
            for (i, condition) in list.iter().enumerate() {
                let ways = self.observer.noted(condition);
                self.add(format!("{path}[{i}]"), PartKind::Condition, ways);
            }
        };
        match conditions {
            None => {}
            Some(Conditions::List(all)) => list(path, all),
            Some(Conditions::AnyAll { any, all }) => {
                list(&format!("{path}.any"), any.as_deref().unwrap_or_default());
                list(&format!("{path}.all"), all);
            }
        }
    }

    /// A check, its own preconditions aside.
    pub(super) fn check(&mut self, path: &str, check: &Check) {
        match check {
            Check::Deny(conditions) => self.conditions(&format!("{path}.deny.conditions"), conditions.as_ref()),
            Check::AnyPattern(patterns) => {
                for (i, pattern) in patterns.as_list().unwrap_or_default().iter().enumerate() {
                    let ways = self.observer.noted(pattern);
                    self.add(format!("{path}.anyPattern[{i}]"), PartKind::Pattern, ways);
                }
            }
            Check::Foreach(loops) => {
                for (i, entry) in loops.iter().enumerate() {
                    let path = format!("{path}.foreach[{i}]");
                    self.add(path.clone(), PartKind::Loop, self.observer.noted(entry));
                    let Validation {
                        preconditions, check, ..
                    } = &entry.validation;
                    self.conditions(&format!("{path}.preconditions"), preconditions.as_ref());
                    self.check(&path, check);
                }
            }
            Check::Pattern(_) | Check::Nothing => {}
        }
    }
}

/// The pattern of `anyPattern` with a number, as the policy has it.
pub(super) fn pattern(patterns: &Data, number: usize) -> Option<&Data> {
    patterns.as_list()?.get(number)
}
