//! `preconditions` of a rule and `deny.conditions`: complete, with known operators and, for the operation, known
//! values.

use crate::policy::Rule;
use kyvtest_go_compat::yaml::{Items, Kind, Node, Number};

/// The operators, sorted; upstream lists them in random order.
const OPERATORS: [&str; 18] = [
    "AllIn",
    "AllNotIn",
    "AnyIn",
    "AnyNotIn",
    "DurationGreaterThan",
    "DurationGreaterThanOrEquals",
    "DurationLessThan",
    "DurationLessThanOrEquals",
    "Equal",
    "Equals",
    "GreaterThan",
    "GreaterThanOrEquals",
    "In",
    "LessThan",
    "LessThanOrEquals",
    "NotEqual",
    "NotEquals",
    "NotIn",
];

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// A problem in a condition: the path and the message.
type Fault = (String, String);

/// Checks the conditions of an effective rule.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(rule: &Rule, i: usize) -> Result<(), String> {
    let error = |(place, error): Fault| format!("path: spec.rules[{i}].{place}: {error}");
    let deny = rule.validate.as_ref().and_then(|validate| validate.deny.as_ref());
    let preconditions = rule.preconditions.as_ref().map(|part| part.node());
    whole(preconditions, "validate.preconditions").map_err(error)?;
    whole(
        deny.and_then(|deny| deny.node().get("conditions")),
        "validate.deny.conditions",
    )
    .map_err(error)?;
    if let Some(foreach) = rule.validate.as_ref().and_then(|validate| validate.foreach.as_ref()) {
        loops(foreach.node(), "validate.foreach").map_err(error)?;
    }
    if let Some(foreach) = rule.mutate.as_ref().and_then(|mutate| mutate.node().get("foreach")) {
        loops(foreach, "mutate.foreach").map_err(error)?;
    }
    let images = rule.verify_images.as_ref().and_then(|images| images.node().as_seq());
    for image in images.into_iter().flat_map(Items::iter) {
        let deny = image.get("validate").and_then(|validate| validate.get("deny"));
        let conditions = deny.and_then(|deny| deny.get("conditions"));
        whole(conditions, "imageVerify.validate.deny.conditions").map_err(error)?;
    }
    Ok(())
}

/// Checks conditions that must be complete.
fn whole(node: Option<Node<'_>>, name: &str) -> Result<(), Fault> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return Ok(());
    };
    for (place, condition) in conditions(node) {
        complete(condition).map_err(|(field, error)| (format!("{name}{place}.{field}"), error))?;
    }
    for (place, condition) in conditions(node) {
        operator(condition).map_err(|(field, error)| {
            // Upstream calls an operator in `all` one in `any`.
            let place = place.replace(".all", ".any");
            (format!("{name}{place}.{field}"), error)
        })?;
    }
    Ok(())
}

/// Checks the operators in the conditions of loops, nested ones included.
fn loops(foreach: Node<'_>, path: &str) -> Result<(), Fault> {
    for entry in foreach.as_seq().into_iter().flat_map(Items::iter) {
        let part = |node: Option<Node<'_>>, place: &str| -> Result<(), Fault> {
            let Some(node) = node.filter(|node| !node.is_null()) else {
                return Ok(());
            };
            for (at, condition) in conditions(node) {
                operator(condition).map_err(|(field, error)| {
                    let at = at.replace(".all", ".any");
                    (format!("{path}.{place}{at}.{field}"), error)
                })?;
            }
            Ok(())
        };
        part(entry.get("preconditions"), "conditions")?;
        let deny = entry.get("deny").and_then(|deny| deny.get("conditions"));
        part(deny, "deny.conditions")?;
        if let Some(nested) = entry.get("foreach") {
            loops(nested, path).map_err(|(place, error)| (format!("{path}.{place}"), error))?;
        }
    }
    Ok(())
}

/// The conditions of a list, or of `any` and `all`, each with its path.
fn conditions(node: Node<'_>) -> Vec<(String, Node<'_>)> {
    let items = |node: Option<Node<'_>>, place: &str| -> Vec<(String, _)> {
        let items = node.and_then(Node::as_seq).into_iter().flat_map(Items::iter);
        items
            .enumerate()
            .map(|(i, item)| (format!("{place}[{i}]"), item.id()))
            .collect()
    };
    let found = if node.as_seq().is_some() {
        items(Some(node), "")
    } else {
        let mut found = items(node.get("any"), ".any");
        found.extend(items(node.get("all"), ".all"));
        found
    };
    let tree = node.tree();
    found.into_iter().map(|(place, id)| (place, tree.node(id))).collect()
}

fn complete(condition: Node<'_>) -> Result<(), Fault> {
    let part = |name: &str| condition.get(name).filter(|value| !value.is_null());
    let operator = part("operator").and_then(Node::as_str).unwrap_or_default();
    let (Some(key), Some(value), false) = (part("key"), part("value"), operator.is_empty()) else {
        return Err((
            String::new(),
            "entered value of `key`, `value` or `operator` is missing or misspelled".to_owned(),
        ));
    };
    match key.as_str() {
        Some(key) if key.replace(' ', "") == "{{request.operation}}" => operation(value),
        _ => Ok(()),
    }
}

fn operation(value: Node<'_>) -> Result<(), Fault> {
    let unknown = |word: &str| {
        format!(
            "unknown value '{word}' found under the 'value' field. Only the following values are allowed: [CREATE, \
             UPDATE, DELETE, CONNECT]"
        )
    };
    match value.kind() {
        Kind::Str(word) => {
            let is_variable = word.len() >= 4 && word.starts_with("{{") && word.ends_with("}}");
            if is_variable || OPERATIONS.contains(&word) {
                return Ok(());
            }
            Err((format!("value: {word}"), unknown(word)))
        }
        Kind::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                match item.as_str() {
                    Some(word) if OPERATIONS.contains(&word) => {}
                    Some(word) => return Err((format!("value[{i}]"), unknown(word))),
                    None => {
                        let error = format!(
                            "'value[{i}]' found to be of the type {}. The provided values are expected to be strings",
                            go_type(item)
                        );
                        return Err((format!("value[{i}]"), error));
                    }
                }
            }
            Ok(())
        }
        _ => Err((
            "value".to_owned(),
            format!(
                "'value' field found to be of the type {}. The provided value/values are expected to be either in the \
                 form of a string or list",
                if value.as_map().is_some() {
                    "map"
                } else {
                    go_type(value)
                }
            ),
        )),
    }
}

fn go_type(node: Node<'_>) -> &'static str {
    match (node.kind(), node.number()) {
        (_, Some(Number::Int(_))) => "int64",
        (_, Some(Number::Float(_))) => "float64",
        (Kind::Bool(_), _) => "bool",
        (Kind::Str(_), _) => "string",
        (Kind::Seq(_), _) => "[]interface {}",
        (Kind::Map(_), _) => "map[string]interface {}",
        _ => "<nil>",
    }
}

fn operator(condition: Node<'_>) -> Result<(), Fault> {
    let word = condition.get("operator").and_then(Node::as_str).unwrap_or_default();
    if OPERATORS.contains(&word) {
        return Ok(());
    }
    let all: Vec<String> = OPERATORS.iter().map(|word| format!("\"{word}\"")).collect();
    let error = format!(
        "entered value of `operator` is invalid. valid values: [{}]",
        all.join(" ")
    );
    Err((String::new(), error))
}

/// The items of a list, if there is one.
fn items(list: Option<Node<'_>>) -> impl Iterator<Item = Node<'_>> {
    list.and_then(Node::as_seq).into_iter().flat_map(Items::iter)
}

/// Warns about the two deprecated operators, in `deny` and in the conditions of loops.
pub(super) fn deprecated(rule: &Rule, warnings: &mut Vec<String>) {
    let source = rule.source.node();
    let validate = source.get("validate");
    let deny = validate.and_then(|validate| validate.get("deny"));
    let mut parts = vec![deny.and_then(|deny| deny.get("conditions"))];
    for entry in items(validate.and_then(|validate| validate.get("foreach"))) {
        parts.push(entry.get("preconditions"));
        parts.push(entry.get("deny").and_then(|deny| deny.get("conditions")));
    }
    for image in items(source.get("verifyImages")) {
        for attestation in items(image.get("attestations")) {
            parts.extend(items(attestation.get("conditions")).map(Some));
        }
    }
    for (_, condition) in parts.into_iter().flatten().flat_map(conditions) {
        let word = condition.get("operator").and_then(Node::as_str).unwrap_or_default();
        let instead = match word {
            "In" => "[\"AllIn\" \"AnyIn\"]",
            "NotIn" => "[\"AllNotIn\" \"AnyNotIn\"]",
            _ => continue,
        };
        warnings.push(format!(
            "Operator {word} has been deprecated and will be removed soon. Use these instead: {instead}"
        ));
    }
}
