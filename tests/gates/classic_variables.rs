//! Gates of variables and images in classic rules.

use std::path::Path;

use kyvtest::{
    kyverno::classic::{
        context::{Context, NoOutside},
        variables::{substitute_all, substitute_preconditions},
    },
    text::image_info::ImageInfo,
    value::{Builder, Data},
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::support::{Gate, fixture, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    id: String,
    doc: Value,
    context: Value,
    mode: String,
    #[serde(default)]
    result: Value,
    error: Option<String>,
    panic: Option<String>,
}

fn data(json: &Value) -> Data {
    let mut builder = Builder::new();
    builder.json(json);
    Data::from(builder.finish().root())
}

fn check(row: &Row) -> Result<(), String> {
    let mut context = Context::from_data(data(&row.context).with_doubles(), &NoOutside);
    let doc = data(&row.doc);
    let ours = match row.mode.as_str() {
        "pattern" => substitute_all(&doc, &mut context),
        "preconditions" => substitute_preconditions(&doc.with_doubles(), &mut context),
        _ => substitute_all(&doc.with_doubles(), &mut context),
    };
    let differs = |theirs: &dyn std::fmt::Debug| Err(format!("{} {:?}, upstream: {theirs:?}", row.doc, ours));
    match (&ours, &row.error, &row.panic) {
        (Err(error), Some(theirs), _) if error.to_string() == *theirs => Ok(()),
        // Upstream's process ends here; only the absence of a value can be compared.
        (Err(_), None, Some(_)) => Ok(()),
        (Ok(ours), None, None) if ours.with_doubles() == data(&row.result).with_doubles() => Ok(()),
        (_, Some(theirs), _) => differs(theirs),
        (_, _, Some(theirs)) => differs(theirs),
        _ => differs(&row.result),
    }
}

/// Runs a gate on the project's own selection and on the shared file, if present.
fn run<R: DeserializeOwned + Sync>(
    name: &str,
    rows: usize,
    own: usize,
    id: fn(&R) -> String,
    check: fn(&R) -> Result<(), String>,
) {
    let go = |path: &Path, rows: usize| Gate { name, rows }.run(&jsonl::<R>(path), id, check);
    go(&fixture(&format!("classic/{name}.jsonl")), own);
    if let Some(path) = shared(&format!("golden/classic/{name}.jsonl")) {
        go(&path, rows);
    }
}

#[test]
fn substitute() {
    run("substitute", 766, 131, |row: &Row| row.id.clone(), check);
}

#[test]
fn imageinfo() {
    run(
        "imageinfo",
        47,
        47,
        |row: &Map<String, Value>| row["id"].as_str().unwrap_or_default().to_owned(),
        |row| {
            let image = row["image"].as_str().unwrap_or_default();
            let mut ours = match ImageInfo::parse(image) {
                Ok(info) => json!({
                    "registry": info.registry,
                    "name": info.name,
                    "path": info.path,
                    "tag": info.tag,
                    "digest": info.digest,
                    "reference": info.reference,
                    "referenceWithTag": info.reference_with_tag,
                    "string": info.to_string(),
                }),
                Err(error) => json!({ "error": error }),
            };
            ours["id"] = row["id"].clone();
            ours["image"] = row["image"].clone();
            let theirs = Value::Object(row.clone());
            if ours == theirs {
                return Ok(());
            }
            Err(format!("{ours}, upstream: {theirs}"))
        },
    );
}
