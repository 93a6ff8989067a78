//! ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1alpha1` of github.com/kyverno/api; v1beta1 and v1 have the same
//! spec.

use super::{
    decode::{Decoder, Fields},
    located::{Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, MatchCondition, VALIDATION_ACTIONS, Validation,
        ValidationAction, Variable, enabled, match_conditions, pod_controllers, switch, timeout_seconds, unique,
        variables,
    },
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::{diagnostic::Span, yaml::Node};

/// A ValidatingPolicy or NamespacedValidatingPolicy.
pub type ValidatingPolicy = ScopedPolicy<ValidatingPolicySpec>;

#[derive(Debug, Clone)]
pub struct ValidatingPolicySpec {
    /// Without it, no requests match.
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    /// Annotations of the report.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// `None` is `[Deny]`.
    pub validation_actions: Option<Vec<Spanned<ValidationAction>>>,
    /// What an evaluation error means.
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    pub timeout_seconds: Option<Spanned<i64>>,
    pub evaluation: Evaluation,
    pub autogen: Autogen,
    /// The spec as written; for a generated one, as it would be written.
    pub source: Subtree,
    pub span: Span,
}

/// The input of a policy, and the occasions on which it is evaluated.
#[derive(Debug, Clone)]
pub struct Evaluation {
    pub mode: Mode,
    /// The location; `None` if it is the default.
    pub mode_span: Option<Span>,
    /// Whether it evaluates admission requests.
    pub admission: bool,
    /// Whether it evaluates existing objects.
    pub background: bool,
}

/// The input of a policy.
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
    /// Another value; Kyverno never evaluates such a policy.
    Other(String),
}

/// The policies to generate.
#[derive(Debug, Clone, Default)]
pub struct Autogen {
    /// The pod controllers to generate rules for; `None` is all of them, an empty list none.
    pub pod_controllers: Option<Vec<Text>>,
    /// Whether to generate a native policy; `None` if absent.
    pub native_policy: Option<Spanned<bool>>,
}

impl ValidatingPolicy {
    /// Whether it requests a generated native policy.
    pub fn is_marked(&self) -> bool {
        let generate = self.spec.autogen.native_policy;
        generate.is_some_and(|generate| generate.value)
    }
}

impl ValidatingPolicySpec {
    /// Whether rules for pod controllers are generated from it.
    pub fn has_autogen(&self) -> bool {
        self.autogen.applies_to(self.match_constraints.as_ref())
    }
}

impl PolicySpec for ValidatingPolicySpec {
    const KINDS: [&'static str; 2] = ["ValidatingPolicy", "NamespacedValidatingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let match_conditions = match_conditions(&mut fields, "matchConditions");
        let variables = variables(&mut fields);
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
            evaluation: fields.optional("evaluation", Evaluation::decode).unwrap_or_default(),
            autogen: Autogen::decode(&mut fields, "validatingAdmissionPolicy"),
            source,
            span,
        };
        fields.finish();
        Some(spec)
    }
}

impl Default for Evaluation {
    fn default() -> Self {
        Self {
            mode: Mode::Kubernetes,
            mode_span: None,
            admission: true,
            background: true,
        }
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
    /// Whether policies for pod controllers are generated from a policy with these constraints.
    pub(super) fn applies_to(&self, constraints: Option<&MatchConstraints>) -> bool {
        constraints.is_some_and(|constraints| constraints.has_autogen(self.pod_controllers.as_deref()))
    }

    /// Decodes the field `autogen` of a spec; `native` is the kind of native policy, as the field is called.
    pub(super) fn decode(fields: &mut Fields<'_, '_>, native: &'static str) -> Self {
        let autogen = fields.optional("autogen", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            let pod_controllers = fields.optional("podControllers", pod_controllers);
            let native_policy = fields.optional(native, switch);
            fields.finish();
            Some(Self {
                pod_controllers,
                native_policy,
            })
        });
        autogen.unwrap_or_default()
    }
}
