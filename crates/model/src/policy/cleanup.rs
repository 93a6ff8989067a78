//! CleanupPolicy and ClusterCleanupPolicy of kyverno.io.
//!
//! Upstream counterpart: `api/kyverno/v2/cleanup_policy_types.go` (1.19); v2beta1 has the same spec.

use super::{
    classic_parts,
    decode::Decoder,
    deleting::{PROPAGATIONS, Propagation},
    located::{Spanned, Subtree, Text},
    match_resources::MatchResources,
    parts::conditions,
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::yaml::Node;

/// A CleanupPolicy or ClusterCleanupPolicy.
pub type CleanupPolicy = ScopedPolicy<CleanupPolicySpec>;

#[derive(Debug, Clone)]
pub struct CleanupPolicySpec {
    /// The objects to delete.
    pub matches: MatchResources,
    /// Objects to keep.
    pub exclude: Option<MatchResources>,
    /// The sources of variables in the conditions.
    pub context: Option<Subtree>,
    /// Conditions with variables.
    pub conditions: Option<Subtree>,
    /// A cron expression.
    pub schedule: Text,
    /// The treatment of dependent objects.
    pub propagation: Option<Spanned<Propagation>>,
}

impl PolicySpec for CleanupPolicySpec {
    const GROUP: &'static str = "kyverno.io";
    const KINDS: [&'static str; 2] = ["ClusterCleanupPolicy", "CleanupPolicy"];

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
