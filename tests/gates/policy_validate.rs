//! The gate of static validation: Kyverno's errors and warnings before it applies a policy.

use kyvtest::{
    diagnostic::Sources,
    kyverno::autogen,
    policy::{Loaded, Policy, Purpose, load, validate},
    yaml,
};
use serde_json::Value;

use crate::support::{Gate, id, text};

fn check(row: &Value) -> Result<(), String> {
    let policy = text(row, "policy");
    let mut sources = Sources::new();
    let file = sources.add("policy.yaml", policy);
    let stream = yaml::read(policy, yaml::Mode::Strict, &yaml::Limits::default());
    let mut loaded = Loaded::default();
    load(stream, file, Purpose::Policies, &mut loaded);
    let stage = if loaded.refused.is_some() {
        "load"
    } else if loaded.classic().next().is_none() {
        "load-nonfatal"
    } else {
        "validate"
    };
    if stage != text(row, "stage") {
        return Err(format!(
            "stage: ours {stage}, expected {} ({}): {:?}",
            text(row, "stage"),
            text(row, "error"),
            loaded.diagnostics
        ));
    }
    // Schema errors have our own wording.
    let [Policy::Classic(policy)] = loaded.policies.as_slice() else {
        return Ok(());
    };
    let checked = validate(policy, &autogen::all_rules(policy));
    let expected = row.get("error").and_then(Value::as_str);
    if checked.error.as_deref() != expected {
        return Err(format!("error: ours {:?}, expected {expected:?}", checked.error));
    }
    let result = if checked.error.is_some() {
        "rejected"
    } else {
        "accepted"
    };
    if result != text(row, "result") {
        return Err(format!("result: ours {result}"));
    }
    let warnings: Vec<&str> = row
        .get("warnings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if checked.warnings != warnings {
        return Err(format!("warnings: ours {:?}, expected {warnings:?}", checked.warnings));
    }
    Ok(())
}

/// How many rows the project's own selection has.
const ROWS: usize = 236;

#[test]
fn policy_validate_own() {
    Gate::new("policy-validate-own", ROWS).fixture("classic/policyvalidate.jsonl", id, check);
}

#[test]
fn policy_validate_shared() {
    Gate::new("policy-validate", 682).shared("golden/classic/policyvalidate.jsonl", id, check);
}
