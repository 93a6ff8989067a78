//! Gate `parts`: Kyverno's patchers on single resources, with result, change and error text.

use kyvtest_go_compat::value::Document;
use kyvtest_patch::{Patched, classic};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gate, fixture, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(rename = "fn")]
    function: String,
    base: Value,
    #[serde(default)]
    overlay: Value,
    #[serde(default)]
    patch: String,
    observed: Observed,
}

#[derive(Deserialize)]
struct Observed {
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    changed: bool,
    error: Option<String>,
    panic: Option<String>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A value as Go decodes it from JSON: every number is a double.
fn document(value: &Value) -> Document {
    let text = value.to_string();
    kyvtest_go_compat::value::go_json::read(&text).expect("valid JSON")
}

fn check(row: &Row) -> Result<(), String> {
    let base = document(&row.base);
    let overlay = document(&row.overlay);
    let merge = (row.function == "merge").then(|| overlay.root());
    let ours = classic::patch(base.root(), merge, &row.patch);
    let expected = &row.observed;
    match (ours, &expected.error, &expected.panic) {
        (Ok(Patched { document: ours, changed }), None, None) => {
            let result = Document::from(expected.result.as_ref().expect("a result"));
            if ours != result {
                return Err(format!("{:?}, expected {:?}", ours.root(), result.root()));
            }
            if changed != expected.changed {
                return Err(format!("changed: {changed}, expected {}", expected.changed));
            }
            Ok(())
        }
        (Err(ours), Some(expected), None) => {
            let ours = ours.to_string();
            if ours == *expected {
                return Ok(());
            }
            Err(format!("error {ours:?}, expected {expected:?}"))
        }
        (Err(ours), None, Some(_)) if ours.is_panic() => Ok(()),
        (ours, error, panic) => {
            let ours = ours.map(|patched| patched.document);
            Err(format!("{ours:?}, expected error {error:?}, panic {panic:?}"))
        }
    }
}

fn run(rows: &[Row], name: &str, agree: usize) {
    Gate { name, agree }.run(rows, |row| &row.id, check);
}

#[test]
fn parts() {
    if let Some(path) = shared("golden/mutate/parts.jsonl") {
        run(&jsonl(&path), "patch-parts", 0);
    }
}

/// Rows outside the repository, such as fresh random ones: `KYVTEST_PATCH_ROWS` is their file.
#[test]
fn other_parts() {
    if let Some(path) = std::env::var_os("KYVTEST_PATCH_ROWS") {
        run(&jsonl(path.as_ref()), "patch-parts-other", 0);
    }
}

#[test]
fn own_parts() {
    run(&jsonl(&fixture("parts.jsonl")), "patch-parts-own", 0);
}
