//! One policy, of any kind.

use std::sync::Arc;

use super::{
    ClassicPolicy, CleanupPolicy, DeletingPolicy, GeneratingPolicy, ImageValidatingPolicy, Loaded, Metadata, Mode,
    MutatingAdmissionPolicy, MutatingPolicy, Origin, PolicyId, Purpose, Subtree, ValidatingAdmissionPolicy,
    ValidatingPolicy, load,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    yaml::{self, Limits},
};

/// Defines the kinds: a variant of [`Policy`], its accessor, the policies of the kind in [`Loaded`], and the conversion from
/// the model.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($model:ident) $accessor:ident $all:ident;)*) => {
        #[derive(Debug, Clone)]
        pub enum Policy {
            $($(#[$doc])* $variant(Arc<$model>),)*
        }

        impl Policy {
            $(/// The policy, if it is of this kind.
            pub fn $accessor(&self) -> Option<&Arc<$model>> {
                match self {
                    Self::$variant(policy) => Some(policy),
                    _ => None,
                }
            })*

            /// The policy's identity.
            pub fn id(&self) -> PolicyId {
                match self {
                    $(Self::$variant(policy) => policy.id(),)*
                }
            }

            /// The API version as written.
            pub fn api_version(&self) -> &str {
                match self {
                    $(Self::$variant(policy) => &policy.api_version,)*
                }
            }

            /// Name, namespace, labels and annotations.
            pub fn metadata(&self) -> &Metadata {
                match self {
                    $(Self::$variant(policy) => &policy.metadata,)*
                }
            }

            /// The file and document.
            pub fn origin(&self) -> Origin {
                match self {
                    $(Self::$variant(policy) => policy.origin,)*
                }
            }
        }

        impl Loaded {
            $(/// The policies of this kind.
            pub fn $all(&self) -> impl Iterator<Item = &Arc<$model>> + Clone {
                self.policies.iter().filter_map(Policy::$accessor)
            })*
        }

        $(impl From<$model> for Policy {
            fn from(policy: $model) -> Self {
                Self::$variant(Arc::new(policy))
            }
        })*
    };
}

kinds! {
    /// A ClusterPolicy or Policy.
    Classic(ClassicPolicy) as_classic classic;
    /// A ValidatingPolicy or NamespacedValidatingPolicy.
    Validating(ValidatingPolicy) as_validating validating;
    /// A MutatingPolicy or NamespacedMutatingPolicy.
    Mutating(MutatingPolicy) as_mutating mutating;
    /// A GeneratingPolicy or NamespacedGeneratingPolicy.
    Generating(GeneratingPolicy) as_generating generating;
    /// A DeletingPolicy or NamespacedDeletingPolicy.
    Deleting(DeletingPolicy) as_deleting deleting;
    /// A CleanupPolicy or ClusterCleanupPolicy.
    Cleanup(CleanupPolicy) as_cleanup cleanup;
    /// An ImageValidatingPolicy or NamespacedImageValidatingPolicy.
    ImageValidating(ImageValidatingPolicy) as_image_validating image_validating;
    Native(ValidatingAdmissionPolicy) as_native native;
    NativeMutating(MutatingAdmissionPolicy) as_native_mutating native_mutating;
}

impl Policy {
    /// Parses text that holds one policy. Spans refer to `file`.
    ///
    /// # Errors
    /// The problems of the text, or a message if it does not hold exactly one policy.
    pub fn parse(text: &str, file: FileId) -> Result<Self, Vec<Diagnostic>> {
        let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &Limits::default());
        let mut loaded = Loaded::default();
        load(stream, file, Purpose::Policies, &mut loaded);
        if !loaded.diagnostics.is_empty() && (loaded.policies.is_empty() || loaded.refused.is_some()) {
            return Err(loaded.diagnostics);
        }
        let count = loaded.policies.len();
        match loaded.policies.pop() {
            Some(policy) if count == 1 => Ok(policy),
            _ => {
                let message = format!("expected one policy, found {count}");
                Err(vec![Diagnostic::at(Code::WrongKind, Span::point(file, 0), message)])
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.metadata().name.value
    }

    /// The namespace as written.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata().namespace.as_ref().map(|text| text.value.as_str())
    }

    /// The kind in manifests.
    pub fn kind(&self) -> &'static str {
        self.id().kind
    }

    /// The spec as written; `None` unless it is a Kyverno policy that validates.
    pub fn spec(&self) -> Option<&Subtree> {
        match self {
            Self::Classic(policy) => Some(&policy.spec.source),
            Self::Validating(policy) => Some(&policy.spec.source),
            _ => None,
        }
    }

    /// Whether Kyverno validates with it: the kinds that `convert` and `prove` accept.
    pub fn validates(&self) -> bool {
        matches!(self, Self::Classic(_) | Self::Validating(_))
    }

    /// Whether the API server evaluates it itself.
    pub fn is_native(&self) -> bool {
        matches!(self, Self::Native(_) | Self::NativeMutating(_))
    }

    /// Whether it requests a generated native policy.
    pub fn is_marked(&self) -> bool {
        match self {
            Self::Classic(policy) => policy.spec.rules.iter().any(|rule| {
                let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
                cel.is_some_and(|cel| cel.generate)
            }),
            Self::Validating(policy) => policy.is_marked(),
            _ => false,
        }
    }

    /// Whether it is written for JSON payloads and does not request a native policy: no admission request reaches it.
    pub fn is_for_payloads(&self) -> bool {
        self.as_validating()
            .is_some_and(|policy| policy.spec.evaluation.mode == Mode::Json && !policy.is_marked())
    }
}
