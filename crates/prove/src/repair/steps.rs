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
    const fn told(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::OwnRules => (
                "own-rules",
                "one resource rule for every filter, group, version and set of operations",
                &["H04", "H18"],
            ),
            Self::Operations => ("operations", "excluded operations are taken out of the rules", &["H08"]),
            Self::Versions => (
                "served-versions",
                "one rule for every version that the cluster serves, with `matchPolicy: Exact`",
                &["H16"],
            ),
            Self::Scopes => (
                "scopes",
                "rules for objects in namespaces, outside of them and for Namespaces apart",
                &["H11", "H12", "H13"],
            ),
            Self::Ephemeral => (
                "ephemeral-containers",
                "a rule of its own for pods/ephemeralcontainers",
                &["H19"],
            ),
            Self::ExcludedRules => (
                "excluded-resources",
                "kinds that are excluded altogether are `excludeResourceRules`",
                &["H06", "H07"],
            ),
            Self::NamespaceNames => (
                "namespace-selector",
                "namespaces by name are requirements on the label kubernetes.io/metadata.name",
                &["H01", "H02", "H02b", "H03", "H06", "H11", "H30"],
            ),
            Self::NamespaceLabels => (
                "namespace-labels",
                "labels of namespaces are requirements of one selector",
                &["H03", "H09"],
            ),
            Self::NamespaceCondition => (
                "namespace-condition",
                "namespaces by name are a match condition",
                &["H01", "H02", "H02b", "H06", "H10", "H30"],
            ),
            Self::NameCondition => (
                "name-condition",
                "names are a match condition on the object, which a collection delete has, too",
                &["H05", "H06", "H07", "H10", "H21", "H23", "H29", "H31", "H32"],
            ),
            Self::LabelCondition => (
                "label-condition",
                "labels of the object are a match condition on the object that Kyverno looks at",
                &["H09", "H14", "H15"],
            ),
            Self::AnnotationCondition => ("annotation-condition", "annotations are a match condition", &[]),
            Self::UserCondition => ("user-condition", "users and groups are a match condition", &[]),
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
                "match conditions have names that the API server takes",
                &["H57"],
            ),
            Self::Autogen => (
                "pod-controllers",
                "rules for pod controllers are native policies of their own",
                &["H27", "V19"],
            ),
            Self::Rules => ("rules", "every rule is a native policy of its own", &[]),
            Self::Split => (
                "several-policies",
                "what needs different selectors of namespaces is in different native policies",
                &["H02", "H02b", "H13"],
            ),
            Self::Bindings => (
                "several-bindings",
                "failure actions by namespace are bindings with selectors that exclude each other",
                &["H40"],
            ),
            Self::Exceptions => (
                "exceptions",
                "an exception is one negated conjunction of its conditions",
                &["V02", "V03", "H29", "H30", "H31", "H32"],
            ),
            Self::FailurePolicy => ("failure-policy", "the failure policy is carried over", &["V01"]),
            Self::Errors => (
                "errors-refuse",
                "a native policy of its own refuses requests on which a match condition errs, as Kyverno's webhook does whatever \
                 the actions are",
                &[],
            ),
            Self::NoAnnotations => (
                "no-audit-annotations",
                "audit annotations are dropped: Kyverno ignores them, but the API server refuses requests on which they \
                 err; the audit log changes",
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

    /// All of them with those hazards that the generator runs into.
    pub(super) fn told(&self, hazards: &BTreeSet<&'static str>) -> Vec<Step> {
        let each = self.0.iter().map(|construct| {
            let (construct, text, avoided) = construct.told();
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
