//! PolicyExceptions of kyverno.io on classic rules.
//!
//! Upstream counterpart: `pkg/engine/utils/exceptions.go` and `pkg/exceptions`. The Pod Security controls of an
//! exception affect `podSecurity` rules only. Its conditions are evaluated in [`super::classic`], which has their
//! variables.

use super::{
    classic::{condition::Conditions, pod_security::Exclusion},
    matching::exempts,
};
use kyvtest_model::{
    kube::{Facts, RequestClass},
    policy::{ExceptedRules, MatchResources, PolicyException},
};

#[derive(Debug, Clone)]
pub struct CompiledException {
    key: String,
    matches: MatchResources,
    rules: Vec<ExceptedRules>,
    conditions: Option<Conditions>,
    pod_security: Vec<Exclusion>,
}

impl CompiledException {
    /// Prepares an exception.
    pub fn new(exception: &PolicyException) -> Self {
        let name = &exception.metadata.name.value;
        let conditions = exception.conditions.as_ref().filter(|part| !part.node().is_null());
        let controls = exception.pod_security.as_ref();
        Self {
            key: match &exception.metadata.namespace {
                Some(namespace) => format!("{}/{name}", namespace.value),
                None => name.clone(),
            },
            matches: exception.matches.clone(),
            rules: exception.exceptions.clone(),
            conditions: conditions.map(|part| Conditions::read(part.document().root())),
            pod_security: controls
                .map(|part| Exclusion::list(Some(part.document().root())))
                .unwrap_or_default(),
        }
    }

    /// The exception's `namespace/name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it is about.
    pub fn matches(&self) -> &MatchResources {
        &self.matches
    }

    /// Under which conditions.
    pub(super) fn conditions(&self) -> Option<&Conditions> {
        self.conditions.as_ref()
    }

    /// The Pod Security controls that it lets through; without any it lifts the whole rule.
    pub(super) fn pod_security(&self) -> &[Exclusion] {
        &self.pod_security
    }

    /// Whether it lifts a rule as a whole and without conditions.
    pub fn is_plain(&self) -> bool {
        self.conditions.is_none() && self.pod_security.is_empty()
    }

    /// Whether it names a rule of a policy.
    pub fn names(&self, policy: &str, rule: &str) -> bool {
        self.rules.iter().any(|rules| rules.names(policy, rule))
    }
}

/// The exceptions for a rule of a policy that match the requests of a class, regardless of their conditions.
pub fn matching<'p>(
    exceptions: &'p [CompiledException],
    (policy, rule): (&str, &str),
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Vec<&'p CompiledException> {
    let named = exceptions.iter().filter(|exception| exception.names(policy, rule));
    named
        .filter(|exception| exempts(&exception.matches, cell, facts))
        .collect()
}
