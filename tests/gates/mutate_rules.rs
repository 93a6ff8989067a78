//! Gates `mutate-{rule,mpol}` (statuses and objects) and `mutate-{rule,mpol}-message` (texts): `golden/mutate`, and a
//! selection of its rows in `fixtures/mutate`.

use std::path::Path;

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::offline::{Case, run};
use serde_json::{Value, json};

use kyvtest_gates::{Gate, fixture, jsonl, shared};

/// What a comparison looks at.
#[derive(Clone, Copy, PartialEq)]
enum Aspect {
    /// Names, statuses, objects, and whether the run ends.
    Result,
    /// Also compares all messages.
    Message,
}

fn observe(row: &Value) -> Value {
    let document = Document::from(row);
    let case = Case::read(document.root()).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    let mut mocks = Mocks::new();
    mocks.set_seed(0);
    run(&case, &mocks).to_json()
}

/// The value with numbers as doubles, so that `5` equals `5.0`.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        other => other.clone(),
    }
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

/// A panic upstream is an error here, of the run or of a rule.
fn is_error(observed: &Value) -> bool {
    let rules = observed["responses"].as_array().into_iter().flatten();
    let mut rules = rules.flat_map(|response| response["rules"].as_array().into_iter().flatten());
    !observed["error"].is_null() || rules.any(|rule| rule["status"] == "error")
}

fn check(row: &Value, observed: &Value, aspect: Aspect) -> Result<(), String> {
    let outcomes: Vec<&Value> = match row["outcomes"].as_array() {
        Some(outcomes) => outcomes.iter().collect(),
        None => vec![&row["observed"]],
    };
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
    let observed: Vec<Value> = rows.iter().map(observe).collect();
    let results = |aspect: Aspect| -> Vec<(String, Result<(), String>)> {
        let rows = rows.iter().zip(&observed);
        rows.map(|(row, observed)| {
            let id = row["id"].as_str().unwrap_or_default().to_owned();
            (id, check(row, observed, aspect))
        })
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
