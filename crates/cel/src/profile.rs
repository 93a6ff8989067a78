//! Named CEL environments: which libraries at which version, which rules, which limits. All differences between
//! Kubernetes releases and Kyverno are fields here, so that no `if` elsewhere names a release.

use std::sync::LazyLock;

use super::{
    decl::Library,
    library,
    syntax::{Macros, ParseOptions},
};

/// Where functions behave differently from one cel-go or library release to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// `or` and `orValue` on a receiver that is no optional value at run time: `no such overload` (cel-go ≥ 0.28), or the
    /// receiver itself.
    pub or_value_needs_optional: bool,
    /// `s.indexOf('', offset)` checks and clamps the offset (cel-go ≥ 0.29), or returns it as it is.
    pub index_of_empty_is_clamped: bool,
    /// `lists.range` refuses negative and huge sizes (cel-go ≥ 0.29).
    pub range_is_limited: bool,
    /// The cost of `startsWith` and `endsWith` follows the argument's size (cel-go ≥ 0.29), or the receiver's.
    pub affix_cost_by_argument: bool,
    /// The global form `matches(s, re)` costs as much as the member form (cel-go ≥ 0.29), or 1.
    pub global_matches_has_cost: bool,
    /// `format.qualifiedName()` and `format.labelValue()` speak of label keys and bytes (Kubernetes ≥ 1.35), or of qualified
    /// names and characters.
    pub qualified_names_are_label_keys: bool,
    /// `add` and `sub` leave the quantity that they are called on alone (Kubernetes ≥ 1.37); before that, a quantity that
    /// does not fit 64 bits changes along with the result.
    pub quantity_sums_are_copies: bool,
    /// `duration(int)` is declared, though it fails whenever it is called (cel-go < 0.29).
    pub int_to_duration_is_declared: bool,
    /// The type `optional_type` prints with a parameter (cel-go ≥ 0.29).
    pub optional_type_has_a_parameter: bool,
    /// An order with NaN is false (cel-go ≥ 0.30), or an error.
    pub nan_compares_false: bool,
    /// The functions of the encoders library cost by the size of their argument (cel-go ≥ 0.30), or 1.
    pub encoders_have_cost: bool,
    /// `timestamp(string)` takes what RFC 3339 allows and no more (cel-go ≥ 0.30), or what Go's parser takes.
    pub timestamps_are_strict: bool,
    /// An optional element of a list or map literal must have a static type that is optional: with a dyn one the check
    /// for mixed literals panics, so that no policy with it can be made (cel-go < 0.29).
    pub dyn_optional_elements_panic: bool,
    /// A presence test, or an optional selection, on what has no fields is an error (cel-go's
    /// `EnableErrorOnBadPresenceTest`, which only the conformance tests ask for), or false. On an optional value it is
    /// false in any case, as cel-spec wants it.
    pub presence_needs_a_container: bool,
    /// The name of a structure literal means a type, whatever variable has the same name (cel-go ≥ 0.30).
    pub struct_names_are_types: bool,
}

/// cel-go 0.26, which Kubernetes 1.34 to 1.36 vendor, and the libraries of Kubernetes 1.35 and 1.36.
const CEL_GO_0_26: Behaviour = Behaviour {
    or_value_needs_optional: false,
    index_of_empty_is_clamped: false,
    range_is_limited: false,
    affix_cost_by_argument: false,
    global_matches_has_cost: false,
    qualified_names_are_label_keys: true,
    quantity_sums_are_copies: false,
    int_to_duration_is_declared: true,
    optional_type_has_a_parameter: false,
    nan_compares_false: false,
    encoders_have_cost: false,
    timestamps_are_strict: false,
    dyn_optional_elements_panic: true,
    presence_needs_a_container: false,
    struct_names_are_types: false,
};

/// cel-go 0.29, which Kubernetes 1.37 vendors, and the libraries of Kubernetes 1.37.
const CEL_GO_0_29: Behaviour = Behaviour {
    or_value_needs_optional: true,
    index_of_empty_is_clamped: true,
    range_is_limited: true,
    affix_cost_by_argument: true,
    global_matches_has_cost: true,
    qualified_names_are_label_keys: true,
    quantity_sums_are_copies: true,
    int_to_duration_is_declared: false,
    optional_type_has_a_parameter: true,
    nan_compares_false: false,
    encoders_have_cost: false,
    timestamps_are_strict: false,
    dyn_optional_elements_panic: false,
    presence_needs_a_container: false,
    struct_names_are_types: false,
};

/// cel-go 0.30, which Kyverno 1.19 links.
const CEL_GO_0_30: Behaviour = Behaviour {
    nan_compares_false: true,
    encoders_have_cost: true,
    timestamps_are_strict: true,
    struct_names_are_types: true,
    ..CEL_GO_0_29
};

/// Whose policy it is: a policy of a namespace names no namespace in its calls of Kyverno's `resource` library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyScope {
    /// A policy of the whole cluster.
    Cluster,
    /// A policy of one namespace.
    Namespace,
}

/// Which of Kyverno's own libraries the policies of a kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyLibraries {
    /// Those of ValidatingPolicies and MutatingPolicies.
    Admission,
    /// Those of GeneratingPolicies: with `generator`, without `user`.
    Generating,
    /// Those of DeletingPolicies: without `user` and `exceptions`.
    Deleting,
    /// Those of ImageValidatingPolicies: without `x509` and `exceptions`, with the verification of images.
    Image,
    /// Those of the references that ImageValidatingPolicies match: image names alone.
    ImageReference,
    /// Those of ValidatingPolicies on HTTP requests.
    Http,
    /// Those of ValidatingPolicies on Envoy's check requests.
    Envoy,
}

/// Which libraries an environment has, and at which version; `None` or `false` is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries {
    /// cel-go optional types; the version.
    pub optional: Option<u32>,
    /// cel-go extended strings; the version.
    pub strings: Option<u32>,
    /// cel-go extended lists; the version.
    pub lists: Option<u32>,
    /// cel-go sets.
    pub sets: bool,
    /// cel-go math; the version.
    pub math: Option<u32>,
    /// cel-go encoders (base64).
    pub encoders: bool,
    /// cel-go regex (`regex.replace`, `regex.extract`, …).
    pub regex: bool,
    /// cel-go two-variable comprehensions.
    pub two_variables: bool,
    /// cel-go bindings (`cel.bind`).
    pub bindings: bool,
    /// cel-go network (`ip`, `cidr`).
    pub network: bool,
    /// Kubernetes' base libraries: url, regex, lists; the version of lists (1 adds `includes`).
    pub kubernetes_lists: Option<u32>,
    /// Kubernetes' regex and url.
    pub kubernetes_base: bool,
    /// Kubernetes' quantity, ip, cidr, format, semver.
    pub kubernetes_types: bool,
    /// Kubernetes' authorizer with selectors.
    pub authorizer: bool,
    /// Kubernetes' `jsonpatch.escapeKey`.
    pub json_patch: bool,
    /// Kyverno's `orValue` on what is no optional value.
    pub or_value_compat: bool,
    /// Kyverno's own libraries.
    pub kyverno: Option<PolicyScope>,
    /// Which of them.
    pub policy: PolicyLibraries,
}

const KUBERNETES_1_34: Libraries = Libraries {
    optional: Some(2),
    strings: Some(2),
    lists: Some(3),
    sets: true,
    math: None,
    encoders: false,
    regex: false,
    two_variables: true,
    bindings: false,
    network: false,
    kubernetes_lists: Some(0),
    kubernetes_base: true,
    kubernetes_types: true,
    authorizer: true,
    json_patch: false,
    or_value_compat: false,
    kyverno: None,
    policy: PolicyLibraries::Admission,
};

/// A named environment.
#[derive(Debug)]
pub struct Profile {
    /// The name, as the command line takes it.
    pub name: &'static str,
    pub libraries: Libraries,
    /// The rules that changed between releases.
    pub behaviour: Behaviour,
    /// The syntax: macros, switches, limits.
    pub syntax: ParseOptions,
    /// Whether all elements of a literal must have one type, except inside `format`.
    pub homogeneous_literals: bool,
    /// Whether literals of durations, timestamps and regular expressions are checked at compile time.
    pub validators: bool,
    /// Whether constants are folded when the program is made, so that their errors show there.
    pub constant_folding: bool,
    /// Whether the variables of an expression are all dyn and failed ones absent, as in the reference data.
    pub dynamic_variables: bool,
    /// Whether cost is counted, and the limit of one evaluation.
    pub cost_limit: Option<u64>,
    /// Whether answers tell their cost. Kyverno links Kubernetes' limit and its estimators, but never shows a cost.
    pub shows_cost: bool,
    functions: LazyLock<Library>,
}

macro_rules! profile {
    ($id:ident, $name:literal, $libraries:expr, $behaviour:expr, { $($field:ident : $value:expr),* $(,)? }) => {
        static $id: Profile = Profile {
            name: $name,
            libraries: $libraries,
            behaviour: $behaviour,
            functions: LazyLock::new(|| library::assemble(&$id.libraries, &$id.behaviour)),
            $($field: $value),*
        };
    };
}

/// The limit of one evaluation in Kubernetes.
///
/// Upstream: `k8s.io/apiserver/pkg/apis/cel/config.go` `PerCallLimit`.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

profile!(K8S_1_34, "k8s-1.34", KUBERNETES_1_34, Behaviour {
    qualified_names_are_label_keys: false, ..CEL_GO_0_26
}, {
    syntax: ParseOptions::cel_go_0_26(Macros::KUBERNETES),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
profile!(K8S_1_35, "k8s-1.35", KUBERNETES_1_34, CEL_GO_0_26, {
    syntax: ParseOptions::cel_go_0_26(Macros::KUBERNETES),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
profile!(K8S_1_36, "k8s-1.36", KUBERNETES_1_34, CEL_GO_0_26, {
    syntax: ParseOptions::cel_go_0_26(Macros::KUBERNETES),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
// The mutations of MutatingAdmissionPolicies have `jsonpatch.escapeKey` besides
// (`k8s.io/apiserver/pkg/admission/plugin/cel/compile.go` `HasPatchTypes`).
profile!(K8S_1_36_MUTATING, "k8s-1.36-mutating", Libraries {
    json_patch: true, ..KUBERNETES_1_34
}, CEL_GO_0_26, {
    syntax: ParseOptions::cel_go_0_26(Macros::KUBERNETES),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
profile!(K8S_1_37, "k8s-1.37", Libraries {
    kubernetes_lists: Some(1), ..KUBERNETES_1_34
}, CEL_GO_0_29, {
    syntax: ParseOptions::cel_go_0_29(Macros::KUBERNETES),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
/// The libraries of Kyverno's CEL policies of the whole cluster.
const KYVERNO_LIBRARIES: Libraries = Libraries {
    math: Some(3),
    encoders: true,
    regex: true,
    bindings: true,
    or_value_compat: true,
    kyverno: Some(PolicyScope::Cluster),
    ..KUBERNETES_1_34
};
profile!(KYVERNO_1_19, "kyverno-1.19", Libraries {
    math: Some(3), encoders: true, regex: true, bindings: true, or_value_compat: true, kyverno: Some(PolicyScope::Cluster), ..KUBERNETES_1_34
}, Behaviour {
    // Kyverno 1.19 links the libraries of Kubernetes 1.36 with a newer cel-go.
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_NAMESPACED, "kyverno-1.19-namespaced", Libraries {
    math: Some(3), encoders: true, regex: true, bindings: true, or_value_compat: true, kyverno: Some(PolicyScope::Namespace), ..KUBERNETES_1_34
}, Behaviour {
    // Kyverno 1.19 links the libraries of Kubernetes 1.36 with a newer cel-go.
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
// MutatingPolicies have `jsonpatch.escapeKey` besides (Kyverno `pkg/cel/policies/mpol/compiler`).
profile!(KYVERNO_1_19_MUTATING, "kyverno-1.19-mutating", Libraries {
    json_patch: true, ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_MUTATING_NAMESPACED, "kyverno-1.19-mutating-namespaced", Libraries {
    json_patch: true, kyverno: Some(PolicyScope::Namespace), ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
// The other CEL policies have other libraries (Kyverno `pkg/cel/policies/{gpol,dpol}/compiler`,
// `pkg/image/verification/evaluator`).
profile!(KYVERNO_1_19_GENERATING, "kyverno-1.19-generating", Libraries {
    policy: PolicyLibraries::Generating, ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: false, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_GENERATING_NAMESPACED, "kyverno-1.19-generating-namespaced", Libraries {
    policy: PolicyLibraries::Generating, kyverno: Some(PolicyScope::Namespace), ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: false, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_DELETING, "kyverno-1.19-deleting", Libraries {
    authorizer: false, policy: PolicyLibraries::Deleting, ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_DELETING_NAMESPACED, "kyverno-1.19-deleting-namespaced", Libraries {
    authorizer: false, policy: PolicyLibraries::Deleting, kyverno: Some(PolicyScope::Namespace), ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, or_value_compat: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_IMAGE, "kyverno-1.19-image", Libraries {
    or_value_compat: false, policy: PolicyLibraries::Image, ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_IMAGE_NAMESPACED, "kyverno-1.19-image-namespaced", Libraries {
    or_value_compat: false, policy: PolicyLibraries::Image, kyverno: Some(PolicyScope::Namespace), ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(KYVERNO_1_19_IMAGE_REFERENCE, "kyverno-1.19-image-reference", Libraries {
    or_value_compat: false, policy: PolicyLibraries::ImageReference, ..KYVERNO_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
// Policies on HTTP and Envoy requests: an environment of their own, without limits, validators and folding
// (kyverno-authz `pkg/cel/env.go`).
const AUTHORIZATION_LIBRARIES: Libraries = Libraries {
    strings: Some(4),
    two_variables: false,
    authorizer: false,
    regex: false,
    or_value_compat: false,
    ..KYVERNO_LIBRARIES
};
profile!(KYVERNO_1_19_HTTP, "kyverno-1.19-http", Libraries {
    policy: PolicyLibraries::Http, ..AUTHORIZATION_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, two_variable: false, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: false, constant_folding: false, dynamic_variables: false,
    cost_limit: None, shows_cost: false,
});
profile!(KYVERNO_1_19_ENVOY, "kyverno-1.19-envoy", Libraries {
    policy: PolicyLibraries::Envoy, ..AUTHORIZATION_LIBRARIES
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        bind: true, math: true, protos: true, two_variable: false, ..Macros::KUBERNETES
    }),
    homogeneous_literals: true, validators: false, constant_folding: false, dynamic_variables: false,
    cost_limit: None, shows_cost: false,
});
// `validate.cel` of classic rules: Kubernetes' own environment, linked with a newer cel-go, and Kyverno's `orValue`
// (Kyverno `pkg/admissionpolicy/compiler.go`).
profile!(KYVERNO_1_19_CLASSIC, "kyverno-1.19-classic", Libraries {
    or_value_compat: true, ..KUBERNETES_1_34
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros { or_value_compat: true, ..Macros::KUBERNETES }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
// The same environment for MutatingAdmissionPolicies that Kyverno's command line runs: `jsonpatch.escapeKey` everywhere (Kyverno
// `pkg/admissionpolicy/mutate.go` `HasPatchTypes`).
profile!(KYVERNO_1_19_NATIVE_MUTATING, "kyverno-1.19-native-mutating", Libraries {
    or_value_compat: true, json_patch: true, ..KUBERNETES_1_34
}, Behaviour {
    quantity_sums_are_copies: false, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros { or_value_compat: true, ..Macros::KUBERNETES }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT), shows_cost: false,
});
profile!(GOLDEN_CEL, "golden-cel", Libraries {
    math: Some(2), encoders: true, bindings: true, json_patch: true,
    kubernetes_lists: Some(1), ..KUBERNETES_1_34
}, CEL_GO_0_29, {
    syntax: ParseOptions::cel_go_0_29(Macros { bind: true, math: true, ..Macros::KUBERNETES }),
    homogeneous_literals: true, validators: true, constant_folding: true, dynamic_variables: true, cost_limit: Some(PER_CALL_LIMIT), shows_cost: true,
});
profile!(CEL_SPEC, "cel-spec", Libraries {
    optional: Some(2), strings: Some(4), lists: Some(3), sets: true, math: Some(2), encoders: true, regex: true,
    two_variables: true, bindings: true, network: true, kubernetes_lists: None, kubernetes_base: false, kubernetes_types: false,
    authorizer: false, json_patch: false, or_value_compat: false, kyverno: None, policy: PolicyLibraries::Admission,
}, Behaviour {
    presence_needs_a_container: true, ..CEL_GO_0_30
}, {
    syntax: ParseOptions::cel_go_0_30(Macros {
        exists_one_camel: true, bind: true, block: true, math: true, protos: true, ..Macros::KUBERNETES
    }),
    homogeneous_literals: false, validators: false, constant_folding: false, dynamic_variables: false, cost_limit: None, shows_cost: false,
});

static ALL: [&Profile; 9] = [
    &K8S_1_34,
    &K8S_1_35,
    &K8S_1_36,
    &K8S_1_37,
    &KYVERNO_1_19,
    &KYVERNO_1_19_NAMESPACED,
    &KYVERNO_1_19_CLASSIC,
    &GOLDEN_CEL,
    &CEL_SPEC,
];

impl Profile {
    pub fn all() -> &'static [&'static Profile] {
        &ALL
    }

    pub fn named(name: &str) -> Option<&'static Profile> {
        ALL.iter().copied().find(|profile| profile.name == name)
    }

    /// The default: what a Kubernetes 1.36 API server does.
    pub fn kubernetes() -> &'static Profile {
        &K8S_1_36
    }

    /// What a Kubernetes 1.36 API server does with the mutations of MutatingAdmissionPolicies.
    pub fn kubernetes_mutating() -> &'static Profile {
        &K8S_1_36_MUTATING
    }

    /// What Kyverno 1.19 does with its CEL policies.
    pub fn kyverno() -> &'static Profile {
        &KYVERNO_1_19
    }

    /// What Kyverno 1.19 does with its CEL policies of a namespace.
    pub fn kyverno_namespaced() -> &'static Profile {
        &KYVERNO_1_19_NAMESPACED
    }

    /// What Kyverno 1.19 does with its MutatingPolicies.
    pub fn kyverno_mutating() -> &'static Profile {
        &KYVERNO_1_19_MUTATING
    }

    /// What Kyverno 1.19 does with its MutatingPolicies of a namespace.
    pub fn kyverno_mutating_namespaced() -> &'static Profile {
        &KYVERNO_1_19_MUTATING_NAMESPACED
    }

    /// What Kyverno 1.19 does with its GeneratingPolicies of a scope.
    pub fn kyverno_generating(scope: PolicyScope) -> &'static Profile {
        match scope {
            PolicyScope::Cluster => &KYVERNO_1_19_GENERATING,
            PolicyScope::Namespace => &KYVERNO_1_19_GENERATING_NAMESPACED,
        }
    }

    /// What Kyverno 1.19 does with its DeletingPolicies of a scope.
    pub fn kyverno_deleting(scope: PolicyScope) -> &'static Profile {
        match scope {
            PolicyScope::Cluster => &KYVERNO_1_19_DELETING,
            PolicyScope::Namespace => &KYVERNO_1_19_DELETING_NAMESPACED,
        }
    }

    /// What Kyverno 1.19 does with its ImageValidatingPolicies of a scope.
    pub fn kyverno_image(scope: PolicyScope) -> &'static Profile {
        match scope {
            PolicyScope::Cluster => &KYVERNO_1_19_IMAGE,
            PolicyScope::Namespace => &KYVERNO_1_19_IMAGE_NAMESPACED,
        }
    }

    /// What Kyverno 1.19 does with the image references of its ImageValidatingPolicies.
    pub fn kyverno_image_reference() -> &'static Profile {
        &KYVERNO_1_19_IMAGE_REFERENCE
    }

    /// What Kyverno 1.19 does with its ValidatingPolicies on HTTP requests.
    pub fn kyverno_http() -> &'static Profile {
        &KYVERNO_1_19_HTTP
    }

    /// What Kyverno 1.19 does with its ValidatingPolicies on Envoy's check requests.
    pub fn kyverno_envoy() -> &'static Profile {
        &KYVERNO_1_19_ENVOY
    }

    /// What Kyverno 1.19 does with `validate.cel` of its classic policies.
    pub fn kyverno_classic() -> &'static Profile {
        &KYVERNO_1_19_CLASSIC
    }

    /// What Kyverno 1.19's command line does with MutatingAdmissionPolicies.
    pub fn kyverno_native_mutating() -> &'static Profile {
        &KYVERNO_1_19_NATIVE_MUTATING
    }

    /// The functions and types of the environment.
    pub fn library(&self) -> &Library {
        &self.functions
    }
}
