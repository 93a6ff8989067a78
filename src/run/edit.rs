//! Values that edit the object of a request: `request.object.metadata.labels.team: blue`.
//!
//! Upstream counterpart: `processor/policy_processor.go` `makePolicyContext` (1.19): values are put into the JSON
//! context, and the objects are read back from it. They affect classic policies only, and can add and replace, never
//! remove.

use serde_json::{Map, Value};

use crate::suite::{Named, Resource, Suite};
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::{Operation, Request};

/// The request as a classic policy sees it; `None` if no value edits it.
pub(super) fn edited(suite: &Suite, policy: &str, resource: &Resource, request: &Request) -> Option<Request> {
    let values = &suite.values;
    let own = values
        .policies
        .iter()
        .filter(|entry| entry.name.value == policy)
        .flat_map(|entry| &entry.resources)
        .filter(|entry| entry.name.value == resource.name)
        .flat_map(|entry| &entry.values);
    let mut edits = values.global_values.iter().chain(own).filter_map(patch).peekable();
    edits.peek()?;
    let mut context = serde_json::json!({
        "object": request.object.root().to_serde(),
        "oldObject": request.old_object.root().to_serde(),
    });
    for edit in edits {
        merge(&mut context, edit);
    }
    let mut request = request.clone();
    let read = |key: &str| context.get(key).filter(|value| value.is_object()).map(Document::from);
    if matches!(request.operation, Operation::Create | Operation::Update) {
        request.object = read("object").unwrap_or_else(Document::null);
    }
    if matches!(request.operation, Operation::Update | Operation::Delete) {
        request.old_object = read("oldObject").unwrap_or_else(Document::null);
    }
    Some(request)
}

/// The change of a value to `request`, if it affects one of its objects.
fn patch((key, value): &Named) -> Option<Value> {
    let path = split(&key.value);
    let (first, rest) = path.split_first()?;
    if first != "request" {
        return None;
    }
    let mut value = value.value.root().to_serde();
    for part in rest.iter().rev() {
        let mut map = Map::new();
        map.insert(part.clone(), value);
        value = Value::Object(map);
    }
    let map = value.as_object_mut()?;
    map.retain(|key, _| key == "object" || key == "oldObject");
    (!map.is_empty()).then_some(value)
}

/// Splits a path at its dots; a quoted part may contain dots.
fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut letters = path.chars().peekable();
    while let Some(c) = letters.next() {
        let Some(part) = parts.last_mut() else { break };
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                part.push('"');
            }
            '"' if quoted || part.is_empty() => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c => part.push(c),
        }
    }
    parts
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}
