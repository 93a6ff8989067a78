//! Requests to compare a rule with its translation on: objects of every shape, and objects that the rule is about.
//!
//! This is search, as in `kyvtest_prove::seeds`: an object may be of no use, and the engines say what becomes of it. To the objects
//! that are made from the words and constants of both sides come the names, labels and annotations that `match` asks for, the
//! values of preconditions, and the fields of the patch, each in some of the requests.

mod loops;
mod patches;

use std::sync::Arc;

use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::matching::kind_matches;
use kyvtest_model::{
    kube::{LabelSelector, NAME_LABEL, Namespace, Operator, RequestClass, Resource},
    policy::{Anchor, AnchorKind, Rule},
};
use kyvtest_prove::{
    body::samples,
    seeds::{merge, seeds},
    witness::Scenario,
};
use serde_json::{Map, Value as Json, json};

/// What a rule wants of a request.
#[derive(Debug, Clone, Default)]
struct Wanted {
    matched: Json,
    name: Option<String>,
    namespace: Option<String>,
    namespace_labels: Vec<(String, String)>,
    /// What preconditions and other parts ask for.
    parts: Vec<Json>,
}

/// The rules that name a kind.
pub(crate) fn matching<'r>(rules: &[&'r Rule], resource: &Resource) -> impl Iterator<Item = &'r Rule> {
    let names = |rule: &Rule| {
        let mut kinds = rule.matches.kinds();
        kinds.any(|kind| kind_matches(kind, resource, false))
    };
    rules.iter().copied().filter(move |rule| names(rule))
}

/// Makes requests of a class. `sources` are the policies of both sides, `rules` those of the classic one.
pub(crate) fn requests(sources: &[Json], rules: &[&Rule], cell: &RequestClass<'_>, count: u64) -> Vec<Scenario> {
    let own: Vec<Wanted> = matching(rules, cell.resource).map(wanted).collect();
    let mut made = samples(sources, cell, count);
    for (number, scenario) in made.iter_mut().enumerate() {
        let Some(wanted) = own.get(number % own.len().max(1)) else {
            clean(scenario, cell.resource);
            continue;
        };
        shape(scenario, wanted, number / own.len().max(1), cell.resource);
        clean(scenario, cell.resource);
    }
    made
}

/// Gives a request some of what the rule wants: which of it says the number.
fn shape(scenario: &mut Scenario, wanted: &Wanted, number: usize, resource: &Resource) {
    let mut object = scenario.request.object.root().to_serde();
    if number % 8 != 7 {
        object = merge(&object, &wanted.matched);
        if let Some(name) = &wanted.name {
            object["metadata"]["name"] = json!(name);
            scenario.request.name.clone_from(name);
        }
        let namespace = wanted.namespace.as_deref().filter(|_| resource.namespaced);
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
            namespace.clone_into(&mut scenario.request.namespace);
        }
        let is_namespace = resource.group.is_empty() && resource.kind == "Namespace";
        if is_namespace && let Some(name) = &wanted.name {
            scenario.request.namespace.clone_from(name);
        }
        if resource.namespaced && (!wanted.namespace_labels.is_empty() || namespace.is_some()) {
            let name = scenario.request.namespace.clone();
            let own = wanted.namespace_labels.iter();
            let own = own.map(|(key, value)| (key.as_str(), value.as_str()));
            let labels: Vec<(&str, &str)> = own.chain([(NAME_LABEL, name.as_str())]).collect();
            scenario.world.add_namespace(Namespace::with_labels(&name, labels));
        }
    }
    for (at, part) in wanted.parts.iter().enumerate() {
        if (number >> (at % 5)) & 1 == 0 {
            object = merge(&object, part);
        }
    }
    set(scenario, &object);
}

/// Puts an object into a request; the name of the old object is that of the new one.
fn set(scenario: &mut Scenario, object: &Json) {
    scenario.request.object = Document::from(object);
    if !scenario.request.old_object.root().is_null() {
        let mut old = scenario.request.old_object.root().to_serde();
        for key in ["name", "namespace"] {
            old["metadata"][key] = object["metadata"][key].clone();
        }
        if old["metadata"]["namespace"].is_null()
            && let Some(metadata) = old["metadata"].as_object_mut()
        {
            metadata.shift_remove("namespace");
        }
        scenario.request.old_object = Document::from(&old);
    }
}

/// Takes out of an object what a translation does not account for: variables in the values of objects, which Kyverno would
/// substitute, and empty elements of lists, which the API server takes in some places and a merge by keys loses.
fn clean(scenario: &mut Scenario, resource: &Resource) {
    fn tidy(value: &mut Json, elements: bool) {
        match value {
            Json::Object(map) => {
                map.retain(|key, _| !key.contains("{{"));
                for value in map.values_mut() {
                    tidy(value, elements);
                }
            }
            Json::Array(items) => {
                items.retain(|item| elements || !matches!(item, Json::Object(map) if map.is_empty()));
                for item in items.iter_mut() {
                    tidy(item, elements);
                }
            }
            Json::String(text) if text.contains("{{") => *text = text.replace(['{', '}'], ""),
            _ => {}
        }
    }
    let mut object = scenario.request.object.root().to_serde();
    // Selectors of network policies mean something by empty elements.
    tidy(&mut object, resource.group == "networking.k8s.io");
    scenario.request.object = Document::from(&object);
}

fn wanted(rule: &Rule) -> Wanted {
    let mut wanted = Wanted::default();
    let filters = rule.matches.any.iter().chain(&rule.matches.all).take(1);
    let resources = filters.map(|filter| &filter.resources);
    // Where all filters must match, the later ones add to the first.
    let more = rule.matches.all.iter().skip(1).map(|filter| &filter.resources);
    let mut matched = json!({});
    for resources in resources.chain(more) {
        let name = resources.name.iter().chain(&resources.names).next();
        wanted.name = name.map(|text| example(&text.value)).or(wanted.name);
        let namespace = resources.namespaces.first();
        wanted.namespace = namespace.map(|text| example(&text.value)).or(wanted.namespace);
        for (key, value) in resources.annotations.iter().flatten() {
            matched["metadata"]["annotations"][example(&key.value)] = json!(example(&value.value));
        }
        if let Some(selector) = &resources.selector {
            for (key, value) in labels(&selector.value) {
                matched["metadata"]["labels"][key] = json!(value);
            }
        }
        if let Some(selector) = &resources.namespace_selector {
            wanted.namespace_labels.extend(labels(&selector.value));
        }
    }
    wanted.matched = matched;
    wanted.parts.extend(seeds(rule));
    if let Some(mutate) = &rule.mutate {
        let mutate = mutate.document().root().to_serde();
        let mut patches = vec![mutate["patchStrategicMerge"].clone()];
        let blocks = mutate["foreach"].as_array().into_iter().flatten();
        patches.extend(blocks.map(|block| block["patchStrategicMerge"].clone()));
        for patch in patches.iter().filter(|patch| patch.is_object()) {
            wanted.parts.push(conditions(patch));
            wanted.parts.push(filled(patch));
        }
    }
    wanted.parts.extend(loops::parts(rule));
    wanted.parts.extend(patches::part(rule));
    wanted.parts.extend(of_context(rule));
    if let Some(kind) = rule.matches.kinds().next() {
        wanted.parts.extend(pod_parts(&kind.kind));
    }
    wanted.parts.retain(Json::is_object);
    wanted
}

/// Values that conditions want of context entries which read the object.
fn of_context(rule: &Rule) -> Option<Json> {
    let entries = rule.context.as_ref()?.document().root().to_serde();
    let conditions = rule.preconditions.as_ref()?.document().root().to_serde();
    let mut object = json!({});
    for entry in entries.as_array()? {
        let (Some(name), Some(path)) = (entry["name"].as_str(), entry["variable"]["jmesPath"].as_str()) else {
            continue;
        };
        let Some(path) = path.trim().strip_prefix("request.object.") else {
            continue;
        };
        let all = ["any", "all"]
            .into_iter()
            .filter_map(|block| conditions[block].as_array());
        for condition in all.flatten() {
            let key = condition["key"].as_str().unwrap_or_default();
            let inner = key.trim_start_matches("{{").trim_end_matches("}}").trim();
            let operator = condition["operator"].as_str().unwrap_or_default();
            if inner != name || operator.contains("Not") {
                continue;
            }
            let value = match &condition["value"] {
                Json::Array(items) => items.first().cloned().unwrap_or_default(),
                value => value.clone(),
            };
            let Some(value) = value
                .as_str()
                .filter(|value| Some(*value) != entry["variable"]["default"].as_str())
            else {
                continue;
            };
            put(&mut object, path, json!(example(value)));
        }
    }
    Some(object)
}

/// Sets the value at a plain path of names, some in quotes.
fn put(object: &mut Json, path: &str, value: Json) {
    let mut rest = path;
    let mut at = object;
    loop {
        let (name, more) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((name, more)) => (name, more.strip_prefix('.').unwrap_or(more)),
                None => return,
            },
            None => rest.split_once('.').unwrap_or((rest, "")),
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) {
            return;
        }
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
        if more.is_empty() {
            *at = value;
            return;
        }
        rest = more;
    }
}

/// Pods with much in them, wherever a kind has its Pod.
fn pod_parts(kind: &str) -> Option<Json> {
    let path: &[&str] = match kind {
        "Pod" => &["spec"],
        "DaemonSet" | "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    };
    let token = json!({"serviceAccountToken": {"path": "token"}});
    let mounts = json!([
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]);
    let spec = json!({
        // The server takes tokens only for Pods that name their account.
        "serviceAccountName": "default",
        "containers": [
            {"name": "one", "imagePullPolicy": "Never", "volumeMounts": mounts, "env": [{"name": "A", "value": "1"}]},
            {"name": "two", "image": "registry.example.com/two:1", "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts,
             "resources": {"requests": {"memory": "64Mi", "ephemeral-storage": "1Gi"}}},
        ],
        "initContainers": [{"name": "init", "image": "busybox:1"}],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "kube-api-access-x", "projected": {"sources": [token]}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "host", "hostPath": {"path": "/data"}},
        ],
    });
    Some(path.iter().rev().fold(spec, |inner, step| json!({*step: inner})))
}

/// Labels that a selector wants.
fn labels(selector: &LabelSelector) -> Vec<(String, String)> {
    let requirements = selector.requirements().iter();
    let wanted = requirements.filter_map(|requirement| {
        let value = requirement.values.first().map(|value| example(value));
        match requirement.operator {
            Some(Operator::In | Operator::Exists) => {
                Some((example(&requirement.key), value.unwrap_or_else(|| "x".to_owned())))
            }
            _ => None,
        }
    });
    wanted.collect()
}

/// A text that a pattern matches.
fn example(pattern: &str) -> String {
    let one = pattern.split(['|', '&']).next().unwrap_or_default().trim();
    let one = one.trim_start_matches(['>', '<', '=', '!', ' ']);
    one.replace("?*", "x").replace('*', "x").replace('?', "y")
}

/// The conditions of a patch, as an object that meets them.
fn conditions(patch: &Json) -> Json {
    match patch {
        Json::Object(map) => {
            let mut met = Map::new();
            for (written, value) in map {
                match Anchor::parse(written).map(|anchor| (anchor.kind, anchor.key.to_owned())) {
                    Some((AnchorKind::Condition | AnchorKind::Global, key)) => {
                        met.insert(key, filled(value));
                    }
                    Some(_) => {}
                    None => {
                        let inner = conditions(value);
                        if !inner.is_null() {
                            met.insert(written.clone(), inner);
                        }
                    }
                }
            }
            if met.is_empty() { Json::Null } else { Json::Object(met) }
        }
        Json::Array(items) => {
            let met: Vec<Json> = items.iter().map(conditions).filter(|item| !item.is_null()).collect();
            if met.is_empty() { Json::Null } else { Json::Array(met) }
        }
        _ => Json::Null,
    }
}

/// A patch as an object that has all of its fields.
fn filled(patch: &Json) -> Json {
    match patch {
        Json::Object(map) => {
            let fields = map.iter().filter(|(key, _)| !key.contains("{{"));
            let fields = fields.map(|(written, value)| {
                let key = Anchor::parse(written).map_or(written.as_str(), |anchor| anchor.key);
                (key.to_owned(), filled(value))
            });
            Json::Object(fields.filter(|(_, value)| !value.is_null()).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(filled).collect()),
        Json::String(text) if text.contains("{{") => Json::Null,
        Json::String(text) => json!(example(text)),
        other => other.clone(),
    }
}

/// The rules of a policy, those that Kyverno generates included.
pub(crate) fn all_rules(policy: &kyvtest_model::policy::ClassicPolicy) -> Vec<Arc<Rule>> {
    let rules = kyvtest_kyverno::autogen::all_rules(policy);
    rules.iter().map(|rule| Arc::new(rule.clone().into_owned())).collect()
}
