//! DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1 have
//! the same spec.

use super::{
    decode::Decoder,
    located::{Spanned, Text},
    match_constraints::MatchConstraints,
    parts::{MatchCondition, Variable, match_conditions, variables},
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::yaml::Node;

/// A DeletingPolicy or NamespacedDeletingPolicy.
pub type DeletingPolicy = ScopedPolicy<DeletingPolicySpec>;

#[derive(Debug, Clone)]
pub struct DeletingPolicySpec {
    /// Without it, no objects match. Operations do not count.
    pub match_constraints: Option<MatchConstraints>,
    /// All must hold for an object to be deleted.
    pub conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    /// A cron expression; the schema accepts any string.
    pub schedule: Text,
    /// The treatment of dependent objects.
    pub propagation: Option<Spanned<Propagation>>,
}

/// The treatment of objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// They are deleted first.
    Foreground,
    /// They are deleted later.
    Background,
    /// They stay.
    Orphan,
}

/// The words of [`Propagation`].
pub(super) const PROPAGATIONS: [(&str, Propagation); 3] = [
    ("Foreground", Propagation::Foreground),
    ("Background", Propagation::Background),
    ("Orphan", Propagation::Orphan),
];

impl PolicySpec for DeletingPolicySpec {
    const KINDS: [&'static str; 2] = ["DeletingPolicy", "NamespacedDeletingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let conditions = match_conditions(&mut fields, "conditions");
        let propagation = fields.word("deletionPropagationPolicy", &PROPAGATIONS);
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let schedule = fields.required_string("schedule");
        let variables = variables(&mut fields);
        fields.finish();
        Some(Self {
            match_constraints,
            conditions,
            variables,
            schedule: schedule?,
            propagation,
        })
    }
}
