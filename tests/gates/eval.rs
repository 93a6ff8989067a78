//! Both engines on one request, through the entry of `kyvtest eval --cases`: the hazards, and every live row with a pair.

use std::{collections::BTreeMap, path::Path};

use kyvtest::{
    diagnostic::Sources,
    eval::{Settings, line},
    kube::Discovery,
    value::Document,
};
use serde_json::{Value, json};

use crate::{
    kyverno_live::{Corpus, corpus},
    support::{Gate, fixture, id, jsonl, read, shared, text},
};

/// What the clusters of the reference data served, besides Kubernetes' own kinds.
pub(crate) fn settings() -> Settings {
    let table = read(&fixture("apiserver/kinds.tsv"));
    let file = Sources::new().add("kinds.tsv", table.as_str());
    let mut discovery = Discovery::kubernetes();
    discovery.extend(&Discovery::from_tsv(&table, file).expect("a table of kinds"));
    Settings {
        discovery,
        ..Settings::default()
    }
}

fn documents(path: &Path) -> Vec<Value> {
    // YAML 1.1 reads a bare `n` as a boolean; the API server received the string.
    let text = read(path).replace("name: n\n", "name: 'n'\n");
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts
        .map(|part| Document::from_yaml(part).expect("YAML").root().to_serde())
        .filter(|value| !value.is_null())
        .collect()
}

pub(crate) fn namespaces(labels: &Value) -> Vec<Value> {
    let entries = labels.as_object().into_iter().flatten();
    entries
        .map(|(name, labels)| {
            let mut labels = labels.clone();
            labels["kubernetes.io/metadata.name"] = json!(name);
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        })
        .collect()
}

fn evaluate(objects: Vec<Value>, request: &Value, config: &str, settings: &Settings) -> Result<Value, String> {
    let mut row = json!({"id": "row", "objects": objects, "request": request});
    if !config.is_empty() {
        row["config"] = json!(config);
    }
    let answer = line::answer(&row.to_string(), settings);
    if answer.readable {
        Ok(answer.answer)
    } else {
        Err(format!("unreadable: {}", answer.answer))
    }
}

/// The request of a hazard as an AdmissionRequest.
pub(crate) fn hazard_request(given: &Value) -> Value {
    let mut object = given["obj"].clone();
    let old = &given["old"];
    let operation = match text(given, "op") {
        "" => "CREATE",
        word => word,
    };
    let subject = if object.is_null() { old.clone() } else { object.clone() };
    let metadata = &subject["metadata"];
    if metadata.get("name").is_none() && metadata.get("generateName").is_some() {
        object["metadata"]["name"] = json!(format!("{}x7k2p", text(metadata, "generateName")));
    }
    let mut request = json!({"operation": operation, "object": object, "oldObject": old});
    if let Some(namespace) = given.get("nsname") {
        request["namespace"] = namespace.clone();
    }
    if let Some(name) = given.get("name") {
        request["name"] = name.clone();
        request["collection"] = json!(operation == "DELETE" && name == "");
    }
    if operation == "DELETE" {
        request["object"] = Value::Null;
        request["oldObject"] = if old.is_null() {
            given["obj"].clone()
        } else {
            old.clone()
        };
    }
    if let Some(sub) = given.get("sub") {
        request["subResource"] = sub.clone();
        if sub == "exec" {
            request["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
            request["kind"] = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
        }
    }
    request["userInfo"] = match given.get("user") {
        Some(user) => user.clone(),
        None => json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]}),
    };
    request
}

/// Parameters as they were stored: of the policy's kind, where the policy looks for them.
fn complete_params(params: &Value, policy: &Value) -> Vec<Value> {
    let cel = &policy["spec"]["rules"][0]["validate"]["cel"];
    let (kind, wanted) = (&cel["paramKind"], &cel["paramRef"]);
    let params = params.as_array().into_iter().flatten().enumerate();
    params
        .map(|(i, param)| {
            let mut param = param.clone();
            if param.get("kind").is_none() {
                param["apiVersion"] = kind["apiVersion"].clone();
                param["kind"] = kind["kind"].clone();
                param["metadata"] = json!({"name": format!("param-{i}"), "namespace": wanted["namespace"],
                    "labels": wanted["selector"]["matchLabels"]});
            }
            param
        })
        .collect()
}

/// The expected class of a hazard, from the two observations.
fn hazard_class(id: &str, kyverno: &str, vap: &str) -> &'static str {
    match (kyverno, vap) {
        (_, "rejected" | "not built") => "not-convertible",
        ("deny", "allow") => "weaker",
        ("allow", "deny") => "stricter",
        _ if ["H41", "H44", "H45"].contains(&id) => "message",
        _ => "equal",
    }
}

fn seen(side: &Value) -> &'static str {
    match side.get("allowed").and_then(Value::as_bool) {
        Some(true) => "allow",
        Some(false) => "deny",
        None => "none",
    }
}

fn check_hazard(folder: &Path, settings: &Settings) -> Result<(), String> {
    let expected: Value = serde_json::from_str(&read(&folder.join("expected.json"))).expect("JSON");
    let id = text(&expected, "id");
    let given = documents(&folder.join("request.yaml")).swap_remove(0);
    let mut objects = documents(&folder.join("policy.yaml"));
    let exceptions = folder.join("exceptions.yaml");
    if exceptions.exists() {
        objects.extend(documents(&exceptions));
    }
    objects.extend(namespaces(&given["ns"]));
    let params = complete_params(&given["params"], &objects[0]);
    objects.extend(params);
    let answer = evaluate(objects, &hazard_request(&given), "", settings)?;
    let class = text(&answer["divergence"], "class");
    let class = if class.is_empty() { "equal" } else { class };
    let (k, v) = (text(&expected, "obsK"), text(&expected, "obsV"));
    let kyverno = if k == "rejected" { "none" } else { k };
    let vap = if matches!(v, "rejected" | "not built") {
        "none"
    } else {
        v
    };
    let wanted = hazard_class(id, k, v);
    // A policy that Kyverno rejects has no comparison.
    let class_fits = kyverno == "none" || class == wanted;
    if seen(&answer["kyverno"]) == kyverno && seen(&answer["vap"]) == vap && class_fits {
        return Ok(());
    }
    Err(format!("expected {k}, {v}, {wanted}: {answer}"))
}

#[test]
fn hazards() {
    let folder = shared("golden/hazards").unwrap_or_else(|| fixture("hazards"));
    let mut folders: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("expected.json").exists())
        .collect();
    folders.sort();
    let settings = settings();
    Gate::new("hazards", 58).run(
        &folders,
        |path| path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        |path| check_hazard(path, &settings),
    );
}

/// A live row of a hazard in the form of `request.yaml`.
fn check_live_hazard(row: &Value, settings: &Settings) -> Result<(), String> {
    let sent = &row["request"];
    let mut given = json!({"obj": sent["object"], "old": sent["oldObject"], "user": sent["user"]});
    given["op"] = sent["operation"].clone();
    if sent["operation"] == "DELETE (collection)" {
        given["op"] = json!("DELETE");
        given["name"] = json!("");
    }
    if !text(sent, "subresource").is_empty() {
        given["sub"] = sent["subresource"].clone();
    }
    // The options of a connection have no name; the fixture provides it.
    if sent["object"].is_object() && sent["object"].get("metadata").is_none() {
        let folder = shared("golden/hazards").unwrap_or_else(|| fixture("hazards"));
        given = documents(&folder.join(text(row, "id")).join("request.yaml")).swap_remove(0);
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut objects = list(&row["policies"]);
    objects.extend(list(&row["exceptions"]));
    objects.extend(namespaces(&sent["namespaces"]));
    objects.extend(list(&sent["params"]));
    let answer = evaluate(objects, &hazard_request(&given), text(row, "config"), settings)?;
    let wanted = hazard_class(text(row, "id"), text(row, "kyverno"), text(row, "vap"));
    let class = text(&answer["divergence"], "class");
    let class = if class.is_empty() { "equal" } else { class };
    if class == wanted {
        return Ok(());
    }
    Err(format!("expected {wanted}, found {class}: {answer}"))
}

#[test]
fn live_pairs_of_hazards() {
    let path = shared("golden/kyverno-live/hazards.jsonl").unwrap_or_else(|| fixture("kyverno/hazards.jsonl"));
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows.into_iter().filter(|row| row.get("request").is_some()).collect();
    let settings = settings();
    let gate = Gate::new("live-hazards", 50);
    let id = |row: &Value| format!("{} {} {}", text(row, "id"), text(row, "variant"), text(row, "config"));
    gate.run(&rows, id, |row| check_live_hazard(row, &settings));
}

#[test]
fn live_pairs_of_conversions() {
    let Some(path) = shared("golden/kyverno-live/conversions.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let settings = settings();
    let gate = Gate::new("live-conversions", 408);
    let id = |row: &Value| format!("{} {}", text(row, "source"), text(row, "request_tag"));
    gate.run(&rows, id, |row| check_pair(row, &settings));
}

/// A row about a resource of the upstream suites.
fn check_verdict_pair(row: &Value, corpus: &Corpus, settings: &Settings) -> Result<(), String> {
    let (policy, object) = corpus.row(row)?;
    let answer = evaluate(vec![policy], &verdict_request(row, object), "", settings)?;
    same_pair(row, &answer)
}

/// The request of such a row.
pub(crate) fn verdict_request(row: &Value, object: Value) -> Value {
    let mut request = json!({"operation": row["operation"],
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]}});
    match text(row, "operation") {
        "DELETE" => request["oldObject"] = object,
        "UPDATE" => {
            request["oldObject"] = object.clone();
            request["object"] = object;
            request["object"]["metadata"]["annotations"]["kyvtest.dev/touched"] = json!("1");
        }
        _ => request["object"] = object,
    }
    request
}

#[test]
fn live_pairs_of_verdicts() {
    let Some(path) = shared("golden/kyverno-live/verdicts.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<(usize, &Value)> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.get("pair").is_some())
        .collect();
    let corpus = corpus(rows.iter().map(|(_, row)| *row));
    let settings = Settings {
        discovery: corpus.discovery.clone(),
        ..Settings::default()
    };
    Gate::new("live-verdict-pairs", 4_070).run(
        &rows,
        |(line, _)| format!("line-{}", line + 1),
        |(_, row)| check_verdict_pair(row, &corpus, &settings),
    );
}

/// A live row as objects and a request.
pub(crate) fn live(row: &Value) -> (Vec<Value>, Value) {
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let mut objects: Vec<Value> = ["policies", "exceptions", "params", "rbac"]
        .into_iter()
        .flat_map(list)
        .collect();
    objects.extend(namespaces(&row["namespaces"]));
    if let Some(namespace) = row.get("namespaceObject") {
        objects.push(namespace.clone());
    }
    let mut request = row["request"].clone();
    if let Some(seen) = row.get("seen") {
        request["object"] = seen.clone();
        if request["operation"] == "CREATE" && text(&request, "name").is_empty() {
            request["name"] = seen["metadata"]["name"].clone();
        }
    }
    (objects, request)
}

fn check_pair(row: &Value, settings: &Settings) -> Result<(), String> {
    let (objects, request) = live(row);
    same_pair(row, &evaluate(objects, &request, text(row, "config"), settings)?)
}

/// `kyverno-stricter` is weaker, `vap-stricter` stricter, `agree` neither.
fn same_pair(row: &Value, answer: &Value) -> Result<(), String> {
    let class = text(&answer["divergence"], "class");
    let found = match class {
        "weaker" => "kyverno-stricter",
        "stricter" => "vap-stricter",
        _ => "agree",
    };
    if found == text(row, "pair") {
        Ok(())
    } else {
        Err(format!("expected {}, found {found}: {answer}", text(row, "pair")))
    }
}

#[test]
fn live_pairs_of_own_vectors() {
    let Some(path) = shared("golden/kyverno-live/vectors.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows.into_iter().filter(|row| row.get("pair").is_some()).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *counts.entry(text(row, "pair")).or_default() += 1;
    }
    let settings = settings();
    let gate = Gate {
        name: "live-pairs",
        rows: rows.len().max(1),
    };
    gate.run(&rows, id, |row| check_pair(row, &settings));
    assert!(counts.len() == 3, "{counts:?}");
}

/// The project's own selection.
#[test]
fn own_pairs() {
    let rows: Vec<Value> = jsonl(&fixture("eval/pairs.jsonl"));
    let settings = settings();
    Gate::new("live-pairs-own", 113).run(&rows, id, |row| check_pair(row, &settings));
}

fn check_kyverno(row: &Value, settings: &Settings) -> Result<(), String> {
    let (objects, request) = live(row);
    let answer = evaluate(objects, &request, text(row, "config"), settings)?;
    let (ours, theirs) = (&answer["kyverno"], &row["observed"]);
    // An admitted connection fails at a node that does not exist.
    let code = theirs["allowed"] == true && request["operation"] == "CONNECT" || ours["code"] == theirs["code"];
    if ours["allowed"] == theirs["allowed"] && code && ours["warnings"] == theirs["warnings"] {
        return Ok(());
    }
    Err(format!("expected {theirs}, found {answer}"))
}

#[test]
fn live_verdicts_of_own_vectors() {
    let Some(path) = shared("golden/kyverno-live/vectors.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows
        .into_iter()
        .filter(|row| row["observed"]["allowed"].is_boolean())
        .collect();
    let settings = settings();
    Gate::new("live-answers", 1_500).run(&rows, id, |row| check_kyverno(row, &settings));
}

fn check_native(row: &Value, settings: &Settings) -> Result<(), String> {
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let (mut objects, request) = live(row);
    objects.extend(list("bindings"));
    let answer = evaluate(objects, &request, "", settings)?;
    let (ours, theirs) = (&answer["vap"], &row["observed"]);
    if ours["allowed"] == theirs["allowed"] && (theirs["allowed"] == true || ours["message"] == theirs["message"]) {
        return Ok(());
    }
    Err(format!("expected {theirs}, found {answer}"))
}

/// The API server's rows through this entry as well: allowed and message; the engine's own gate compares the rest.
#[test]
fn native_vectors() {
    let Some(path) = shared("golden/apiserver/vectors.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let plain = |row: &&Value| {
        row["observed"]["allowed"].is_boolean() && row.get("rbac").is_none() && row["order_undefined"] != true
    };
    let rows: Vec<Value> = rows.iter().filter(plain).cloned().collect();
    let settings = settings();
    Gate::new("eval-native", 1_400).run(&rows, id, |row| check_native(row, &settings));
}
