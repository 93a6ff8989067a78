//! The rules that a suite is written for, each as a policy of its own.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::suite::Suite;
use kyvtest_model::policy::{ParamKind, Policy, ValidatingAdmissionPolicy};
use kyvtest_prove::body::policy_object;

/// A rule as a policy of its own.
pub(super) struct Subject {
    pub(super) original: Policy,
    pub(super) rule: Option<String>,
    /// Why it is not searched; empty if it is.
    pub(super) why: &'static str,
    /// The policy as objects, for the prover.
    pub(super) objects: Vec<Json>,
    pub(super) param_kind: Option<ParamKind>,
}

/// Every rule as a separate policy.
pub(super) fn subjects(probe: &Suite) -> Vec<Subject> {
    let mut all = Vec::new();
    for policy in probe.policies.classic() {
        let whole = Policy::Classic(policy.clone());
        for (number, rule) in policy.spec.rules.iter().enumerate() {
            // Rules that change objects have a suite of their own.
            if rule.mutate.is_some() {
                continue;
            }
            let mut alone = (**policy).clone();
            alone.spec.rules = vec![rule.clone()];
            let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
            all.push(Subject {
                original: Policy::Classic(Arc::new(alone)),
                rule: Some(rule.name.value.clone()),
                why: if rule.validate.is_some() {
                    ""
                } else {
                    "only validate and mutate rules are supported"
                },
                objects: vec![rule_object(&whole, number)],
                param_kind: cel.and_then(|cel| cel.param_kind.clone()),
            });
        }
    }
    for policy in probe.policies.validating() {
        let original = Policy::Validating(policy.clone());
        all.push(Subject {
            objects: vec![policy_object(&original)],
            original,
            rule: None,
            why: "",
            param_kind: None,
        });
    }
    for native in probe.policies.native() {
        let objects = native_objects(probe, native);
        let why = if native.param_kind.is_some() && objects.len() == 1 {
            "its parameters are unknown: no binding names them"
        } else {
            ""
        };
        all.extend(as_validating(native).map(|original| Subject {
            original,
            rule: None,
            why,
            objects,
            param_kind: native.param_kind.clone(),
        }));
    }
    all
}

/// A rule of a classic policy as a policy of its own, as an object.
fn rule_object(policy: &Policy, number: usize) -> Json {
    let mut object = policy_object(policy);
    let rules = object["spec"]["rules"].as_array_mut();
    if let Some(rules) = rules.filter(|rules| number < rules.len()) {
        *rules = vec![rules.swap_remove(number)];
    }
    object
}

/// A native policy with its bindings, as objects.
fn native_objects(probe: &Suite, policy: &ValidatingAdmissionPolicy) -> Vec<Json> {
    let bindings = probe.policies.bindings.iter();
    let own = bindings.filter(|binding| binding.policy_name.value == policy.metadata.name.value);
    let sources = std::iter::once(&policy.source).chain(own.map(|binding| &binding.source));
    sources.map(|source| source.document().root().to_serde()).collect()
}

/// Converts a native policy to a ValidatingPolicy, for the search; `None` if that is impossible.
fn as_validating(native: &ValidatingAdmissionPolicy) -> Option<Policy> {
    let written = native.source.document().root().to_serde();
    let mut spec = json!({"validationActions": ["Deny"]});
    for field in ["matchConstraints", "matchConditions", "variables", "validations"] {
        if let Some(value) = written["spec"].get(field) {
            spec[field] = value.clone();
        }
    }
    let policy = json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": native.metadata.name.value},
        "spec": spec,
    });
    Policy::parse(&policy.to_string(), native.origin.file).ok()
}
