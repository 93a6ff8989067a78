//! Recorded rejections, and the comparison of objects.

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::Refused;
use serde::Deserialize;
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
