//! One policy, of whichever kind.
//!
//! A new kind is a variant here; the compiler then names the places that have to say what it means to them.

use std::sync::Arc;

use super::{
    ClassicPolicy, Loaded, Metadata, Mode, MutatingAdmissionPolicy, MutatingPolicy, Origin, PolicyId, Purpose, Subtree,
    Unsupported, ValidatingAdmissionPolicy, ValidatingPolicy, load,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    yaml::{self, Limits},
};

/// A policy.
#[derive(Debug, Clone)]
pub enum Policy {
    /// A ClusterPolicy or Policy.
    Classic(Arc<ClassicPolicy>),
    /// A ValidatingPolicy or NamespacedValidatingPolicy.
    Validating(Arc<ValidatingPolicy>),
    /// A MutatingPolicy or NamespacedMutatingPolicy.
    Mutating(Arc<MutatingPolicy>),
    /// A ValidatingAdmissionPolicy.
    Native(Arc<ValidatingAdmissionPolicy>),
    /// A MutatingAdmissionPolicy.
    NativeMutating(Arc<MutatingAdmissionPolicy>),
    /// A policy of a kind that is recognised and not evaluated.
    Unsupported(Arc<Unsupported>),
}

impl Policy {
    /// Reads a text that holds one policy. Places refer to `file`.
    ///
    /// # Errors
    /// What is wrong with the text, or that it holds no policy or more than one.
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
        match self {
            Self::Classic(policy) => policy.id(),
            Self::Validating(policy) => policy.id(),
            Self::Mutating(policy) => policy.id(),
            Self::Native(policy) => policy.id(),
            Self::NativeMutating(policy) => policy.id(),
            Self::Unsupported(policy) => policy.id(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self.metadata() {
            Some(metadata) => &metadata.name.value,
            None => match self {
                Self::Unsupported(policy) => &policy.name,
                _ => "",
            },
        }
    }

    /// The namespace as written.
    pub fn namespace(&self) -> Option<&str> {
        match (self.metadata(), self) {
            (Some(metadata), _) => metadata.namespace.as_ref().map(|text| text.value.as_str()),
            (None, Self::Unsupported(policy)) => Some(policy.namespace.as_str()).filter(|text| !text.is_empty()),
            (None, _) => None,
        }
    }

    /// The kind as objects write it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Classic(policy) => policy.kind.name(),
            Self::Validating(policy) => policy.kind(),
            Self::Mutating(policy) => policy.kind(),
            Self::Native(_) => "ValidatingAdmissionPolicy",
            Self::NativeMutating(_) => "MutatingAdmissionPolicy",
            Self::Unsupported(policy) => policy.kind,
        }
    }

    /// The API version as written.
    pub fn api_version(&self) -> &str {
        match self {
            Self::Classic(policy) => &policy.api_version,
            Self::Validating(policy) => &policy.api_version,
            Self::Mutating(policy) => &policy.api_version,
            Self::Native(policy) => &policy.api_version,
            Self::NativeMutating(policy) => &policy.api_version,
            Self::Unsupported(policy) => &policy.api_version,
        }
    }

    /// Name, namespace, labels and annotations, if the kind is evaluated.
    pub fn metadata(&self) -> Option<&Metadata> {
        match self {
            Self::Classic(policy) => Some(&policy.metadata),
            Self::Validating(policy) => Some(&policy.metadata),
            Self::Mutating(policy) => Some(&policy.metadata),
            Self::Native(policy) => Some(&policy.metadata),
            Self::NativeMutating(policy) => Some(&policy.metadata),
            Self::Unsupported(_) => None,
        }
    }

    /// The file and document.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Classic(policy) => policy.origin,
            Self::Validating(policy) => policy.origin,
            Self::Mutating(policy) => policy.origin,
            Self::Native(policy) => policy.origin,
            Self::NativeMutating(policy) => policy.origin,
            Self::Unsupported(policy) => policy.origin,
        }
    }

    /// The spec as written, of a Kyverno policy that validates.
    pub fn spec(&self) -> Option<&Subtree> {
        match self {
            Self::Classic(policy) => Some(&policy.spec.source),
            Self::Validating(policy) => Some(&policy.spec.source),
            Self::Mutating(_) | Self::Native(_) | Self::NativeMutating(_) | Self::Unsupported(_) => None,
        }
    }

    /// Whether Kyverno validates with it: the kinds that `convert` and `prove` read.
    pub fn validates(&self) -> bool {
        matches!(self, Self::Classic(_) | Self::Validating(_))
    }

    /// Whether the API server evaluates it itself.
    pub fn is_native(&self) -> bool {
        matches!(self, Self::Native(_) | Self::NativeMutating(_))
    }

    /// Whether it requests that a native policy is generated.
    pub fn is_marked(&self) -> bool {
        match self {
            Self::Classic(policy) => policy.spec.rules.iter().any(|rule| {
                let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
                cel.is_some_and(|cel| cel.generate)
            }),
            Self::Validating(policy) => policy.is_marked(),
            Self::Mutating(_) | Self::Native(_) | Self::NativeMutating(_) | Self::Unsupported(_) => false,
        }
    }

    /// Whether it is written for JSON payloads and requests no native policy either: no admission request reaches it.
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

    /// The MutatingAdmissionPolicy, if it is one.
    pub fn as_native_mutating(&self) -> Option<&Arc<MutatingAdmissionPolicy>> {
        match self {
            Self::NativeMutating(policy) => Some(policy),
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
}
