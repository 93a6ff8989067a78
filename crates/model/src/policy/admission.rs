//! ValidatingAdmissionPolicy and its binding, as Kubernetes has them.
//!
//! Upstream counterpart: `k8s.io/api/admissionregistration/v1`. Only the types of fields are checked here, like the
//! schema does; further checks of the API server are part of static validation.

use std::sync::Arc;

use super::{
    decode::{Decoder, Style},
    from_value::from_value,
    located::{Origin, Spanned, Subtree, Text, place},
    match_constraints::MatchConstraints,
    mutating_admission::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
    parts::{AuditAnnotation, MatchCondition, Metadata, ParamKind, ParamRef, Validation, Variable, unique},
};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId},
    value::Value,
    yaml::{Node, Tree},
};

#[derive(Debug, Clone)]
pub struct ValidatingAdmissionPolicy {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    /// Annotations of the audit event.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// The kind of the parameters.
    pub param_kind: Option<ParamKind>,
    /// The treatment of evaluation errors, as written.
    pub failure_policy: Option<Text>,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub struct ValidatingAdmissionPolicyBinding {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    /// Empty if absent.
    pub policy_name: Text,
    pub param_ref: Option<ParamRef>,
    /// Restricts the policy's constraints further.
    pub match_resources: Option<MatchConstraints>,
    /// The treatment of violations, as written.
    pub validation_actions: Vec<Text>,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

impl ValidatingAdmissionPolicy {
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
            validations: Vec::new(),
            audit_annotations: Vec::new(),
            param_kind: None,
            failure_policy: None,
            source,
            origin,
        };
        fields.optional("spec", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            policy.match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
            policy.match_conditions = fields.list("matchConditions", MatchCondition::decode);
            policy.variables = fields.list("variables", Variable::decode);
            policy.validations = fields.list("validations", Validation::decode);
            policy.audit_annotations = fields.list("auditAnnotations", AuditAnnotation::decode);
            policy.param_kind = fields.optional("paramKind", ParamKind::decode);
            policy.failure_policy = fields.string("failurePolicy");
            let conditions = policy.match_conditions.iter();
            let names = conditions.map(|condition| (condition.name.value.as_str(), condition.name.span));
            unique(fields.decoder(), "spec.matchConditions", names);
            let variables = policy.variables.iter();
            let names = variables.map(|variable| (variable.name.value.as_str(), variable.name.span));
            unique(fields.decoder(), "spec.variables", names);
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(policy)
    }
}

impl ValidatingAdmissionPolicyBinding {
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
            validation_actions: Vec::new(),
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
            binding.validation_actions = fields.strings("validationActions");
            let actions = binding.validation_actions.iter();
            let words = actions.map(|action| (action.value.as_str(), action.span));
            unique(fields.decoder(), "spec.validationActions", words);
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(binding)
    }
}

/// The origin of a document that is a value on its own.
fn origin(node: Node<'_>, file: FileId) -> Origin {
    Origin {
        file,
        document: 0,
        span: place(file, node.span()),
    }
}

/// Defines constructors of native objects in addition to `decode`.
macro_rules! readable {
    ($($object:ty),*) => {
        $(impl $object {
            /// Reads an object that was generated from a policy; its parts have locations in that policy. Static
            /// validation reports its errors.
            pub fn read(tree: Tree, origin: Origin) -> Option<Self> {
                let tree = Arc::new(tree);
                let mut decoder = Decoder::new(&tree, origin.file, Style::Schema);
                Self::decode("admissionregistration.k8s.io/v1", &mut decoder, tree.root(), origin)
            }

            /// Reads an object from a value. Spans of diagnostics refer to the value's JSON text.
            pub fn from_value(value: Value<'_>) -> (Option<Self>, Vec<Diagnostic>) {
                let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
                from_value(value, |decoder, node, file| {
                    Self::decode(api_version, decoder, node, origin(node, file))
                })
            }
        })*
    };
}

readable!(
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding
);
