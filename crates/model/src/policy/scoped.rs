//! The envelope of Kyverno's policy kinds that exist for the whole cluster and for one namespace.

use super::{decode::Decoder, id::PolicyId, located::Origin, parts::Metadata};
use kyvtest_go_compat::yaml::Node;

/// A policy of a kind that exists for the whole cluster and for one namespace.
#[derive(Debug, Clone)]
pub struct ScopedPolicy<S> {
    /// Whether it is the kind for one namespace.
    pub namespaced: bool,
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub spec: S,
    /// Where it comes from.
    pub origin: Origin,
}

/// The spec of such a policy.
pub trait PolicySpec: Sized {
    /// The API group of the kind.
    const GROUP: &'static str = "policies.kyverno.io";
    /// The kind for the cluster, and the kind for one namespace.
    const KINDS: [&'static str; 2];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self>;
}

impl<S: PolicySpec> ScopedPolicy<S> {
    /// The kind as objects write it.
    pub fn kind(&self) -> &'static str {
        S::KINDS[usize::from(self.namespaced)]
    }

    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        let namespace = self.metadata.namespace.as_ref().filter(|_| self.namespaced);
        PolicyId {
            group: S::GROUP,
            kind: self.kind(),
            namespace: namespace.map(|namespace| namespace.value.clone()).unwrap_or_default(),
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
