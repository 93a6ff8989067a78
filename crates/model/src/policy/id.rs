//! The identity of a policy in a cluster.

use std::fmt;

use super::ClassicPolicy;

/// Group, kind, namespace and name: two policies are the same only if all of them are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId {
    /// The API group.
    pub group: &'static str,
    pub kind: &'static str,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
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

impl ClassicPolicy {
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
