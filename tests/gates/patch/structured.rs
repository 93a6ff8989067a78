//! Gate `patch-structured`: merges of apply configurations, with results and error messages.

use std::collections::BTreeSet;

use kyvtest_go_compat::value::{Document, go_json};
use kyvtest_patch::structured::{self, Atomics, Schema};
use serde::Deserialize;
use serde_json::Value;

use kyvtest_gates::{Minimum, jsonl};

#[derive(Deserialize)]
struct Row {
    id: String,
    object: Value,
    config: Value,
    #[serde(default)]
    schema: Option<Value>,
    observed: Observed,
}

#[derive(Deserialize)]
struct Observed {
    result: Option<Value>,
    error: Option<String>,
}

fn sorted(document: &Document) -> String {
    let mut out = String::new();
    go_json::write_value(&mut out, document.root()).expect("finite numbers");
    out
}

fn check(row: &Row) -> Result<(), String> {
    let (object, config) = (Document::from(&row.object), Document::from(&row.config));
    let text = |key: &str| row.object[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let custom = row.schema.as_ref().map(|schema| {
        let schema = Document::from(schema);
        Schema::custom(api_version, kind, Some(schema.root()))
    });
    let schema = custom.as_ref().unwrap_or_else(|| Schema::builtin());
    let ours = schema
        .kind(api_version, kind)
        .and_then(|ty| structured::apply(ty, object.root(), &config.root().into(), Atomics::Reject));
    match (ours, &row.observed.error) {
        (Ok(ours), None) => {
            let expected = Document::from(row.observed.result.as_ref().expect("a result"));
            let (ours, expected) = (sorted(&ours), sorted(&expected));
            if ours == expected {
                return Ok(());
            }
            Err(format!("{ours}, expected {expected}"))
        }
        (Err(ours), Some(expected)) => {
            let ours = ours.to_string();
            if has_same_problems(&ours, expected) {
                return Ok(());
            }
            Err(format!("{ours:?}, expected {expected:?}"))
        }
        (Ok(ours), Some(expected)) => Err(format!("{}, expected {expected:?}", sorted(&ours))),
        (Err(ours), None) => Err(format!("{:?}, expected a result", ours.to_string())),
    }
}

/// Compares messages that list several problems in the order of a Go map. An undeclared field ends the walk over its map,
/// so that the problems of its neighbours are listed or not.
fn has_same_problems(ours: &str, expected: &str) -> bool {
    let parts = |text: &str| -> BTreeSet<String> {
        text.replace("object: errors:", "object")
            .replace(": .", "\n.")
            .split('\n')
            .flat_map(|line| line.split(", ."))
            .map(|part| part.trim().trim_start_matches('.').to_owned())
            .collect()
    };
    let (ours, expected) = (parts(ours), parts(expected));
    let is_partial = |parts: &BTreeSet<String>| parts.iter().any(|part| part.ends_with("field not declared in schema"));
    ours == expected || is_partial(&ours) && is_partial(&expected) && ours.intersection(&expected).count() > 1
}

/// Rows outside the repository, such as fresh random ones: `KYVTEST_STRUCTURED_ROWS` is their file.
#[test]
fn other_structured() {
    if let Some(path) = std::env::var_os("KYVTEST_STRUCTURED_ROWS") {
        let rows: Vec<Row> = jsonl(path.as_ref());
        let gate = Minimum {
            name: "patch-structured-other",
            agree: 0,
        };
        gate.run(&rows, |row| &row.id, check);
    }
}
