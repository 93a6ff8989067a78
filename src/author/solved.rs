//! Resources that the solver of pairs finds where the search for examples finds none: it compares a policy with no policy, and
//! with one that evaluates the same requests and objects to all of them.
//!
//! Upstream counterpart: none.

use serde_json::{Value as Json, json};

use kyvtest_model::policy::Policy;
use kyvtest_prove::body::{Options, Side, compare_sides};

use crate::run::Settings;

/// How many requests are tried where nothing is decided.
const TRIES: u64 = 50;

/// The object of a request that a policy, or one rule of it, evaluates and admits, or objects to; `None` if none is found.
pub(super) fn object(original: &Policy, rule: Option<&str>, passes: bool, settings: &Settings) -> Option<Json> {
    let own = source(original, rule)?;
    let other = if passes { vec![objecting(&own)] } else { Vec::new() };
    let side = |objects: &[Json]| Side::from_objects(objects, &settings.discovery).ok();
    let options = Options {
        collections: false,
        tries: TRIES,
        checks: 0,
        now: settings.now,
        ..Options::default()
    };
    let found = compare_sides(&side(&[own])?, &side(&other)?, &settings.discovery, &options);
    let object = found.counterexample?.scenario().request.object.root().to_serde();
    object.is_object().then_some(object)
}

/// The policy as it is written, with one rule alone.
fn source(original: &Policy, rule: Option<&str>) -> Option<Json> {
    let document = match original {
        Policy::Classic(policy) => policy.spec.source.document(),
        Policy::Validating(policy) => policy.spec.source.document(),
        _ => return None,
    };
    let mut written = document.root().to_serde();
    let rules = written.pointer_mut("/spec/rules").and_then(Json::as_array_mut);
    if let (Some(name), Some(rules)) = (rule, rules) {
        rules.retain(|rule| rule["name"] == name);
    }
    Some(written)
}

/// A policy that evaluates the same requests and objects to all of them.
fn objecting(policy: &Json) -> Json {
    let mut policy = policy.clone();
    if let Some(rules) = policy.pointer_mut("/spec/rules").and_then(Json::as_array_mut) {
        for rule in rules {
            let mut validate = json!({"message": "no", "deny": {}});
            for field in ["failureAction", "failureActionOverrides"] {
                if let Some(value) = rule["validate"].get(field) {
                    validate[field] = value.clone();
                }
            }
            rule["validate"] = validate;
        }
    } else {
        policy["spec"]["validations"] = json!([{"expression": "false"}]);
    }
    policy
}
