//! The identity of a policy in a cluster.

use std::fmt;

use super::{MutatingPolicy, Policy, ValidatingAdmissionPolicy, ValidatingPolicy};

/// Group, kind, namespace and name: two policies are the same only if all of them are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl PolicyId {
    /// Whether a reference names the policy: `namespace/name`, or the name alone.
    pub fn is_named(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            Some((namespace, name)) => self.name == name && (self.namespace == namespace || self.namespace.is_empty()),
            None => self.name == reference,
        }
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl Policy {
    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: "kyverno.io",
            kind: self.kind.name(),
            namespace: self
                .key()
                .split_once('/')
                .map_or("", |(namespace, _)| namespace)
                .to_owned(),
            name: self.metadata.name.value.clone(),
        }
    }
}

impl ValidatingPolicy {
    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        let namespace = self.metadata.namespace.as_ref().filter(|_| self.namespaced);
        PolicyId {
            group: "policies.kyverno.io",
            kind: self.kind(),
            namespace: namespace.map(|namespace| namespace.value.clone()).unwrap_or_default(),
            name: self.metadata.name.value.clone(),
        }
    }
}

impl MutatingPolicy {
    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        let namespace = self.metadata.namespace.as_ref().filter(|_| self.namespaced);
        PolicyId {
            group: "policies.kyverno.io",
            kind: self.kind(),
            namespace: namespace.map(|namespace| namespace.value.clone()).unwrap_or_default(),
            name: self.metadata.name.value.clone(),
        }
    }
}

impl ValidatingAdmissionPolicy {
    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: "admissionregistration.k8s.io",
            kind: "ValidatingAdmissionPolicy",
            namespace: String::new(),
            name: self.metadata.name.value.clone(),
        }
    }
}
