//! Rules of a custom resource definition, compared with the recorded answers of an API server 1.36.4.

#![expect(clippy::print_stdout, reason = "a gate tells its counts and its disagreements")]

use std::{fs, path::PathBuf, sync::Arc};

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Kind, Operation, Plugin, Raw, Request, normalise};
use kyvtest_prove::server::check_rule;
use serde_json::Value;

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/normalise/rules");
    fs::read_to_string(path.join(name)).expect("the fixture")
}

/// Numbers as Go prints them: a float without a fraction looks like an integer.
fn as_printed(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, as_printed(value))).collect()),
        Value::Array(items) => items.into_iter().map(as_printed).collect(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) if float.fract() == 0.0 => (float as i64).into(),
            _ => number.into(),
        },
        other => other,
    }
}

fn check(row: &Value, cluster: &Cluster) -> Result<(), String> {
    let is_update = row["operation"] == "UPDATE";
    let mut raw = row["raw"].clone();
    let mut old = row["old"].clone();
    if is_update {
        raw["metadata"]["resourceVersion"] = "1".into();
        old["metadata"]["resourceVersion"] = "1".into();
    }
    let (raw, old) = (Document::from(&raw), Document::from(&old));
    let kind = Kind {
        api_version: "rules.example.com/v1",
        name: "Probe",
    };
    let request = Request {
        operation: if is_update {
            Operation::Update
        } else {
            Operation::Create
        },
        namespace: "default",
        ..Request::default()
    };
    let old = is_update.then(|| Raw::from(&old));
    match normalise(kind, Raw::from(&raw), old, request, cluster, false) {
        Ok(seen) => {
            let mut seen = seen.object.root().to_serde();
            if let Some(metadata) = seen["metadata"].as_object_mut() {
                metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace"));
            }
            if as_printed(seen.clone()) == row["object"] {
                return Ok(());
            }
            Err(format!("expected {}, found {seen}", row["object"]))
        }
        Err(refused) => {
            let expected = &row["rejected"];
            if expected["code"] == refused.code() && expected["message"] == refused.message.as_str() {
                return Ok(());
            }
            Err(format!("expected {expected}, found {}", refused.message))
        }
    }
}

#[test]
fn rules_hold_and_fail_as_on_a_server() {
    let definition = Document::from_json(&fixture("definition.json")).expect("a definition");
    let cluster = Cluster {
        definitions: vec![Arc::new(definition)],
        plugins: Plugin::DEFAULT.to_vec(),
        rules: Some(check_rule),
        ..Cluster::default()
    };
    let rows = fixture("rows.jsonl");
    let rows: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let different: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("{}: {}", row["id"], check(row, &cluster).err()?)))
        .collect();
    println!("gate rules: {}/{}", rows.len() - different.len(), rows.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(rows.len(), 99);
}
