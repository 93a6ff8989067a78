//! ValidatingPolicies as objects: metadata, actions, settings and the parts of drafts.
//!
//! Upstream counterpart: the types of `api/policies.kyverno.io/v1`. Fields are written in the order in which people read them.

use kyvtest_model::policy::{ClassicPolicy, PolicyKind, autogen};
use serde_json::{Map, Value as Json, json};

use crate::{draft::Draft, kinds::webhook, layout::layout};

/// Annotations that say something about the classic policy only.
pub(crate) const DROPPED: [&str; 2] = [autogen::ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration"];

/// The policies of the drafts of one rule. `base` is the name of the first.
pub(crate) fn objects(policy: &ClassicPolicy, base: &str, drafts: &[Draft]) -> Vec<Json> {
    let mut objects = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for draft in drafts {
        for scope in &draft.scopes {
            let mixed = draft.scopes.iter().any(|other| other.denies != scope.denies);
            let mut name = base.to_owned();
            if !draft.suffix.is_empty() {
                name = format!("{name}-{}", draft.suffix);
            }
            if mixed && !scope.denies {
                name = format!("{name}-audit");
            }
            let mut free = name.clone();
            let mut number = 1;
            while names.contains(&free) {
                number += 1;
                free = format!("{name}-{number}");
            }
            names.push(free.clone());
            let spec = spec(policy, draft, scope);
            objects.push(object(policy, &free, spec));
        }
    }
    objects
}

fn object(policy: &ClassicPolicy, name: &str, spec: Json) -> Json {
    let pairs = |list: &[(kyvtest_model::policy::Text, kyvtest_model::policy::Text)]| -> Map<String, Json> {
        let kept = list.iter().filter(|(key, _)| !DROPPED.contains(&key.value.as_str()));
        kept.map(|(key, value)| (key.value.clone(), json!(value.value)))
            .collect()
    };
    let namespaced = policy.kind == PolicyKind::Policy;
    let mut metadata = json!({"name": name});
    if namespaced {
        let own = policy.metadata.namespace.as_ref();
        metadata["namespace"] = json!(own.map_or("default", |text| text.value.as_str()));
    }
    for (key, list) in [
        ("labels", pairs(&policy.metadata.labels)),
        ("annotations", pairs(&policy.metadata.annotations)),
    ] {
        if !list.is_empty() {
            metadata[key] = Json::Object(list);
        }
    }
    json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": if namespaced { "NamespacedValidatingPolicy" } else { "ValidatingPolicy" },
        "metadata": metadata,
        "spec": spec,
    })
}

fn spec(policy: &ClassicPolicy, draft: &Draft, scope: &kyvtest_prove::repair::RuleScope) -> Json {
    let mut spec = json!({});
    let actions = match (scope.denies, policy.spec.emit_warning) {
        (true, _) => json!(["Deny"]),
        (false, true) => json!(["Audit", "Warn"]),
        (false, false) => json!(["Audit"]),
    };
    spec["validationActions"] = actions;
    settings(policy, &mut spec);
    spec["matchConstraints"] = constraints(&scope.constraints);
    let mut conditions: Vec<Json> = Vec::new();
    if let Some(condition) = &scope.condition {
        conditions.push(json!({"name": "match", "expression": layout(condition)}));
    }
    for (name, text) in &draft.conditions {
        let mut free = name.clone();
        let mut number = 1;
        while conditions.iter().any(|other| other["name"] == free.as_str()) {
            number += 1;
            free = format!("{name}-{number}");
        }
        conditions.push(json!({"name": free, "expression": layout(text)}));
    }
    let named = |list: &[(String, String)]| -> Vec<Json> {
        let each = list.iter();
        each.map(|(name, text)| json!({"name": name, "expression": layout(text)}))
            .collect()
    };
    if !conditions.is_empty() {
        spec["matchConditions"] = Json::Array(conditions);
    }
    if !draft.variables.is_empty() {
        spec["variables"] = Json::Array(named(&draft.variables));
    }
    let validations = draft.validations.iter().map(|validation| {
        let mut json = json!({});
        if let Some(message) = &validation.message {
            json["message"] = json!(message);
        }
        if let Some(text) = &validation.message_expression {
            json["messageExpression"] = json!(layout(text));
        }
        json["expression"] = json!(layout(&validation.expression));
        json
    });
    spec["validations"] = validations.collect();
    if !draft.annotations.is_empty() {
        let each = draft.annotations.iter();
        let each = each.map(|(key, text)| json!({"key": key, "valueExpression": layout(text)}));
        spec["auditAnnotations"] = each.collect();
    }
    if only_pods(&scope.constraints) {
        // Rules for pod controllers are written out or unwanted.
        spec["autogen"] = json!({"podControllers": {"controllers": []}});
    }
    spec
}

/// Failure policy, timeout, background scans and admission.
fn settings(policy: &ClassicPolicy, spec: &mut Json) {
    webhook(policy, spec);
    let own = &policy.spec;
    let mut evaluation = json!({});
    if !own.admission {
        evaluation["admission"] = json!({"enabled": false});
    }
    if !own.background {
        evaluation["background"] = json!({"enabled": false});
    }
    if evaluation != json!({}) {
        spec["evaluation"] = evaluation;
    }
}

/// Rules of the same group and version together, where that says the same.
pub(crate) fn constraints(constraints: &Json) -> Json {
    let mut constraints = constraints.clone();
    let Some(rules) = constraints["resourceRules"].as_array() else {
        return constraints;
    };
    let mut kept: Vec<Json> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Json| {
            other["apiGroups"] == rule["apiGroups"]
                && other["apiVersions"] == rule["apiVersions"]
                && other["scope"] == rule["scope"]
                && (other["operations"] == rule["operations"] || extends(other, rule))
        };
        match kept.iter_mut().find(same) {
            Some(found) => {
                let more = rule["resources"].as_array().cloned().unwrap_or_default();
                if let Some(list) = found["resources"].as_array_mut() {
                    list.extend(
                        more.into_iter()
                            .filter(|resource| !list.contains(resource))
                            .collect::<Vec<_>>(),
                    );
                }
            }
            None => kept.push(rule.clone()),
        }
    }
    constraints["resourceRules"] = Json::Array(kept);
    constraints
}

/// Whether a rule is about ephemeral containers alone, which are only ever updated, and the other lists that operation.
fn extends(other: &Json, rule: &Json) -> bool {
    let updated = other["operations"]
        .as_array()
        .is_some_and(|list| list.contains(&json!("UPDATE")));
    updated && rule["operations"] == json!(["UPDATE"]) && rule["resources"] == json!(["pods/ephemeralcontainers"])
}

/// Whether Kyverno would make rules for pod controllers from the policy.
pub(crate) fn only_pods(constraints: &Json) -> bool {
    let rules = constraints["resourceRules"].as_array();
    rules.is_some_and(|rules| rules.iter().all(|rule| rule["resources"] == json!(["pods"])))
}
