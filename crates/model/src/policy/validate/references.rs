//! References (`$(./../field)`) to other fields of a rule: checks that the fields exist.
//!
//! Upstream counterpart: `substituteReferences` in `pkg/engine/variables/vars.go`.

use super::variables::walk;
use crate::policy::Anchor;
use kyvtest_go_compat::{
    text::{path::join, variable},
    yaml::{Kind, Node},
};

/// Follows every reference of a rule.
///
/// # Errors
/// The first reference to a missing field or to something other than a string, with upstream's message.
pub(super) fn check(rule: Node<'_>) -> Result<(), String> {
    walk(rule, &mut |text, path| {
        for span in variable::references(text) {
            let whole = &text[span];
            let reference = whole.find("$(").map_or(whole, |at| &whole[at..]);
            follow(rule, reference, path)?;
        }
        Ok(())
    })
}

fn follow(rule: Node<'_>, reference: &str, path: &str) -> Result<(), String> {
    let trimmed = reference.trim_matches(['$', '(', ')']);
    let operators = [">=", "<=", ">", "<", "!"];
    let operator = operators
        .into_iter()
        .find(|operator| trimmed.len() > 1 && trimmed.starts_with(operator));
    let target = &trimmed[operator.map_or(0, str::len)..];
    if target.is_empty() {
        return Err(format!(
            "failed to resolve {reference} at path {path}: expected path, found empty reference"
        ));
    }
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        join(path, target)
    };
    let found = find(rule, "", &target);
    match (found, operator) {
        (Some(Target::Text), _) | (Some(Target::Number), Some(_)) => Ok(()),
        (None | Some(Target::Null), None) => {
            Err(format!("got nil resolved variable {reference} at path {path}: <nil>"))
        }
        (Some(_), None) => Err(format!(
            "NotResolvedReferenceErr,reference {reference} not resolved at path {path}"
        )),
        (found, Some(operator)) => {
            let value = match found {
                Some(Target::Bool(value)) => value.to_string(),
                _ => "<nil>".to_owned(),
            };
            Err(format!(
                "failed to resolve {reference} at path {path}: incorrect expression: operator {operator} does not match \
                 with value {value}"
            ))
        }
    }
}

/// The target of a reference.
enum Target {
    Text,
    Number,
    Bool(bool),
    Null,
}

/// The value at a path: a scalar, or some key of a map.
fn find(node: Node<'_>, path: &str, target: &str) -> Option<Target> {
    let here = path == target;
    match node.kind() {
        Kind::Str(_) => here.then_some(Target::Text),
        Kind::Int(_) | Kind::Uint(_) | Kind::Float(_) => here.then_some(Target::Number),
        Kind::Bool(value) => here.then_some(Target::Bool(value)),
        Kind::Null => here.then_some(Target::Null),
        Kind::Seq(items) => items
            .iter()
            .enumerate()
            .find_map(|(i, item)| find(item, &format!("{path}/{i}"), target)),
        Kind::Map(entries) => entries.iter().find_map(|entry| {
            if here {
                return Some(Target::Text);
            }
            find(entry.value, &format!("{path}/{}", without_anchor(entry.key)), target)
        }),
    }
}

/// `key` for `(key)`, `=(key)`, `X(key)` and similar anchors.
fn without_anchor(key: &str) -> &str {
    Anchor::parse(key).map_or(key, |anchor| anchor.key)
}
