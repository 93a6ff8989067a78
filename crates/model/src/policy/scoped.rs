//! The common structure of Kyverno's policy kinds that exist cluster-wide and namespaced.

use std::{borrow::Cow, sync::Arc};

use super::{
    decode::{Decoder, Style},
    id::PolicyId,
    located::Origin,
    parts::Metadata,
};
use kyvtest_cel::profile::PolicyScope;
use kyvtest_go_compat::{
    diagnostic::FileId,
    yaml::{Node, Tree},
};

/// A policy of a kind that exists cluster-wide and namespaced.
#[derive(Debug, Clone)]
pub struct ScopedPolicy<S> {
    /// Whether it is the namespaced kind.
    pub namespaced: bool,
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub spec: S,
    pub origin: Origin,
}

/// The spec of such a policy.
pub trait PolicySpec: Sized {
    /// The API group of the kind.
    const GROUP: &'static str = "policies.kyverno.io";
    /// The cluster-wide kind, and the namespaced one.
    const KINDS: [&'static str; 2];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self>;

    /// Reads a spec that was generated from another one in the same file.
    fn read(tree: Tree, file: FileId) -> Option<Self> {
        let tree = Arc::new(tree);
        Self::decode(&mut Decoder::new(&tree, file, Style::Schema), tree.root())
    }
}

impl<S: PolicySpec> ScopedPolicy<S> {
    /// The kind in manifests.
    pub fn kind(&self) -> &'static str {
        S::KINDS[usize::from(self.namespaced)]
    }

    /// The namespace of the policy; empty if it has none. Kyverno's compilers look at it and not at the kind, which
    /// differ only where no API server has seen the policy.
    pub fn namespace(&self) -> &str {
        let namespace = self.metadata.namespace.as_ref();
        namespace.map_or("", |namespace| namespace.value.as_str())
    }

    /// The scope that selects the CEL environment.
    pub fn scope(&self) -> PolicyScope {
        if self.namespace().is_empty() {
            PolicyScope::Cluster
        } else {
            PolicyScope::Namespace
        }
    }

    /// The policy as an API server stores it: one of a cluster-wide kind has no namespace.
    pub fn as_stored(&self) -> Cow<'_, Self>
    where
        S: Clone,
    {
        if self.namespaced || self.metadata.namespace.is_none() {
            return Cow::Borrowed(self);
        }
        let mut stored = self.clone();
        stored.metadata.namespace = None;
        Cow::Owned(stored)
    }

    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: S::GROUP,
            kind: self.kind(),
            namespace: self.namespace().to_owned(),
            name: self.metadata.name.value.clone(),
        }
    }

    pub fn decode<'t>(
        namespaced: bool,
        api_version: &str,
        decoder: &mut Decoder<'t>,
        node: Node<'t>,
        origin: Origin,
    ) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind", "status"]);
        let metadata = Metadata::decode(&mut fields);
        let spec = fields.required("spec", S::decode);
        fields.finish();
        Some(Self {
            namespaced,
            api_version: api_version.to_owned(),
            metadata,
            spec: spec?,
            origin,
        })
    }
}
