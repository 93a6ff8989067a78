//! The checks of a suite: its rows, and the cases of the sidecar, in one form.

use rustc_hash::FxHashSet;

use super::{Key, Responses, compat, expect::MergedExpectation};
use crate::suite::{Expected, ResourceSpec, Suite};
use kyvtest_go_compat::diagnostic::Span;
use kyvtest_model::{
    kube::Operation,
    policy::{Spanned, Text},
};

/// Identifies a check of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckId {
    /// The row with this number.
    Row(usize),
    /// The sidecar's case with this number.
    Case(usize),
}

/// One row, or one case of the sidecar.
#[derive(Debug, Clone)]
pub(super) struct Check<'s> {
    pub(super) id: CheckId,
    pub(super) name: Option<&'s Text>,
    pub(super) policy: &'s Text,
    pub(super) rule: Option<&'s Text>,
    pub(super) resources: Option<&'s [Text]>,
    pub(super) specs: &'s [ResourceSpec],
    pub(super) operation: Option<Operation>,
    pub(super) result: Option<Spanned<Expected>>,
    pub(super) span: Span,
    /// The references to named resources, for lookups.
    listed: FxHashSet<&'s str>,
}

impl<'s> Check<'s> {
    /// The rows, and then the cases of the sidecar.
    pub(super) fn all(suite: &'s Suite) -> impl Iterator<Item = Self> {
        let rows = suite.rows().iter().enumerate().map(|(number, row)| Self {
            id: CheckId::Row(number),
            name: None,
            policy: &row.policy,
            rule: row.rule.as_ref(),
            resources: row.resources.as_deref(),
            specs: &row.resource_specs,
            operation: row.operation.map(|operation| operation.value),
            result: Some(row.result),
            span: row.span,
            listed: listed(row.resources.as_deref().unwrap_or_default()),
        });
        let cases = suite.cases.iter().enumerate().map(|(number, case)| Self {
            id: CheckId::Case(number),
            name: case.name.as_ref(),
            policy: &case.policy,
            rule: case.rule.as_ref(),
            resources: Some(&case.resources),
            specs: &[],
            operation: case.operation.map(|operation| operation.value),
            result: case.result,
            span: case.span,
            listed: listed(&case.resources),
        });
        rows.chain(cases)
    }

    /// The index of the row.
    pub(super) fn row(&self) -> Option<usize> {
        match self.id {
            CheckId::Row(number) => Some(number),
            CheckId::Case(_) => None,
        }
    }

    /// The policy's name without its namespace.
    pub(super) fn policy_name(&self) -> &'s str {
        self.policy.value.rsplit('/').next().unwrap_or_default()
    }

    /// The named rule.
    pub(super) fn rule_name(&self) -> Option<&'s str> {
        self.rule
            .map(|rule| rule.value.as_str())
            .filter(|rule| !rule.is_empty())
    }

    /// The expected result; empty if none is expected.
    pub(super) fn expected(&self) -> &'static str {
        self.result.map_or("", |result| result.value.as_str())
    }

    /// Whether an expectation gives an old object for any of the resources.
    pub(super) fn may_have_old_object(&self, suite: &Suite) -> bool {
        match self.id {
            CheckId::Case(number) => suite
                .cases
                .get(number)
                .is_some_and(|case| case.expectation.old_object.is_some()),
            CheckId::Row(number) => suite.test.as_ref().is_some_and(|test| {
                let mut entries = suite.expectations.iter();
                entries.any(|entry| {
                    entry.expectation.old_object.is_some() && entry.selector.rows(test).any(|row| row == number)
                })
            }),
        }
    }

    /// The tested resources and payloads, sorted.
    pub(super) fn keys<'r>(&self, responses: &'r Responses) -> Vec<&'r Key> {
        let Some(named) = self.resources.filter(|_| self.specs.is_empty()) else {
            return responses.keys.iter().filter(|key| self.concerns(key)).collect();
        };
        let mut keys: Vec<&Key> = named.iter().flat_map(|name| responses.named(&name.value)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Whether a resource is among the tested ones.
    pub(super) fn concerns(&self, key: &Key) -> bool {
        let everything = self.resources.is_none() && self.specs.is_empty();
        everything
            || key
                .references()
                .iter()
                .any(|reference| self.listed.contains(reference.as_str()))
            || self.specs.iter().any(|spec| compat::describes(spec, key))
    }

    /// The expectations for a resource besides the result; later ones take precedence.
    pub(super) fn wanted(&self, suite: &'s Suite, key: &Key) -> MergedExpectation<'s> {
        let mut wanted = MergedExpectation::default();
        match self.id {
            CheckId::Case(number) => {
                if let Some(case) = suite.cases.get(number) {
                    wanted.add(&case.expectation);
                }
            }
            CheckId::Row(number) => {
                let Some(test) = &suite.test else { return wanted };
                for entry in &suite.expectations {
                    let named = entry.selector.resource.as_ref();
                    let fits = named.is_none_or(|named| compat::names(&named.value, key));
                    if fits && entry.selector.rows(test).any(|row| row == number) {
                        wanted.add(&entry.expectation);
                    }
                }
            }
        }
        wanted
    }
}

fn listed(names: &[Text]) -> FxHashSet<&str> {
    names.iter().map(|name| name.value.as_str()).collect()
}
