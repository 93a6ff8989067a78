//! How a request is seen and how much of Kyverno counts: as in a cluster, or less of it in a proof, or as by `kyverno test`.
//!
//! Every difference is a field, so that the engine reads as one and no policy is edited to leave a part of it out; upstream's
//! places are named beside the fields.

/// How much of Kyverno counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// `match`, `exclude`, exceptions and preconditions: what `kyverno test` looks at.
    Rule,
    /// Also rules for pod controllers, `spec.admission` and the webhook: what the admission controller runs.
    #[default]
    Policy,
    /// Also Kyverno's configuration: what users experience.
    Cluster,
}

impl Layer {
    /// The layer's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Policy => "policy",
            Self::Cluster => "cluster",
        }
    }
}

/// How numbers of the given objects look to CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// As the API server decodes them: whole numbers are ints.
    Decoded,
    /// All doubles (`commands/test/test.go` `convertNumericValuesToFloat64`). `request.object` is not concerned: it is
    /// decoded once more.
    Doubles,
}

/// What is known of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace exists; one that is not described has just its name and the label with it.
    Stored,
    /// Only what was described is known, and classic rules see a namespace's name and nothing else.
    Described,
}

/// How requests get to the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Through the webhooks that Kyverno registers, and past the filters of its configuration.
    Webhooks,
    /// Every policy gets every request, those that its webhook lists in the listed version: a rule on its own.
    Converted,
    /// Every policy gets every request as it is: `kyverno test` has no webhooks.
    Direct,
}

/// The differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lens {
    /// How requests get to the policies.
    pub route: Route,
    /// Whether Kyverno's configuration counts; otherwise it is that of an empty ConfigMap.
    pub configuration: bool,
    /// Whether rules are generated for pod controllers.
    pub autogen: bool,
    /// Whether the match conditions count that a ClusterPolicy or Policy has for its webhook.
    pub webhook_conditions: bool,
    /// How numbers look.
    pub(crate) numbers: Numbers,
    /// What is known of namespaces.
    pub namespaces: Namespaces,
    /// Whether objects get the kind and the namespace of the request, as the webhook sets them
    /// (`pkg/utils/admission/resource.go` `ConvertResource`).
    pub(crate) converts_objects: bool,
    /// Whether classic rules see `request.resource` and `request.requestResource` filled.
    pub(crate) request_resource: bool,
    /// Whether a Namespace's own name is the namespace of requests about it.
    pub(crate) namespace_of_namespaces: bool,
    /// Whether a policy with admission switched off is left out.
    pub(crate) admission_switch: bool,
    /// Whether a NamespacedValidatingPolicy is evaluated only in its own namespace.
    pub(crate) namespaced_policies: bool,
    /// Whether every kind of parameters counts as cluster-wide, as the fake client of `kyverno test` has it.
    pub(crate) cluster_wide_params: bool,
    /// Whether the authorizer of expressions decides by RBAC objects.
    pub(crate) rbac: bool,
}

impl Lens {
    /// The admission controller of a cluster.
    pub const CLUSTER: Self = Self {
        route: Route::Webhooks,
        configuration: true,
        autogen: true,
        webhook_conditions: true,
        numbers: Numbers::Decoded,
        namespaces: Namespaces::Stored,
        converts_objects: true,
        request_resource: true,
        namespace_of_namespaces: true,
        admission_switch: true,
        namespaced_policies: true,
        cluster_wide_params: false,
        rbac: true,
    };

    /// The written rules of a policy in a cluster, regardless of its webhook.
    pub(crate) const RULE: Self = Self {
        route: Route::Converted,
        configuration: false,
        autogen: false,
        webhook_conditions: false,
        admission_switch: false,
        ..Self::CLUSTER
    };

    /// `kyverno test`.
    pub const CLI: Self = Self {
        route: Route::Direct,
        configuration: false,
        autogen: true,
        webhook_conditions: true,
        numbers: Numbers::Doubles,
        namespaces: Namespaces::Described,
        converts_objects: false,
        request_resource: false,
        namespace_of_namespaces: false,
        admission_switch: false,
        namespaced_policies: false,
        cluster_wide_params: true,
        rbac: false,
    };

    /// The lens of a proof at a layer.
    pub const fn at(layer: Layer) -> Self {
        match layer {
            Layer::Rule => Self::RULE,
            Layer::Policy => Self {
                configuration: false,
                ..Self::CLUSTER
            },
            Layer::Cluster => Self::CLUSTER,
        }
    }
}
