//! Named CEL environments: libraries with versions, rules and limits. All differences between Kubernetes releases and
//! Kyverno are fields here, so that no other code tests for a release.

use std::{ops::Deref, sync::OnceLock};

use super::{
    decl::Library,
    library,
    syntax::{Macros, ParseOptions},
};

/// Behaviour that differs between releases of cel-go or its libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// `or` and `orValue` on a receiver that is not an optional value at run time: `no such overload` (cel-go ≥ 0.28),
    /// or the receiver itself.
    pub or_value_needs_optional: bool,
    /// `s.indexOf('', offset)` checks and clamps the offset (cel-go ≥ 0.29), or returns it unchanged.
    pub index_of_empty_is_clamped: bool,
    /// `lists.range` rejects negative and huge sizes (cel-go ≥ 0.29).
    pub range_is_limited: bool,
    /// The cost of `startsWith` and `endsWith` follows the argument's size (cel-go ≥ 0.29), or the receiver's.
    pub affix_cost_by_argument: bool,
    /// The global form `matches(s, re)` costs as much as the member form (cel-go ≥ 0.29), or 1.
    pub global_matches_has_cost: bool,
    /// The messages of `format.qualifiedName()` and `format.labelValue()` mention label keys and bytes (Kubernetes ≥
    /// 1.35), or qualified names and characters.
    pub qualified_names_are_label_keys: bool,
    /// `add` and `sub` do not change their receiver (Kubernetes ≥ 1.37); before that, a receiver that does not fit 64
    /// bits changes along with the result.
    pub quantity_sums_are_copies: bool,
    /// `duration(int)` is declared, although every call fails (cel-go < 0.29).
    pub int_to_duration_is_declared: bool,
    /// The type `optional_type` prints with a parameter (cel-go ≥ 0.29).
    pub optional_type_has_a_parameter: bool,
    /// An order with NaN is false (cel-go ≥ 0.30), or an error.
    pub nan_compares_false: bool,
    /// The functions of the encoders library cost by the size of their argument (cel-go ≥ 0.30), or 1.
    pub encoders_have_cost: bool,
    /// `timestamp(string)` accepts only RFC 3339 (cel-go ≥ 0.30), or every format that Go's parser accepts.
    pub timestamps_are_strict: bool,
    /// An optional element of a list or map literal must have an optional static type: with a dyn one the check for
    /// mixed literals panics, so that no policy with it can be created (cel-go < 0.29).
    pub dyn_optional_elements_panic: bool,
    /// A presence test, or an optional selection, on a value without fields is an error (cel-go's
    /// `EnableErrorOnBadPresenceTest`, which only the conformance tests set), or false. On an optional value it is
    /// always false, as cel-spec requires.
    pub presence_needs_a_container: bool,
    /// The name of a structure literal denotes a type, even if a variable has the same name (cel-go ≥ 0.30).
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

/// The scope of a policy: calls of Kyverno's `resource` library in a namespaced policy do not name a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyScope {
    /// A cluster-wide policy.
    Cluster,
    /// A namespaced policy.
    Namespace,
}

impl PolicyScope {
    fn select<T>(self, cluster: T, namespace: T) -> T {
        match self {
            Self::Cluster => cluster,
            Self::Namespace => namespace,
        }
    }
}

/// Kyverno's own libraries by policy kind.
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

/// The libraries of an environment and their versions; `None` or `false` is absent.
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
    /// Kyverno's `orValue` on values that are not optional.
    pub or_value_compat: bool,
    /// Kyverno's own libraries.
    pub kyverno: Option<PolicyScope>,
    /// The selection of Kyverno's own libraries.
    pub policy: PolicyLibraries,
}

const KUBERNETES_LIBRARIES: Libraries = Libraries {
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

/// Everything that an environment consists of.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
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
    /// The cost limit of one evaluation; `None` if cost is not counted.
    pub cost_limit: Option<u64>,
    /// Whether results include their cost. Kyverno links Kubernetes' limit and its estimators, but never shows a cost.
    pub shows_cost: bool,
}

impl Environment {
    const fn with(self, libraries: Libraries) -> Self {
        Self { libraries, ..self }
    }

    /// The environment of the namespaced kind of a policy.
    const fn namespaced(self) -> Self {
        self.with(Libraries {
            kyverno: Some(PolicyScope::Namespace),
            ..self.libraries
        })
    }
}

/// A named environment.
#[derive(Debug)]
pub struct Profile {
    /// The name, as the command line accepts it.
    pub name: &'static str,
    environment: Environment,
    functions: OnceLock<Library>,
}

impl Deref for Profile {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.environment
    }
}

/// The limit of one evaluation in Kubernetes.
///
/// Upstream: `k8s.io/apiserver/pkg/apis/cel/config.go` `PerCallLimit`.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

const KUBERNETES_1_36: Environment = Environment {
    libraries: KUBERNETES_LIBRARIES,
    behaviour: CEL_GO_0_26,
    syntax: ParseOptions::cel_go_0_26(Macros::KUBERNETES),
    homogeneous_literals: true,
    validators: true,
    constant_folding: true,
    dynamic_variables: false,
    cost_limit: Some(PER_CALL_LIMIT),
    shows_cost: true,
};
const KUBERNETES_1_34: Environment = Environment {
    behaviour: Behaviour {
        qualified_names_are_label_keys: false,
        ..CEL_GO_0_26
    },
    ..KUBERNETES_1_36
};
/// The mutations of MutatingAdmissionPolicies also have `jsonpatch.escapeKey`
/// (`k8s.io/apiserver/pkg/admission/plugin/cel/compile.go` `HasPatchTypes`).
const KUBERNETES_MUTATING: Environment = KUBERNETES_1_36.with(Libraries {
    json_patch: true,
    ..KUBERNETES_LIBRARIES
});
const KUBERNETES_1_37: Environment = Environment {
    libraries: Libraries {
        kubernetes_lists: Some(1),
        ..KUBERNETES_LIBRARIES
    },
    behaviour: CEL_GO_0_29,
    syntax: ParseOptions::cel_go_0_29(Macros::KUBERNETES),
    ..KUBERNETES_1_36
};

/// `validate.cel` of classic rules: Kubernetes' own environment, linked with a newer cel-go, and Kyverno's `orValue`
/// (Kyverno `pkg/admissionpolicy/compiler.go`).
const KYVERNO_CLASSIC: Environment = Environment {
    libraries: Libraries {
        or_value_compat: true,
        ..KUBERNETES_LIBRARIES
    },
    // Kyverno 1.19 links the libraries of Kubernetes 1.36 with a newer cel-go.
    behaviour: Behaviour {
        quantity_sums_are_copies: false,
        ..CEL_GO_0_30
    },
    syntax: ParseOptions::cel_go_0_30(Macros {
        or_value_compat: true,
        ..Macros::KUBERNETES
    }),
    shows_cost: false,
    ..KUBERNETES_1_36
};
/// The same environment for MutatingAdmissionPolicies that Kyverno's command line runs: `jsonpatch.escapeKey` everywhere
/// (Kyverno `pkg/admissionpolicy/mutate.go` `HasPatchTypes`).
const KYVERNO_NATIVE_MUTATING: Environment = KYVERNO_CLASSIC.with(Libraries {
    json_patch: true,
    ..KYVERNO_CLASSIC.libraries
});

/// The macros of Kyverno's environments without its `orValue`.
const KYVERNO_MACROS: Macros = Macros {
    bind: true,
    math: true,
    protos: true,
    ..Macros::KUBERNETES
};
/// ValidatingPolicies of the whole cluster.
const KYVERNO: Environment = Environment {
    libraries: Libraries {
        math: Some(3),
        encoders: true,
        regex: true,
        bindings: true,
        kyverno: Some(PolicyScope::Cluster),
        ..KYVERNO_CLASSIC.libraries
    },
    syntax: ParseOptions::cel_go_0_30(Macros {
        or_value_compat: true,
        ..KYVERNO_MACROS
    }),
    ..KYVERNO_CLASSIC
};
/// MutatingPolicies also have `jsonpatch.escapeKey` (Kyverno `pkg/cel/policies/mpol/compiler`).
const KYVERNO_MUTATING: Environment = KYVERNO.with(Libraries {
    json_patch: true,
    ..KYVERNO.libraries
});
// The other CEL policies have other libraries (Kyverno `pkg/cel/policies/{gpol,dpol}/compiler`,
// `pkg/image/verification/evaluator`).
const KYVERNO_GENERATING: Environment = Environment {
    libraries: Libraries {
        policy: PolicyLibraries::Generating,
        ..KYVERNO.libraries
    },
    homogeneous_literals: false,
    ..KYVERNO
};
const KYVERNO_DELETING: Environment = KYVERNO.with(Libraries {
    authorizer: false,
    policy: PolicyLibraries::Deleting,
    ..KYVERNO.libraries
});
const KYVERNO_IMAGE: Environment = Environment {
    libraries: Libraries {
        or_value_compat: false,
        policy: PolicyLibraries::Image,
        ..KYVERNO.libraries
    },
    syntax: ParseOptions::cel_go_0_30(KYVERNO_MACROS),
    ..KYVERNO
};
const KYVERNO_IMAGE_REFERENCE: Environment = KYVERNO_IMAGE.with(Libraries {
    policy: PolicyLibraries::ImageReference,
    ..KYVERNO_IMAGE.libraries
});
/// Policies on HTTP requests: a separate environment, without limits, validators and folding (kyverno-authz
/// `pkg/cel/env.go`).
const KYVERNO_HTTP: Environment = Environment {
    libraries: Libraries {
        strings: Some(4),
        two_variables: false,
        authorizer: false,
        regex: false,
        or_value_compat: false,
        policy: PolicyLibraries::Http,
        ..KYVERNO.libraries
    },
    syntax: ParseOptions::cel_go_0_30(Macros {
        two_variable: false,
        ..KYVERNO_MACROS
    }),
    validators: false,
    constant_folding: false,
    cost_limit: None,
    ..KYVERNO
};
/// Policies on Envoy's check requests.
const KYVERNO_ENVOY: Environment = KYVERNO_HTTP.with(Libraries {
    policy: PolicyLibraries::Envoy,
    ..KYVERNO_HTTP.libraries
});

/// The reference data of golden/cel.
const REFERENCE: Environment = Environment {
    libraries: Libraries {
        math: Some(2),
        encoders: true,
        bindings: true,
        json_patch: true,
        ..KUBERNETES_1_37.libraries
    },
    syntax: ParseOptions::cel_go_0_29(Macros {
        bind: true,
        math: true,
        ..Macros::KUBERNETES
    }),
    dynamic_variables: true,
    ..KUBERNETES_1_37
};
/// cel-spec's conformance tests.
const CONFORMANCE: Environment = Environment {
    libraries: Libraries {
        strings: Some(4),
        math: Some(2),
        encoders: true,
        regex: true,
        bindings: true,
        network: true,
        kubernetes_lists: None,
        kubernetes_base: false,
        kubernetes_types: false,
        authorizer: false,
        ..KUBERNETES_LIBRARIES
    },
    behaviour: Behaviour {
        presence_needs_a_container: true,
        ..CEL_GO_0_30
    },
    syntax: ParseOptions::cel_go_0_30(Macros {
        exists_one_camel: true,
        block: true,
        ..KYVERNO_MACROS
    }),
    homogeneous_literals: false,
    validators: false,
    constant_folding: false,
    cost_limit: None,
    shows_cost: false,
    ..KUBERNETES_1_36
};

macro_rules! profiles {
    ($($id:ident = $name:literal: $environment:expr;)*) => {
        $(static $id: Profile = Profile {
            name: $name,
            environment: $environment,
            functions: OnceLock::new(),
        };)*
    };
}

profiles! {
    K8S_1_34 = "k8s-1.34": KUBERNETES_1_34;
    K8S_1_35 = "k8s-1.35": KUBERNETES_1_36;
    K8S_1_36 = "k8s-1.36": KUBERNETES_1_36;
    K8S_1_36_MUTATING = "k8s-1.36-mutating": KUBERNETES_MUTATING;
    K8S_1_37 = "k8s-1.37": KUBERNETES_1_37;
    KYVERNO_1_19 = "kyverno-1.19": KYVERNO;
    KYVERNO_1_19_NAMESPACED = "kyverno-1.19-namespaced": KYVERNO.namespaced();
    KYVERNO_1_19_MUTATING = "kyverno-1.19-mutating": KYVERNO_MUTATING;
    KYVERNO_1_19_MUTATING_NAMESPACED = "kyverno-1.19-mutating-namespaced": KYVERNO_MUTATING.namespaced();
    KYVERNO_1_19_GENERATING = "kyverno-1.19-generating": KYVERNO_GENERATING;
    KYVERNO_1_19_GENERATING_NAMESPACED = "kyverno-1.19-generating-namespaced": KYVERNO_GENERATING.namespaced();
    KYVERNO_1_19_DELETING = "kyverno-1.19-deleting": KYVERNO_DELETING;
    KYVERNO_1_19_DELETING_NAMESPACED = "kyverno-1.19-deleting-namespaced": KYVERNO_DELETING.namespaced();
    KYVERNO_1_19_IMAGE = "kyverno-1.19-image": KYVERNO_IMAGE;
    KYVERNO_1_19_IMAGE_NAMESPACED = "kyverno-1.19-image-namespaced": KYVERNO_IMAGE.namespaced();
    KYVERNO_1_19_IMAGE_REFERENCE = "kyverno-1.19-image-reference": KYVERNO_IMAGE_REFERENCE;
    KYVERNO_1_19_HTTP = "kyverno-1.19-http": KYVERNO_HTTP;
    KYVERNO_1_19_ENVOY = "kyverno-1.19-envoy": KYVERNO_ENVOY;
    KYVERNO_1_19_CLASSIC = "kyverno-1.19-classic": KYVERNO_CLASSIC;
    KYVERNO_1_19_NATIVE_MUTATING = "kyverno-1.19-native-mutating": KYVERNO_NATIVE_MUTATING;
    GOLDEN_CEL = "golden-cel": REFERENCE;
    CEL_SPEC = "cel-spec": CONFORMANCE;
}

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

    /// The default: the environment of a Kubernetes 1.36 API server.
    pub fn kubernetes() -> &'static Profile {
        &K8S_1_36
    }

    /// The mutations of MutatingAdmissionPolicies in a Kubernetes 1.36 API server.
    pub fn kubernetes_mutating() -> &'static Profile {
        &K8S_1_36_MUTATING
    }

    /// Cluster-wide ValidatingPolicies of Kyverno 1.19.
    pub fn kyverno() -> &'static Profile {
        Self::kyverno_validating(PolicyScope::Cluster)
    }

    /// ValidatingPolicies of Kyverno 1.19.
    pub fn kyverno_validating(scope: PolicyScope) -> &'static Profile {
        scope.select(&KYVERNO_1_19, &KYVERNO_1_19_NAMESPACED)
    }

    /// MutatingPolicies of Kyverno 1.19.
    pub fn kyverno_mutating(scope: PolicyScope) -> &'static Profile {
        scope.select(&KYVERNO_1_19_MUTATING, &KYVERNO_1_19_MUTATING_NAMESPACED)
    }

    /// GeneratingPolicies of Kyverno 1.19.
    pub fn kyverno_generating(scope: PolicyScope) -> &'static Profile {
        scope.select(&KYVERNO_1_19_GENERATING, &KYVERNO_1_19_GENERATING_NAMESPACED)
    }

    /// DeletingPolicies of Kyverno 1.19.
    pub fn kyverno_deleting(scope: PolicyScope) -> &'static Profile {
        scope.select(&KYVERNO_1_19_DELETING, &KYVERNO_1_19_DELETING_NAMESPACED)
    }

    /// ImageValidatingPolicies of Kyverno 1.19.
    pub fn kyverno_image(scope: PolicyScope) -> &'static Profile {
        scope.select(&KYVERNO_1_19_IMAGE, &KYVERNO_1_19_IMAGE_NAMESPACED)
    }

    /// The image references of ImageValidatingPolicies of Kyverno 1.19.
    pub fn kyverno_image_reference() -> &'static Profile {
        &KYVERNO_1_19_IMAGE_REFERENCE
    }

    /// ValidatingPolicies of Kyverno 1.19 on HTTP requests.
    pub fn kyverno_http() -> &'static Profile {
        &KYVERNO_1_19_HTTP
    }

    /// ValidatingPolicies of Kyverno 1.19 on Envoy's check requests.
    pub fn kyverno_envoy() -> &'static Profile {
        &KYVERNO_1_19_ENVOY
    }

    /// `validate.cel` of classic policies of Kyverno 1.19.
    pub fn kyverno_classic() -> &'static Profile {
        &KYVERNO_1_19_CLASSIC
    }

    /// MutatingAdmissionPolicies in Kyverno 1.19's command line.
    pub fn kyverno_native_mutating() -> &'static Profile {
        &KYVERNO_1_19_NATIVE_MUTATING
    }

    /// The functions and types of the environment.
    pub fn library(&self) -> &Library {
        self.functions
            .get_or_init(|| library::assemble(&self.libraries, &self.behaviour))
    }
}
