//! What a Kubernetes 1.36 API server makes of MutatingAdmissionPolicies: at creation, and of the requests that they change.

use kyvtest::{
    kube::{Discovery, GroupVersionKind},
    policy::validate_admission,
    prove::server::Server,
    value::Document,
};
use serde_json::Value;

use crate::support::{Gate, fixture, jsonl, shared};

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn id(row: &Value) -> String {
    text(row, "id").to_owned()
}

fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The refusal with all errors in their order, the warnings, and the spec that the server stores.
fn check_static(row: &Value) -> Result<(), String> {
    let object = Document::from(&row["object"]);
    let checked = validate_admission(object.root());
    let accepted = row["accepted"] == true;
    if checked.errors.is_empty() != accepted {
        return Err(format!("accepted: {accepted}, got {:?}", checked.message));
    }
    let warnings: Vec<&str> = items(row, "warnings").filter_map(Value::as_str).collect();
    if checked.warnings != warnings {
        return Err(format!("warnings {:?}, not {warnings:?}", checked.warnings));
    }
    if accepted {
        let kind = GroupVersionKind::from_api_version(text(&row["object"], "apiVersion"), text(&row["object"], "kind"));
        let stored = Server::new(&Discovery::kubernetes(), Vec::new()).decode(&kind, "", &object);
        let stored = stored.map_err(|refused| refused.to_string())?.root().to_serde();
        return if stored["spec"] == row["stored_spec"] {
            Ok(())
        } else {
            Err(format!("stored {}, not {}", stored["spec"], row["stored_spec"]))
        };
    }
    // Without a message the server panicked.
    let Some(message) = row.get("message").and_then(Value::as_str) else {
        return Ok(());
    };
    let want = (row["code"].as_u64(), message);
    let got = (Some(u64::from(checked.code)), checked.message.as_str());
    if got != want {
        return Err(format!("want {want:?}, got {got:?}"));
    }
    let causes = items(row, "causes").map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")));
    let causes: Vec<String> = causes.collect();
    let errors: Vec<&str> = checked.errors.iter().map(|error| error.text.as_str()).collect();
    if checked.code == 422 && errors != causes {
        return Err(format!("causes {errors:?}, not {causes:?}"));
    }
    Ok(())
}

#[test]
fn refusals() {
    let gate = Gate {
        name: "map-static-own",
        rows: 92,
    };
    gate.run(&jsonl(&fixture("map/static.jsonl")), id, check_static);
    if let Some(path) = shared("golden/map/static.jsonl") {
        let gate = Gate {
            name: "map-static",
            rows: 183,
        };
        gate.run(&jsonl(&path), id, check_static);
    }
}
