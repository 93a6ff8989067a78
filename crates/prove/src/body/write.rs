//! Policies and exceptions as objects: what [`load`](super::load) reads.
//!
//! No upstream counterpart. Known deviation: metadata that engines ignore is left out.

use serde_json::{Map, Value as Json, json};

use kyvtest_convert::Exceptions;
use kyvtest_model::policy::{Metadata, Policy, Subtree};

/// A policy as an object; null unless it is a Kyverno policy that validates.
pub fn policy_object(policy: &Policy) -> Json {
    policy.spec().map_or(Json::Null, |spec| {
        object(policy.api_version(), policy.kind(), policy.metadata(), spec)
    })
}

pub fn exception_objects(exceptions: Exceptions<'_>) -> Vec<Json> {
    let made = |api_version: &str, metadata: &Metadata, source: &Subtree| {
        object(api_version, "PolicyException", metadata, source)
    };
    let classic = exceptions.classic.iter();
    let classic = classic.map(|it| made(&it.api_version, &it.metadata, &it.source));
    let cel = exceptions.cel.iter();
    classic
        .chain(cel.map(|it| made(&it.api_version, &it.metadata, &it.source)))
        .collect()
}

fn object(api_version: &str, kind: &str, metadata: &Metadata, spec: &Subtree) -> Json {
    let mut own = json!({"name": metadata.name.value});
    if let Some(namespace) = &metadata.namespace {
        own["namespace"] = json!(namespace.value);
    }
    let annotations: Map<String, Json> = metadata
        .annotations
        .iter()
        .map(|(key, value)| (key.value.clone(), json!(value.value)))
        .collect();
    if !annotations.is_empty() {
        own["annotations"] = Json::Object(annotations);
    }
    let spec = spec.document().root().to_serde();
    json!({"apiVersion": api_version, "kind": kind, "metadata": own, "spec": spec})
}
