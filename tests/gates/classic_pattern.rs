//! `validate.pattern`: patterns with anchors against resources, results, paths and texts.

use kyvtest::{
    kyverno::classic::pattern::match_pattern,
    value::{Data, Document},
};
use serde_json::Value;

use crate::{
    kyverno::text,
    support::{Gate, jsonl, shared},
};

/// A resource as the command line reads it: all numbers are doubles.
pub(crate) fn doubles(value: Data) -> Data {
    match value {
        Data::Int(value) => Data::Double(value as f64),
        Data::Uint(value) => Data::Double(value as f64),
        Data::List(items) => items.iter().cloned().map(doubles).collect(),
        Data::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), doubles(value.clone())))
            .collect(),
        value => value,
    }
}

/// A value of a row.
pub(crate) fn data(value: &Value) -> Data {
    Data::from(Document::from(value).root())
}

fn check(row: &Value) -> Result<(), String> {
    let pattern = data(&row["pattern"]);
    let resource = doubles(data(&row["resource"]));
    let ours = match match_pattern(&resource, &pattern) {
        Ok(()) => ("pass", String::new(), String::new()),
        Err(error) => {
            let result = match (error.skip, error.path.is_empty()) {
                (true, _) => "skip",
                (false, true) => "error",
                (false, false) => "fail",
            };
            (result, error.path, error.message)
        }
    };
    let theirs = (
        text(row, "result"),
        text(row, "path").to_owned(),
        text(row, "message").to_owned(),
    );
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("ours {ours:?}, expected {theirs:?}"))
    }
}

fn run(rows: &[Value], name: &str, least: usize) {
    Gate { name, rows: least }.run(rows, |row| text(row, "id").to_owned(), check);
}

#[test]
fn classic_pattern() {
    if let Some(path) = shared("golden/classic/pattern.jsonl") {
        run(&jsonl(&path), "classic-pattern", 8419);
    }
}
