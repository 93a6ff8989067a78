//! MutatingPolicy and NamespacedMutatingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1 have
//! the same spec.

use super::{
    decode::Decoder,
    located::{Expression, Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, MatchCondition, Variable, enabled, match_conditions, switch,
        timeout_seconds, variables,
    },
    scoped::{PolicySpec, ScopedPolicy},
    validating::Autogen,
};
use kyvtest_go_compat::yaml::Node;

/// A MutatingPolicy or NamespacedMutatingPolicy.
pub type MutatingPolicy = ScopedPolicy<MutatingPolicySpec>;

#[derive(Debug, Clone)]
pub struct MutatingPolicySpec {
    /// Without it, no requests match.
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    pub mutations: Vec<Mutation>,
    pub audit_annotations: Vec<AuditAnnotation>,
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    pub timeout_seconds: Option<Spanned<i64>>,
    /// `IfNeeded` or another string, as written.
    pub reinvocation_policy: Option<Text>,
    /// The existing objects that it changes.
    pub target_match_constraints: Option<TargetMatchConstraints>,
    pub target_match_conditions: Vec<MatchCondition>,
    pub evaluation: MutatingEvaluation,
    pub autogen: Autogen,
    /// The spec as written; for a generated one, as it would be written.
    pub source: Subtree,
}

#[derive(Debug, Clone)]
pub struct Mutation {
    /// `ApplyConfiguration`, `JSONPatch`, or another string that Kyverno ignores.
    pub patch_type: Text,
    /// `applyConfiguration.expression`, empty if the expression is absent.
    pub apply_configuration: Option<Expression>,
    /// `jsonPatch.expression`, empty if the expression is absent.
    pub json_patch: Option<Expression>,
}

/// The existing objects that a policy changes.
#[derive(Debug, Clone)]
pub struct TargetMatchConstraints {
    pub constraints: MatchConstraints,
    /// Returns the objects; `None` if absent or empty.
    pub expression: Option<Expression>,
}

/// The occasions on which a policy is evaluated.
#[derive(Debug, Clone)]
pub struct MutatingEvaluation {
    /// Whether it evaluates admission requests.
    pub admission: bool,
    /// Whether it changes existing objects.
    pub mutate_existing: bool,
    /// Whether atomic fields are replaced.
    pub use_server_side_apply: bool,
}

impl MutatingPolicySpec {
    /// Whether policies for pod controllers are generated from it.
    pub fn has_autogen(&self) -> bool {
        self.autogen.applies_to(self.match_constraints.as_ref())
    }
}

impl PolicySpec for MutatingPolicySpec {
    const KINDS: [&'static str; 2] = ["MutatingPolicy", "NamespacedMutatingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let target_match_conditions = match_conditions(&mut fields, "targetMatchConditions");
        let spec = Self {
            match_constraints,
            match_conditions: match_conditions(&mut fields, "matchConditions"),
            variables: variables(&mut fields),
            mutations: fields.list("mutations", Mutation::decode),
            audit_annotations: fields.list("auditAnnotations", AuditAnnotation::decode),
            failure_policy: fields.word("failurePolicy", &FAILURE_POLICIES),
            timeout_seconds: fields.optional("webhookConfiguration", timeout_seconds),
            reinvocation_policy: fields.string("reinvocationPolicy"),
            target_match_constraints: fields.optional("targetMatchConstraints", TargetMatchConstraints::decode),
            target_match_conditions,
            evaluation: fields
                .optional("evaluation", MutatingEvaluation::decode)
                .unwrap_or_default(),
            autogen: Autogen::decode(&mut fields, "mutatingAdmissionPolicy"),
            source,
        };
        fields.finish();
        Some(spec)
    }
}

impl Mutation {
    pub(super) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let patch_type = fields.required_string("patchType");
        let apply_configuration = fields.optional("applyConfiguration", body);
        let json_patch = fields.optional("jsonPatch", body);
        fields.finish();
        Some(Self {
            patch_type: patch_type?,
            apply_configuration,
            json_patch,
        })
    }
}

/// The expression of a mutation.
fn body<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Expression> {
    let at = decoder.subtree(node)?;
    let mut fields = decoder.fields(node)?;
    let expression = fields.optional("expression", Decoder::expression);
    fields.finish();
    Some(expression.unwrap_or_else(|| Expression::new(String::new(), at)))
}

impl TargetMatchConstraints {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut expression = None;
        let constraints = MatchConstraints::decode_with(decoder, node, |fields| {
            expression = fields.optional("expression", Decoder::expression);
        })?;
        Some(Self {
            constraints,
            expression: expression.filter(|expression| !expression.text().is_empty()),
        })
    }
}

impl Default for MutatingEvaluation {
    fn default() -> Self {
        Self {
            admission: true,
            mutate_existing: false,
            use_server_side_apply: false,
        }
    }
}

impl MutatingEvaluation {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        fields.string("mode");
        let admission = enabled(&mut fields, "admission", true);
        fields.optional("background", switch);
        let mutate_existing = enabled(&mut fields, "mutateExisting", false);
        fields.bool("skipBackgroundRequests");
        let server_side = fields.bool("useServerSideApply");
        fields.finish();
        Some(Self {
            admission,
            mutate_existing,
            use_server_side_apply: server_side.is_some_and(|value| value.value),
        })
    }
}
