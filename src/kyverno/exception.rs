//! PolicyExceptions of kyverno.io on classic rules.
//!
//! Upstream counterpart: `pkg/engine/utils/exceptions.go` and `pkg/exceptions`. What an exception says about Pod Security
//! controls concerns `podSecurity` rules alone. Known deviation: `conditions` are not evaluated; a rule that one of them
//! would have to decide is unsupported.

use super::matching::exempts;
use crate::{
    kube::{Cell, Facts},
    policy::{ExceptedRules, MatchResources, PolicyException},
};

/// An exception that is ready to be asked.
#[derive(Debug, Clone)]
pub struct CompiledException {
    key: String,
    matches: MatchResources,
    rules: Vec<ExceptedRules>,
    has_conditions: bool,
}

/// What exceptions say of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exemption {
    /// None applies.
    None,
    /// These apply.
    By(Vec<String>),
    /// One applies if its conditions hold, and these are not evaluated.
    Undecided,
}

impl CompiledException {
    /// Prepares an exception.
    pub fn new(exception: &PolicyException) -> Self {
        let name = &exception.metadata.name.value;
        Self {
            key: match &exception.metadata.namespace {
                Some(namespace) => format!("{}/{name}", namespace.value),
                None => name.clone(),
            },
            matches: exception.matches.clone(),
            rules: exception.exceptions.clone(),
            has_conditions: exception.conditions.is_some(),
        }
    }

    /// The exception's `namespace/name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it names a rule of a policy.
    pub fn names(&self, policy: &str, rule: &str) -> bool {
        self.rules.iter().any(|rules| rules.names(policy, rule))
    }
}

/// Which of the exceptions lift a rule for the requests of a cell.
pub fn exempt<'p>(
    exceptions: &'p [CompiledException],
    policy: &str,
    rule: &str,
    cell: &Cell<'_>,
    facts: &mut impl Facts<'p>,
) -> Exemption {
    let mut keys = Vec::new();
    let mut undecided = false;
    for exception in exceptions.iter().filter(|exception| exception.names(policy, rule)) {
        if !exempts(&exception.matches, cell, facts) {
            continue;
        }
        if exception.has_conditions {
            undecided = true;
        } else {
            keys.push(exception.key.clone());
        }
    }
    if !keys.is_empty() {
        Exemption::By(keys)
    } else if undecided {
        Exemption::Undecided
    } else {
        Exemption::None
    }
}
