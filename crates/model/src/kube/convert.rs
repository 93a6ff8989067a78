//! Conversion of an object to the API version that a policy names.
//!
//! Upstream counterpart: the generated conversions of `pkg/apis`.
//!
//! Known deviations: only events and the CPU target of autoscalers are rewritten; everything else keeps its fields, as
//! custom resources without a conversion webhook do.

use super::{GroupVersionKind, Resource};
use kyvtest_go_compat::value::{Builder, Document, Map, Value};

/// Fields of events: in the core group, and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an object to another served version; null stays null.
pub fn convert(object: Value<'_>, from: &Resource, to: &Resource) -> Document {
    let Some(map) = object.as_map() else {
        return object.to_document();
    };
    let (own, wanted) = (&from.object_kind, &to.object_kind);
    if own == wanted {
        return object.to_document();
    }
    let autoscaler = wanted.kind == "HorizontalPodAutoscaler" && wanted.group == "autoscaling";
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("apiVersion");
    builder.string(&wanted.api_version());
    builder.key("kind");
    builder.string(&wanted.kind);
    for (key, value) in map.iter() {
        match (key.text(), value) {
            ("apiVersion" | "kind", _) => {}
            ("spec", Value::Map(spec)) if autoscaler => {
                builder.key("spec");
                autoscaler_spec(&mut builder, spec, &wanted.version);
            }
            (key, value) => {
                builder.key(renamed(key, own, wanted));
                builder.value(value);
            }
        }
    }
    builder.end();
    builder.finish()
}

fn renamed<'k>(key: &'k str, own: &GroupVersionKind, wanted: &GroupVersionKind) -> &'k str {
    if wanted.kind != "Event" || own.group == wanted.group {
        return key;
    }
    let pair = EVENT_FIELDS.iter().find_map(|&(core, events)| {
        let (from, to) = if wanted.group.is_empty() {
            (events, core)
        } else {
            (core, events)
        };
        (from == key).then_some(to)
    });
    pair.unwrap_or(key)
}

/// Version 1 has a field for a certain metric of version 2.
fn autoscaler_spec(builder: &mut Builder, spec: Map<'_>, version: &str) {
    builder.begin_map();
    for (key, value) in spec.iter() {
        match (version, key.text()) {
            ("v1", "metrics") => {
                let metrics = value.as_list();
                let target = metrics.iter().flat_map(|metrics| metrics.iter()).find_map(cpu_target);
                if let Some(target) = target {
                    builder.key("targetCPUUtilizationPercentage");
                    builder.value(target);
                }
            }
            ("v2", "targetCPUUtilizationPercentage") => {
                builder.key("metrics");
                builder.begin_list();
                builder.begin_map();
                builder.key("type");
                builder.string("Resource");
                builder.key("resource");
                builder.begin_map();
                builder.key("name");
                builder.string("cpu");
                builder.key("target");
                builder.begin_map();
                builder.key("type");
                builder.string("Utilization");
                builder.key("averageUtilization");
                builder.value(value);
                for _ in 0..3 {
                    builder.end();
                }
                builder.end();
            }
            (_, key) => {
                builder.key(key);
                builder.value(value);
            }
        }
    }
    builder.end();
}

fn cpu_target(metric: Value<'_>) -> Option<Value<'_>> {
    let name = metric.at(&["resource", "name"]).and_then(Value::as_str);
    let kind = metric.get("type").and_then(Value::as_str);
    if name != Some("cpu") || kind != Some("Resource") {
        return None;
    }
    metric.at(&["resource", "target", "averageUtilization"])
}
