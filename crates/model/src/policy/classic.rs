//! ClusterPolicy and Policy of kyverno.io.
//!
//! Upstream counterpart: `api/kyverno/v1` and `api/kyverno/v2beta1` (1.19) with the defaults of their schemas. Sections
//! that only classic rules have (patterns, conditions, context, foreach, podSecurity, mutate, generate, verifyImages)
//! are kept as located parts.

use std::sync::Arc;

use super::{
    classic_actions, classic_parts,
    decode::{Decoder, Fields, Style},
    located::{Origin, Spanned, Subtree, Text},
    match_resources::MatchResources,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, LabelSelector, MatchCondition, Metadata, ParamKind, ParamRef,
        Validation, Variable, conditions,
    },
};
use kyvtest_go_compat::{
    diagnostic::{FileId, Span},
    yaml::{Node, Tree},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Cluster-wide.
    ClusterPolicy,
    /// Namespaced.
    Policy,
}

impl PolicyKind {
    /// The kind in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterPolicy => "ClusterPolicy",
            Self::Policy => "Policy",
        }
    }
}

/// A ClusterPolicy or Policy.
#[derive(Debug, Clone)]
pub struct ClassicPolicy {
    pub kind: PolicyKind,
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    pub spec: Spec,
    pub origin: Origin,
}

/// The spec of a ClusterPolicy or Policy.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// Whether all rules are applied or only the first that decides.
    pub apply_rules: Option<Spanned<ApplyRules>>,
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    /// The action on violations, unless a rule overrides it.
    pub validation_failure_action: FailureAction,
    /// The location; `None` if it is the default.
    pub validation_failure_action_span: Option<Span>,
    /// Overrides by namespace.
    pub validation_failure_action_overrides: Vec<FailureActionOverride>,
    /// Whether audited violations give a warning.
    pub emit_warning: bool,
    /// Whether the policy evaluates admission requests.
    pub admission: bool,
    /// Whether the policy evaluates existing objects.
    pub background: bool,
    /// The location; `None` if it is the default.
    pub background_span: Option<Span>,
    pub webhook: Option<WebhookConfiguration>,
    /// The spec as written.
    pub source: Subtree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplyRules {
    /// Every matching rule.
    All,
    /// Only the first matching rule that decides.
    One,
}

/// The action on a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureAction {
    /// Violations are reported.
    Audit,
    /// The request is denied.
    Enforce,
}

/// A failure action for some namespaces.
#[derive(Debug, Clone)]
pub struct FailureActionOverride {
    /// `None` counts as `Audit`.
    pub action: Option<Spanned<FailureAction>>,
    /// The namespaces; wildcards are allowed.
    pub namespaces: Vec<Text>,
    /// The namespaces by their labels.
    pub namespace_selector: Option<LabelSelector>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct WebhookConfiguration {
    /// Takes precedence over the policy's.
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    pub timeout_seconds: Option<Spanned<i64>>,
    /// Conditions under which the API server calls the webhook.
    pub match_conditions: Vec<MatchCondition>,
}

/// A rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    pub name: Text,
    pub matches: MatchResources,
    pub exclude: Option<MatchResources>,
    pub context: Option<Subtree>,
    /// Conditions with variables.
    pub preconditions: Option<Subtree>,
    pub cel_preconditions: Vec<MatchCondition>,
    /// Paths of images in custom kinds.
    pub image_extractors: Option<Subtree>,
    pub report_properties: Vec<(Text, Text)>,
    /// Whether requests of Kyverno's own background controller are skipped.
    pub skip_background_requests: bool,
    pub validate: Option<Validate>,
    pub mutate: Option<Subtree>,
    pub generate: Option<Subtree>,
    pub verify_images: Option<Subtree>,
    /// The rule as written; for a generated rule, as it would be written.
    pub source: Subtree,
    pub span: Span,
}

/// The validation of a rule.
#[derive(Debug, Clone)]
pub struct Validate {
    /// Takes precedence over the policy's.
    pub failure_action: Option<Spanned<FailureAction>>,
    /// Overrides by namespace; `None` if absent.
    pub failure_action_overrides: Option<Vec<FailureActionOverride>>,
    /// Whether an update of an object that already violated the rule is admitted.
    pub allow_existing_violations: Option<bool>,
    pub message: Option<Text>,
    /// CEL expressions.
    pub cel: Option<Cel>,
    pub pattern: Option<Subtree>,
    /// Several patterns, one of which must match.
    pub any_pattern: Option<Subtree>,
    /// Conditions under which the request is denied.
    pub deny: Option<Subtree>,
    /// A validation for each element of lists.
    pub foreach: Option<Subtree>,
    /// The Pod Security Standards.
    pub pod_security: Option<Subtree>,
    /// Signatures of manifests.
    pub manifests: Option<Subtree>,
    /// An assertion tree.
    pub assert: Option<Subtree>,
    pub span: Span,
}

/// `validate.cel`.
#[derive(Debug, Clone)]
pub struct Cel {
    /// Whether to generate a ValidatingAdmissionPolicy.
    pub generate: bool,
    pub expressions: Vec<Validation>,
    pub param_kind: Option<ParamKind>,
    pub param_ref: Option<ParamRef>,
    pub audit_annotations: Vec<AuditAnnotation>,
    pub variables: Vec<Variable>,
    pub span: Span,
}

const ACTIONS: [(&str, FailureAction); 4] = [
    ("audit", FailureAction::Audit),
    ("enforce", FailureAction::Enforce),
    ("Audit", FailureAction::Audit),
    ("Enforce", FailureAction::Enforce),
];

/// Rules accept only the new spellings.
const RULE_ACTIONS: [(&str, FailureAction); 2] = [("Audit", FailureAction::Audit), ("Enforce", FailureAction::Enforce)];

impl Rule {
    /// The properties that reports show, by name.
    pub fn properties(&self) -> Vec<(String, String)> {
        let properties = self.report_properties.iter();
        properties
            .map(|(key, value)| (key.value.clone(), value.value.clone()))
            .collect()
    }
}

impl ClassicPolicy {
    pub(crate) fn decode<'t>(
        kind: PolicyKind,
        api_version: &str,
        decoder: &mut Decoder<'t>,
        node: Node<'t>,
        origin: Origin,
    ) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind", "status"]);
        let metadata = Metadata::decode(&mut fields);
        let old = is_v2beta1(api_version);
        let spec = fields.required("spec", |decoder, node| Spec::decode(decoder, node, old));
        fields.finish();
        Some(Self {
            kind,
            api_version: api_version.to_owned(),
            metadata,
            spec: spec?,
            origin,
        })
    }

    /// Whether it has the version with the smaller schema.
    pub fn is_v2beta1(&self) -> bool {
        is_v2beta1(&self.api_version)
    }

    /// The name in rows and exceptions: `name`, or `namespace/name` of a Policy.
    pub fn key(&self) -> String {
        match (&self.metadata.namespace, self.kind) {
            (Some(namespace), PolicyKind::Policy) => format!("{}/{}", namespace.value, self.metadata.name.value),
            _ => self.metadata.name.value.clone(),
        }
    }
}

fn is_v2beta1(api_version: &str) -> bool {
    api_version.ends_with("/v2beta1")
}

impl Spec {
    /// Whether the first rule that applies is the last one that is evaluated.
    pub fn applies_one_rule(&self) -> bool {
        let apply = self.apply_rules.as_ref();
        apply.is_some_and(|apply| apply.value == ApplyRules::One)
    }

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, v2beta1: bool) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let rules = fields.list("rules", |decoder, node| Rule::decode(decoder, node, v2beta1));
        let action = fields.word("validationFailureAction", &ACTIONS);
        let background = fields.bool("background");
        let spec = Self {
            rules,
            apply_rules: fields.word("applyRules", &[("All", ApplyRules::All), ("One", ApplyRules::One)]),
            failure_policy: fields.word("failurePolicy", &FAILURE_POLICIES),
            validation_failure_action: action.map_or(FailureAction::Audit, |action| action.value),
            validation_failure_action_span: action.map(|action| action.span),
            validation_failure_action_overrides: fields
                .list("validationFailureActionOverrides", FailureActionOverride::decode),
            emit_warning: fields.bool("emitWarning").is_some_and(|value| value.value),
            admission: fields.bool("admission").is_none_or(|value| value.value),
            background: background.is_none_or(|value| value.value),
            background_span: background.map(|value| value.span),
            webhook: fields.optional("webhookConfiguration", WebhookConfiguration::decode),
            source,
        };
        for name in [
            "schemaValidation",
            "mutateExistingOnPolicyUpdate",
            "generateExistingOnPolicyUpdate",
            "generateExisting",
            "useServerSideApply",
        ] {
            fields.bool(name);
        }
        fields.int("webhookTimeoutSeconds");
        fields.finish();
        Some(spec)
    }
}

impl FailureActionOverride {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let decoded = Self {
            action: fields.word("action", &ACTIONS),
            namespaces: fields.strings("namespaces"),
            namespace_selector: fields.optional("namespaceSelector", LabelSelector::decode),
            span,
        };
        fields.finish();
        Some(decoded)
    }
}

impl WebhookConfiguration {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let decoded = Self {
            failure_policy: fields.word("failurePolicy", &FAILURE_POLICIES),
            timeout_seconds: fields.int("timeoutSeconds"),
            match_conditions: fields.list("matchConditions", MatchCondition::decode),
        };
        fields.finish();
        Some(decoded)
    }
}

impl Rule {
    /// Reads a rule that was generated from another one in the same file.
    pub fn read(tree: Tree, file: FileId, v2beta1: bool) -> Option<Self> {
        let tree = Arc::new(tree);
        Self::decode(&mut Decoder::new(&tree, file, Style::Schema), tree.root(), v2beta1)
    }

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, v2beta1: bool) -> Option<Self> {
        let span = decoder.span(node);
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let name = fields.required("name", |decoder, node| {
            let name = decoder.string(node)?;
            if name.chars().count() > 63 {
                let message = format!("the rule name `{}` has more than 63 characters", name.value);
                decoder.bad_value(name.span, message);
                let path = decoder.path();
                decoder.schema_problem(format!("{path}: Too long: may not be more than 63 bytes"));
            }
            Some(name)
        });
        // The newer schema has no block without `any` or `all`.
        let block = if v2beta1 {
            MatchResources::decode_any_all
        } else {
            MatchResources::decode
        };
        let matches = fields.required("match", block);
        let rule = (
            fields.optional("exclude", block),
            fields.optional("context", classic_parts::context),
            fields.optional(
                "preconditions",
                if v2beta1 {
                    conditions
                } else {
                    classic_parts::old_conditions
                },
            ),
            fields.list("celPreconditions", MatchCondition::decode),
            fields.optional("imageExtractors", classic_actions::image_extractors),
            fields
                .optional("reportProperties", Decoder::string_map)
                .unwrap_or_default(),
            fields.bool("skipBackgroundRequests").is_none_or(|value| value.value),
            fields.optional("validate", |decoder, node| Validate::decode(decoder, node, v2beta1)),
            fields.optional("mutate", classic_actions::mutate),
            fields.optional("generate", classic_actions::generate),
            fields.optional("verifyImages", |decoder, node| {
                classic_actions::verify_images(decoder, node, v2beta1)
            }),
        );
        fields.finish();
        Some(Self {
            name: name?,
            matches: matches?,
            exclude: rule.0,
            context: rule.1,
            preconditions: rule.2,
            cel_preconditions: rule.3,
            image_extractors: rule.4,
            report_properties: rule.5,
            skip_background_requests: rule.6,
            validate: rule.7,
            mutate: rule.8,
            generate: rule.9,
            verify_images: rule.10,
            source,
            span,
        })
    }
}

impl Validate {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, v2beta1: bool) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let validate = Self {
            failure_action: fields.word("failureAction", &RULE_ACTIONS),
            failure_action_overrides: fields.optional("failureActionOverrides", |decoder, node| {
                decoder.list(node, FailureActionOverride::decode)
            }),
            allow_existing_violations: Self::existing(&mut fields, v2beta1),
            message: fields.string("message"),
            cel: fields.optional("cel", Cel::decode),
            pattern: fields.subtree("pattern"),
            any_pattern: fields.subtree("anyPattern"),
            deny: fields.optional("deny", |decoder, node| {
                if !v2beta1 {
                    return classic_parts::deny(decoder, node);
                }
                let mut fields = decoder.fields(node)?;
                fields.optional("conditions", conditions);
                fields.finish();
                decoder.subtree(node)
            }),
            foreach: fields.optional("foreach", classic_parts::foreach),
            pod_security: fields.optional("podSecurity", classic_parts::pod_security),
            manifests: fields.optional("manifests", classic_actions::manifests),
            assert: fields.subtree("assert"),
            span,
        };
        fields.finish();
        Some(validate)
    }

    /// The schema of v1 has a default for it, that of v2beta1 does not know it.
    fn existing(fields: &mut Fields<'_, '_>, v2beta1: bool) -> Option<bool> {
        if v2beta1 {
            return None;
        }
        Some(fields.bool("allowExistingViolations").is_none_or(|value| value.value))
    }
}

impl Cel {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let cel = Self {
            generate: fields.bool("generate").is_some_and(|value| value.value),
            expressions: fields.list("expressions", Validation::decode),
            param_kind: fields.optional("paramKind", ParamKind::decode),
            param_ref: fields.optional("paramRef", ParamRef::decode),
            audit_annotations: fields.list("auditAnnotations", AuditAnnotation::decode),
            variables: fields.list("variables", Variable::decode),
            span,
        };
        fields.finish();
        Some(cel)
    }
}
