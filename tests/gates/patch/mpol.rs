//! Gates `patch-mpol-apply` and `patch-mpol-json4`: MutatingPolicies with one literal mutation.
//!
//! Kyverno converts with the schemas of Kubernetes 1.32, these functions with those of 1.36.

use kyvtest_gates::{Minimum, jsonl, shared};
use kyvtest_go_compat::value::Document;
use kyvtest_patch::structured::Atomics;
use serde_json::Value;

use super::{
    literal,
    mutation::{Case, cases},
};

/// Whether a row has one policy with one mutation of a type that applies without conditions.
fn is_plain(row: &Value, patch_type: &str) -> bool {
    const AREAS: [&str; 5] = ["apply", "ssa", "kinds", "jp", "seq"];
    let is_one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    let spec = &row["policies"][0]["spec"];
    row["area"].as_str().is_some_and(|area| AREAS.contains(&area))
        && is_one(&row["policies"])
        && is_one(&spec["mutations"])
        && is_one(&row["observed"]["responses"])
        && is_one(&row["observed"]["responses"][0]["rules"])
        && row["operation"].is_null()
        && row["exceptions"].is_null()
        && spec["matchConditions"].is_null()
        && spec["mutations"][0]["patchType"] == patch_type
}

/// Reads a row, if its mutation is a literal and its result one of this stage.
fn case(row: &Value, body: &str, prefix: &str) -> Option<Case> {
    let response = &row["observed"]["responses"][0];
    let message = response["rules"][0]["message"].as_str().unwrap_or_default();
    let expected = match (message.split_once(prefix), &response["patched"]) {
        (Some((_, text)), _) => Err(text.to_owned()),
        _ if message != "success" => return None,
        (None, Value::String(_)) => Ok(Document::from(&row["resource"])),
        (None, patched) => Ok(Document::from(patched)),
    };
    let spec = &row["policies"][0]["spec"];
    let is_server_side = spec["evaluation"]["useServerSideApply"] == true;
    Some(Case {
        id: row["id"].as_str()?.to_owned(),
        literal: literal::parse(spec["mutations"][0][body]["expression"].as_str()?)?,
        object: Document::from(&row["resource"]),
        atomics: if is_server_side {
            Atomics::Replace
        } else {
            Atomics::Reject
        },
        expected,
        is_decoded: false,
        is_unordered: row["message_order_undefined"] == true,
    })
}

#[test]
fn mutating_policies() {
    let Some(rows) = shared("golden/mutate/mpol.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&rows);
    let [apply, json] = cases(&rows, is_plain, case);
    let gate = Minimum {
        name: "patch-mpol-apply",
        agree: 136,
    };
    gate.run(&apply, |case| &case.id, |case| case.apply(&[]));
    let gate = Minimum {
        name: "patch-mpol-json4",
        agree: 62,
    };
    gate.run(&json, |case| &case.id, Case::json4);
}
