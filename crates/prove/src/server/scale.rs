//! The scale of a stored object.
//!
//! Upstream counterpart: `scaleFromDeployment` and its like in `pkg/registry/apps/*/storage`, Kubernetes 1.36.

use std::borrow::Cow;

use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::kube::Request;
use serde_json::{Value as Json, json};

/// The old object of a request; that of a request for a scale is the scale of the stored object.
pub(super) fn stored(request: &Request) -> Cow<'_, Document> {
    let old = request.old_object.root();
    let kind = old.get("kind").and_then(Value::as_str);
    if request.resource.subresource != "scale" || old.is_null() || kind == Some("Scale") {
        return Cow::Borrowed(&request.old_object);
    }
    let at = |path: &[&str]| old.at(path).map_or(Json::Null, Value::to_serde);
    let mut metadata = at(&["metadata"]);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.retain(|field, _| {
            matches!(
                field.as_str(),
                "name" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
            )
        });
    }
    let mut status = json!({"replicas": at(&["status", "replicas"])});
    let selector = selector(old);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(&["spec", "replicas"])},
        "status": status,
    });
    Cow::Owned(Document::from(&scale))
}

/// The selector as text: requirements in the order of their keys.
fn selector(object: Value<'_>) -> String {
    let Some(selector) = object.at(&["spec", "selector"]) else {
        return String::new();
    };
    let mut requirements: Vec<(String, String)> = Vec::new();
    // Replication controllers have labels without `matchLabels`.
    let labels = selector.get("matchLabels").or_else(|| {
        let is_old = object.get("kind").and_then(Value::as_str) == Some("ReplicationController");
        is_old.then_some(selector)
    });
    for (key, value) in labels
        .and_then(Value::as_map)
        .into_iter()
        .flat_map(|labels| labels.iter())
    {
        let key = key.text().to_owned();
        let text = format!("{key}={}", value.as_str().unwrap_or_default());
        requirements.push((key, text));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_list);
    for expression in expressions.into_iter().flat_map(|list| list.iter()) {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_list);
        let mut values: Vec<&str> = values
            .into_iter()
            .flat_map(|list| list.iter())
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let (key, values) = (text("key"), values.join(","));
        let requirement = match text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        requirements.push((key.to_owned(), requirement));
    }
    requirements.sort_by(|(a, _), (b, _)| a.cmp(b));
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    texts.join(",")
}
