//! What JSON patches ask for: a replacement, a removal or a copy fails without the value that it names.
//!
//! No upstream counterpart. Known limits: paths through lists, and patches outside of loops only.

use kyvtest_go_compat::value::Document;
use kyvtest_model::policy::Rule;
use kyvtest_prove::seeds::merge;
use serde_json::{Map, Value as Json, json};

/// An object with the values that the operations of a rule's patch need.
pub(super) fn part(rule: &Rule) -> Option<Json> {
    let mutate = rule.mutate.as_ref()?.document().root().to_serde();
    let text = mutate["patchesJson6902"].as_str()?;
    let operations = Document::from_yaml(text).ok()?.root().to_serde();
    let parts = operations.as_array()?.iter().filter_map(needed);
    parts.reduce(|all, part| merge(&all, &part))
}

/// The value that an operation needs, at its place.
fn needed(operation: &Json) -> Option<Json> {
    let (field, value) = match operation["op"].as_str()? {
        "replace" => ("path", another(&operation["value"])),
        "remove" => ("path", json!("x")),
        "test" => ("path", operation["value"].clone()),
        "copy" | "move" => ("from", json!("x")),
        _ => return None,
    };
    let keys: Vec<String> = operation[field]
        .as_str()?
        .strip_prefix('/')?
        .split('/')
        .map(key)
        .collect();
    let is_plain = |key: &String| !key.contains("{{") && key != "-" && key.parse::<usize>().is_err();
    let object = |inner: Json, key: String| Json::Object(Map::from_iter([(key, inner)]));
    keys.iter()
        .all(is_plain)
        .then(|| keys.into_iter().rev().fold(value, object))
}

/// Another value of the same type.
fn another(value: &Json) -> Json {
    match value {
        Json::Object(_) => json!({}),
        Json::Array(_) => json!([]),
        Json::Bool(value) => json!(!value),
        Json::Number(_) => json!(1),
        Json::String(_) | Json::Null => json!("x"),
    }
}

fn key(escaped: &str) -> String {
    escaped.replace("~1", "/").replace("~0", "~")
}
