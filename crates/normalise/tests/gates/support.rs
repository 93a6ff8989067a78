//! Finds the reference data, counts rows and compares objects.

#![expect(clippy::print_stdout, reason = "a gate prints its counts and its disagreements")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::Refused;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Reason and field of a validation error.
#[derive(Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct Cause {
    #[serde(default)]
    pub(crate) field: String,
    pub(crate) reason: String,
}

/// A recorded rejection.
#[derive(Deserialize, Debug)]
pub(crate) struct Rejected {
    pub(crate) code: u16,
    pub(crate) stage: String,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) causes: Vec<Cause>,
}

/// A file of the shared reference data, or `None` if there is none.
#[allow(dead_code, reason = "the fixtures need no shared data")]
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let base = std::env::var_os("KYVTEST_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let base = if base.is_absolute() { base } else { root.join(base) };
    let full = base.join(path);
    if full.exists() {
        return Some(full);
    }
    let required = std::env::var_os("KYVTEST_REQUIRE_SHARED").is_some_and(|value| value == "1");
    assert!(
        !required,
        "KYVTEST_REQUIRE_SHARED=1, but there is no {}",
        full.display()
    );
    println!("skipped: no shared data ({path})");
    None
}

/// The rows of a JSON-lines file.
pub(crate) fn rows<R: DeserializeOwned>(path: &Path) -> Vec<R> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1))
        })
        .collect()
}

/// Prints the figures of a gate and fails below `least`.
pub(crate) fn report(name: &str, total: usize, disagreements: &[String], least: usize) {
    let agree = total - disagreements.len();
    for line in disagreements {
        println!("  {line}");
    }
    println!("gate {name}: {agree}/{total}");
    assert!(
        agree >= least,
        "gate {name}: {agree} of {total} agree, {least} are required"
    );
}

/// An object without the values that a server makes up.
pub(crate) fn comparable(document: &Document, ignore: &[String]) -> Value {
    let mut value = document.root().to_serde();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "creationTimestamp",
            "resourceVersion",
            "managedFields",
            "generation",
        ] {
            metadata.remove(field);
        }
    }
    blank(&mut value, ignore);
    whole_numbers(&mut value);
    value
}

/// Writes integers without a fraction, as Go does.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < 1e15)
            {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Replaces values that may differ by a constant.
pub(crate) fn blank(value: &mut Value, ignore: &[String]) {
    for pointer in ignore {
        if let Some(found) = value.pointer_mut(pointer) {
            *found = Value::String("*".to_owned());
        }
    }
}

/// Times that the server takes from its clock.
pub(crate) const CLOCK: &[&str] = &[
    "/status/lastPhaseTransitionTime",
    "/status/conditions/0/lastTransitionTime",
];

/// The differences between two objects; `None` if they are equal.
pub(crate) fn difference(found: &Value, expected: &Value) -> Option<String> {
    if found == expected {
        return None;
    }
    let mut out = Vec::new();
    walk(&mut out, "", Some(found), Some(expected));
    Some(out.join("; "))
}

fn walk(out: &mut Vec<String>, path: &str, found: Option<&Value>, expected: Option<&Value>) {
    match (found, expected) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for (key, value) in a {
                walk(out, &format!("{path}/{key}"), Some(value), b.get(key));
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                walk(out, &format!("{path}/{key}"), None, Some(value));
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                walk(out, &format!("{path}/{i}"), Some(a), Some(b));
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let text = |side: Option<&Value>| side.map_or_else(|| "(none)".to_owned(), ToString::to_string);
            out.push(format!("{path}: {} instead of {}", text(a), text(b)));
        }
    }
}

/// The errors of a rejection in comparable form.
pub(crate) fn causes(refused: &Refused) -> Vec<Cause> {
    let mut causes: Vec<Cause> = refused
        .errors
        .iter()
        .map(|cause| Cause {
            field: cause.field.clone(),
            reason: cause.reason.name().to_owned(),
        })
        .collect();
    causes.sort();
    causes
}
