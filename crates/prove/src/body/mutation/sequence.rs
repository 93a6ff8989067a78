//! Mutate rules one after the other: whether a rule notices what rules before it made of the object.
//!
//! Upstream counterpart: the loop over the rules of a policy in `pkg/engine/mutation.go` (1.19), which gives every rule the
//! object that the one before returned, for matching, variables and patches.
//!
//! Known limits: decided by what rules mention, without a look at values.

use kyvtest_go_compat::value::Document;
use kyvtest_model::policy::Rule;
use kyvtest_pattern::Anchor;
use serde_json::Value as Json;

/// Whether a rule reads of the object only what its patch is about: it has no variables, no conditions, no context and no loops,
/// and matches without a look at labels, annotations and names.
pub(super) fn is_blind(rule: &Rule) -> bool {
    let source = rule.source.document().root().to_serde();
    let text = source.to_string();
    let absent = ["preconditions", "context", "celPreconditions"];
    !text.contains("{{")
        && !text.contains("$(")
        && absent.iter().all(|part| source[part].is_null())
        && source["mutate"]["foreach"].is_null()
        && !["match", "exclude"].iter().any(|part| reads_content(&source[part]))
}

/// Whether a match block reads what patches may change.
fn reads_content(block: &Json) -> bool {
    match block {
        Json::Object(entries) => entries.iter().any(|(key, value)| {
            matches!(key.as_str(), "selector" | "annotations" | "name" | "names") && !value.is_null()
                || key != "subjects" && reads_content(value)
        }),
        Json::Array(items) => items.iter().any(reads_content),
        _ => false,
    }
}

/// Whether a rule changes nothing that identifies the object, and leaves lists whose elements have different keys: a strategic
/// merge after it then finds an object that it need not tidy up.
pub(super) fn is_plain(rule: &Rule) -> bool {
    let mutate = rule.mutate.as_ref().map(|mutate| mutate.document().root().to_serde());
    let mutate = mutate.unwrap_or_default();
    if !mutate["foreach"].is_null() {
        return false;
    }
    match (&mutate["patchStrategicMerge"], mutate["patchesJson6902"].as_str()) {
        (Json::Object(entries), None | Some("")) => {
            let is_content = entries.iter().all(|(key, value)| match plain(key) {
                "metadata" => is_metadata(value),
                "apiVersion" | "kind" | "status" => false,
                _ => true,
            });
            is_content && entries.values().all(has_single_elements)
        }
        (Json::Null, Some(text)) => {
            let operations = Document::from_yaml(text).map(|document| document.root().to_serde());
            let Ok(Json::Array(operations)) = operations else {
                return false;
            };
            let own = ["/metadata/labels/", "/metadata/annotations/"];
            operations.iter().all(|operation| {
                let path = operation["path"].as_str().unwrap_or_default();
                operation["from"].is_null() && own.iter().any(|start| path.starts_with(start))
            })
        }
        _ => false,
    }
}

/// A key without its anchor.
fn plain(key: &str) -> &str {
    Anchor::parse(key).map_or(key, |anchor| anchor.key)
}

fn is_metadata(value: &Json) -> bool {
    value.as_object().is_some_and(|entries| {
        let mut keys = entries.keys().map(|key| plain(key));
        keys.all(|key| matches!(key, "labels" | "annotations"))
    })
}

/// Whether no list of a patch has several elements.
fn has_single_elements(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.len() <= 1 && items.iter().all(has_single_elements),
        Json::Object(entries) => entries.values().all(has_single_elements),
        _ => true,
    }
}
