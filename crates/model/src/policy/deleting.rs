//! DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1 have
//! the same spec.

use super::{
    decode::Decoder,
    located::{Origin, Spanned, Text},
    match_constraints::MatchConstraints,
    parts::{MatchCondition, Metadata, Variable, unique_names},
};
use kyvtest_go_compat::yaml::Node;

/// A DeletingPolicy or NamespacedDeletingPolicy.
#[derive(Debug, Clone)]
pub struct DeletingPolicy {
    /// Whether it is the kind for one namespace.
    pub namespaced: bool,
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub spec: DeletingPolicySpec,
    /// Where it comes from.
    pub origin: Origin,
}

/// The spec of a DeletingPolicy.
#[derive(Debug, Clone)]
pub struct DeletingPolicySpec {
    /// Which objects it is about; without it there are none. Operations do not count.
    pub match_constraints: Option<MatchConstraints>,
    /// All must hold for an object to be deleted.
    pub conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    /// When it is evaluated, in the form of cron; the schema takes any text.
    pub schedule: Text,
    /// What becomes of the objects that an object owns.
    pub propagation: Option<Spanned<Propagation>>,
}

/// What becomes of the objects that a deleted object owns.
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

impl DeletingPolicy {
    /// The kind as objects write it.
    pub const fn kind(&self) -> &'static str {
        if self.namespaced {
            "NamespacedDeletingPolicy"
        } else {
            "DeletingPolicy"
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
        let spec = fields.required("spec", DeletingPolicySpec::decode);
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

impl DeletingPolicySpec {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let conditions = fields.list("conditions", MatchCondition::decode);
        let propagation = fields.word("deletionPropagationPolicy", &PROPAGATIONS);
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let schedule = fields.required_string("schedule");
        let variables = fields.list("variables", Variable::decode);
        let names = conditions.iter().map(|condition| &condition.name);
        unique_names(fields.decoder(), "spec.conditions", names);
        let names = variables.iter().map(|variable| &variable.name);
        unique_names(fields.decoder(), "spec.variables", names);
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
