//! `validate.podSecurity`: checks, levels, versions, excludes and texts.

use kyvtest::{
    kyverno::classic::pod_security::{BadValue, Evaluation, Exclusion, Fault, PodSecurity},
    value::Document,
};
use serde_json::{Value, json};

use crate::{
    classic_pattern::{data, doubles},
    support::{Gate, id, text},
};

fn checks(evaluation: &Evaluation) -> Vec<Value> {
    let violations = evaluation.violations.iter();
    violations
        .map(|violation| {
            let errors: Option<Vec<Value>> = violation.errors.as_ref().map(|errors| {
                errors
                    .iter()
                    .map(|error| {
                        let text = match error.fault {
                            Fault::Forbidden => "Forbidden",
                            Fault::Required => "Required value",
                        };
                        let value = match &error.bad_value {
                            BadValue::Text(text) => json!(text),
                            BadValue::Bool(value) => json!(value),
                            BadValue::Int(value) => json!(value),
                            BadValue::Texts(texts) => json!(texts),
                        };
                        json!({
                            "field": error.field,
                            "badValue": value,
                            "text": format!("{}: {text}", error.field),
                        })
                    })
                    .collect()
            });
            json!({
                "id": violation.id,
                "reason": violation.reason,
                "detail": violation.detail,
                "errors": errors.unwrap_or_default(),
            })
        })
        .collect()
}

/// The parts of a message, sorted: their order is random upstream.
fn sorted(message: &str) -> Vec<String> {
    let mut parts: Vec<String> = message.split("(Forbidden reason").map(str::to_owned).collect();
    parts.sort();
    parts
}

fn by_id(mut checks: Vec<Value>) -> Vec<Value> {
    for check in &mut checks {
        let errors = check.get_mut("errors").and_then(Value::as_array_mut);
        if let Some(errors) = errors {
            errors.sort_by_key(|error| (text(error, "field").to_owned(), error["badValue"].to_string()));
        } else if let Some(check) = check.as_object_mut() {
            check.insert("errors".to_owned(), json!([]));
        }
    }
    checks.sort_by_key(|check| text(check, "id").to_owned());
    checks
}

fn check(row: &Value) -> Result<(), String> {
    let resource = doubles(data(&row["resource"]));
    let kind = text(&row["resource"], "kind");
    let document = Document::from(row);
    let security = PodSecurity::read(document.root());
    let unordered = row.get("unordered").is_some();
    let exceptions: Vec<&Value> = row["exceptions"].as_array().into_iter().flatten().collect();
    let key = |exception: &Value| {
        let metadata = &exception["metadata"];
        format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
    };
    let plain = exceptions
        .iter()
        .find(|exception| exception["spec"].get("podSecurity").is_none());
    let (status, message) = match (plain, security.evaluate(kind, &resource)) {
        (Some(exception), _) => {
            let message = format!("rule is skipped due to policy exception {}", key(exception));
            ("skip", message)
        }
        (None, Err(error)) => ("error", error),
        (None, Ok(mut evaluation)) => {
            if let Some(expected) = row.get("checks").and_then(Value::as_array) {
                let (ours, theirs) = (by_id(checks(&evaluation)), by_id(expected.clone()));
                if ours != theirs {
                    return Err(format!("checks: ours {ours:?}, expected {theirs:?}"));
                }
            }
            if evaluation.violations.is_empty() {
                ("pass", "Validation rule 'r' passed.".to_owned())
            } else {
                let exclusions: Vec<Exclusion> = exceptions
                    .iter()
                    .flat_map(|exception| {
                        let list = Document::from(&exception["spec"]["podSecurity"]);
                        Exclusion::list(Some(list.root()))
                    })
                    .collect();
                evaluation.exclude(&exclusions);
                if evaluation.violations.is_empty() {
                    let keys: Vec<String> = exceptions.iter().map(|exception| key(exception)).collect();
                    (
                        "skip",
                        format!("rule is skipped due to policy exceptions {}", keys.join(", ")),
                    )
                } else {
                    ("fail", security.message("r", kind, &evaluation))
                }
            }
        }
    };
    if status != text(row, "status") {
        return Err(format!("ours {status}, expected {}", text(row, "status")));
    }
    let theirs = text(row, "message");
    let same = if unordered {
        sorted(&message) == sorted(theirs)
    } else {
        message == theirs
    };
    if same {
        Ok(())
    } else {
        Err(format!("ours {message:?}, expected {theirs:?}"))
    }
}

#[test]
fn classic_pod_security() {
    Gate::new("classic-pod-security", 2030).shared("golden/classic/pss.jsonl", id, check);
    Gate::new("classic-pod-security-own", 87).fixture("classic/pss.jsonl", id, check);
}
