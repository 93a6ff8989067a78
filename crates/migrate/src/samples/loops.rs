//! Elements that the preconditions of loops ask for: without them a loop over containers may never find an image that it is about.
//!
//! No upstream counterpart. Known limits: preconditions on plain paths of `element`, and on `starts_with`, `ends_with` and `contains`
//! of them.

use kyvtest_model::policy::Rule;
use serde_json::{Value as Json, json};

use super::{example, put};

/// For each loop of a mutate rule, an object whose list has an element for which the preconditions hold.
pub(super) fn parts(rule: &Rule) -> Vec<Json> {
    let Some(mutate) = &rule.mutate else {
        return Vec::new();
    };
    let mutate = mutate.document().root().to_serde();
    let loops = mutate["foreach"].as_array().into_iter().flatten();
    loops.filter_map(part).collect()
}

fn part(each: &Json) -> Option<Json> {
    let list = each["list"].as_str()?.trim().strip_prefix("request.object.")?;
    let list = list.trim_end_matches("[]");
    let mut element = json!({});
    for block in ["all", "any"] {
        for condition in each["preconditions"][block].as_array().into_iter().flatten() {
            if let Some((path, text)) = wanted(condition) {
                put(&mut element, path, json!(text));
            }
        }
    }
    if element.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let mut object = json!({});
    put(&mut object, list, json!([element]));
    Some(object)
}

/// A path of the element, and a text at this path with which the condition holds.
fn wanted(condition: &Json) -> Option<(&str, String)> {
    let key = condition["key"].as_str()?.trim();
    let key = key.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    if condition["operator"].as_str()?.contains("Not") {
        return None;
    }
    if let Some(path) = key.strip_prefix("element.") {
        let value = match &condition["value"] {
            Json::Array(items) => items.first()?,
            value => value,
        };
        return Some((path, example(value.as_str()?)));
    }
    if condition["value"] != json!(true) {
        return None;
    }
    let (function, arguments) = key.strip_suffix(')')?.split_once('(')?;
    let (path, text) = arguments.split_once(',')?;
    let path = path.trim().strip_prefix("element.")?;
    let text = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let found = match function {
        // An image with a tag.
        "starts_with" => format!("{text}x:1"),
        "ends_with" => format!("x{text}"),
        "contains" => format!("x{text}x"),
        _ => return None,
    };
    Some((path, found))
}
