//! MutatingPolicies: what the generator drops is written natively, and the prover decides.
//!
//! Selectors and excluded rules are kept, each exception becomes one condition, a policy for one namespace selects it, and what
//! autogen makes of a policy becomes native policies of its own. `matchPolicy` is left out, because Kyverno's webhook does not
//! have it either, and no native policy runs again, because Kyverno's do not.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{Refused, RepairedMutation, Step, code, first_line};
use crate::{
    Label, Options, Proof,
    mutation::{MutatingTarget, at_layer, prove_mutating},
};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{
    text::label::{Wording, key_problems},
    value::Document,
};
use kyvtest_kyverno::autogen::mutating_variants;
use kyvtest_model::{
    kube::{Discovery, NAME_LABEL},
    policy::{
        CelPolicyException, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingPolicy,
        MutatingPolicySpec, Policy,
    },
};

/// Native policies in place of a MutatingPolicy, if they are proven.
pub(super) fn repaired(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
) -> Result<(Vec<RepairedMutation>, Vec<Step>, Proof), Refused> {
    let layered = at_layer(original, options.layer);
    let Policy::Mutating(policy) = &layered else {
        return Err(Refused::new(code::UNPROVEN, "there is no candidate"));
    };
    let spec = &policy.spec;
    if spec.target_match_constraints.is_some() {
        let reason = "the policy changes existing objects, which no native policy does";
        return Err(Refused::new(code::HIDDEN, reason));
    }
    if !spec.evaluation.admission {
        return Err(Refused::new(code::NEVER, "Kyverno applies this policy to no request"));
    }
    let own = own_exceptions(policy, exceptions.cel);
    if own.iter().any(|exception| exception.match_conditions.is_empty()) {
        return Err(Refused::new(
            code::NEVER,
            "an exception lifts the policy for every request",
        ));
    }
    let variants = mutating_variants(policy);
    let specs = std::iter::once(spec).chain(variants.iter().map(|variant| &variant.policy.spec));
    let mut steps = Vec::new();
    let mut all = Vec::new();
    for (number, spec) in specs.enumerate() {
        let suffix = if number == 0 {
            String::new()
        } else {
            format!("-{}", number + 1)
        };
        let name = format!("repaired-{}{suffix}", policy.metadata.name.value);
        all.push(candidate(policy, spec, &own, &name, &mut steps)?);
    }
    if all.len() > 1 {
        steps.push(step(
            "autogen",
            "a native policy for each kind of pod controllers",
            &["M25"],
        ));
    }
    let target = MutatingTarget {
        policies: all.iter().map(|one| one.policy.1.clone()).collect(),
        bindings: all.iter().map(|one| one.binding.1.clone()).collect(),
    };
    let proof = prove_mutating(original, exceptions, Some(&target), discovery, options, None);
    match &proof.label {
        Label::Proven => Ok((all, steps, proof)),
        Label::NotConvertible { .. } => {
            let reason = format!(
                "the API server would reject the candidate: {}",
                first_line(&proof.reason)
            );
            Err(Refused::new(code::INVALID, reason))
        }
        _ => Err(super::unproven(proof)),
    }
}

fn step(construct: &'static str, text: &'static str, hazards: &[&'static str]) -> Step {
    Step {
        construct,
        hazards: hazards.to_vec(),
        text,
    }
}

/// The exceptions that Kyverno applies to the policy: they name its kind as well.
fn own_exceptions<'e>(
    policy: &MutatingPolicy,
    exceptions: &'e [Arc<CelPolicyException>],
) -> Vec<&'e CelPolicyException> {
    let names = |exception: &&CelPolicyException| {
        let mut references = exception.policy_refs.iter();
        references.any(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind())
    };
    exceptions.iter().map(|exception| &**exception).filter(names).collect()
}

fn add(steps: &mut Vec<Step>, construct: &'static str, text: &'static str, hazards: &[&'static str]) {
    if steps.iter().all(|own| own.construct != construct) {
        steps.push(step(construct, text, hazards));
    }
}

/// The native policy of a spec, with its binding.
fn candidate(
    policy: &MutatingPolicy,
    spec: &MutatingPolicySpec,
    exceptions: &[&CelPolicyException],
    name: &str,
    steps: &mut Vec<Step>,
) -> Result<RepairedMutation, Refused> {
    let written = spec.source.document().root().to_serde();
    let mut native = json!({"matchConstraints": constraints(policy, &written["matchConstraints"], steps)});
    let mut conditions = Vec::new();
    for (number, exception) in exceptions.iter().enumerate() {
        let texts = exception.match_conditions.iter();
        let texts: Vec<String> = texts
            .map(|condition| format!("({})", condition.expression.text().trim()))
            .collect();
        let expression = format!("!({})", texts.join(" && "));
        conditions.push(json!({"name": format!("exception-{}", number + 1), "expression": expression}));
        add(
            steps,
            "exceptions",
            "one condition for each exception that names the policy",
            &["M07", "M09", "M21"],
        );
    }
    for (number, condition) in spec.match_conditions.iter().enumerate() {
        let own = &condition.name.value;
        let is_taken = own.starts_with("exception-") || !is_qualified(own);
        let name = if is_taken {
            format!("condition-{}", number + 1)
        } else {
            own.clone()
        };
        if is_taken {
            add(
                steps,
                "renamed",
                "conditions get names that the API server accepts",
                &["M21", "M24"],
            );
        }
        conditions.push(json!({"name": name, "expression": condition.expression.text()}));
    }
    if !conditions.is_empty() {
        native["matchConditions"] = json!(conditions);
    }
    for key in ["variables", "mutations", "failurePolicy"] {
        if !written[key].is_null() {
            native[key] = written[key].clone();
        }
    }
    if spec
        .reinvocation_policy
        .as_ref()
        .is_some_and(|word| word.value == "IfNeeded")
    {
        add(steps, "runs-once", "the policy does not run again", &["M16"]);
    }
    native["reinvocationPolicy"] = json!("Never");
    let head = |kind: &str, name: &str, spec: Json| {
        Document::from(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": {super::object::SOURCE: format!("{}/{}", policy.kind(), policy.metadata.name.value)},
            },
            "spec": spec,
        }))
    };
    let map = head("MutatingAdmissionPolicy", name, native);
    let bound = json!({"policyName": name});
    let binding = head("MutatingAdmissionPolicyBinding", &format!("{name}-binding"), bound);
    let unreadable = || Refused::new(code::INVALID, "the candidate cannot be read");
    let model = MutatingAdmissionPolicy::from_value(map.root())
        .0
        .ok_or_else(unreadable)?;
    let bound = MutatingAdmissionPolicyBinding::from_value(binding.root())
        .0
        .ok_or_else(unreadable)?;
    Ok(RepairedMutation {
        policy: (map, model.into()),
        binding: (binding, bound.into()),
    })
}

/// The match block without what means something else natively.
fn constraints(policy: &MutatingPolicy, written: &Json, steps: &mut Vec<Step>) -> Json {
    let mut block = written.clone();
    if let Some(map) = block.as_object_mut() {
        map.shift_remove("matchPolicy");
    }
    let kept = ["namespaceSelector", "objectSelector", "excludeResourceRules"];
    if kept.iter().any(|key| !written[*key].is_null()) {
        add(steps, "selectors", "selectors and excluded rules are kept", &["M01"]);
    }
    if let Some(rules) = block["resourceRules"].as_array_mut() {
        for rule in rules {
            // No native policy sees deletions.
            let listed: Vec<Json> = rule["operations"].as_array().cloned().unwrap_or_default();
            if listed.iter().any(|operation| operation == "DELETE") {
                let others: Vec<Json> = listed.into_iter().filter(|operation| operation != "DELETE").collect();
                rule["operations"] = json!(others);
                add(
                    steps,
                    "operations",
                    "deletions are left out, which no native policy sees",
                    &["M22"],
                );
            }
        }
    }
    if let Some(namespace) = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced) {
        let own = json!({"key": NAME_LABEL, "operator": "In", "values": [namespace.value]});
        let mut all = block["namespaceSelector"]["matchExpressions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.push(own);
        block["namespaceSelector"]["matchExpressions"] = json!(all);
        add(steps, "own-namespace", "the namespace of the policy is selected", &[]);
    }
    block
}

fn is_qualified(name: &str) -> bool {
    let mut problems = Vec::new();
    key_problems(name, Wording::QualifiedName, &mut problems);
    problems.is_empty()
}
