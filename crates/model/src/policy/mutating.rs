//! MutatingPolicy and NamespacedMutatingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1 have
//! the same spec.

use std::sync::Arc;

use super::{
    decode::{Decoder, Style},
    located::{Expression, Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, MatchCondition, Variable, enabled, pod_controllers, switch,
        timeout_seconds, unique_names,
    },
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::{
    diagnostic::FileId,
    yaml::{Node, Tree},
};

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
    /// `IfNeeded` or another string, as written.
    pub reinvocation_policy: Option<Text>,
    /// The existing objects that it changes.
    pub target_match_constraints: Option<TargetMatchConstraints>,
    pub target_match_conditions: Vec<MatchCondition>,
    pub evaluation: MutatingEvaluation,
    pub autogen: MutatingAutogen,
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

/// The policies to generate.
#[derive(Debug, Clone, Default)]
pub struct MutatingAutogen {
    /// The pod controllers to generate rules for; `None` is all of them, an empty list none.
    pub pod_controllers: Option<Vec<Text>>,
    /// Whether to generate a MutatingAdmissionPolicy; `None` if absent.
    pub mutating_admission_policy: Option<Spanned<bool>>,
}

impl MutatingPolicySpec {
    /// Whether policies for pod controllers are generated from it.
    pub fn has_autogen(&self) -> bool {
        let constraints = self.match_constraints.as_ref();
        constraints.is_some_and(|constraints| constraints.has_autogen(self.autogen.pod_controllers.as_deref()))
    }

    /// Reads a spec that was generated from another one in the same file.
    pub fn read(tree: Tree, file: FileId) -> Option<Self> {
        let tree = Arc::new(tree);
        Self::decode(&mut Decoder::new(&tree, file, Style::Schema), tree.root())
    }
}

impl PolicySpec for MutatingPolicySpec {
    const KINDS: [&'static str; 2] = ["MutatingPolicy", "NamespacedMutatingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let match_conditions = fields.list("matchConditions", MatchCondition::decode);
        let target_match_conditions = fields.list("targetMatchConditions", MatchCondition::decode);
        let variables = fields.list("variables", Variable::decode);
        for (list, conditions) in [
            ("spec.matchConditions", &match_conditions),
            ("spec.targetMatchConditions", &target_match_conditions),
        ] {
            let names = conditions.iter().map(|condition| &condition.name);
            unique_names(fields.decoder(), list, names);
        }
        let names = variables.iter().map(|variable| &variable.name);
        unique_names(fields.decoder(), "spec.variables", names);
        let spec = Self {
            match_constraints,
            match_conditions,
            variables,
            mutations: fields.list("mutations", Mutation::decode),
            audit_annotations: fields.list("auditAnnotations", AuditAnnotation::decode),
            failure_policy: fields.word("failurePolicy", &FAILURE_POLICIES),
            reinvocation_policy: fields.string("reinvocationPolicy"),
            target_match_constraints: fields.optional("targetMatchConstraints", TargetMatchConstraints::decode),
            target_match_conditions,
            evaluation: fields
                .optional("evaluation", MutatingEvaluation::decode)
                .unwrap_or(MutatingEvaluation {
                    admission: true,
                    mutate_existing: false,
                    use_server_side_apply: false,
                }),
            autogen: fields.optional("autogen", MutatingAutogen::decode).unwrap_or_default(),
            source,
        };
        fields.optional("webhookConfiguration", timeout_seconds);
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

impl MutatingAutogen {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let pod_controllers = fields.optional("podControllers", pod_controllers);
        let generate = fields.optional("mutatingAdmissionPolicy", switch);
        fields.finish();
        Some(Self {
            pod_controllers,
            mutating_admission_policy: generate,
        })
    }
}
