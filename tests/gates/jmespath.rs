//! Gate of crate `jmespath`: expressions, their values and their error messages.

use std::{cmp::Ordering, path::Path};

use kyvtest::{
    jmespath::{Context, Error, Expression},
    value::{Builder, Data},
};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gate, fixture, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    id: String,
    expr: String,
    doc: Value,
    #[serde(default)]
    result: Option<Value>,
    error: Option<String>,
    stage: Option<String>,
    panic: Option<String>,
    result_go: Option<String>,
    gotype: Option<String>,
    #[serde(default)]
    unordered: bool,
}

/// JSON with every number a double, as the reference read it.
pub(crate) fn data(json: &Value) -> Data {
    let mut builder = Builder::new();
    builder.json(json);
    Data::from(builder.finish().root()).with_doubles()
}

/// Lists in an order that does not depend on the one they came in.
fn sorted(data: &Data) -> Data {
    match data {
        Data::List(items) => {
            let mut items: Vec<Data> = items.iter().map(sorted).collect();
            items.sort_by_key(Data::to_json);
            items.into_iter().collect()
        }
        Data::Map(entries) => entries.iter().map(|(key, item)| (key.clone(), sorted(item))).collect(),
        other => other.clone(),
    }
}

fn check(row: &Row) -> Result<(), String> {
    let doc = data(&row.doc);
    let (stage, answer) = match Expression::parse(&row.expr) {
        Ok(expression) => ("eval", expression.search(&doc, &Context::default())),
        Err(error) => ("compile", Err(error)),
    };
    let shown = format!("{} on {}: {answer:?}", row.expr, row.doc);
    let differs = |theirs: &dyn std::fmt::Debug| Err(format!("{shown}, upstream: {theirs:?}"));
    if let Some(theirs) = &row.error {
        return match &answer {
            Err(Error::Panic(_) | Error::Limit(_)) | Ok(_) => differs(theirs),
            Err(error) if error.to_string() == *theirs && row.stage.as_deref() == Some(stage) => Ok(()),
            Err(_) => differs(theirs),
        };
    }
    if let Some(theirs) = &row.panic {
        return match &answer {
            Err(Error::Panic(text)) if text == theirs => Ok(()),
            _ => differs(theirs),
        };
    }
    let Ok(ours) = answer else { return differs(&row.result) };
    if let Some(theirs) = &row.result_go {
        let same = match (ours, theirs.as_str()) {
            (Data::Double(ours), "NaN") => ours.is_nan(),
            (Data::Double(ours), "+Inf") => ours.partial_cmp(&f64::INFINITY) == Some(Ordering::Equal),
            (Data::Double(ours), "-Inf") => ours.partial_cmp(&f64::NEG_INFINITY) == Some(Ordering::Equal),
            _ => false,
        };
        return if same { Ok(()) } else { differs(theirs) };
    }
    let theirs = row.result.as_ref().map_or(Data::Null, data);
    // Integers of Go are none of JSON; where they occur, only their value is compared.
    let ours = if row.gotype.is_some() {
        ours.with_doubles()
    } else {
        ours
    };
    let same = if row.unordered {
        sorted(&ours) == sorted(&theirs)
    } else {
        ours == theirs
    };
    if same { Ok(()) } else { differs(&theirs) }
}

#[test]
fn jmespath() {
    let go = |name: &str, path: &Path, rows: usize| {
        let read: Vec<Row> = jsonl(path);
        Gate { name, rows }.run(&read, |row| row.id.clone(), check);
    };
    go("jmespath-own", &fixture("classic/jmespath.jsonl"), 570);
    if let Some(path) = shared("golden/classic/jmespath.jsonl") {
        go("jmespath", &path, 5_500);
    }
}
