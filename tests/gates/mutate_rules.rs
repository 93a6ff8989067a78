//! Gates `mutate-{rule,mpol}` (statuses and objects) and `mutate-{rule,mpol}-message` (texts): `golden/mutate`, and a
//! selection of its rows in `fixtures/mutate`.

use std::path::Path;

use serde_json::{Value, json};

use super::observed::{is_error, normal, observe, outcomes};
use kyvtest_gates::{Gate, fixture, id, jsonl, shared};

/// What a comparison looks at.
#[derive(Clone, Copy, PartialEq)]
enum Aspect {
    /// Names, statuses, objects, and whether the run ends.
    Result,
    /// Also compares all messages.
    Message,
}

/// The parts of an observation that are compared.
fn reduced(observed: &Value, aspect: Aspect, unordered: bool) -> Value {
    if !observed["error"].is_null() || !observed["panic"].is_null() {
        return match aspect {
            Aspect::Result => json!("ended"),
            Aspect::Message => json!(observed["error"]),
        };
    }
    let mut responses: Vec<Value> = observed["responses"].as_array().map_or_else(Vec::new, |responses| {
        responses
            .iter()
            .map(|response| reduced_response(response, aspect))
            .collect()
    });
    if unordered {
        responses.sort_by_key(ToString::to_string);
    }
    let mut invalid: Vec<Value> = Vec::new();
    for (policy, text) in observed["invalid"].as_object().into_iter().flatten() {
        invalid.push(match aspect {
            Aspect::Result => json!(policy),
            Aspect::Message => json!([policy, text]),
        });
    }
    json!({"responses": responses, "invalid": invalid})
}

fn reduced_response(response: &Value, aspect: Aspect) -> Value {
    let rules = response["rules"].as_array().into_iter().flatten();
    let rules: Vec<Value> = rules
        .map(|rule| match aspect {
            Aspect::Result => {
                json!([
                    rule["rule"],
                    rule["status"],
                    rule.get("type").filter(|of| *of != "Mutation"),
                    normal(&rule["target"]),
                    rule["properties"]
                ])
            }
            Aspect::Message => json!([rule["rule"], rule["message"]]),
        })
        .collect();
    match aspect {
        Aspect::Result => {
            let patched = response.get("patched").map(normal);
            json!([
                response["policy"],
                response["policyNamespace"],
                rules,
                patched,
                response.get("patched").is_some()
            ])
        }
        Aspect::Message => json!([response["policy"], rules]),
    }
}

fn check(row: &Value, observed: &Value, aspect: Aspect) -> Result<(), String> {
    let outcomes = outcomes(row);
    if outcomes.iter().any(|expected| !expected["panic"].is_null()) && is_error(observed) {
        return Ok(());
    }
    let unordered = row["unordered"] == true;
    let ours = reduced(observed, aspect, unordered);
    let mut expected = outcomes.iter().map(|expected| reduced(expected, aspect, unordered));
    if expected.clone().any(|expected| expected == ours) {
        return Ok(());
    }
    let first = expected.next().unwrap_or_default();
    Err(format!("{}: {ours} instead of {first}", row["probes"]))
}

fn gate(name: &str, path: &Path) {
    let rows: Vec<Value> = jsonl(path);
    let observed: Vec<Value> = rows.iter().map(|row| observe(row, None)).collect();
    let results = |aspect: Aspect| -> Vec<(String, Result<(), String>)> {
        let rows = rows.iter().zip(&observed);
        rows.map(|(row, observed)| (id(row), check(row, observed, aspect)))
            .collect()
    };
    let judge = |name: &str, aspect| Gate { name, rows: rows.len() }.judge(&results(aspect));
    let mut problems = judge(name, Aspect::Result);
    problems.extend(judge(&format!("{name}-message"), Aspect::Message));
    assert!(problems.is_empty(), "{}:\n{}", path.display(), problems.join("\n"));
}

#[test]
fn classic_rules() {
    if let Some(path) = shared("golden/mutate/rule.jsonl") {
        gate("mutate-rule", &path);
    }
}

#[test]
fn mutating_policies() {
    if let Some(path) = shared("golden/mutate/mpol.jsonl") {
        gate("mutate-mpol", &path);
    }
}

#[test]
fn own_rows() {
    for name in ["rule", "mpol"] {
        gate(&format!("mutate-{name}-own"), &fixture(&format!("mutate/{name}.jsonl")));
    }
}
