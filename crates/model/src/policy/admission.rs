//! ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings, as Kubernetes has them.
//!
//! Upstream counterpart: `k8s.io/api/admissionregistration/v1` (Kubernetes 1.36); v1beta1 and v1alpha1 of the mutating kinds
//! have the same spec. Only the types of fields are checked here, like the schema does; further checks of the API server,
//! such as that it serves only v1, are part of static validation.

use std::sync::Arc;

use super::{
    decode::{Decoder, Fields, Style},
    from_value::from_value,
    id::PolicyId,
    located::{Origin, Spanned, Subtree, Text, place},
    match_constraints::MatchConstraints,
    mutating::Mutation,
    parts::{
        AuditAnnotation, MatchCondition, Metadata, ParamKind, ParamRef, Validation, Variable, match_conditions, unique,
        variables,
    },
};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId},
    value::Value,
    yaml::{Node, Tree},
};

/// A policy of one of the API server's own kinds.
#[derive(Debug, Clone)]
pub struct AdmissionPolicy<R> {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    /// What the kind does with a request that matches.
    pub rules: R,
    /// The kind of the parameters.
    pub param_kind: Option<ParamKind>,
    /// The treatment of evaluation errors, as written.
    pub failure_policy: Option<Text>,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

pub type ValidatingAdmissionPolicy = AdmissionPolicy<ValidatingRules>;
pub type MutatingAdmissionPolicy = AdmissionPolicy<MutatingRules>;

/// The part of a spec that only one kind has.
pub trait AdmissionRules: Default {
    /// The kind in manifests.
    const KIND: &'static str;

    fn decode(fields: &mut Fields<'_, '_>) -> Self;

    /// The variables of the kind.
    fn variables(fields: &mut Fields<'_, '_>) -> Vec<Variable>;
}

#[derive(Debug, Clone, Default)]
pub struct ValidatingRules {
    pub validations: Vec<Validation>,
    /// Annotations of the audit event.
    pub audit_annotations: Vec<AuditAnnotation>,
}

impl AdmissionRules for ValidatingRules {
    const KIND: &'static str = "ValidatingAdmissionPolicy";

    fn decode(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            validations: fields.list("validations", Validation::decode),
            audit_annotations: fields.list("auditAnnotations", AuditAnnotation::decode),
        }
    }

    fn variables(fields: &mut Fields<'_, '_>) -> Vec<Variable> {
        variables(fields)
    }
}

#[derive(Debug, Clone, Default)]
pub struct MutatingRules {
    pub mutations: Vec<Mutation>,
    /// `Never` or `IfNeeded`, as written.
    pub reinvocation_policy: Option<Text>,
}

impl AdmissionRules for MutatingRules {
    const KIND: &'static str = "MutatingAdmissionPolicy";

    fn decode(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            mutations: fields.list("mutations", Mutation::decode),
            reinvocation_policy: fields.string("reinvocationPolicy"),
        }
    }

    /// To the schema their names need not be unique.
    fn variables(fields: &mut Fields<'_, '_>) -> Vec<Variable> {
        fields.list("variables", Variable::decode)
    }
}

/// A binding of a native policy.
#[derive(Debug, Clone)]
pub struct AdmissionPolicyBinding<A> {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    /// The policy; empty if absent.
    pub policy_name: Text,
    pub param_ref: Option<ParamRef>,
    /// Restricts the policy's constraints further.
    pub match_resources: Option<MatchConstraints>,
    /// The treatment of violations, as written; bindings of mutating policies have none.
    pub validation_actions: A,
    /// The object as written.
    pub source: Subtree,
    pub origin: Origin,
}

pub type ValidatingAdmissionPolicyBinding = AdmissionPolicyBinding<Vec<Text>>;
pub type MutatingAdmissionPolicyBinding = AdmissionPolicyBinding<()>;

/// The treatment of violations in a binding.
pub trait BindingActions: Default {
    fn decode(fields: &mut Fields<'_, '_>) -> Self;
}

impl BindingActions for Vec<Text> {
    fn decode(fields: &mut Fields<'_, '_>) -> Self {
        let actions = fields.strings("validationActions");
        let words = actions.iter().map(|action| (action.value.as_str(), action.span));
        unique(fields.decoder(), "spec.validationActions", words);
        actions
    }
}

impl BindingActions for () {
    fn decode(_: &mut Fields<'_, '_>) -> Self {}
}

impl<R: AdmissionRules> AdmissionPolicy<R> {
    /// The policy's identity.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: "admissionregistration.k8s.io",
            kind: R::KIND,
            namespace: String::new(),
            name: self.metadata.name.value.clone(),
        }
    }

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
            rules: R::default(),
            param_kind: None,
            failure_policy: None,
            source,
            origin,
        };
        fields.optional("spec", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            policy.match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
            policy.match_conditions = match_conditions(&mut fields, "matchConditions");
            policy.variables = R::variables(&mut fields);
            policy.rules = R::decode(&mut fields);
            policy.param_kind = fields.optional("paramKind", ParamKind::decode);
            policy.failure_policy = fields.string("failurePolicy");
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(policy)
    }
}

impl<A: BindingActions> AdmissionPolicyBinding<A> {
    pub fn decode<'t>(api_version: &str, decoder: &mut Decoder<'t>, node: Node<'t>, origin: Origin) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind"]);
        let mut binding = Self {
            api_version: api_version.to_owned(),
            metadata: Metadata::decode(&mut fields),
            policy_name: Spanned::new(String::new(), origin.span),
            param_ref: None,
            match_resources: None,
            validation_actions: A::default(),
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
            binding.validation_actions = A::decode(&mut fields);
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

macro_rules! readable {
    ($($object:ident: $part:ident),*) => {
        $(impl<P: $part> $object<P> {
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

readable!(AdmissionPolicy: AdmissionRules, AdmissionPolicyBinding: BindingActions);
