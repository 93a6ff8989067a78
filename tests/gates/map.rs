//! What a Kubernetes 1.36 API server makes of MutatingAdmissionPolicies: at creation, and of the requests that they change.

use kyvtest::{
    eval::{Evaluator, Settings, line},
    kube::{Discovery, GroupVersionKind},
    policy::validate_admission,
    prove::server::{Data, Server},
    value::Document,
};
use serde_json::{Map, Value, json};

use crate::{
    apiserver::rbac,
    eval::namespaces,
    support::{Gate, fixture, jsonl, shared},
};

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn id(row: &Value) -> String {
    text(row, "id").to_owned()
}

fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The refusal with all errors in their order, the warnings, and the spec that the server stores.
fn check_static(row: &Value) -> Result<(), String> {
    let object = Document::from(&row["object"]);
    let checked = validate_admission(object.root());
    let accepted = row["accepted"] == true;
    if checked.errors.is_empty() != accepted {
        return Err(format!("accepted: {accepted}, got {:?}", checked.message));
    }
    let warnings: Vec<&str> = items(row, "warnings").filter_map(Value::as_str).collect();
    if checked.warnings != warnings {
        return Err(format!("warnings {:?}, not {warnings:?}", checked.warnings));
    }
    if accepted {
        let kind = GroupVersionKind::from_api_version(text(&row["object"], "apiVersion"), text(&row["object"], "kind"));
        let stored = Server::new(&Discovery::kubernetes(), Vec::new()).decode(&kind, "", &object);
        let stored = stored.map_err(|refused| refused.to_string())?.root().to_serde();
        return if stored["spec"] == row["stored_spec"] {
            Ok(())
        } else {
            Err(format!("stored {}, not {}", stored["spec"], row["stored_spec"]))
        };
    }
    // Without a message the server panicked.
    let Some(message) = row.get("message").and_then(Value::as_str) else {
        return Ok(());
    };
    let want = (row["code"].as_u64(), message);
    let got = (Some(u64::from(checked.code)), checked.message.as_str());
    if got != want {
        return Err(format!("want {want:?}, got {got:?}"));
    }
    let causes = items(row, "causes").map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")));
    let causes: Vec<String> = causes.collect();
    let errors: Vec<&str> = checked.errors.iter().map(|error| error.text.as_str()).collect();
    if checked.code == 422 && errors != causes {
        return Err(format!("causes {errors:?}, not {causes:?}"));
    }
    Ok(())
}

#[test]
fn refusals() {
    let gate = Gate {
        name: "map-static-own",
        rows: 92,
    };
    gate.run(&jsonl(&fixture("map/static.jsonl")), id, check_static);
    if let Some(path) = shared("golden/map/static.jsonl") {
        let gate = Gate {
            name: "map-static",
            rows: 183,
        };
        gate.run(&jsonl(&path), id, check_static);
    }
}

/// The objects of a row, the definitions of custom kinds included.
fn objects(row: &Value) -> Vec<Value> {
    let mut objects: Vec<Value> = jsonl(&fixture("map/crds.jsonl"));
    for key in ["policies", "bindings", "params"] {
        objects.extend(items(row, key).cloned());
    }
    objects.extend(namespaces(&row["namespaces"]));
    objects.extend(rbac(row.get("rbac").unwrap_or(&Value::Null)));
    objects
}

/// The answer on the object that the first policy sees.
fn answer(row: &Value) -> Result<Value, String> {
    let mut request = row["request"].clone();
    if let Some(seen) = row.get("seen") {
        request["object"] = seen.clone();
    }
    let case = json!({"id": row["id"], "objects": objects(row), "request": request});
    let answer = line::answer(&case.to_string(), &Settings::default());
    if !answer.readable || answer.answer["invalid"] != json!([]) {
        return Err(format!("unreadable: {}", answer.answer));
    }
    Ok(answer.answer["vap"].clone())
}

fn without(mut object: Value, fields: &[&str]) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !fields.contains(&key.as_str()));
    }
    object
}

/// A message whose parts have no order, or that shows the whole object.
fn comparable(message: &str, unordered: bool) -> String {
    if let Some((start, _)) = message.split_once("Object 'Kind' is missing in '{") {
        return start.to_owned();
    }
    if !unordered {
        return message.to_owned();
    }
    let mut words: Vec<&str> = message
        .split([',', ' ', '\n'])
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.join(" ")
}

fn same_refusal(answer: &Value, observed: &Value, unordered: bool) -> Result<(), String> {
    let parts = |side: &Value| {
        let message = comparable(text(side, "message"), unordered);
        (side["code"].clone(), text(side, "reason").to_owned(), message)
    };
    if observed.get("closed").is_some() || parts(answer) == parts(observed) {
        return Ok(());
    }
    Err(format!("want {:?}, got {:?}", parts(observed), parts(answer)))
}

/// One of the outcomes that were observed.
fn check_outcome(answer: &Value, observed: &Value, unordered: bool) -> Result<(), String> {
    let refused = answer["allowed"] == false;
    if observed["allowed"] == false || observed.get("closed").is_some() || (refused && observed["allowed"].is_null()) {
        if !refused {
            return Err(format!("admitted, not {}", observed["message"]));
        }
        return same_refusal(answer, observed, unordered);
    }
    if refused {
        return Err(format!("refused: {}", answer["message"]));
    }
    // The recorder after the policies saw no object of a DELETE.
    let Some(mutated) = observed.get("mutated") else {
        return Ok(());
    };
    let got = without(answer["object"].clone(), &["managedFields"]);
    if got == *mutated {
        return Ok(());
    }
    Err(format!("want {mutated}, got {got}"))
}

fn check_vector(row: &Value) -> Result<(), String> {
    let answer = answer(row)?;
    let unordered = row.get("message_order_undefined").is_some();
    match row.get("outcomes").and_then(Value::as_array) {
        None => check_outcome(&answer, &row["observed"], unordered),
        Some(outcomes) => {
            let checked = outcomes.iter().map(|one| check_outcome(&answer, one, unordered));
            let errors: Vec<String> = checked.filter_map(Result::err).collect();
            if errors.len() < outcomes.len() {
                Ok(())
            } else {
                Err(errors.join("; "))
            }
        }
    }
}

#[test]
fn vectors() {
    let gate = Gate {
        name: "map-vectors-own",
        rows: 80,
    };
    gate.run(&jsonl(&fixture("map/vectors.jsonl")), id, check_vector);
    if let Some(path) = shared("golden/map/vectors.jsonl") {
        let gate = Gate {
            name: "map-vectors",
            rows: 884,
        };
        gate.run(&jsonl(&path), id, check_vector);
    }
}

/// Fields that the server makes up.
const MADE_UP: [&str; 5] = [
    "managedFields",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
];

/// The object as sent, through the whole server: the object in the response, or the refusal of validation.
fn check_completed(row: &Value) -> Result<(), String> {
    let objects: Vec<Document> = objects(row).iter().map(Document::from).collect();
    let evaluator = Evaluator::new(&objects, &Settings::default());
    let request = evaluator.request(Document::from(&row["request"]).root())?;
    let server = Server::new(evaluator.discovery(), evaluator.world().params.clone()).without_service_accounts();
    let (answers, refused) = evaluator.evaluate_on(&server, &request, Data::Normalised);
    if let Some(refused) = refused {
        return Err(format!("refused before: {}", refused.message));
    }
    let answer: Map<String, Value> = line::render(&answers);
    let answer = &answer["vap"];
    let observed = &row["observed"];
    if observed["allowed"] != true {
        return if answer["allowed"] == false && answer["code"] == observed["code"] {
            Ok(())
        } else {
            Err(format!(
                "want {} {}, got {} {}",
                observed["code"], observed["message"], answer["code"], answer["message"]
            ))
        };
    }
    if answer["allowed"] == false {
        return Err(format!("refused: {}", answer["message"]));
    }
    let (want, got) = (
        without(observed["after"].clone(), &MADE_UP),
        without(answer["object"].clone(), &MADE_UP),
    );
    if want == got {
        Ok(())
    } else {
        Err(format!("want {want}, got {got}"))
    }
}

/// Whole objects with one outcome.
fn is_completed(row: &Value) -> bool {
    let request = &row["request"];
    let whole = text(request, "subResource").is_empty() && !request["object"].is_null() && request.get("via").is_none();
    whole && row.get("outcomes").is_none() && row["observed"].get("closed").is_none()
}

#[test]
fn completed_objects() {
    let Some(path) = shared("golden/map/vectors.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows.into_iter().filter(is_completed).collect();
    let gate = Gate {
        name: "map-completed",
        rows: 800,
    };
    gate.run(&rows, id, check_completed);
}
