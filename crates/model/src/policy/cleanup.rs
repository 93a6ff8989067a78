//! CleanupPolicy and ClusterCleanupPolicy of kyverno.io.
//!
//! Upstream counterpart: `api/kyverno/v2/cleanup_policy_types.go` (1.19); v2beta1 has the same spec.

use super::{
    classic_parts,
    decode::Decoder,
    deleting::{PROPAGATIONS, Propagation},
    located::{Origin, Spanned, Subtree, Text},
    match_resources::MatchResources,
    parts::{Metadata, conditions},
};
use kyvtest_go_compat::yaml::Node;

/// A CleanupPolicy or ClusterCleanupPolicy.
#[derive(Debug, Clone)]
pub struct CleanupPolicy {
    /// Whether it is the kind for one namespace.
    pub namespaced: bool,
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub spec: CleanupPolicySpec,
    /// Where it comes from.
    pub origin: Origin,
}

/// The spec of a CleanupPolicy.
#[derive(Debug, Clone)]
pub struct CleanupPolicySpec {
    /// Which objects it is about.
    pub matches: MatchResources,
    /// Which of them it is not about.
    pub exclude: Option<MatchResources>,
    /// Values that variables of the conditions come from.
    pub context: Option<Subtree>,
    /// Conditions with variables.
    pub conditions: Option<Subtree>,
    /// When it is evaluated, in the form of cron.
    pub schedule: Text,
    /// What becomes of the objects that an object owns.
    pub propagation: Option<Spanned<Propagation>>,
}

impl CleanupPolicy {
    /// The kind as objects write it.
    pub const fn kind(&self) -> &'static str {
        if self.namespaced {
            "CleanupPolicy"
        } else {
            "ClusterCleanupPolicy"
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
        let spec = fields.required("spec", CleanupPolicySpec::decode);
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

impl CleanupPolicySpec {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let conditions = fields.optional("conditions", conditions);
        let context = fields.optional("context", classic_parts::context);
        let propagation = fields.word("deletionPropagationPolicy", &PROPAGATIONS);
        let exclude = fields.optional("exclude", MatchResources::decode_any_all);
        let matches = fields.required("match", MatchResources::decode_any_all);
        let schedule = fields.required_string("schedule");
        fields.finish();
        Some(Self {
            matches: matches?,
            exclude,
            context,
            conditions,
            schedule: schedule?,
            propagation,
        })
    }
}
