//! What a repair is made of, and which hazards of the generator each part is for.

use std::collections::BTreeSet;

use super::Step;

/// A construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Construct {
    OwnRules,
    Operations,
    Versions,
    Scopes,
    Ephemeral,
    ExcludedRules,
    NamespaceNames,
    NamespaceLabels,
    NamespaceCondition,
    NameCondition,
    LabelCondition,
    AnnotationCondition,
    UserCondition,
    WebhookConditions,
    Inlined,
    Renamed,
    Autogen,
    Rules,
    Split,
    Bindings,
    Exceptions,
    FailurePolicy,
    Errors,
    NoAnnotations,
    OneLine,
    OwnNamespace,
}

impl Construct {
    /// Its name, what it is, and the hazards that it avoids.
    const fn description(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::OwnRules => (
                "own-rules",
                "one resource rule for every filter, group, version and set of operations",
                &["H04", "H18"],
            ),
            Self::Operations => ("operations", "excluded operations are removed from the rules", &["H08"]),
            Self::Versions => (
                "served-versions",
                "one rule for every version that the cluster serves, with `matchPolicy: Exact`",
                &["H16"],
            ),
            Self::Scopes => (
                "scopes",
                "separate rules for namespaced objects, cluster-scoped objects and Namespaces",
                &["H11", "H12", "H13"],
            ),
            Self::Ephemeral => (
                "ephemeral-containers",
                "a separate rule for pods/ephemeralcontainers",
                &["H19"],
            ),
            Self::ExcludedRules => (
                "excluded-resources",
                "kinds that are excluded altogether are `excludeResourceRules`",
                &["H06", "H07"],
            ),
            Self::NamespaceNames => (
                "namespace-selector",
                "namespace names become requirements on the label kubernetes.io/metadata.name",
                &["H01", "H02", "H02b", "H03", "H06", "H11", "H30"],
            ),
            Self::NamespaceLabels => (
                "namespace-labels",
                "namespace labels become requirements of one selector",
                &["H03", "H09"],
            ),
            Self::NamespaceCondition => (
                "namespace-condition",
                "namespace names become a match condition",
                &["H01", "H02", "H02b", "H06", "H10", "H30"],
            ),
            Self::NameCondition => (
                "name-condition",
                "names become a match condition on the object, which collection deletes also have",
                &["H05", "H06", "H07", "H10", "H21", "H23", "H29", "H31", "H32"],
            ),
            Self::LabelCondition => (
                "label-condition",
                "object labels become a match condition on the object that Kyverno checks",
                &["H09", "H14", "H15"],
            ),
            Self::AnnotationCondition => ("annotation-condition", "annotations become a match condition", &[]),
            Self::UserCondition => ("user-condition", "users and groups become a match condition", &[]),
            Self::WebhookConditions => (
                "webhook-conditions",
                "match conditions of the webhook are copied",
                &["H24"],
            ),
            Self::Inlined => (
                "inlined-variables",
                "variables in match conditions are written out",
                &["H56"],
            ),
            Self::Renamed => (
                "renamed-conditions",
                "match conditions get names that the API server accepts",
                &["H57"],
            ),
            Self::Autogen => (
                "pod-controllers",
                "rules for pod controllers become separate native policies",
                &["H27", "V19"],
            ),
            Self::Rules => ("rules", "every rule becomes a separate native policy", &[]),
            Self::Split => (
                "several-policies",
                "rules that need different namespace selectors become separate native policies",
                &["H02", "H02b", "H13"],
            ),
            Self::Bindings => (
                "several-bindings",
                "failure actions by namespace become bindings with disjoint selectors",
                &["H40"],
            ),
            Self::Exceptions => (
                "exceptions",
                "an exception becomes one negated conjunction of its conditions",
                &["V02", "V03", "H29", "H30", "H31", "H32"],
            ),
            Self::FailurePolicy => ("failure-policy", "the failure policy is copied", &["V01"]),
            Self::Errors => (
                "errors-refuse",
                "a separate native policy denies requests for which a match condition fails to evaluate, as \
                 Kyverno's webhook does regardless of the actions",
                &[],
            ),
            Self::NoAnnotations => (
                "no-audit-annotations",
                "audit annotations are dropped: Kyverno ignores them, but the API server denies requests for which \
                 they fail to evaluate; the audit log changes",
                &["H43"],
            ),
            Self::OneLine => ("one-line-messages", "messages are written on one line", &["H58"]),
            Self::OwnNamespace => (
                "own-namespace",
                "the policy is for its own namespace, by the label kubernetes.io/metadata.name",
                &["V21"],
            ),
        }
    }
}

/// The constructions of a repair, each once.
#[derive(Debug, Default)]
pub(super) struct Steps(BTreeSet<Construct>);

impl Steps {
    /// Adds a construction.
    pub(super) fn add(&mut self, construct: Construct) {
        self.0.insert(construct);
    }

    /// Adds a construction where something holds.
    pub(super) fn note(&mut self, holds: bool, construct: Construct) {
        if holds {
            self.add(construct);
        }
    }

    /// All steps, each with those of its hazards that the generator's policy has.
    pub(super) fn avoiding(&self, hazards: &BTreeSet<&'static str>) -> Vec<Step> {
        let each = self.0.iter().map(|construct| {
            let (construct, text, avoided) = construct.description();
            let avoided = avoided.iter().copied().filter(|code| hazards.contains(code));
            Step {
                construct,
                hazards: avoided.collect(),
                text,
            }
        });
        each.collect()
    }
}
