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
