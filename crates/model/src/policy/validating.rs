//! ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io.
//!
//! Counterpart: `api/policies.kyverno.io/v1alpha1` of github.com/kyverno/api; v1beta1 and v1 have the same spec.

use std::sync::Arc;

use super::{
    decode::{Decoder, Style},
    located::{Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, MatchCondition, VALIDATION_ACTIONS, Validation,
        ValidationAction, Variable, enabled, pod_controllers, switch, timeout_seconds, unique,
    },
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::{
    diagnostic::{FileId, Span},
    yaml::{Node, Tree},
};

/// A ValidatingPolicy or NamespacedValidatingPolicy.
pub type ValidatingPolicy = ScopedPolicy<ValidatingPolicySpec>;

/// What a ValidatingPolicy says.
#[derive(Debug, Clone)]
pub struct ValidatingPolicySpec {
    /// Which requests it is about; without it there are none.
    pub match_constraints: Option<MatchConstraints>,
    /// Under which conditions.
    pub match_conditions: Vec<MatchCondition>,
    /// Named values.
    pub variables: Vec<Variable>,
    /// What must hold.
    pub validations: Vec<Validation>,
    /// Annotations of the report.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// What a violation means; `None` is `[Deny]`.
    pub validation_actions: Option<Vec<Spanned<ValidationAction>>>,
    /// What an evaluation error means.
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    /// The webhook's time.
    pub timeout_seconds: Option<Spanned<i64>>,
    /// What it looks at, and when.
    pub evaluation: Evaluation,
    /// What is made from it.
    pub autogen: Autogen,
    /// The spec as it is written; of a generated one, as it would be written.
    pub source: Subtree,
    /// Location.
    pub span: Span,
}

/// What kind of input a policy looks at, and when.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The kind of input.
    pub mode: Mode,
    /// Where that is written, if it is.
    pub mode_span: Option<Span>,
    /// Whether it looks at admission requests.
    pub admission: bool,
    /// Whether it looks at existing objects.
    pub background: bool,
}

/// The kind of input that a policy looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Admission requests.
    Kubernetes,
    /// Any JSON.
    Json,
    /// HTTP requests.
    Http,
    /// Envoy's authorisation requests.
    Envoy,
    /// Something else, which Kyverno treats as requests that no engine asks about.
    Other(String),
}

/// What is made from a policy.
#[derive(Debug, Clone, Default)]
pub struct Autogen {
    /// For which pod controllers; `None` is all of them, an empty list none.
    pub pod_controllers: Option<Vec<Text>>,
    /// Whether a ValidatingAdmissionPolicy is to be generated; `None` if it does not say.
    pub validating_admission_policy: Option<Spanned<bool>>,
}

impl ValidatingPolicy {
    /// Whether it asks for a native policy to be generated.
    pub fn is_marked(&self) -> bool {
        let generate = self.spec.autogen.validating_admission_policy;
        generate.is_some_and(|generate| generate.value)
    }
}

/// The pod controllers that rules are made for, as `autogen.podControllers` names them.
pub const POD_CONTROLLERS: [&str; 6] = [
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "replicasets",
    "statefulsets",
];

impl ValidatingPolicySpec {
    /// Whether rules for pod controllers are made from it.
    pub fn has_autogen(&self) -> bool {
        let wanted = self.autogen.pod_controllers.as_ref();
        self.match_constraints
            .as_ref()
            .is_some_and(MatchConstraints::is_pods_only)
            && wanted.is_none_or(|wanted| wanted.iter().any(|name| POD_CONTROLLERS.contains(&name.value.as_str())))
    }

    /// Reads a spec that was made from another one in the same file.
    pub fn read(tree: Tree, file: FileId) -> Option<Self> {
        let tree = Arc::new(tree);
        Self::decode(&mut Decoder::new(&tree, file, Style::Schema), tree.root())
    }
}

impl PolicySpec for ValidatingPolicySpec {
    const KINDS: [&'static str; 2] = ["ValidatingPolicy", "NamespacedValidatingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let match_conditions = fields.list("matchConditions", MatchCondition::decode);
        let variables = fields.list("variables", Variable::decode);
        let names = match_conditions
            .iter()
            .map(|condition| (condition.name.value.as_str(), condition.name.span));
        unique(fields.decoder(), "spec.matchConditions", names);
        let names = variables
            .iter()
            .map(|variable| (variable.name.value.as_str(), variable.name.span));
        unique(fields.decoder(), "spec.variables", names);
        let validation_actions = fields.optional("validationActions", |decoder, node| {
            let actions = decoder.list(node, |decoder, node| decoder.word(node, &VALIDATION_ACTIONS))?;
            let words = node.as_seq()?.iter().filter_map(Node::as_str).zip(actions.iter());
            unique(
                decoder,
                "spec.validationActions",
                words.map(|(word, action)| (word, action.span)),
            );
            Some(actions)
        });
        let spec = Self {
            match_constraints,
            match_conditions,
            variables,
            validations: fields.list("validations", Validation::decode),
            audit_annotations: fields.list("auditAnnotations", AuditAnnotation::decode),
            validation_actions,
            failure_policy: fields.word("failurePolicy", &FAILURE_POLICIES),
            timeout_seconds: fields.optional("webhookConfiguration", timeout_seconds),
            evaluation: fields.optional("evaluation", Evaluation::decode).unwrap_or(Evaluation {
                mode: Mode::Kubernetes,
                mode_span: None,
                admission: true,
                background: true,
            }),
            autogen: fields.optional("autogen", Autogen::decode).unwrap_or_default(),
            source,
            span,
        };
        fields.finish();
        Some(spec)
    }
}

impl Evaluation {
    pub(super) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let mode = fields.string("mode");
        let admission = enabled(&mut fields, "admission", true);
        let background = enabled(&mut fields, "background", true);
        fields.finish();
        Some(Self {
            mode_span: mode.as_ref().map(|mode| mode.span),
            mode: mode.map_or(Mode::Kubernetes, |mode| match mode.value.as_str() {
                "" | "Kubernetes" => Mode::Kubernetes,
                "JSON" => Mode::Json,
                "HTTP" => Mode::Http,
                "Envoy" => Mode::Envoy,
                _ => Mode::Other(mode.value),
            }),
            admission,
            background,
        })
    }
}

impl Autogen {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let pod_controllers = fields.optional("podControllers", pod_controllers);
        let generate = fields.optional("validatingAdmissionPolicy", switch);
        fields.finish();
        Some(Self {
            pod_controllers,
            validating_admission_policy: generate,
        })
    }
}
