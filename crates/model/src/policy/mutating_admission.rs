//! MutatingAdmissionPolicy and its binding, as Kubernetes has them.
//!
//! Upstream counterpart: `k8s.io/api/admissionregistration/v1` (Kubernetes 1.36); v1beta1 and v1alpha1 have the same
//! spec. Only the types of fields are checked here, like the schema does; further checks of the API server, such as
//! that it serves only v1, are part of static validation.

use super::{
    decode::Decoder,
    located::{Origin, Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    mutating::Mutation,
    parts::{MatchCondition, Metadata, ParamKind, ParamRef, Variable, unique},
};
use kyvtest_go_compat::yaml::Node;

#[derive(Debug, Clone)]
pub struct MutatingAdmissionPolicy {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    pub mutations: Vec<Mutation>,
    pub param_kind: Option<ParamKind>,
    /// The treatment of evaluation errors, as written.
    pub failure_policy: Option<Text>,
    /// `Never` or `IfNeeded`, as written.
    pub reinvocation_policy: Option<Text>,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub struct MutatingAdmissionPolicyBinding {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    /// The policy; empty if absent.
    pub policy_name: Text,
    pub param_ref: Option<ParamRef>,
    /// Restricts the policy's constraints further.
    pub match_resources: Option<MatchConstraints>,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

impl MutatingAdmissionPolicy {
    pub fn decode<'t>(api_version: &str, decoder: &mut Decoder<'t>, node: Node<'t>, origin: Origin) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind", "status"]);
        let mut policy = Self {
            api_version: api_version.to_owned(),
            metadata: Metadata::decode(&mut fields),
            match_constraints: None,
            match_conditions: Vec::new(),
            variables: Vec::new(),
            mutations: Vec::new(),
            param_kind: None,
            failure_policy: None,
            reinvocation_policy: None,
            source,
            origin,
        };
        fields.optional("spec", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            policy.match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
            policy.match_conditions = fields.list("matchConditions", MatchCondition::decode);
            policy.variables = fields.list("variables", Variable::decode);
            policy.mutations = fields.list("mutations", Mutation::decode);
            policy.param_kind = fields.optional("paramKind", ParamKind::decode);
            policy.failure_policy = fields.string("failurePolicy");
            policy.reinvocation_policy = fields.string("reinvocationPolicy");
            let names = policy.match_conditions.iter().map(|condition| &condition.name);
            let names = names.map(|name| (name.value.as_str(), name.span));
            unique(fields.decoder(), "spec.matchConditions", names);
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(policy)
    }
}

impl MutatingAdmissionPolicyBinding {
    pub fn decode<'t>(api_version: &str, decoder: &mut Decoder<'t>, node: Node<'t>, origin: Origin) -> Option<Self> {
        let nowhere = Spanned::new(String::new(), origin.span);
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind"]);
        let mut binding = Self {
            api_version: api_version.to_owned(),
            metadata: Metadata::decode(&mut fields),
            policy_name: nowhere,
            param_ref: None,
            match_resources: None,
            source,
            origin,
        };
        fields.optional("spec", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            if let Some(name) = fields.string("policyName") {
                binding.policy_name = name;
            }
            binding.param_ref = fields.optional("paramRef", ParamRef::decode);
            binding.match_resources = fields.optional("matchResources", MatchConstraints::decode);
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(binding)
    }
}
