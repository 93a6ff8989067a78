//! Gate `parts`: Kyverno's patchers on single resources, with result, change and error text.

use kyvtest_go_compat::value::{Document, go_json};
use kyvtest_patch::{
    Patched, classic,
    json6902::{Options, Patch, Version},
};
use serde::Deserialize;
use serde_json::Value;

use kyvtest_gates::{Minimum, fixture, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    probes: String,
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
fn document(row: &Row, value: &Value) -> Document {
    let mut text = value.to_string();
    if row.probes.contains("number -0.0") {
        // These rows were recorded without the sign of their zero.
        text = text.replace("\"a\":0", "\"a\":-0.0");
    }
    go_json::read(&text).expect("valid JSON")
}

/// The document as Go marshals it, which does not distinguish 5 from 5.0.
fn sorted(document: &Document) -> String {
    let mut out = String::new();
    go_json::write_value(&mut out, document.root()).expect("finite numbers");
    out
}

fn check(row: &Row) -> Result<(), String> {
    let base = document(row, &row.base);
    let overlay = document(row, &row.overlay);
    let merge = (row.function == "merge").then(|| overlay.root());
    let ours = if row.function == "json4" {
        let patch = Patch::from_json(&row.patch, Version::V4);
        let applied = patch.and_then(|patch| patch.apply(base.root(), &Options::v4()));
        applied.map_err(classic::Error::from)
    } else {
        classic::patch(base.root(), merge, &row.patch)
    };
    let expected = &row.observed;
    match (ours, &expected.error, &expected.panic) {
        (
            Ok(Patched {
                document: ours,
                changed,
            }),
            None,
            None,
        ) => {
            let ours = sorted(&ours);
            let result = sorted(&Document::from(expected.result.as_ref().expect("a result")));
            if ours != result {
                return Err(format!("{ours}, expected {result}"));
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
    Minimum { name, agree }.run(rows, |row| &row.id, check);
}

#[test]
fn parts() {
    if let Some(path) = shared("golden/mutate/parts.jsonl") {
        run(&jsonl(&path), "patch-parts", 4354);
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
    run(&jsonl(&fixture("patch/parts.jsonl")), "patch-parts-own", 797);
}
