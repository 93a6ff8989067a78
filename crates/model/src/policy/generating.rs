//! GeneratingPolicy and NamespacedGeneratingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1 have
//! the same spec.

use super::{
    decode::Decoder,
    located::{Expression, Text},
    match_constraints::MatchConstraints,
    parts::{AuditAnnotation, MatchCondition, Variable, match_conditions, switch, timeout_seconds, variables},
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::yaml::{Items, Node};

/// A GeneratingPolicy or NamespacedGeneratingPolicy.
pub type GeneratingPolicy = ScopedPolicy<GeneratingPolicySpec>;

#[derive(Debug, Clone)]
pub struct GeneratingPolicySpec {
    /// Without it, no requests match.
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    pub variables: Vec<Variable>,
    pub generate: Vec<GenerationEntry>,
    pub audit_annotations: Vec<AuditAnnotation>,
}

/// An entry of `generate`.
#[derive(Debug, Clone)]
pub enum GenerationEntry {
    /// A CEL expression that calls `generator.Apply`.
    Expression(Expression),
    /// YAML documents.
    Template(GenerationTemplate),
}

/// Objects written as YAML.
#[derive(Debug, Clone)]
pub struct GenerationTemplate {
    pub value: Text,
    /// Whether scalars may have placeholders, `(( … ))`.
    pub interpolate: bool,
}

impl PolicySpec for GeneratingPolicySpec {
    const KINDS: [&'static str; 2] = ["GeneratingPolicy", "NamespacedGeneratingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let audit_annotations = fields.list("auditAnnotations", AuditAnnotation::decode);
        fields.optional("evaluation", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            for name in [
                "admission",
                "generateExisting",
                "orphanDownstreamOnPolicyDelete",
                "synchronize",
            ] {
                fields.optional(name, switch);
            }
            fields.bool("skipBackgroundRequests");
            fields.finish();
            Some(())
        });
        let generate = fields.required("generate", |decoder, node| {
            let entries = decoder.list(node, GenerationEntry::decode)?;
            if node.as_seq().is_some_and(Items::is_empty) {
                let path = decoder.path();
                decoder.schema_error(
                    node,
                    format!("Invalid value: 0: {path} in body should have at least 1 items"),
                );
            }
            Some(entries)
        });
        let match_conditions = match_conditions(&mut fields, "matchConditions");
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        fields.bool("useServerSideApply");
        let variables = variables(&mut fields);
        fields.optional("webhookConfiguration", timeout_seconds);
        fields.finish();
        Some(Self {
            match_constraints,
            match_conditions,
            variables,
            generate: generate?,
            audit_annotations,
        })
    }
}

impl GenerationEntry {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let expression = fields.optional("expression", Decoder::expression);
        let template = fields.optional("template", GenerationTemplate::decode);
        fields.finish();
        let there = |name: &str| node.get(name).is_some_and(|part| !part.is_null());
        if there("expression") == there("template") {
            decoder.schema_rule(node, "exactly one of expression or template must be set");
            return None;
        }
        expression.map(Self::Expression).or(template.map(Self::Template))
    }
}

impl GenerationTemplate {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let interpolate = fields.word("interpolate", &[("none", false), ("cel", true)]);
        let value = fields.required("value", |decoder, node| {
            let value = decoder.string(node)?;
            if value.value.is_empty() {
                let path = decoder.path();
                let text = format!("Invalid value: \"\": {path} in body should be at least 1 chars long");
                decoder.schema_error(node, text);
            }
            Some(value)
        });
        fields.finish();
        Some(Self {
            value: value?,
            interpolate: interpolate.is_some_and(|word| word.value),
        })
    }
}
