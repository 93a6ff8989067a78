//! Why Kyverno generates nothing: our stable codes, Kyverno's own words.

use super::{
    hazard::{self, Hazard},
    place::At,
    report::{Action, Item},
};
use kyvtest_go_compat::diagnostic::Span;

/// The reasons for which nothing is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalCode {
    /// The policy is for one namespace.
    NamespacedPolicy,
    NoValidateRule,
    /// There are several rules.
    MultipleRules,
    /// The rule is not written in CEL.
    NotCel,
    /// The policy does not enable the generation.
    NotMarked,
    /// The failure action has several overrides.
    OverridesMultiple,
    /// The failure action is overridden for namespaces by name.
    OverridesNamespaces,
    /// Roles, cluster roles or subjects.
    UserInfo,
    /// Annotations of the object.
    Annotations,
    /// A pattern of a name.
    NameWildcard,
    /// A pattern of a namespace.
    NamespaceWildcard,
    /// Kinds and namespaces in one filter that excludes.
    ExcludeKindInNamespace,
    /// A selector in a filter that excludes.
    ExcludeSelector,
    /// A selector in one of several filters.
    SelectorAcrossFilters,
    /// Several filters under `all`.
    MultipleAll,
    /// An exception that names several rules.
    ExceptionRules,
    ExceptionConditions,
    /// Policies for pod controllers are made from it.
    Autogen,
    /// Policies for pod controllers are made from a MutatingPolicy.
    MutatingAutogen,
    /// The MutatingPolicy is for one namespace.
    NamespacedMutation,
    /// The MutatingPolicy replaces atomic fields.
    ServerSideApply,
    /// A MutatingPolicy without `matchConstraints`, on which the generator crashes.
    MutationWithoutConstraints,
    /// A ValidatingPolicy without `matchConstraints`, on which the generator crashes.
    NoMatchConstraints,
    /// No kind of the cluster fits.
    UnknownKind,
    /// Several kinds of the cluster fit.
    AmbiguousKind,
    /// The policy could not even be stored.
    InvalidPolicy,
    /// Kyverno makes other objects from this kind, or none.
    UnsupportedKind,
}

impl RefusalCode {
    /// The code as tools see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NamespacedPolicy => "namespaced-policy",
            Self::NoValidateRule => "no-validate-rule",
            Self::MultipleRules => "multiple-rules",
            Self::NotCel => "not-cel",
            Self::NotMarked => "not-marked",
            Self::OverridesMultiple => "overrides-multiple",
            Self::OverridesNamespaces => "overrides-namespaces",
            Self::UserInfo => "user-info",
            Self::Annotations => "annotations",
            Self::NameWildcard => "name-wildcard",
            Self::NamespaceWildcard => "namespace-wildcard",
            Self::ExcludeKindInNamespace => "exclude-kind-in-namespace",
            Self::ExcludeSelector => "exclude-selector",
            Self::SelectorAcrossFilters => "selector-across-filters",
            Self::MultipleAll => "multiple-all",
            Self::ExceptionRules => "exception-rules",
            Self::ExceptionConditions => "exception-conditions",
            Self::Autogen => "vpol-autogen",
            Self::MutatingAutogen => "mpol-autogen",
            Self::NamespacedMutation => "namespaced-mutation",
            Self::ServerSideApply => "server-side-apply",
            Self::MutationWithoutConstraints => "mutation-without-constraints",
            Self::NoMatchConstraints => "no-match-constraints",
            Self::UnknownKind => "unknown-kind",
            Self::AmbiguousKind => "ambiguous-kind",
            Self::InvalidPolicy => "invalid-policy",
            Self::UnsupportedKind => "unsupported-kind",
        }
    }

    /// What to do about it, for the author of the policy.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NamespacedPolicy => {
                "Kyverno converts cluster-wide policies only; write a ClusterPolicy or ValidatingPolicy that selects the \
                 namespace by its label `kubernetes.io/metadata.name`"
            }
            Self::NoValidateRule => "only rules with `validate.cel` have a native counterpart",
            Self::MultipleRules => "split the policy: one policy for each rule",
            Self::NotCel => "rewrite the rule as `validate.cel`",
            Self::NotMarked => {
                "set `validate.cel.generate: true`, in a ValidatingPolicy \
                 `spec.autogen.validatingAdmissionPolicy.enabled: true`, in a MutatingPolicy \
                 `spec.autogen.mutatingAdmissionPolicy.enabled: true`, or convert with `--force`"
            }
            Self::OverridesMultiple | Self::OverridesNamespaces => {
                "use one policy for each failure action, each with the namespaces that it is for"
            }
            Self::UserInfo => {
                "check the user in `celPreconditions`: `'system:masters' in request.userInfo.groups`; roles have no \
                 native counterpart"
            }
            Self::Annotations => "check annotations in `celPreconditions`",
            Self::NameWildcard => "check the name in `celPreconditions`: `object.metadata.name.startsWith('…')`",
            Self::NamespaceWildcard => {
                "select namespaces by a label, or check `request.namespace` in `celPreconditions`"
            }
            Self::ExcludeKindInNamespace => "exclude the namespace in `celPreconditions`: `request.namespace != '…'`",
            Self::ExcludeSelector => "turn the selector round and put it into `match`, or ask in `celPreconditions`",
            Self::SelectorAcrossFilters => "use one policy for each filter that has a selector",
            Self::MultipleAll => "merge the filters under `all` into one",
            Self::ExceptionRules => "name one rule in each entry of the exception",
            Self::ExceptionConditions => "an exception with `conditions` keeps the policy with Kyverno's engine",
            Self::NamespacedMutation => {
                "Kyverno converts cluster-wide policies only; write a MutatingPolicy that selects the namespace by its \
                 label `kubernetes.io/metadata.name`"
            }
            Self::MutationWithoutConstraints => {
                "write `spec.matchConstraints`; Kyverno does not store the policy without it"
            }
            Self::ServerSideApply => {
                "write atomic lists, maps and structs with JSONPatch and remove `evaluation.useServerSideApply`"
            }
            Self::Autogen | Self::MutatingAutogen => {
                "set `spec.autogen.podControllers.controllers: []`; the policy is then about Pods only, on both sides"
            }
            Self::NoMatchConstraints => {
                "write `spec.matchConstraints`; policies on other input than requests have none"
            }
            Self::UnknownKind => {
                "check the spelling, letter case included; a custom kind needs its definition (`--crds`)"
            }
            Self::AmbiguousKind => "write group and version: `autoscaling/v2/HorizontalPodAutoscaler`",
            Self::InvalidPolicy => "fix what the diagnostics report about the policy",
            Self::UnsupportedKind => "ClusterPolicies, ValidatingPolicies and MutatingPolicies can be converted",
        }
    }

    /// The hazard that explains it, if any.
    pub fn hazard(self) -> Option<&'static Hazard> {
        let code = match self {
            Self::NamespacedPolicy => "V21",
            Self::UserInfo => "H70",
            Self::ExceptionRules => "H31",
            Self::Autogen => "V19",
            Self::MutatingAutogen => "M25",
            Self::NoMatchConstraints => "V10",
            Self::UnknownKind => "H17",
            Self::AmbiguousKind => "H16",
            _ => return None,
        };
        hazard::find(code)
    }
}

/// Why there are no native policies of a kind; `None` if there are.
pub fn missing_kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "GeneratingPolicy" | "NamespacedGeneratingPolicy" => CREATES,
        "DeletingPolicy" | "NamespacedDeletingPolicy" | "CleanupPolicy" | "ClusterCleanupPolicy" => {
            "native policies are evaluated when requests arrive: none deletes objects by a schedule, so Kyverno stays in charge"
        }
        "ImageValidatingPolicy" | "NamespacedImageValidatingPolicy" => VERIFIES,
        _ => return None,
    })
}

/// Why there is no native policy that generates.
pub(super) const CREATES: &str = "native policies decide about the object of a request and may change it: none creates other objects, so Kyverno stays in charge";

/// Why there is no native policy that verifies images.
pub(super) const VERIFIES: &str = "native policies cannot ask registries: none verifies signatures or attestations of images, so Kyverno stays in charge";

/// Why nothing is generated.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The stable code.
    pub code: RefusalCode,
    /// Kyverno's message in the policy's status or in its log; `None` if it reports nothing.
    pub message: Option<String>,
    /// The part that is the reason.
    pub path: String,
    pub span: Option<Span>,
    /// What to do about it.
    pub help: String,
}

impl Refusal {
    pub(super) fn new(code: RefusalCode, message: impl Into<String>, at: &At<'_>) -> Self {
        Self {
            message: Some(message.into()),
            ..Self::silent(code, at)
        }
    }

    /// A refusal that Kyverno does not report.
    pub(super) fn silent(code: RefusalCode, at: &At<'_>) -> Self {
        Self {
            code,
            message: None,
            path: at.path(),
            span: Some(at.span()),
            help: code.advice().to_owned(),
        }
    }

    /// A policy that could not be read.
    pub fn invalid() -> Self {
        Self {
            code: RefusalCode::InvalidPolicy,
            message: None,
            path: String::new(),
            span: None,
            help: RefusalCode::InvalidPolicy.advice().to_owned(),
        }
    }

    /// A policy of a kind that is not converted.
    pub(crate) fn unsupported(kind: &str, span: Span) -> Self {
        let code = RefusalCode::UnsupportedKind;
        Self {
            code,
            span: Some(Span::point(span.file, span.start)),
            help: missing_kind(kind).unwrap_or(code.advice()).to_owned(),
            ..Self::invalid()
        }
    }

    /// The one entry of the report on a refused policy.
    pub fn item(&self) -> Item {
        Item {
            code: self.code.as_str(),
            hazard: self.code.hazard(),
            action: Action::Dropped,
            path: self.path.clone(),
            span: self.span,
            text: match &self.message {
                Some(message) => format!("nothing is generated: {message}"),
                None => "nothing is generated, and Kyverno does not report it".to_owned(),
            },
        }
    }
}
