//! Gates over recorded requests, from the object as sent: the verdicts are those on the object that the server
//! completed.
//!
//! `as-sent-native`: vectors of the API server; `as-sent-live`: vectors of a live Kyverno. Both servers ran without the
//! ServiceAccount plugin.

use kyvtest::eval::{Evaluator, Settings, line};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::config::Config;
use kyvtest_prove::server::Server;
use serde_json::{Map, Value};

use crate::{
    eval::{live, settings},
    support::{Gate, fixture, id, jsonl, read, shared, text},
};

/// The cluster of the vectors: its custom kinds have definitions without a schema.
fn cluster() -> Settings {
    let mut settings = settings();
    let definitions = read(&fixture("normalise/open-definitions.yaml"));
    for part in definitions.split("\n---\n") {
        let definition = Document::from_yaml(part).expect("YAML");
        settings.discovery.add_crd(definition.root()).expect("a definition");
    }
    settings
}

/// The parts of a response that make up the verdict.
fn verdict(answer: &Map<String, Value>) -> Vec<(String, Value)> {
    let sides = ["kyverno", "vap"].into_iter().flat_map(|side| {
        let fields = ["allowed", "code", "status", "effect"];
        fields.map(|field| (format!("{side}.{field}"), answer[side][field].clone()))
    });
    sides.collect()
}

fn decide(
    row: &Value,
    objects: &[Value],
    request: &Value,
    settings: &Settings,
    complete: bool,
) -> Result<Vec<(String, Value)>, String> {
    let mut settings = settings.clone();
    if text(row, "config") == "chart" {
        settings.config = Config::chart();
    }
    let objects: Vec<Document> = objects.iter().map(Document::from).collect();
    let evaluator = Evaluator::new(&objects, &settings);
    let mut request = evaluator.request(Document::from(request).root())?;
    if complete {
        let server = Server::new(evaluator.discovery(), evaluator.world().params.clone());
        let admitted = server.without_service_accounts().admit(&mut request);
        admitted.map_err(|refused| format!("refused: {}", refused.message))?;
    }
    Ok(verdict(&line::render(&evaluator.decide(&request))))
}

fn check(row: &Value, settings: &Settings) -> Result<(), String> {
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let (mut objects, seen) = live(row);
    objects.extend(list("bindings"));
    let expected = decide(row, &objects, &seen, settings, false)?;
    let found = decide(row, &objects, &row["request"], settings, true)?;
    let mut pairs = expected.iter().zip(&found);
    match pairs.find(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(((field, expected), (_, found))) => {
            Err(format!("{field}: {expected} on `seen`, {found} on the object as sent"))
        }
    }
}

/// Bodies as sent, with the server's result.
fn is_compared(row: &Value) -> bool {
    let request = &row["request"];
    row["observed"]["allowed"].is_boolean()
        && row.get("seen").is_some()
        && request.get("via").is_none()
        && matches!(text(request, "operation"), "CREATE" | "UPDATE")
}

fn gate(name: &str, file: &str, rows: usize) {
    let Some(path) = shared(file) else { return };
    let all: Vec<Value> = jsonl(&path);
    let compared: Vec<Value> = all.into_iter().filter(is_compared).collect();
    let settings = cluster();
    let gate = Gate { name, rows };
    gate.run(&compared, id, |row| check(row, &settings));
}

#[test]
fn native_policies_decide_alike_on_objects_as_sent() {
    gate("as-sent-native", "golden/apiserver/vectors.jsonl", 1_450);
}

#[test]
fn kyverno_decides_alike_on_objects_as_sent() {
    gate("as-sent-live", "golden/kyverno-live/vectors.jsonl", 1_300);
}
