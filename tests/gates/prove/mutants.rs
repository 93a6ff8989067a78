//! The prover detects differences: small changes of the native policy of everything that is proven.
//!
//! A mutant that stays proven is equivalent in this world. Every kind of change that may be equivalent is listed here
//! with its reason, and random requests confirm each.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use kyvtest::prove::Label;
use serde_json::{Value, json};

use super::{Case, at_least, proven, worlds::counterexample};
use crate::support::{Gate, print_count};

/// Changes that may be equivalent, and the reason.
const EQUIVALENT: [(&str, &str); 14] = [
    ("any group", "no other group serves that plural"),
    (
        "any version",
        "the group serves one version, or the others are converted",
    ),
    ("scope", "all resources of the rule are in namespaces"),
    ("operation more", "the resource does not have the operation"),
    (
        "operation less",
        "the resource does not have the operation, or another rule lists it",
    ),
    (
        "operation other",
        "the resource does not have the operation, or another rule lists it",
    ),
    (
        "excluded resource",
        "the names of the rule decide, or nothing else is excluded",
    ),
    ("resource less", "the resource is listed twice, or excluded"),
    ("exclusion less", "the exclusion is about what is not listed"),
    ("resource other", "the resource is excluded anyway"),
    ("condition less", "the condition holds wherever the rules match"),
    ("condition negated", "the condition cannot be evaluated either way"),
    ("validation", "another validation fails with it"),
    ("selector more", "no object has the names of the rule"),
];

/// Every change of one native policy, with its kind.
fn mutants(vap: &Value) -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&'static str, Value)> = Vec::new();
    let base = "/spec/matchConstraints";
    let changed = |at: &str, value: Value| -> Option<Value> {
        let mut mutant = vap.clone();
        *mutant.pointer_mut(at)? = value;
        Some(mutant)
    };
    let without = |at: &str, key: &str| -> Option<Value> {
        let mut mutant = vap.clone();
        mutant.pointer_mut(at)?.as_object_mut()?.remove(key)?;
        Some(mutant)
    };
    let count = |at: &str| vap.pointer(at).and_then(Value::as_array).map_or(0, Vec::len);
    let fewer = |at: &str, number: usize| -> Option<Value> {
        let mut mutant = vap.clone();
        let list = mutant.pointer_mut(at)?.as_array_mut()?;
        (list.len() > 1 && number < list.len()).then(|| list.remove(number))?;
        Some(mutant)
    };
    let more = |at: &str, value: Value| -> Option<Value> {
        let mut mutant = vap.clone();
        let list = mutant.pointer_mut(at)?.as_array_mut()?;
        (!list.contains(&value)).then(|| list.push(value))?;
        Some(mutant)
    };
    let mut add = |kind: &'static str, mutant: Option<Value>| all.extend(mutant.map(|mutant| (kind, mutant)));
    add("exclusion less", without(base, "excludeResourceRules"));
    for key in ["namespaceSelector", "objectSelector"] {
        let at = format!("{base}/{key}");
        let filled = vap
            .pointer(&at)
            .and_then(Value::as_object)
            .is_some_and(|map| !map.is_empty());
        if filled {
            add("selector less", without(base, key));
        } else {
            let mut mutant = vap.clone();
            mutant["spec"]["matchConstraints"][key] = json!({"matchLabels": {"kyvtest": "x"}});
            add("selector more", Some(mutant));
        }
        for number in 0..count(&format!("{at}/matchExpressions")) {
            let one = format!("{at}/matchExpressions/{number}");
            let operator = vap.pointer(&format!("{one}/operator")).and_then(Value::as_str);
            let other = match operator {
                Some("In") => "NotIn",
                Some("NotIn") => "In",
                Some("Exists") => "DoesNotExist",
                _ => "Exists",
            };
            add("operator", changed(&format!("{one}/operator"), json!(other)));
            for value in 0..count(&format!("{one}/values")) {
                add("value less", fewer(&format!("{one}/values"), value));
                add(
                    "value other",
                    changed(&format!("{one}/values/{value}"), json!("another")),
                );
            }
        }
        let labels = vap.pointer(&format!("{at}/matchLabels")).and_then(Value::as_object);
        for key in labels.into_iter().flat_map(|labels| labels.keys()) {
            let place = format!("{at}/matchLabels/{}", key.replace('~', "~0").replace('/', "~1"));
            add("value other", changed(&place, json!("another")));
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        let excluded = list == "excludeResourceRules";
        for number in 0..count(&format!("{base}/{list}")) {
            let rule = format!("{base}/{list}/{number}");
            add(
                if excluded { "exclusion less" } else { "rule less" },
                fewer(&format!("{base}/{list}"), number),
            );
            add("any group", changed(&format!("{rule}/apiGroups"), json!(["*"])));
            add("any version", changed(&format!("{rule}/apiVersions"), json!(["*"])));
            let mut scoped = vap.clone();
            if let Some(rule) = scoped.pointer_mut(&rule).and_then(Value::as_object_mut) {
                rule.insert("scope".to_owned(), json!("Namespaced"));
                add("scope", Some(scoped));
            }
            let operations = format!("{rule}/operations");
            for word in ["CREATE", "UPDATE", "DELETE", "CONNECT"] {
                add("operation more", more(&operations, json!(word)));
            }
            for at in 0..count(&operations) {
                add("operation less", fewer(&operations, at));
            }
            add("operation other", changed(&operations, json!(["CONNECT"])));
            let resources = format!("{rule}/resources");
            for at in 0..count(&resources) {
                let kind = if excluded { "excluded resource" } else { "resource less" };
                add(kind, fewer(&resources, at));
                let kind = if excluded {
                    "excluded resource"
                } else {
                    "resource other"
                };
                add(kind, changed(&format!("{resources}/{at}"), json!("leases")));
            }
            add(
                if excluded { "excluded resource" } else { "any resource" },
                changed(&resources, json!(["*/*"])),
            );
            let names = format!("{rule}/resourceNames");
            for at in 0..count(&names) {
                add("name less", fewer(&names, at));
                add("name other", changed(&format!("{names}/{at}"), json!("another")));
            }
            if count(&names) > 0 {
                add("any name", without(&rule, "resourceNames"));
            }
        }
    }
    for number in 0..count("/spec/matchConditions") {
        let at = format!("/spec/matchConditions/{number}/expression");
        let text = vap.pointer(&at).and_then(Value::as_str).unwrap_or_default();
        add("condition negated", changed(&at, json!(format!("!({text})"))));
        add("condition less", changed(&at, json!("true")));
    }
    for number in 0..count("/spec/validations") {
        let at = format!("/spec/validations/{number}/expression");
        add("validation", changed(&at, json!("true")));
    }
    all
}

/// Every change of a case: of its native policies, and of their bindings.
fn all_mutants(natives: &[Value]) -> Vec<(&'static str, Vec<Value>)> {
    let mut all = Vec::new();
    for (at, native) in natives.iter().enumerate() {
        let mut own: Vec<(&'static str, Value)> = Vec::new();
        if native["kind"] == "ValidatingAdmissionPolicy" {
            own = mutants(native);
        } else {
            let actions = native["spec"]["validationActions"].as_array();
            let denies = actions.is_some_and(|list| list.contains(&json!("Deny")));
            let mut other = native.clone();
            other["spec"]["validationActions"] = json!([if denies { "Audit" } else { "Deny" }]);
            own.push(("actions", other));
            let mut narrow = native.clone();
            narrow["spec"]["matchResources"] = json!({"namespaceSelector": {"matchLabels": {"kyvtest": "x"}}});
            own.push(("binding", narrow));
        }
        all.extend(own.into_iter().map(|(kind, mutant)| {
            let mut natives = natives.to_vec();
            natives[at] = mutant;
            (kind, natives)
        }));
    }
    all
}

#[test]
fn mutants_of_proven_policies_are_distinguished() {
    let cases: Vec<Case> = proven().into_iter().filter(|case| !case.id.starts_with("S1")).collect();
    let counts = Mutex::new(BTreeMap::<(&'static str, &'static str), usize>::new());
    let confirmed = AtomicUsize::new(0);
    let gate = Gate {
        name: "prove-mutants",
        rows: at_least(56),
    };
    gate.run(
        &cases,
        |case| case.id.clone(),
        |case| {
            let idle = "neither side applies to any request";
            let is_idle = case.prove()?.notes.iter().any(|note| note == idle);
            for (kind, natives) in all_mutants(&case.natives()?) {
                let mutant = case.against(&natives);
                let options = kyvtest::prove::Options {
                    layer: case.layer,
                    ..kyvtest::prove::Options::default()
                };
                let proof = mutant.prove_with(&options, &kyvtest::kube::Discovery::kubernetes())?;
                if proof.fault {
                    return Err(proof.reason);
                }
                let label = match &proof.label {
                    Label::NotConvertible { .. } => "refused",
                    Label::Unknown if proof.reason.contains("lists no resource") => "idle",
                    label => label.as_str(),
                };
                *counts.lock().expect("no panic").entry((kind, label)).or_default() += 1;
                match label {
                    "REFUTED" | "refused" | "idle" => {}
                    "PROVEN" if kind == "selector more" && !is_idle => {
                        return Err(format!("{kind}: still proven: {natives:?}"));
                    }
                    // A changed message is only tested.
                    "PROVEN" | "PROVEN-MATCH"
                        if is_idle
                            || EQUIVALENT.iter().any(|(name, _)| *name == kind)
                                && (label == "PROVEN" || kind == "validation") =>
                    {
                        counterexample(&mutant, &natives, 100, false)?;
                        confirmed.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => return Err(format!("{kind}: {label} {}: {natives:?}", proof.reason)),
                }
            }
            Ok(())
        },
    );
    for ((kind, label), count) in counts.into_inner().expect("no panic") {
        let why = EQUIVALENT
            .iter()
            .find(|(name, _)| *name == kind && label.starts_with("PROVEN"));
        print_count(&format!("  {kind} {label} {count} {}", why.map_or("", |(_, why)| why)));
    }
    print_count(&format!(
        "  {} that stay the same are confirmed at random",
        confirmed.into_inner()
    ));
}
