//! Parts that several policy kinds share: metadata, selectors, CEL lists, parameters, failure actions.
//!
//! Upstream counterpart: `k8s.io/api/admissionregistration/v1` and `metav1.LabelSelector`.

use super::{
    decode::{Decoder, Fields},
    located::{Expression, Spanned, Subtree, Text},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    text::quote::go_json,
    yaml::Node,
};

#[derive(Debug, Clone)]
pub struct Metadata {
    /// Empty if absent.
    pub name: Text,
    pub namespace: Option<Text>,
    pub labels: Vec<(Text, Text)>,
    pub annotations: Vec<(Text, Text)>,
}

impl Metadata {
    pub fn decode(fields: &mut Fields<'_, '_>) -> Self {
        let owner = fields.span();
        let nowhere = Span::new(owner.file, owner.start, owner.start);
        let decoded = fields.optional("metadata", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            let metadata = Self {
                name: fields
                    .string("name")
                    .unwrap_or_else(|| Spanned::new(String::new(), nowhere)),
                namespace: fields.string("namespace").filter(|namespace| !namespace.is_empty()),
                labels: fields.optional("labels", pairs).unwrap_or_default(),
                annotations: fields.optional("annotations", pairs).unwrap_or_default(),
            };
            fields.ignore(&[
                "generateName",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "ownerReferences",
                "finalizers",
                "managedFields",
                "selfLink",
            ]);
            fields.finish();
            Some(metadata)
        });
        decoded.unwrap_or_else(|| Self {
            name: Spanned::new(String::new(), nowhere),
            namespace: None,
            labels: Vec::new(),
            annotations: Vec::new(),
        })
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&Text> {
        let found = self.annotations.iter().find(|(name, _)| name.value == key);
        found.map(|(_, value)| value)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&Text> {
        let found = self.labels.iter().find(|(name, _)| name.value == key);
        found.map(|(_, value)| value)
    }
}

/// Labels or annotations; a null map is an empty one.
fn pairs<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Vec<(Text, Text)>> {
    if node.is_null() {
        return None;
    }
    decoder.string_map(node)
}

/// `metav1.LabelSelector` as written.
#[derive(Debug, Clone)]
pub struct LabelSelector {
    /// Required pairs.
    pub match_labels: Vec<(Text, Text)>,
    pub match_expressions: Vec<LabelRequirement>,
    pub span: Span,
}

/// One requirement of a label selector.
#[derive(Debug, Clone)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: Text,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`, as written: the evaluator handles other values.
    pub operator: Text,
    pub values: Vec<Text>,
}

impl LabelSelector {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let selector = Self {
            match_labels: fields.optional("matchLabels", Decoder::string_map).unwrap_or_default(),
            match_expressions: fields.list("matchExpressions", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let key = fields.required_string("key");
                let operator = fields.required_string("operator");
                let values = fields.strings("values");
                fields.finish();
                Some(LabelRequirement {
                    key: key?,
                    operator: operator?,
                    values,
                })
            }),
            span,
        };
        fields.finish();
        Some(selector)
    }
}

/// A named condition under which a policy applies to a request.
#[derive(Debug, Clone)]
pub struct MatchCondition {
    pub name: Text,
    pub expression: Expression,
}

impl MatchCondition {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let name = fields.required_string("name");
        let expression = fields.required("expression", Decoder::expression);
        fields.finish();
        Some(Self {
            name: name?,
            expression: expression?,
        })
    }
}

/// A named value that later expressions may use.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: Text,
    pub expression: Expression,
}

impl Variable {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let condition = MatchCondition::decode(decoder, node)?;
        Some(Self {
            name: condition.name,
            expression: condition.expression,
        })
    }
}

/// One validation: an expression that must hold, and its message.
#[derive(Debug, Clone)]
pub struct Validation {
    pub expression: Expression,
    pub message: Option<Text>,
    /// The expression that computes the message.
    pub message_expression: Option<Expression>,
    /// The reason in the API status, as written.
    pub reason: Option<Text>,
}

impl Validation {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let expression = fields.required("expression", Decoder::expression);
        let message = fields.string("message");
        let message_expression = fields.optional("messageExpression", Decoder::expression);
        let reason = fields.string("reason");
        fields.finish();
        Some(Self {
            expression: expression?,
            message,
            message_expression,
            reason,
        })
    }
}

/// An annotation of the audit event.
#[derive(Debug, Clone)]
pub struct AuditAnnotation {
    /// The annotation's key, without the policy's name before it.
    pub key: Text,
    pub value_expression: Expression,
}

impl AuditAnnotation {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let key = fields.required_string("key");
        let value_expression = fields.required("valueExpression", Decoder::expression);
        fields.finish();
        Some(Self {
            key: key?,
            value_expression: value_expression?,
        })
    }
}

/// The kind of the parameter objects.
#[derive(Debug, Clone)]
pub struct ParamKind {
    /// Empty if absent.
    pub api_version: String,
    /// Empty if absent.
    pub kind: String,
    pub span: Span,
}

impl ParamKind {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let api_version = fields.string("apiVersion").map(|text| text.value).unwrap_or_default();
        let kind = fields.string("kind").map(|text| text.value).unwrap_or_default();
        fields.finish();
        Some(Self {
            api_version,
            kind,
            span,
        })
    }
}

/// Selects parameter objects.
#[derive(Debug, Clone)]
pub struct ParamRef {
    pub name: Option<Text>,
    /// The namespace of the parameters.
    pub namespace: Option<Text>,
    pub selector: Option<LabelSelector>,
    /// The treatment of a missing parameter: `Allow` or `Deny`, as written.
    pub parameter_not_found_action: Option<Text>,
    pub span: Span,
}

impl ParamRef {
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let reference = Self {
            name: fields.string("name"),
            namespace: fields.string("namespace"),
            selector: fields.optional("selector", LabelSelector::decode),
            parameter_not_found_action: fields.string("parameterNotFoundAction"),
            span,
        };
        fields.finish();
        Some(reference)
    }
}

/// The treatment of evaluation errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The request is admitted.
    Ignore,
    /// The request is denied.
    Fail,
}

pub(super) const FAILURE_POLICIES: [(&str, FailurePolicy); 2] =
    [("Ignore", FailurePolicy::Ignore), ("Fail", FailurePolicy::Fail)];

/// The treatment of violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValidationAction {
    /// The request is denied.
    Deny,
    /// The client gets a warning.
    Warn,
    /// The violation is recorded in the audit event.
    Audit,
}

impl ValidationAction {
    /// The value in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }

    /// Parses the value in policies.
    pub fn from_text(text: &str) -> Option<Self> {
        let action = VALIDATION_ACTIONS.iter().find(|(word, _)| *word == text);
        action.map(|(_, action)| *action)
    }
}

pub(super) const VALIDATION_ACTIONS: [(&str, ValidationAction); 3] = [
    ("Deny", ValidationAction::Deny),
    ("Warn", ValidationAction::Warn),
    ("Audit", ValidationAction::Audit),
];

/// The operators of conditions in the order of the schemas; the newer ones lack `In` and `NotIn`.
const OPERATORS: [&str; 16] = [
    "Equals",
    "NotEquals",
    "In",
    "AnyIn",
    "AllIn",
    "NotIn",
    "AnyNotIn",
    "AllNotIn",
    "GreaterThanOrEquals",
    "GreaterThan",
    "LessThanOrEquals",
    "LessThan",
    "DurationGreaterThanOrEquals",
    "DurationGreaterThan",
    "DurationLessThanOrEquals",
    "DurationLessThan",
];

/// Conditions with variables of the newer schemas: checked, and kept unchanged.
pub(super) fn conditions<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    conditions_of(decoder, node, false, false)
}

/// Like [`conditions`], with the two further operators of older schemas, and with other fields next to `any` and `all`
/// if the schema permits them: upstream's loader fails on them later.
pub(super) fn conditions_of<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, old: bool, others: bool) -> Option<Subtree> {
    let accepted = |word: &&&str| old || !["In", "NotIn"].contains(*word);
    let words: Vec<(&'static str, ())> = OPERATORS.iter().filter(accepted).map(|word| (*word, ())).collect();
    let mut fields = decoder.fields(node)?;
    for name in ["any", "all"] {
        fields.list(name, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.ignore(&["key", "value"]);
            fields.word("operator", &words);
            fields.string("message");
            fields.finish();
            Some(())
        });
    }
    if !others {
        fields.finish();
    } else if let Some(entry) = node
        .as_map()
        .and_then(|map| map.iter().find(|entry| !["any", "all"].contains(&entry.key)))
    {
        let message = format!("`{}` has `{}` next to `any` and `all`", decoder.path(), entry.key);
        let diagnostic = Diagnostic::at(Code::UnknownField, decoder.key_span(&entry), message);
        decoder.unreadable(diagnostic);
    }
    decoder.subtree(node)
}

/// Decodes match conditions, whose names are unique.
pub(super) fn match_conditions(fields: &mut Fields<'_, '_>, list: &'static str) -> Vec<MatchCondition> {
    let conditions = fields.list(list, MatchCondition::decode);
    unique_names(
        fields.decoder(),
        list,
        conditions.iter().map(|condition| &condition.name),
    );
    conditions
}

/// Decodes variables, whose names are unique.
pub(super) fn variables(fields: &mut Fields<'_, '_>) -> Vec<Variable> {
    let variables = fields.list("variables", Variable::decode);
    unique_names(
        fields.decoder(),
        "variables",
        variables.iter().map(|variable| &variable.name),
    );
    variables
}

/// Reports duplicates in a list of the spec whose items are identified by name.
fn unique_names<'a>(decoder: &mut Decoder<'_>, list: &str, names: impl Iterator<Item = &'a Text>) {
    let list = format!("spec.{list}");
    let names: Vec<&Text> = names.collect();
    for (i, name) in names.iter().enumerate() {
        if names[..i].iter().any(|other| other.value == name.value) {
            let name = go_json(&name.value);
            decoder.schema_problem(format!("{list}[{i}]: Duplicate value: {{\"name\":{name}}}"));
        }
    }
    unique(
        decoder,
        &list,
        names.iter().map(|name| (name.value.as_str(), name.span)),
    );
}

/// `enabled` of a switch.
pub(super) fn switch<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Spanned<bool>> {
    let mut fields = decoder.fields(node)?;
    let enabled = fields.bool("enabled");
    fields.finish();
    enabled
}

/// `enabled` of a switch, with the schema's default.
pub(super) fn enabled(fields: &mut Fields<'_, '_>, name: &'static str, default: bool) -> bool {
    let value = fields.optional(name, switch);
    value.map_or(default, |value| value.value)
}

/// `autogen.podControllers`.
pub(super) fn pod_controllers<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Vec<Text>> {
    let mut fields = decoder.fields(node)?;
    let controllers = fields.optional("controllers", Decoder::strings);
    fields.finish();
    controllers
}

/// `webhookConfiguration.timeoutSeconds`.
pub(super) fn timeout_seconds<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Spanned<i64>> {
    let mut fields = decoder.fields(node)?;
    let seconds = fields.int("timeoutSeconds");
    fields.finish();
    seconds
}

/// `x-kubernetes-list-type: set` and lists with a key: reports duplicates.
pub(super) fn unique<'a>(decoder: &mut Decoder<'_>, list: &str, texts: impl Iterator<Item = (&'a str, Span)>) {
    let mut seen: Vec<(&str, Span)> = Vec::new();
    for (text, span) in texts {
        match seen.iter().find(|(other, _)| *other == text) {
            Some((_, first)) => {
                let diagnostic =
                    Diagnostic::at(Code::DuplicateEntry, span, format!("`{list}` contains `{text}` twice"))
                        .with_label(*first, "the first one is here");
                decoder.error(diagnostic);
            }
            None => seen.push((text, span)),
        }
    }
}
