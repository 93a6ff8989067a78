//! Gates of conversion: the objects that Kyverno's generator builds, and its refusals.

use std::{path::Path, sync::Arc};

use kyvtest::{
    convert::{Conversion, Exceptions, Item, Options, Outcome, RefusalCode, convert},
    diagnostic::Sources,
    kube::Discovery,
    policy::{CelPolicyException, Loaded, PolicyException, Purpose, load},
    value::Document,
    yaml,
};
use serde_json::{Value, json};

use crate::support::{Gate, fixture, id, jsonl, read, shared, text};

/// Policies and exceptions of texts.
fn loaded(policy: &str, exceptions: &str) -> Loaded {
    let mut sources = Sources::new();
    let mut loaded = Loaded::default();
    for (name, text, purpose) in [
        ("policy.yaml", policy, Purpose::Policies),
        ("exceptions.yaml", exceptions, Purpose::Exceptions),
    ] {
        let file = sources.add(name, text);
        load(
            yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default()),
            file,
            purpose,
            &mut loaded,
        );
    }
    loaded
}

/// Upstream lists exceptions in any order: the order of ours that agrees, if one does.
fn in_some_order(mut loaded: Loaded, check: impl Fn(&Loaded) -> Result<(), String>) -> Result<(), String> {
    let first = check(&loaded);
    if first.is_err() && loaded.exceptions.len().max(loaded.cel_exceptions.len()) == 2 {
        loaded.exceptions.reverse();
        loaded.cel_exceptions.reverse();
        return check(&loaded).or(first);
    }
    first
}

/// The conversion of the one policy; `None` if it cannot be read.
fn converted(loaded: &Loaded, discovery: &Discovery, force: bool) -> Option<Conversion> {
    let classic: &[Arc<PolicyException>] = &loaded.exceptions;
    let cel: &[Arc<CelPolicyException>] = &loaded.cel_exceptions;
    let [policy] = loaded.policies.as_slice() else {
        return None;
    };
    let options = Options { force, now: None };
    Some(convert(policy, Exceptions { classic, cel }, discovery, options))
}

fn json(document: &Document) -> Value {
    document.root().to_serde()
}

fn documents(values: &Value) -> String {
    let values = values.as_array().into_iter().flatten();
    values.fold(String::new(), |text, value| text + "---\n" + &value.to_string() + "\n")
}

/// Our code if Kyverno reports nothing.
fn silent(stage: &str) -> Option<&'static str> {
    match stage {
        "silent" => Some("no-validate-rule"),
        "panic" => Some("no-match-constraints"),
        "store" => Some("invalid-policy"),
        _ => None,
    }
}

fn check_generated(row: &Value, discovery: &Discovery) -> Result<(), String> {
    let loaded = loaded(&row["policy"].to_string(), &documents(&row["exceptions"]));
    in_some_order(loaded, |loaded| compare_generated(row, loaded, discovery))
}

fn compare_generated(row: &Value, loaded: &Loaded, discovery: &Discovery) -> Result<(), String> {
    let conversion = converted(loaded, discovery, false);
    let expected = text(row, "message");
    match conversion.map(|conversion| conversion.outcome) {
        None if text(row, "stage") == "store" => Ok(()),
        None => Err(format!("not read: {:?}", loaded.diagnostics)),
        Some(Outcome::Refused(refusal)) => {
            if text(row, "outcome") != "refused" {
                return Err(format!("refused: {refusal:?}"));
            }
            let message = refusal.message.as_deref();
            match silent(text(row, "stage")) {
                Some(code) if code != refusal.code.as_str() || message.is_some() => Err(format!(
                    "{} {message:?}, expected {code} and silence",
                    refusal.code.as_str()
                )),
                None if message != Some(expected) => Err(format!("message {message:?}, expected {expected}")),
                _ => Ok(()),
            }
        }
        Some(Outcome::Mutating(_)) => Err("a mutating policy".to_owned()),
        Some(Outcome::Generated(generated)) => {
            if text(row, "outcome") != "generated" {
                return Err(format!("generated, expected {expected}"));
            }
            let [binding] = generated.bindings.as_slice() else {
                return Err("not one binding".to_owned());
            };
            for (ours, theirs) in [(&generated.vap.document, "vap"), (&binding.document, "binding")] {
                let (ours, theirs) = (json(ours), &row[theirs]);
                if ours != *theirs {
                    return Err(format!("ours {ours}, expected {theirs}"));
                }
            }
            Ok(())
        }
    }
}

/// Sources occur several times: as written, with generation requested, and without pod controllers.
fn generated_id(row: &Value) -> String {
    let flag = |key: &str| {
        if row[key] == true {
            format!("+{key}")
        } else {
            String::new()
        }
    };
    let exceptions = row["exceptions"].as_array().map_or(0, Vec::len);
    let exceptions = if exceptions > 0 { "+exceptions" } else { "" };
    let flags = [flag("forced"), flag("pod_controllers_off")].concat();
    format!("{}{flags}{exceptions}", text(row, "source"))
}

fn run_generated(name: &str, path: &Path, discovery: &Path, rows: usize) {
    let file = Sources::new().add("discovery.tsv", "");
    let discovery = Discovery::from_tsv(&read(discovery), file).expect("a table");
    let mut all: Vec<Value> = jsonl(path);
    all.retain(|row| text(&row["policy"], "kind") != "MutatingPolicy");
    Gate { name, rows }.run(&all, generated_id, |row| check_generated(row, &discovery));
}

#[test]
fn convert_generated() {
    let Some(path) = shared("golden/apiserver/generated.jsonl") else {
        return;
    };
    let discovery = shared("golden/apiserver/discovery.tsv").expect("it lies beside the rows");
    run_generated("convert-generated", &path, &discovery, 924);
}

/// Applies the API server's defaults.
fn default(object: &mut Value) {
    let kind = text(object, "kind");
    let is_policy = matches!(kind, "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy");
    let spec = &mut object["spec"];
    if !is_policy {
        return;
    }
    let set = |map: &mut Value, key: &str, value: Value| {
        if map.get(key).is_none() {
            map[key] = value;
        }
    };
    set(spec, "failurePolicy", json!("Fail"));
    let constraints = &mut spec["matchConstraints"];
    set(constraints, "matchPolicy", json!("Equivalent"));
    set(constraints, "namespaceSelector", json!({}));
    set(constraints, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints
            .get_mut(key)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            set(rule, "scope", json!("*"));
        }
    }
}

/// Whether everything expected is present: maps may have more, lists may not. A key `(list[?name == 'x'])` selects
/// items by name.
fn subset(expected: &Value, ours: &Value, path: &str) -> Result<(), String> {
    match (expected, ours) {
        (Value::Object(expected), Value::Object(map)) => {
            for (key, expected) in expected {
                let picked;
                let found = match key.strip_prefix('(').and_then(|key| key.strip_suffix("'])")) {
                    Some(query) => {
                        let (list, name) = query.split_once("[?name == '").ok_or(format!("{path}: query {key}"))?;
                        let items = map.get(list).and_then(Value::as_array).into_iter().flatten();
                        picked = Value::Array(items.filter(|item| text(item, "name") == name).cloned().collect());
                        &picked
                    }
                    None => map.get(key).unwrap_or(&Value::Null),
                };
                subset(expected, found, &format!("{path}.{key}"))?;
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(list)) if expected.len() == list.len() => {
            let mut pairs = expected.iter().zip(list).enumerate();
            pairs.try_for_each(|(i, (expected, ours))| subset(expected, ours, &format!("{path}[{i}]")))
        }
        _ if expected == ours => Ok(()),
        _ => Err(format!("{path}: ours {ours}, expected {expected}")),
    }
}

fn check_case(folder: &Path, case: &Value, discovery: &Discovery) -> Result<(), String> {
    let file = |name: &str| {
        let path = folder.join(name);
        if path.exists() { read(&path) } else { String::new() }
    };
    let loaded = loaded(&file("policy.yaml"), &file("exceptions.yaml"));
    in_some_order(loaded, |loaded| compare_case(case, loaded, discovery, &file))
}

fn compare_case(
    case: &Value,
    loaded: &Loaded,
    discovery: &Discovery,
    file: &impl Fn(&str) -> String,
) -> Result<(), String> {
    let conversion = converted(loaded, discovery, false).ok_or(format!("not read: {:?}", loaded.diagnostics))?;
    let wanted = text(case, "outcome") == "generated";
    let objects = match &conversion.outcome {
        Outcome::Refused(_) if !wanted => return Ok(()),
        Outcome::Refused(refusal) => return Err(format!("refused: {refusal:?}")),
        _ if !wanted => return Err("generated".to_owned()),
        Outcome::Generated(generated) => [
            (&generated.vap.document, "expected_vap.yaml"),
            (&generated.bindings[0].document, "expected_vapb.yaml"),
        ],
        Outcome::Mutating(generated) => [
            (&generated.map.document, "expected_map.yaml"),
            (&generated.binding.document, "expected_mapb.yaml"),
        ],
    };
    for (ours, theirs) in objects {
        let theirs = file(theirs);
        if theirs.is_empty() {
            continue;
        }
        let mut ours = json(ours);
        default(&mut ours);
        let mut theirs = json(&Document::from_yaml(&theirs)?);
        if text(&ours, "kind").starts_with("Mutating") {
            // If v1 is served, Kyverno generates v1; the cases of older versions ran on older servers.
            theirs["apiVersion"] = ours["apiVersion"].clone();
        }
        subset(&theirs, &ours, "")?;
    }
    Ok(())
}

#[test]
fn convert_cases() {
    let Some(folder) = shared("golden/vap-generation") else {
        return;
    };
    let index: Value = serde_json::from_str(&read(&folder.join("index.json"))).expect("JSON");
    let cases = index["cases"].as_array().expect("cases");
    let discovery = Discovery::kubernetes();
    Gate::new("vap-generation", 79).run(
        cases,
        |case| text(case, "case").to_owned(),
        |case| check_case(&folder.join(text(case, "case")), case, &discovery),
    );
}

/// Hazards that a policy alone does not show, or that every policy has.
const NOT_SHOWN: [&str; 4] = ["H22", "H28", "H69", "V13"];

/// The objects of a policy with a hazard, and whether the report names it.
fn check_hazard(row: &Value, discovery: &Discovery) -> Result<(), String> {
    let loaded = loaded(text(row, "policy"), text(row, "exceptions"));
    let conversion = converted(&loaded, discovery, false).ok_or(format!("not read: {:?}", loaded.diagnostics))?;
    match (&conversion.outcome, row["generated"].as_str()) {
        (Outcome::Mutating(_), _) => return Err("a mutating policy".to_owned()),
        (Outcome::Refused(_), None) => {}
        (Outcome::Refused(refusal), Some(_)) => return Err(format!("refused: {refusal:?}")),
        (Outcome::Generated(_), None) => return Err("generated".to_owned()),
        (Outcome::Generated(generated), Some(expected)) => {
            let stream = yaml::read(expected, yaml::Mode::Lax, &yaml::Limits::default());
            let ours = [&generated.vap.document, &generated.bindings[0].document];
            for (ours, theirs) in ours.into_iter().zip(stream.documents()) {
                let theirs = Document::from(theirs.tree().map_err(ToString::to_string)?.root());
                if json(ours) != json(&theirs) {
                    return Err(format!("ours {ours:?}, expected {theirs:?}"));
                }
            }
        }
    }
    let id = text(row, "id");
    let named = |item: &Item| item.hazard.is_some_and(|hazard| hazard.code == id);
    if NOT_SHOWN.contains(&id) || conversion.report.iter().any(named) {
        return Ok(());
    }
    let codes: Vec<&str> = conversion
        .report
        .iter()
        .filter_map(|item| Some(item.hazard?.code))
        .collect();
    Err(format!("the report does not name the hazard: {codes:?}"))
}

#[test]
fn convert_hazards() {
    let rows: Vec<Value> = jsonl(&fixture("convert/hazards.jsonl"));
    let discovery = Discovery::kubernetes();
    Gate::new("convert-hazards", 58).run(&rows, id, |row| check_hazard(row, &discovery));
}

/// A policy that requests generation converts the same with force as without, and one that does not converts as if it
/// did.
#[test]
fn force_equals_a_request() {
    for row in jsonl::<Value>(&fixture("convert/hazards.jsonl")) {
        let marked = text(&row, "policy").to_owned();
        let unmarked = marked
            .replace("generate: true", "generate: false")
            .replace("enabled: true", "enabled: false");
        let outcome = |policy: &str, force: bool| {
            let loaded = loaded(policy, text(&row, "exceptions"));
            match converted(&loaded, &Discovery::kubernetes(), force)
                .expect("it is read")
                .outcome
            {
                Outcome::Generated(generated) => Ok(json(&generated.vap.document)),
                Outcome::Mutating(generated) => Ok(json(&generated.map.document)),
                Outcome::Refused(refusal) => Err(refusal.code),
            }
        };
        assert_eq!(outcome(&marked, true), outcome(&marked, false), "{}", row["id"]);
        assert_eq!(outcome(&unmarked, true), outcome(&marked, false), "{}", row["id"]);
        assert_eq!(outcome(&unmarked, false), Err(RefusalCode::NotMarked), "{}", row["id"]);
    }
}
