//! A Kubernetes 1.36 API server with MutatingAdmissionPolicies: their creation, and the requests that they change.

use kyvtest::{
    convert::{Conversion, Exceptions, Options, Outcome, convert},
    diagnostic::Sources,
    eval::{Evaluator, Settings, line},
    kube::{Discovery, GroupVersionKind},
    policy::{Loaded, Purpose, load, validate_admission},
    prove::server::{Data, Server},
    value::Document,
    yaml,
};
use serde_json::{Map, Value, json};

use crate::{
    eval::namespaces,
    kyverno_live::corpus,
    support::{Gate, fixture, id, items, jsonl, print_count, shared, text},
};

/// The error with all causes in order, the warnings, and the stored spec.
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
    Gate::new("map-static-own", 92).fixture("map/static.jsonl", id, check_static);
    Gate::new("map-static", 183).shared("golden/map/static.jsonl", id, check_static);
}

/// The objects of a row, the definitions of custom kinds included.
fn objects(row: &Value) -> Vec<Value> {
    let mut objects: Vec<Value> = jsonl(&fixture("map/crds.jsonl"));
    for key in ["policies", "bindings", "params"] {
        objects.extend(items(row, key).cloned());
    }
    objects.extend(namespaces(&row["namespaces"]));
    if row.get("rbac").is_some() {
        // The row describes the permissions in words; these are the objects.
        objects.extend(jsonl::<Value>(&fixture("map/rbac.jsonl")));
    }
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
    Gate::new("map-vectors-own", 80).fixture("map/vectors.jsonl", id, check_vector);
    Gate::new("map-vectors", 884).shared("golden/map/vectors.jsonl", id, check_vector);
}

/// Fields that the server makes up.
const MADE_UP: [&str; 5] = [
    "managedFields",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
];

/// The object as sent, through the whole server: the object in the response, or the validation error.
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
    same_object(&observed["after"], &answer["object"])
}

/// Compares an object with the recorded one, ignoring assigned values.
fn same_object(theirs: &Value, ours: &Value) -> Result<(), String> {
    // The identity is also in labels of jobs. Those of owners were recorded like all others.
    let uid = |object: &Value| text(&object["metadata"], "uid").to_owned();
    let ours = match uid(ours).as_str() {
        "" => ours.clone(),
        own => serde_json::from_str(&ours.to_string().replace(own, &uid(theirs))).expect("JSON"),
    };
    let (want, got) = (without(theirs.clone(), &MADE_UP), without(ours, &MADE_UP));
    if want == got {
        Ok(())
    } else {
        Err(format!("want {want}, got {got}"))
    }
}

/// Whole objects with one outcome.
fn is_completed(row: &Value) -> bool {
    let request = &row["request"];
    let whole = !request["object"].is_null() && request.get("via").is_none();
    whole && row.get("outcomes").is_none() && row["observed"].get("closed").is_none()
}

#[test]
fn completed_objects() {
    let Some(path) = shared("golden/map/vectors.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows.into_iter().filter(is_completed).collect();
    Gate::new("map-completed", 800).run(&rows, id, check_completed);
}

/// The policy and the exceptions of a row as they are stored.
fn stored(row: &Value) -> Loaded {
    let mut policy = row["policy"].clone();
    if let Some(spec) = row.get("stored_spec") {
        policy["spec"] = spec.clone();
    }
    let exceptions = items(row, "exceptions").fold(String::new(), |text, one| format!("{text}---\n{one}\n"));
    let mut sources = Sources::new();
    let mut loaded = Loaded::default();
    for (text, purpose) in [
        (policy.to_string(), Purpose::Policies),
        (exceptions, Purpose::Exceptions),
    ] {
        let file = sources.add("row.yaml", text.as_str());
        let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
        load(stream, file, purpose, &mut loaded);
    }
    loaded
}

fn conversion(loaded: &Loaded) -> Result<Conversion, String> {
    let [policy] = loaded.policies.as_slice() else {
        return Err(format!("not read: {:?}", loaded.diagnostics));
    };
    let exceptions = Exceptions {
        classic: &[],
        cel: &loaded.cel_exceptions,
    };
    Ok(convert(
        policy,
        exceptions,
        &Discovery::kubernetes(),
        Options::default(),
    ))
}

fn check_generated(row: &Value) -> Result<(), String> {
    let mut loaded = stored(row);
    let first = compare_generated(row, &loaded);
    // Upstream lists exceptions in any order.
    if first.is_err() && loaded.cel_exceptions.len() == 2 {
        loaded.cel_exceptions.reverse();
        return compare_generated(row, &loaded).or(first);
    }
    first
}

fn compare_generated(row: &Value, loaded: &Loaded) -> Result<(), String> {
    let wanted = text(row, "outcome");
    let conversion = conversion(loaded)?;
    match conversion.outcome {
        Outcome::Generated(_) => Err("a validating policy".to_owned()),
        Outcome::Refused(refusal) => {
            let message = refusal.message.as_deref().unwrap_or_default();
            let silent = matches!(text(row, "stage"), "silent" | "panic");
            let expected = if silent { "" } else { text(row, "message") };
            if wanted == "refused" && message == expected {
                return Ok(());
            }
            Err(format!("want {wanted} {expected:?}, got {refusal:?}"))
        }
        Outcome::Mutating(generated) => {
            if wanted != "generated" {
                return Err(format!("generated, want {}", row["message"]));
            }
            for (ours, theirs) in [
                (&generated.map.document, "map"),
                (&generated.binding.document, "binding"),
            ] {
                let (ours, theirs) = (ours.root().to_serde(), &row[theirs]);
                if ours != *theirs {
                    return Err(format!("ours {ours}, theirs {theirs}"));
                }
            }
            let installed = items(row, "install").find(|one| text(one, "object") == "MutatingAdmissionPolicy");
            let message = installed.map_or("", |one| text(one, "message"));
            let ours = generated.map.checked.message.as_str();
            if ours != message && !(ours.is_empty() && installed.is_none()) {
                return Err(format!("install {ours:?}, want {message:?}"));
            }
            let hazard = text(row, "hazard");
            let mut found = conversion.report.iter().filter_map(|item| item.hazard);
            if !hazard.is_empty() && !found.any(|found| found.code == hazard) {
                return Err(format!("{hazard} is not in the report"));
            }
            Ok(())
        }
    }
}

#[test]
fn generated() {
    Gate::new("map-generated-own", 60).fixture("map/generated.jsonl", id, check_generated);
    Gate::new("map-generated", 366).shared("golden/map/generated.jsonl", id, check_generated);
}

/// If the order of policies is undefined, one outcome was recorded: that of the given order or of its reverse. The
/// order of exceptions, which a cache lists, is never defined.
fn check_pair(row: &Value, settings: &Settings) -> Result<(), String> {
    let mut first = compare_pair(row, settings);
    for (key, is_undefined) in [
        ("policies", row.get("order_undefined").is_some()),
        ("exceptions", items(row, "exceptions").count() > 1),
    ] {
        if first.is_err() && is_undefined {
            let mut reversed = row.clone();
            if let Some(list) = reversed.get_mut(key).and_then(Value::as_array_mut) {
                list.reverse();
            }
            first = compare_pair(&reversed, settings).or(first);
        }
    }
    first
}

/// The policies as Kyverno had them: one with a generated native policy leaves Kyverno's webhooks.
fn kept_by_kyverno(row: &Value) -> Value {
    let mut row = row.clone();
    let policies = row.get_mut("policies").and_then(Value::as_array_mut);
    for policy in policies.into_iter().flatten() {
        if let Some(autogen) = policy["spec"].get_mut("autogen").and_then(Value::as_object_mut) {
            autogen.remove("mutatingAdmissionPolicy");
        }
    }
    row
}

/// The answer on a pair, from the object as sent.
fn pair_answer(row: &Value, settings: &Settings) -> Result<Map<String, Value>, String> {
    let mut objects = objects(row);
    objects.extend(items(row, "exceptions").cloned());
    let objects: Vec<Document> = objects.iter().map(Document::from).collect();
    let evaluator = Evaluator::new(&objects, settings);
    let request = evaluator.request(Document::from(&row["request"]).root())?;
    let server = Server::new(evaluator.discovery(), evaluator.world().params.clone()).without_service_accounts();
    let (answers, refused) = evaluator.evaluate_on(&server, &request, Data::Normalised);
    if let Some(refused) = refused {
        return Err(format!("refused before: {}", refused.message));
    }
    Ok(line::render(&answers))
}

/// Both sides on one request: verdicts, objects, and the class of the difference.
fn compare_pair(row: &Value, settings: &Settings) -> Result<(), String> {
    let row = &kept_by_kyverno(row);
    let answer = pair_answer(row, settings)?;
    for (ours, theirs) in [("kyverno", "kyverno"), ("vap", "map")] {
        let Some(observed) = row.get(theirs) else { continue };
        let found = &answer[ours];
        if found.is_null() {
            return Err(format!("{theirs}: no answer"));
        }
        if (observed["allowed"] == true) != (found["allowed"] == true) {
            return Err(format!(
                "{theirs}: want {} {}, got {} {}",
                observed["code"], observed["message"], found["code"], found["message"]
            ));
        }
        if let Some(after) = observed.get("after") {
            same_object(after, &found["object"]).map_err(|error| format!("{theirs}: {error}"))?;
        }
    }
    let class = text(&answer["divergence"], "class");
    let fits = match (
        text(row, "pair"),
        row["kyverno"]["allowed"] == true,
        row["map"]["allowed"] == true,
    ) {
        ("agree", ..) => class.is_empty() || class == "message",
        ("differs", true, true) => class == "changed",
        ("differs", true, false) => class == "stricter",
        ("differs", false, true) => class == "weaker",
        // Both refuse, at different stages.
        ("differs", false, false) => class.is_empty() || class == "message",
        // Nothing was generated from policies that do not request it; here both sides are compared anyway.
        _ => class == "not-convertible" || row.get("kyverno").is_none() || row["map_outcome"] == "refused",
    };
    if !fits {
        return Err(format!(
            "pair {}, class {class:?}: {}",
            row["pair"], answer["divergence"]
        ));
    }
    Ok(())
}

/// Rows with their policies; others are about files of public repositories.
fn is_own(row: &Value) -> bool {
    text(row, "origin") == "own" && row.get("request").is_some()
}

#[test]
fn live_pairs() {
    let settings = Settings::default();
    let run = |name: &str, path: &std::path::Path, rows: usize| {
        let all: Vec<Value> = jsonl(path);
        let all: Vec<Value> = all.into_iter().filter(is_own).collect();
        Gate { name, rows }.run(&all, id, |row| check_pair(row, &settings));
    };
    run("map-live-own", &fixture("map/live.jsonl"), 60);
    if let Some(path) = shared("golden/map/live.jsonl") {
        run("map-live", &path, 530);
        count_causes(&jsonl(&path), &settings);
    }
}

/// Counts the differences that name the hazard which a person found to be the cause.
fn count_causes(rows: &[Value], settings: &Settings) {
    let rows: Vec<&Value> = rows
        .iter()
        .filter(|row| is_own(row) && row.get("hazard").is_some())
        .collect();
    let named = rows.iter().filter(|row| {
        let answer = pair_answer(&kept_by_kyverno(row), settings);
        answer.is_ok_and(|answer| answer["divergence"]["code"] == row["hazard"])
    });
    print_count(&format!(
        "map-live: the cause is that of {} of {} differences",
        named.count(),
        rows.len()
    ));
}

#[test]
fn live_pairs_of_the_corpus() {
    let Some(path) = shared("golden/map/live.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows.into_iter().filter(|row| text(row, "origin") == "corpus").collect();
    let corpus = corpus(rows.iter());
    let settings = Settings {
        discovery: corpus.discovery.clone(),
        ..Settings::default()
    };
    Gate::new("map-live-corpus", 62).run(&rows, id, |row| {
        let (mut policy, object) = corpus.row(row)?;
        if row["pod_controllers_off"] == true {
            policy["spec"]["autogen"]["podControllers"] = json!({"controllers": []});
        }
        let mut row = row.clone();
        row["policies"] = json!([policy]);
        row["request"]["object"] = object;
        compare_pair(&row, &settings)
    });
}
