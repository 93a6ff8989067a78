//! ValidatingPolicies, and what autogen makes of them, each as a native policy.

use serde_json::{Value as Json, json};

use super::{
    Refused, Shape, code,
    object::{Conditions, Objects, validations},
    steps::{Construct, Steps},
};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::value::Builder;
use kyvtest_kyverno::{autogen, lens::Lens, webhook::Registration};
use kyvtest_model::{
    kube::{Discovery, NAME_LABEL, RequestClass},
    policy::{CelPolicyException, Mode, ValidatingPolicy, ValidationAction, write_selector},
};

/// Adds the native policies of a policy.
pub(super) fn add(
    policy: &ValidatingPolicy,
    exceptions: Exceptions<'_>,
    (discovery, lens, shape): (&Discovery, Lens, Shape),
    objects: &mut Objects<'_>,
    steps: &mut Steps,
) -> Result<(), Refused> {
    if policy.spec.evaluation.mode != Mode::Kubernetes || policy.spec.match_constraints.is_none() {
        return Ok(());
    }
    let own = exceptions.cel.iter().map(AsRef::as_ref).filter(|exception| {
        let mut refs = exception.policy_refs.iter();
        refs.any(|named| named.name.value == policy.metadata.name.value && named.kind.value == policy.kind())
    });
    let mut lifting: Vec<&CelPolicyException> = Vec::new();
    for exception in own {
        if !exception.images.is_empty() || !exception.allowed_values.is_empty() {
            let reason = "an exception is for some values only, which expressions ask Kyverno for";
            return Err(Refused::new(code::EXCEPTION, reason));
        }
        if exception.expires_at.is_some() {
            let reason = "an exception ends some day, which no native policy does";
            return Err(Refused::new(code::EXCEPTION, reason));
        }
        // One without conditions lifts the policy for good.
        if exception.match_conditions.is_empty() {
            return Ok(());
        }
        lifting.push(exception);
    }
    let mut generated = autogen::variants_at(policy, lens);
    let registration = Registration::of_validating_policy(policy, discovery, lens);
    generated.retain(|variant| is_registered(&variant.policy, &registration, discovery));
    steps.note(!generated.is_empty(), Construct::Autogen);
    let all = std::iter::once(policy).chain(generated.iter().map(|variant| &variant.policy));
    for variant in all {
        add_one(variant, &lifting, shape, objects, steps)?;
    }
    if shape.refuses_errors {
        refuse_errors(policy, (discovery, lens), objects, steps)?;
    }
    Ok(())
}

/// Limits rules to what is in a namespace, and to Namespaces, which count as in themselves.
fn namespaced_rules(constraints: &mut Json) {
    let Some(rules) = constraints["resourceRules"].as_array_mut() else {
        return;
    };
    let mut of_namespaces = Vec::new();
    for rule in rules.iter_mut() {
        let lists = |key: &str, wanted: [&str; 2]| {
            let mut listed = rule[key].as_array().into_iter().flatten().filter_map(Json::as_str);
            listed.any(|text| wanted.contains(&text))
        };
        let subresources = if lists("resources", ["*/*", "namespaces/*"]) {
            json!(["namespaces", "namespaces/*"])
        } else {
            json!(["namespaces"])
        };
        let all = lists("resources", ["*", "namespaces"]) || subresources[1].is_string();
        if all && lists("apiGroups", ["", "*"]) && rule["scope"] != "Namespaced" {
            let mut own = rule.clone();
            own["apiGroups"] = json!([""]);
            own["resources"] = subresources;
            own["scope"] = json!("Cluster");
            of_namespaces.push(own);
        }
        rule["scope"] = json!("Namespaced");
    }
    rules.extend(of_namespaces);
}

/// Whether the webhook lists anything that a generated policy is about: the shared webhook of policies for one namespace does
/// not.
fn is_registered(variant: &ValidatingPolicy, registration: &Registration, discovery: &Discovery) -> bool {
    let constraints = variant.spec.match_constraints.as_ref();
    let rules = registration.only().map_or(&[][..], |webhook| webhook.rules());
    discovery.iter().any(|resource| {
        resource.operations.iter().any(|operation| {
            let cell = RequestClass::new(resource, operation, false);
            constraints.is_some_and(|constraints| constraints.lists(&cell))
                && rules.iter().any(|rule| rule.matches(&cell))
        })
    })
}

/// Whether Kyverno's webhook has match conditions whose errors deny the request.
pub(super) fn may_refuse_errors(policy: &ValidatingPolicy, discovery: &Discovery) -> bool {
    let registration = Registration::of_validating_policy(policy, discovery, Lens::CLUSTER);
    let webhook = registration.only();
    webhook.is_some_and(|webhook| webhook.fails() && !webhook.match_conditions().is_empty())
}

/// Adds a native policy for everything that the webhook lists, with the webhook's conditions, which admits whenever they can
/// be evaluated: an error in one denies the request on both sides.
fn refuse_errors(
    policy: &ValidatingPolicy,
    (discovery, lens): (&Discovery, Lens),
    objects: &mut Objects<'_>,
    steps: &mut Steps,
) -> Result<(), Refused> {
    let registration = Registration::of_validating_policy(policy, discovery, lens);
    let Some(webhook) = registration.only() else {
        return Ok(());
    };
    steps.add(Construct::Errors);
    let rules = webhook.rules().iter().map(|rule| {
        json!({
            "apiGroups": rule.api_groups,
            "apiVersions": rule.api_versions,
            "operations": rule.operations,
            "resources": rule.resources.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "scope": rule.scope.as_str(),
        })
    });
    let mut constraints = json!({"resourceRules": rules.collect::<Vec<Json>>()});
    for (key, selector) in [
        ("namespaceSelector", webhook.namespace_selector()),
        ("objectSelector", webhook.object_selector()),
    ] {
        if let Some(selector) = selector {
            let mut builder = Builder::new();
            write_selector(&mut builder, selector);
            constraints[key] = builder.finish().root().to_serde();
        }
    }
    let mut conditions = Conditions::default();
    for condition in webhook.match_conditions() {
        conditions.add(condition.name(), &condition.registered(), steps);
    }
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "matchConditions": conditions.json(),
        "validations": [{"expression": "true"}],
    });
    objects
        .add(&spec, &[(Json::Null, vec!["Deny"])], &Json::Null)
        .ok_or_else(|| Refused::new(code::INVALID, "the candidate cannot be read"))
}

fn add_one(
    policy: &ValidatingPolicy,
    lifting: &[&CelPolicyException],
    shape: Shape,
    objects: &mut Objects<'_>,
    steps: &mut Steps,
) -> Result<(), Refused> {
    let document = policy.spec.source.document();
    let written = document.root().to_serde();
    let mut spec = json!({});
    let ignores = written["failurePolicy"].as_str() == Some("Ignore") && !shape.fails;
    spec["failurePolicy"] = json!(if ignores { "Ignore" } else { "Fail" });
    steps.note(ignores, Construct::FailurePolicy);
    let mut constraints = pruned(&written["matchConstraints"]);
    let own = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
    if let Some(own) = own {
        steps.add(Construct::OwnNamespace);
        let need = json!({"key": NAME_LABEL, "operator": "In", "values": [own.value]});
        if constraints["namespaceSelector"].is_null() {
            constraints["namespaceSelector"] = json!({});
        }
        let selector = &mut constraints["namespaceSelector"];
        match selector["matchExpressions"].as_array_mut() {
            Some(list) => list.push(need),
            None => selector["matchExpressions"] = json!([need]),
        }
        namespaced_rules(&mut constraints);
    }
    spec["matchConstraints"] = constraints;
    let mut conditions = Conditions::default();
    for condition in &policy.spec.match_conditions {
        conditions.add(&condition.name.value, condition.expression.text().trim(), steps);
    }
    for exception in lifting {
        steps.add(Construct::Exceptions);
        let parts: Vec<String> = exception
            .match_conditions
            .iter()
            .map(|condition| format!("({})", condition.expression.text().trim()))
            .collect();
        let expression = match parts.as_slice() {
            [one] => format!("!{one}"),
            _ => format!("!({})", parts.join(" && ")),
        };
        let name = format!("exception-{}", exception.metadata.name.value);
        conditions.add(&name, &expression, steps);
    }
    if let Some(conditions) = conditions.json() {
        spec["matchConditions"] = conditions;
    }
    if !policy.spec.variables.is_empty() {
        spec["variables"] = written["variables"].clone();
    }
    spec["validations"] = validations(&written["validations"], steps);
    if !policy.spec.audit_annotations.is_empty() {
        spec["auditAnnotations"] = written["auditAnnotations"].clone();
    }
    let actions = policy.spec.validation_actions.as_deref().unwrap_or_default();
    let mut actions: Vec<&'static str> = actions.iter().map(|action| action.value.as_str()).collect();
    if actions.is_empty() {
        actions.push(ValidationAction::Deny.as_str());
    }
    // The API server takes no warning beside a refusal.
    let refuses = actions.contains(&"Deny");
    actions.retain(|action| !(refuses && *action == "Warn"));
    let mut seen = Vec::new();
    actions.retain(|action| {
        let is_new = !seen.contains(action);
        seen.push(*action);
        is_new
    });
    objects
        .add(&spec, &[(Json::Null, actions)], &Json::Null)
        .ok_or_else(|| Refused::new(code::INVALID, "the candidate cannot be read"))
}

/// A part of a policy without what is null in it.
fn pruned(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Json::Object(kept.map(|(key, value)| (key.clone(), pruned(value))).collect())
        }
        Json::Array(items) => items.iter().map(pruned).collect(),
        other => other.clone(),
    }
}
