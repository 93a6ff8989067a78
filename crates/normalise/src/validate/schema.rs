//! Schemas in custom resource definitions.
//!
//! Upstream counterpart: `ValidateCustomResourceDefinitionOpenAPISchema` in
//! `pkg/apis/apiextensions/validation/validation.go`, `pkg/apiserver/schema/validation.go`.
//!
//! Known deviation: the separation of value validations from structure (`allOf`, `anyOf`, …) and the cost of rules are
//! not checked.

use super::{Checker, Path};
use crate::node::Node;

/// Checks the schema of a version.
pub(super) fn root(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.bool("nullable") {
        checker.forbidden(&path.field("nullable"), "nullable cannot be true at the root");
    }
    let structural = is_structural(node);
    if structural {
        match node.str("type") {
            "" => checker.required(&path.field("type"), "must not be empty at the root"),
            "object" => {}
            other => checker.invalid(&path.field("type"), other, "must be object at the root"),
        }
        if node.has("additionalProperties") {
            checker.forbidden(&path.field("additionalProperties"), "must not be used at the root");
        }
    }
    let position = Position { top: true, structural };
    schema(checker, node, path, position);
}

/// Fields that no schema may have.
const UNSUPPORTED: &[&str] = &["definitions", "dependencies", "id", "patternProperties", "$ref"];

fn is_used(node: &Node<'_>, field: &str) -> bool {
    node.get(field)
        .is_some_and(|value| field == "$ref" || !value.is_empty())
}

/// Whether upstream can build a structural schema, and so checks its structure.
fn is_structural(node: &Node<'_>) -> bool {
    let own = !UNSUPPORTED.iter().any(|field| is_used(node, field))
        && node.get("x-kubernetes-preserve-unknown-fields") != Some(&Node::Bool(false))
        && !matches!(node.get("items"), Some(Node::List(_)));
    own && node.map("properties").iter().all(|(_, own)| is_structural(own))
        && ["items", "additionalProperties"]
            .iter()
            .all(|field| node.get(field).is_none_or(is_structural))
}

/// Where a schema is.
#[derive(Clone, Copy)]
struct Position {
    /// At the root of the definition.
    top: bool,
    /// In a definition whose structure is checked.
    structural: bool,
}

fn schema(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>, position: Position) {
    for field in UNSUPPORTED {
        if is_used(node, field) {
            checker.forbidden(&path.field(field), &format!("{field} is not supported"));
        }
    }
    if node.bool("uniqueItems") {
        checker.forbidden(
            &path.field("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    types(checker, node, path);
    if position.structural {
        structure(checker, node, path, position.top);
    }
    let below = Position { top: false, ..position };
    extensions(checker, node, path);
    rules(checker, node, path);
    if let Some(more) = node.get("additionalProperties") {
        if matches!(more, Node::Bool(false)) {
            checker.forbidden(
                &path.field("additionalProperties"),
                "additionalProperties cannot be set to false",
            );
        }
        if !node.map("properties").is_empty() {
            checker.forbidden(
                &path.field("additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            );
        }
        if let Node::Map(_) = more {
            schema(checker, more, &path.field("additionalProperties"), below);
        }
    }
    for (name, own) in node.map("properties") {
        let at = path.field("properties");
        schema(checker, own, &at.key(name), below);
    }
    match node.get("items") {
        Some(items @ Node::Map(_)) => schema(checker, items, &path.field("items"), below),
        Some(Node::List(_)) => {
            checker.forbidden(&path.field("items"), "items must be a schema object and not an array");
        }
        _ => {}
    }
}

fn types(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
    let kind = node.str("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        checker.unsupported(&path.field("type"), kind, TYPES);
    }
}

/// Every value below the root needs a type.
fn structure(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>, top: bool) {
    let kind = node.str("type");
    let free = node.bool("x-kubernetes-int-or-string") || node.bool("x-kubernetes-preserve-unknown-fields");
    if kind.is_empty() && !top && !free {
        checker.required(&path.field("type"), "must not be empty for specified object fields");
    }
    if kind == "array" && !node.has("items") {
        checker.required(&path.field("items"), "must be specified");
    }
    if node.bool("x-kubernetes-int-or-string") && !kind.is_empty() {
        checker.invalid(
            &path.field("type"),
            kind,
            "must be empty if x-kubernetes-int-or-string is true",
        );
    }
    if node.bool("x-kubernetes-embedded-resource") && kind != "object" {
        checker.invalid(
            &path.field("type"),
            kind,
            "must be object if x-kubernetes-embedded-resource is true",
        );
    }
    if node.bool("x-kubernetes-embedded-resource")
        && !node.bool("x-kubernetes-preserve-unknown-fields")
        && node.map("properties").is_empty()
    {
        checker.required(
            &path.field("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

fn extensions(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.get("x-kubernetes-preserve-unknown-fields") == Some(&Node::Bool(false)) {
        checker.invalid(
            &path.field("x-kubernetes-preserve-unknown-fields"),
            "false",
            "must be true or undefined",
        );
    }
    let kind = node.str("type");
    let keys = node.list("x-kubernetes-list-map-keys");
    let at = path.field("x-kubernetes-list-type");
    match node.get("x-kubernetes-list-type").map(Node::as_str) {
        None => {
            if !keys.is_empty() {
                checker.required(&at, "must be map if x-kubernetes-list-map-keys is non-empty");
            }
        }
        Some(own) => {
            if kind != "array" {
                let detail = "must be array if x-kubernetes-list-type is specified";
                if kind.is_empty() {
                    checker.required(&path.field("type"), detail);
                } else {
                    checker.invalid(&path.field("type"), kind, detail);
                }
            }
            if !matches!(own, "atomic" | "map" | "set") {
                checker.unsupported(&at, own, &["atomic", "map", "set"]);
            }
            if own == "map" && keys.is_empty() {
                let detail = "must not be empty if x-kubernetes-list-type is map";
                checker.required(&path.field("x-kubernetes-list-map-keys"), detail);
            }
            if own != "map" && !keys.is_empty() {
                checker.invalid(&at, own, "must be map if x-kubernetes-list-map-keys is non-empty");
            }
        }
    }
    if let Some(own) = node.get("x-kubernetes-map-type").map(Node::as_str) {
        let at = path.field("x-kubernetes-map-type");
        if kind != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            if kind.is_empty() {
                checker.required(&path.field("type"), detail);
            } else {
                checker.invalid(&path.field("type"), kind, detail);
            }
        }
        if !matches!(own, "atomic" | "granular") {
            checker.unsupported(&at, own, &["atomic", "granular"]);
        }
    }
}

fn rules(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const REASONS: &[&str] = &[
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    for (index, rule) in node.list("x-kubernetes-validations").iter().enumerate() {
        let at = path.field("x-kubernetes-validations");
        let at = at.index(index);
        let text = rule.str("rule");
        if text.trim().is_empty() {
            checker.required(&at.field("rule"), "rule is not specified");
        }
        let message = rule.str("message");
        if !message.is_empty() && message.trim().is_empty() {
            checker.invalid(&at.field("message"), message, "message must be non-empty if specified");
        } else if message.trim().contains('\n') {
            checker.invalid(&at.field("message"), message, "message must not contain line breaks");
        }
        if let Some(reason) = rule.get("reason").map(Node::as_str)
            && !REASONS.contains(&reason)
        {
            checker.unsupported(&at.field("reason"), reason, REASONS);
        }
        if rule.has("optionalOldSelf") && !text.trim().is_empty() && !text.contains("oldSelf") {
            checker.invalid(
                &at.field("optionalOldSelf"),
                "",
                "may not be set if oldSelf is not used in rule",
            );
        }
        let target = rule.str("fieldPath");
        if !target.trim().is_empty() && !is_field(node, target) {
            checker.invalid(&at.field("fieldPath"), target, "must be a valid path");
        }
        let expression = rule.str("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            checker.required(
                &at.field("messageExpression"),
                "messageExpression must be non-empty if specified",
            );
        }
    }
}

/// Whether a path such as `.spec['a.b'].c` leads to a field of a schema.
fn is_field(schema: &Node<'_>, path: &str) -> bool {
    let mut rest = path;
    let mut at = schema;
    while !rest.is_empty() {
        let name = if let Some(quoted) = rest.strip_prefix("['") {
            let Some((name, after)) = quoted.split_once("']") else {
                return false;
            };
            rest = after;
            name
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            rest = &after[end..];
            &after[..end]
        } else {
            return false;
        };
        let property = at.get("properties").and_then(|properties| properties.get(name));
        let more = at
            .get("additionalProperties")
            .filter(|more| matches!(more, Node::Map(_)));
        match property.or(more) {
            Some(own) => at = own,
            None => return false,
        }
    }
    true
}
