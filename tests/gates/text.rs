//! Module `text` against Go: quantities, durations, number formatting, wildcards.

use std::{cmp::Ordering, path::Path};

use kyvtest::text::{
    decimal::Decimal,
    duration,
    float::{self, Layout},
    quantity::{Format, Quantity},
    wildcard,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{Gate, fixture, jsonl, shared};

/// A row as a JSON object: inputs and upstream's results side by side.
#[derive(Deserialize)]
struct Row(Map<String, Value>);

impl Row {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or("")
    }

    /// Compares our results with those of the row: the same keys, the same values.
    fn compare(&self, inputs: &[&str], ours: &Value) -> Result<(), String> {
        let theirs: Map<String, Value> = self
            .0
            .iter()
            .filter(|(key, _)| !["id", "fn"].contains(&key.as_str()) && !inputs.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let theirs = Value::Object(theirs);
        if *ours == theirs {
            return Ok(());
        }
        Err(format!("{ours}, upstream: {theirs}"))
    }
}

/// Runs a gate on the shared file, if present, and on the project's own selection of it.
fn run(name: &str, rows: usize, own: usize, check: fn(&Row) -> Result<(), String>) {
    let go = |path: &Path, rows: usize| {
        Gate { name, rows }.run(&jsonl::<Row>(path), |row| row.text("id").to_owned(), check);
    };
    go(&fixture(&format!("text/{name}.jsonl")), own);
    if let Some(path) = shared(&format!("golden/classic/{name}.jsonl")) {
        go(&path, rows);
    }
}

fn format_named(name: &str) -> Format {
    [Format::BinarySi, Format::DecimalSi, Format::DecimalExponent]
        .into_iter()
        .find(|format| format.name() == name)
        .unwrap_or_else(|| panic!("no format {name}"))
}

fn check_quantity(row: &Row) -> Result<(), String> {
    let function = row.text("fn");
    let a = Quantity::parse(row.text("a"));
    if function == "decimal" {
        let answer = match Decimal::parse(row.text("a")) {
            None => json!({ "error": "bad decimal" }),
            Some(decimal) => {
                let quantity = Quantity::from_decimal(decimal, format_named(row.text("format")));
                json!({ "string": quantity.to_string() })
            }
        };
        return row.compare(&["a", "format"], &answer);
    }
    let a = match a {
        Ok(a) => a,
        Err(error) => return row.compare(&["a", "b", "n"], &json!({ "error": error.to_string() })),
    };
    let b = || Quantity::parse(row.text("b")).map_err(|error| error.to_string());
    let answer = match function {
        "parse" => json!({
            "approxFloat": float::display(a.approximate()),
            "canonical": a.canonical(),
            "dec": a.to_decimal().to_string(),
            "decScale": a.to_decimal().scale(),
            "format": a.format().name(),
            "milliValue": a.milli_value().to_string(),
            "sign": a.sign(),
            "string": a.to_string(),
            "value": a.value().to_string(),
        }),
        "cmp" => {
            let order = match a.cmp(&b()?) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            };
            json!({ "cmp": order, "equal": a == b()? })
        }
        "add" | "sub" => {
            let result = if function == "add" { a.add(&b()?) } else { a.sub(&b()?) };
            json!({ "format": result.format().name(), "string": result.to_string() })
        }
        "mulInt" => {
            let (result, ok) = a.mul_int(row.0.get("n").and_then(Value::as_i64).ok_or("no n")?);
            json!({ "ok": ok, "string": result.to_string() })
        }
        other => return Err(format!("unknown function {other}")),
    };
    row.compare(&["a", "b", "n"], &answer)
}

fn check_duration(row: &Row) -> Result<(), String> {
    let answer = match row.text("fn") {
        "parse" => match duration::parse(row.text("a")) {
            Ok(ns) => json!({
                "ns": ns.to_string(),
                "seconds": float::display(duration::seconds(ns)),
                "string": duration::format(ns),
            }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "format" => {
            let ns: i64 = row.text("ns").parse().map_err(|error| format!("{error}"))?;
            return row.compare(&["ns"], &json!({ "string": duration::format(ns) }));
        }
        other => return Err(format!("unknown function {other}")),
    };
    row.compare(&["a"], &answer)
}

fn check_float(row: &Row) -> Result<(), String> {
    let x: f64 = row.text("x").parse().map_err(|error| format!("{error}"))?;
    let answer = json!({
        "E": float::format(x, Layout::UpperExponent, None),
        "f": float::format(x, Layout::Fixed, None),
        "f32": float::format32(x as f32, Layout::Fixed, None),
        "f6": float::format(x, Layout::Fixed, Some(6)),
        "g": float::format(x, Layout::General, None),
        "json": float::json(x),
        "v": float::display(x),
    });
    row.compare(&["x"], &answer)
}

fn check_wildcard(row: &Row) -> Result<(), String> {
    let result = wildcard::matches(row.text("pattern"), row.text("text"));
    row.compare(&["pattern", "text"], &json!({ "result": result }))
}

#[test]
fn quantity() {
    run("quantity", 1370, 550, check_quantity);
}

#[test]
fn duration_text() {
    run("duration", 255, 255, check_duration);
}

#[test]
fn float_text() {
    run("gofloat", 163, 80, check_float);
}

#[test]
fn wildcard_match() {
    run("wildcard", 1349, 450, check_wildcard);
}
