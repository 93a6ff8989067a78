//! Gates `patch-apply` and `patch-json4`: objects after admission by one policy with one literal mutation.
//!
//! The API server decodes and defaults the object after a mutation. That is not done here: fields that only the server's
//! result has do not count, and rows whose fields decoding changes disagree.

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
    const AREAS: [&str; 11] = [
        "apply", "kinds", "crd", "blob", "jp", "meta", "dflt", "inv", "conn", "rand", "seq",
    ];
    let is_one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    let is_empty = |selector: &Value| selector.as_object().is_none_or(serde_json::Map::is_empty);
    let area = row["id"].as_str().and_then(|id| id.split('-').next());
    let spec = &row["policies"][0]["spec"];
    area.is_some_and(|area| AREAS.contains(&area))
        && is_one(&row["policies"])
        && is_one(&row["bindings"])
        && is_one(&spec["mutations"])
        && row["params"].as_array().is_none_or(Vec::is_empty)
        && spec["matchConditions"].is_null()
        && is_empty(&spec["matchConstraints"]["objectSelector"])
        && is_empty(&spec["matchConstraints"]["namespaceSelector"])
        && spec["reinvocationPolicy"] == "Never"
        && spec["mutations"][0]["patchType"] == patch_type
        && !row["seen"].is_null()
}

/// Reads a row, if its mutation is a literal and its result one of this stage.
fn case(row: &Value, body: &str, prefix: &str) -> Option<Case> {
    let observed = &row["observed"];
    let message = observed["message"].as_str().unwrap_or_default();
    let expected = match message.split_once(prefix) {
        Some((_, text)) => Err(text.to_owned()),
        None if observed["mutated"].is_null() => return None,
        None => Ok(Document::from(&observed["mutated"])),
    };
    let expression = &row["policies"][0]["spec"]["mutations"][0][body]["expression"];
    Some(Case {
        id: row["id"].as_str()?.to_owned(),
        literal: literal::parse(expression.as_str()?)?,
        object: Document::from(&row["seen"]),
        atomics: Atomics::Reject,
        expected,
        is_decoded: true,
        is_unordered: row["message_order_undefined"] == true,
    })
}

#[test]
fn api_server_vectors() {
    let (Some(rows), Some(crds)) = (shared("golden/map/vectors.jsonl"), shared("golden/map/crds.jsonl")) else {
        return;
    };
    let (rows, crds): (Vec<Value>, Vec<Value>) = (jsonl(&rows), jsonl(&crds));
    let [apply, json] = cases(&rows, is_plain, case);
    let gate = Minimum {
        name: "patch-apply",
        agree: 186,
    };
    gate.run(&apply, |case| &case.id, |case| case.apply(&crds));
    let gate = Minimum {
        name: "patch-json4",
        agree: 122,
    };
    gate.run(&json, |case| &case.id, Case::json4);
}
