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

#[derive(Debug, Clone)]
pub enum Policy {
    /// A ClusterPolicy or Policy.
    Classic(Arc<ClassicPolicy>),
    /// A ValidatingPolicy or NamespacedValidatingPolicy.
    Validating(Arc<ValidatingPolicy>),
    /// A MutatingPolicy or NamespacedMutatingPolicy.
    Mutating(Arc<MutatingPolicy>),
    /// A GeneratingPolicy or NamespacedGeneratingPolicy.
    Generating(Arc<GeneratingPolicy>),
    /// A DeletingPolicy or NamespacedDeletingPolicy.
    Deleting(Arc<DeletingPolicy>),
    /// A CleanupPolicy or ClusterCleanupPolicy.
    Cleanup(Arc<CleanupPolicy>),
    /// An ImageValidatingPolicy or NamespacedImageValidatingPolicy.
    ImageValidating(Arc<ImageValidatingPolicy>),
    Native(Arc<ValidatingAdmissionPolicy>),
    NativeMutating(Arc<MutatingAdmissionPolicy>),
}

/// Applies the same expression to the policy of every kind.
macro_rules! each {
    ($any:expr, $policy:ident => $value:expr) => {
        match $any {
            Self::Classic($policy) => $value,
            Self::Validating($policy) => $value,
            Self::Mutating($policy) => $value,
            Self::Generating($policy) => $value,
            Self::Deleting($policy) => $value,
            Self::Cleanup($policy) => $value,
            Self::ImageValidating($policy) => $value,
            Self::Native($policy) => $value,
            Self::NativeMutating($policy) => $value,
        }
    };
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

    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        each!(self, policy => policy.id())
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

    /// The API version as written.
    pub fn api_version(&self) -> &str {
        each!(self, policy => &policy.api_version)
    }

    /// Name, namespace, labels and annotations.
    pub fn metadata(&self) -> &Metadata {
        each!(self, policy => &policy.metadata)
    }

    /// The file and document.
    pub fn origin(&self) -> Origin {
        each!(self, policy => policy.origin)
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

    /// The ClusterPolicy or Policy, if it is one.
    pub fn as_classic(&self) -> Option<&Arc<ClassicPolicy>> {
        match self {
            Self::Classic(policy) => Some(policy),
            _ => None,
        }
    }

    /// The ValidatingPolicy, if it is one.
    pub fn as_validating(&self) -> Option<&Arc<ValidatingPolicy>> {
        match self {
            Self::Validating(policy) => Some(policy),
            _ => None,
        }
    }

    /// The MutatingPolicy, if it is one.
    pub fn as_mutating(&self) -> Option<&Arc<MutatingPolicy>> {
        match self {
            Self::Mutating(policy) => Some(policy),
            _ => None,
        }
    }

    /// The GeneratingPolicy, if it is one.
    pub fn as_generating(&self) -> Option<&Arc<GeneratingPolicy>> {
        match self {
            Self::Generating(policy) => Some(policy),
            _ => None,
        }
    }

    /// The DeletingPolicy, if it is one.
    pub fn as_deleting(&self) -> Option<&Arc<DeletingPolicy>> {
        match self {
            Self::Deleting(policy) => Some(policy),
            _ => None,
        }
    }

    /// The cleanup policy, if it is one.
    pub fn as_cleanup(&self) -> Option<&Arc<CleanupPolicy>> {
        match self {
            Self::Cleanup(policy) => Some(policy),
            _ => None,
        }
    }

    /// The ImageValidatingPolicy, if it is one.
    pub fn as_image_validating(&self) -> Option<&Arc<ImageValidatingPolicy>> {
        match self {
            Self::ImageValidating(policy) => Some(policy),
            _ => None,
        }
    }

    /// The ValidatingAdmissionPolicy, if it is one.
    pub fn as_native(&self) -> Option<&Arc<ValidatingAdmissionPolicy>> {
        match self {
            Self::Native(policy) => Some(policy),
            _ => None,
        }
    }

    /// The MutatingAdmissionPolicy, if it is one.
    pub fn as_native_mutating(&self) -> Option<&Arc<MutatingAdmissionPolicy>> {
        match self {
            Self::NativeMutating(policy) => Some(policy),
            _ => None,
        }
    }
}
