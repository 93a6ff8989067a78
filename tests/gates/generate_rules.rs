//! Gates `generate-{rule,gpol,dpol,image}`: `golden/generate` through the lens of `kyverno test`, and a selection of its rows
//! in `fixtures/generate`.

use std::path::Path;

use kyvtest_cel::{host::Mocks, time::Timestamp};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::offline::{Case, run};
use serde_json::{Map, Value, json};

use kyvtest_gates::{Gate, fixture, jsonl, shared};

const NOW: &str = "2026-11-16T12:00:00Z";

fn observe(row: &Value) -> Value {
    let document = Document::from(row);
    let case = Case::read(document.root()).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    let mut mocks = Mocks::new();
    mocks.set_seed(0);
    mocks.set_now(Timestamp::parse(NOW).expect("a time"));
    run(&case, &mocks).to_json()
}

/// The value with numbers as doubles, so that `5` equals `5.0`.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}

/// Keeps the keys of `ours` that `expected` has, in all objects of a list.
fn restricted(ours: &Value, expected: &Value) -> Value {
    match (ours, expected) {
        (Value::Array(ours), Value::Array(expected)) if ours.len() == expected.len() => {
            let pairs = ours.iter().zip(expected);
            pairs.map(|(ours, expected)| restricted(ours, expected)).collect()
        }
        (Value::Object(ours), Value::Object(expected)) => {
            let kept = ours
                .iter()
                .filter(|(key, _)| expected.contains_key(*key) || *key == "generated");
            let kept: Map<String, Value> = kept
                .map(|(key, value)| {
                    let is_list = key == "responses" || key == "rules";
                    let inner = expected.get(key).filter(|_| is_list);
                    (
                        key.clone(),
                        inner.map_or_else(|| normal(value), |inner| restricted(value, inner)),
                    )
                })
                .collect();
            kept.into()
        }
        (ours, _) => normal(ours),
    }
}

/// The message up to the part that depends on the network.
fn without_network(text: &str) -> &str {
    let end = ["dial tcp", "lookup "].iter().filter_map(|word| text.find(word)).min();
    end.map_or(text, |end| &text[..end])
}

/// The observation with the texts that are not compared shortened.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => without_network(text).into(),
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "cause")
            .map(|(key, value)| (key.clone(), shortened(value)))
            .collect(),
        other => normal(other),
    }
}

/// A panic upstream is an error here, of the run or of a rule.
fn is_error(observed: &Value) -> bool {
    let rules = observed["responses"].as_array().into_iter().flatten();
    let mut rules = rules.flat_map(|response| response["rules"].as_array().into_iter().flatten());
    !observed["error"].is_null() || rules.any(|rule| rule["status"] == "error")
}

fn sorted(observed: &mut Value) {
    if let Some(responses) = observed["responses"].as_array_mut() {
        responses.sort_by_key(ToString::to_string);
    }
}

fn check(row: &Value, observed: &Value) -> Result<(), String> {
    let outcomes: Vec<&Value> = match row["outcomes"].as_array() {
        Some(outcomes) => outcomes.iter().collect(),
        None => vec![&row["observed"]],
    };
    let mut first = None;
    for expected in outcomes {
        if !expected["panic"].is_null() && is_error(observed) {
            return Ok(());
        }
        let mut expected = shortened(expected);
        let mut ours = observed.clone();
        if row["unordered"] == true {
            sorted(&mut expected);
            sorted(&mut ours);
        }
        let mut ours = shortened(&restricted(&ours, &expected));
        if let (Some(fields), Some(error)) = (ours.as_object_mut(), observed.get("error")) {
            fields.insert("error".to_owned(), shortened(error));
        }
        if ours == expected {
            return Ok(());
        }
        first.get_or_insert_with(|| format!("{ours} instead of {expected}"));
    }
    Err(first.unwrap_or_default())
}

fn gate(name: &str, path: &Path) {
    let rows: Vec<Value> = jsonl(path);
    let id = |row: &Value| row["id"].as_str().unwrap_or_default().to_owned();
    let gate = Gate { name, rows: rows.len() };
    gate.run(&rows, id, |row| check(row, &observe(row)));
}

#[test]
fn classic_rules() {
    if let Some(path) = shared("golden/generate/rule.jsonl") {
        gate("generate-rule", &path);
    }
}

#[test]
fn generating_policies() {
    if let Some(path) = shared("golden/generate/gpol.jsonl") {
        gate("generate-gpol", &path);
    }
}

#[test]
fn deleting_policies() {
    if let Some(path) = shared("golden/generate/dpol.jsonl") {
        gate("generate-dpol", &path);
    }
}

#[test]
fn images() {
    if let Some(path) = shared("golden/generate/image.jsonl") {
        gate("generate-image", &path);
    }
}

#[test]
fn own_rows() {
    for name in ["rule", "gpol", "dpol", "image"] {
        gate(
            &format!("generate-{name}-own"),
            &fixture(&format!("generate/{name}.jsonl")),
        );
    }
}
