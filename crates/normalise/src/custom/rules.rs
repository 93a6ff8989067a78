//! Rules of custom resources: `x-kubernetes-validations` at every level of the schema.
//!
//! Upstream counterpart: `pkg/apiserver/schema/cel/validation.go` of apiextensions-apiserver 0.36. This module finds the
//! rules with the values that they see; the caller evaluates the expressions ([`RuleCheck`]).
//!
//! Known deviations: the cost of all rules together is not limited, only that of each; rules inside `allOf` are not run.

use kyvtest_go_compat::value::{Builder, Document, Value};

use super::{flag, texts};
use crate::{Cause, Reason, node::Node};

/// An expression of a rule with its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'r> {
    pub expression: &'r str,
    /// The schema that the rule is part of; it gives `self` its types.
    pub schema: Value<'r>,
    /// Whether `self` is a whole object with `apiVersion`, `kind` and `metadata`.
    pub resource: bool,
    pub value: Value<'r>,
    /// The value before an UPDATE.
    pub old: Option<Value<'r>>,
    /// Whether `oldSelf` is an optional value.
    pub optional_old: bool,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleValue {
    /// Whether the rule holds.
    Bool(bool),
    /// The text of a message expression.
    Text(String),
}

/// Evaluates an expression; `Err` holds the message of a compilation or evaluation error.
pub type RuleCheck = fn(&Rule<'_>) -> Result<RuleValue, String>;

/// Runs the rules of an object. `old` is the stored object of an UPDATE.
pub(super) fn run(schema: Value<'_>, node: &Node<'_>, old: Option<&Node<'_>>, check: RuleCheck) -> Vec<Cause> {
    let mut runner = Runner {
        errors: Vec::new(),
        check,
    };
    runner.value(schema, node, old, "", true);
    runner.errors
}

struct Runner {
    errors: Vec<Cause>,
    check: RuleCheck,
}

impl Runner {
    fn value(&mut self, schema: Value<'_>, node: &Node<'_>, old: Option<&Node<'_>>, path: &str, root: bool) {
        let old = old.filter(|old| !matches!(old, Node::Null));
        if matches!(node, Node::Null) {
            return;
        }
        self.own_rules(schema, node, old, path, root);
        match node {
            Node::Map(entries) => {
                let more = schema.get("additionalProperties");
                for (key, value) in entries {
                    let before = old.and_then(|old| old.get(key));
                    let separator = if path.is_empty() { "" } else { "." };
                    if let Some(own) = schema.get("properties").and_then(|all| all.get(key)) {
                        self.value(own, value, before, &format!("{path}{separator}{key}"), false);
                    } else if let Some(own) = more {
                        self.value(own, value, before, &format!("{path}[{key}]"), false);
                    }
                }
            }
            Node::List(items) => {
                if let Some(own) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        let before = old.and_then(|old| counterpart(schema, item, old));
                        self.value(own, item, before, &format!("{path}[{index}]"), false);
                    }
                }
            }
            _ => {}
        }
    }

    fn own_rules(&mut self, schema: Value<'_>, node: &Node<'_>, old: Option<&Node<'_>>, path: &str, root: bool) {
        let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_list) else {
            return;
        };
        // An update may keep a value that violates a rule, unless the rule is about the change.
        let unchanged = old.is_some_and(|old| old.same(node));
        let (own, before) = (document(node), old.map(document));
        for rule in rules.iter() {
            let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or("");
            let is_transition = text("rule").contains("oldSelf");
            let optional_old = flag(rule, "optionalOldSelf");
            if is_transition && old.is_none() && !optional_old || unchanged && !is_transition {
                continue;
            }
            let seen = Rule {
                expression: text("rule"),
                schema,
                resource: root || flag(schema, "x-kubernetes-embedded-resource"),
                value: own.root(),
                old: before.as_ref().map(Document::root),
                optional_old,
            };
            self.rule(rule, &seen, path);
        }
    }

    fn rule(&mut self, rule: Value<'_>, seen: &Rule<'_>, path: &str) {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or("").trim();
        if text("rule").is_empty() {
            return;
        }
        let fixed = text("message");
        let name = if fixed.is_empty() { text("rule") } else { fixed };
        let (at, reason, detail) = match (self.check)(seen) {
            Ok(RuleValue::Bool(true)) => return,
            Err(error) => {
                let kind = seen.schema.get("type").and_then(Value::as_str).unwrap_or_default();
                (
                    "",
                    Reason::Invalid,
                    format!("\"{kind}\": {}", runtime_error(&error, name)),
                )
            }
            Ok(_) => {
                let reason = match text("reason") {
                    "FieldValueRequired" => Reason::Required,
                    "FieldValueForbidden" => Reason::Forbidden,
                    "FieldValueDuplicate" => Reason::Duplicate,
                    _ => Reason::Invalid,
                };
                let detail = self.message(text("messageExpression"), seen).unwrap_or_else(|| {
                    if fixed.is_empty() {
                        format!("failed rule: {name}")
                    } else {
                        fixed.to_owned()
                    }
                });
                (text("fieldPath"), reason, with_value(reason, seen.value, detail))
            }
        };
        let field = format!("{path}{at}");
        let field = field.trim_start_matches('.');
        self.errors.push(Cause {
            field: if field.is_empty() { "<nil>" } else { field }.to_owned(),
            reason,
            detail,
        });
    }

    /// The result of a message expression; `None` if there is none, or its result cannot be used.
    fn message(&self, expression: &str, seen: &Rule<'_>) -> Option<String> {
        if expression.is_empty() {
            return None;
        }
        match (self.check)(&Rule { expression, ..*seen }) {
            Ok(RuleValue::Text(text)) if !text.trim().is_empty() && !text.contains('\n') => Some(text),
            _ => None,
        }
    }
}

/// The detail of an error with the offending value; maps and lists are left out.
fn with_value(reason: Reason, value: Value<'_>, detail: String) -> String {
    let value = match value {
        Value::Map(_) | Value::List(_) => None,
        other => Some(other.to_json()),
    };
    match (reason, value) {
        (Reason::Invalid, Some(value)) => format!("{value}: {detail}"),
        (Reason::Duplicate, value) => value.unwrap_or_default(),
        _ => detail,
    }
}

/// The detail of a rule that cannot be evaluated. Upstream decides by the message (`validateExpressions` in
/// `pkg/apiserver/schema/cel/validation.go` of apiextensions-apiserver).
fn runtime_error(error: &str, rule: &str) -> String {
    if error.starts_with("no such overload") {
        let what = "call arguments did not match a supported operator, function or macro signature";
        format!("'{error}': {what} for rule: {rule}")
    } else if error.starts_with("operation cancelled: actual cost limit exceeded") {
        let what = "no further validation rules will be run due to call cost exceeds limit";
        format!("'{error}': {what} for rule: {rule}")
    } else {
        format!("{error} evaluating rule: {rule}")
    }
}

/// The element of the old list that an element replaces: the one with the same keys, in lists that have keys.
fn counterpart<'o, 'n>(schema: Value<'_>, item: &Node<'_>, old: &'o Node<'n>) -> Option<&'o Node<'n>> {
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map") {
        return None;
    }
    let Node::List(items) = old else { return None };
    let keys: Vec<&str> = texts(schema, "x-kubernetes-list-map-keys").collect();
    items.iter().find(|other| {
        keys.iter().all(|key| match (item.get(key), other.get(key)) {
            (Some(a), Some(b)) => a.same(b),
            (None, None) => true,
            _ => false,
        })
    })
}

fn document(node: &Node<'_>) -> Document {
    let mut out = Builder::new();
    node.write(&mut out);
    out.finish()
}

/// Whether a schema has rules at any level.
pub(super) fn any(schema: Value<'_>) -> bool {
    let own = schema.get("x-kubernetes-validations").and_then(Value::as_list);
    let below = schema.get("properties").and_then(Value::as_map);
    own.is_some_and(|rules| !rules.is_empty())
        || below.into_iter().flat_map(|all| all.iter()).any(|(_, own)| any(own))
        || ["items", "additionalProperties"]
            .iter()
            .any(|field| schema.get(field).is_some_and(any))
}
