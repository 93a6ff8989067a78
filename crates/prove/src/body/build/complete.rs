//! Completes an object that an API server refuses, so that the difference that a model describes shows on one that it accepts.
//!
//! Models say what formulas read. Validation also requires what no formula reads: a handler of a probe, a type of an Ingress
//! path, a volume for each mount. The result is evaluated like any other request, so a wrong guess costs a witness and never a
//! proof. No upstream counterpart; the requirements are those of `pkg/apis/*/validation` (Kubernetes 1.36).

use serde_json::{Map, Value as Json, json};

use kyvtest_go_compat::{text::quantity::Quantity, value::Document};

use kyvtest_normalise::Reason;

use crate::{server::Refused, witness::Scenario};

/// Returns the request with both objects completed.
pub(in crate::body) fn completed(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for object in [&mut scenario.request.object, &mut scenario.request.old_object] {
        let mut json = object.root().to_serde();
        if json.is_object() {
            complete(&mut json);
            *object = Document::from(&json);
        }
    }
    scenario
}

/// Returns the request with what a refusal says is missing, and with other texts where it says that one is there twice; `None`
/// if it says neither.
pub(in crate::body) fn supplied(scenario: &Scenario, refused: &Refused) -> Option<Scenario> {
    let mut scenario = scenario.clone();
    let mut changed = false;
    for object in [&mut scenario.request.object, &mut scenario.request.old_object] {
        let mut json = object.root().to_serde();
        for cause in &refused.errors {
            let pointer = format!("/{}", cause.field.replace(['.', '['], "/").replace(']', ""));
            let Some((parent, key)) = pointer.rsplit_once('/') else {
                continue;
            };
            let Some(map) = json.pointer_mut(parent).and_then(Json::as_object_mut) else {
                continue;
            };
            match (cause.reason, map.get(key)) {
                (Reason::Required, None) => {
                    let sample = if key == "path" { "/sample" } else { "sample" };
                    map.insert(key.to_owned(), json!(sample));
                    changed = true;
                }
                (Reason::Duplicate, Some(Json::String(text))) => {
                    let other = format!("{text}-{}", pointer.bytes().filter(u8::is_ascii_digit).count());
                    map.insert(key.to_owned(), json!(other));
                    changed = true;
                }
                _ => {}
            }
        }
        if changed && json.is_object() {
            *object = Document::from(&json);
        }
    }
    changed.then_some(scenario)
}

pub(in crate::body) fn complete(object: &mut Json) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "Role" | "ClusterRole" => complete_access_rules(object),
        "PersistentVolume" => complete_volume_source(object),
        "Service" => complete_service(object),
        "PodDisruptionBudget" => {
            if let Some(spec) = object.get_mut("spec").and_then(Json::as_object_mut)
                && let Some(number) = spec.get_mut("maxUnavailable")
            {
                // A number that is written as a text must be a percentage.
                if let Some(own) = number.as_str().and_then(|text| text.parse::<u32>().ok()) {
                    *number = json!(own);
                }
                spec.remove("minAvailable");
            }
        }
        _ => {}
    }
    select_template(object);
    visit(object, "");
}

/// Gives a template the labels that its selector asks for.
fn select_template(object: &mut Json) {
    let wanted = object.pointer("/spec/selector/matchLabels").and_then(Json::as_object);
    let (Some(wanted), Some(template)) = (wanted.cloned(), object.pointer_mut("/spec/template")) else {
        return;
    };
    let Some(template) = template.as_object_mut() else {
        return;
    };
    let metadata = template.entry("metadata".to_owned()).or_insert(json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let labels = metadata.entry("labels".to_owned()).or_insert(json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.extend(wanted);
    }
}

fn complete_access_rules(object: &mut Json) {
    let rules = object.get_mut("rules").and_then(Json::as_array_mut);
    for rule in rules.into_iter().flatten().filter_map(Json::as_object_mut) {
        set_if_empty(rule, "verbs", json!(["get"]));
        if is_empty(rule.get("nonResourceURLs")) {
            set_if_empty(rule, "apiGroups", json!([""]));
            set_if_empty(rule, "resources", json!(["pods"]));
        }
    }
}

/// Gives a Service the type that its fields are for.
fn complete_service(object: &mut Json) {
    let Some(spec) = object.get_mut("spec").and_then(Json::as_object_mut) else {
        return;
    };
    let balances = ["loadBalancerSourceRanges", "loadBalancerClass", "loadBalancerIP"];
    if balances.iter().any(|field| spec.contains_key(*field)) {
        spec.insert("type".to_owned(), json!("LoadBalancer"));
        spec.entry("ports".to_owned()).or_insert(json!([{"port": 80}]));
        spec.remove("clusterIP");
    }
}

fn complete_volume_source(object: &mut Json) {
    const COMMON: [&str; 8] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
    ];
    if let Some(spec) = object.get_mut("spec").and_then(Json::as_object_mut)
        && spec.keys().all(|key| COMMON.contains(&key.as_str()))
    {
        spec.insert("nfs".to_owned(), json!({"server": "nfs.example.com", "path": "/data"}));
    }
}

/// Completes the maps below a value; `key` is the field that has the value.
fn visit(value: &mut Json, key: &str) {
    match value {
        Json::Object(map) => {
            complete_map(map, key);
            for (key, value) in map.iter_mut() {
                visit(value, key);
            }
            if map.get("containers").is_some_and(Json::is_array) {
                declare_volumes(map);
            }
        }
        Json::Array(items) => {
            for item in items {
                if let Json::Object(map) = &mut *item {
                    complete_item(map, key);
                }
                visit(item, key);
            }
        }
        _ => {}
    }
}

fn complete_map(map: &mut Map<String, Json>, key: &str) {
    match key {
        "livenessProbe" | "readinessProbe" | "startupProbe" => {
            let has_handler = ["exec", "httpGet", "tcpSocket", "grpc"]
                .iter()
                .any(|handler| map.contains_key(*handler));
            if !has_handler {
                map.insert("tcpSocket".to_owned(), json!({"port": 80}));
            }
        }
        "exec" => set_if_empty(map, "command", json!(["x"])),
        "valueFrom" if map.is_empty() => {
            map.insert("fieldRef".to_owned(), json!({"fieldPath": "metadata.name"}));
        }
        "http" => set_if_empty(map, "paths", json!([{}])),
        "resources" => raise_limits(map),
        _ => {}
    }
}

fn complete_item(map: &mut Map<String, Json>, key: &str) {
    let names_no_source = !map.contains_key("secretRef") && !map.contains_key("configMapRef");
    let mut set = |field: &str, value: Json| {
        map.entry(field.to_owned()).or_insert(value);
    };
    match key {
        "initContainers" => {
            let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
            if probes.iter().any(|probe| map.contains_key(*probe)) {
                map.entry("restartPolicy".to_owned()).or_insert(json!("Always"));
            }
        }
        "envFrom" if names_no_source => set("configMapRef", json!({"name": "sample"})),
        "ownerReferences" => {
            set("apiVersion", json!("apps/v1"));
            set("kind", json!("ReplicaSet"));
            set("name", json!("sample"));
            set("uid", json!("00000000-0000-0000-0000-000000000001"));
        }
        // Of an Ingress.
        "paths" => {
            set("pathType", json!("ImplementationSpecific"));
            set(
                "backend",
                json!({"service": {"name": "sample", "port": {"number": 80}}}),
            );
        }
        _ => {}
    }
}

/// Raises limits that are below the requests.
fn raise_limits(resources: &mut Map<String, Json>) {
    let requests = resources.get("requests").and_then(Json::as_object).cloned();
    let limits = resources.get_mut("limits").and_then(Json::as_object_mut);
    if let (Some(requests), Some(limits)) = (requests, limits) {
        let amount = |value: &Json| value.as_str().and_then(|text| Quantity::parse(text).ok());
        for (name, limit) in limits {
            if let Some(request) = requests.get(name)
                && amount(limit) < amount(request)
            {
                *limit = request.clone();
            }
        }
    }
}

/// Adds the volumes that containers mount and the Pod does not have.
fn declare_volumes(spec: &mut Map<String, Json>) {
    let names = |list: Option<&Json>| -> Vec<String> {
        let items = list.and_then(Json::as_array).into_iter().flatten();
        items
            .filter_map(|item| item["name"].as_str().map(str::to_owned))
            .collect()
    };
    let mut known = names(spec.get("volumes"));
    let mut missing = Vec::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get(list).and_then(Json::as_array).into_iter().flatten();
        for name in containers.flat_map(|container| names(container.get("volumeMounts"))) {
            if !known.contains(&name) {
                known.push(name.clone());
                // Few policies read this source.
                missing.push(json!({"name": name, "downwardAPI": {}}));
            }
        }
    }
    if missing.is_empty() {
        return;
    }
    let volumes = spec.entry("volumes").or_insert(json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.extend(missing);
    }
}

fn is_empty(value: Option<&Json>) -> bool {
    value.and_then(Json::as_array).is_none_or(Vec::is_empty)
}

fn set_if_empty(map: &mut Map<String, Json>, field: &str, value: Json) {
    if is_empty(map.get(field)) {
        map.insert(field.to_owned(), value);
    }
}

/// An element of a list that must not be empty, and of which a model says nothing. `path` is that of the list.
pub(super) fn element(path: &str, is_text: bool) -> Json {
    if !is_text {
        return json!({});
    }
    json!(if path.ends_with("IPs") { "192.0.2.1" } else { "x" })
}
