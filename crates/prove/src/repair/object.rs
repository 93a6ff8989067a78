//! Native objects as they are written for `kubectl apply`.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{
    group::{Bound, selector},
    steps::{Construct, Steps},
};
use kyvtest_convert::Object;
use kyvtest_go_compat::{
    diagnostic::Diagnostic,
    value::{Document, Value},
};
use kyvtest_model::policy::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, validate_admission};

/// The annotation that tells where an object comes from.
pub(super) const SOURCE: &str = "kyvtest.dev/repaired-from";

/// Native policies and bindings in the making, with names of their own.
pub(super) struct Objects<'p> {
    name: &'p str,
    source: String,
    pub(super) policies: Vec<Object<ValidatingAdmissionPolicy>>,
    pub(super) bindings: Vec<Object<ValidatingAdmissionPolicyBinding>>,
}

fn object<T>(json: &Json, read: impl Fn(Value<'_>) -> (Option<T>, Vec<Diagnostic>)) -> Option<Object<T>> {
    let document = Document::from(json);
    let model = read(document.root()).0?;
    Some(Object {
        checked: validate_admission(document.root()),
        document,
        model: Arc::new(model),
    })
}

fn numbered(name: &str, number: usize) -> String {
    if number == 0 {
        name.to_owned()
    } else {
        format!("{name}-{}", number + 1)
    }
}

impl<'p> Objects<'p> {
    /// Objects made from a policy.
    pub(super) fn new(kind: &str, name: &'p str) -> Self {
        Self {
            name,
            source: format!("{kind}/{name}"),
            policies: Vec::new(),
            bindings: Vec::new(),
        }
    }

    fn head(&self, kind: &str, name: &str, spec: &Json) -> Json {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "annotations": {SOURCE: self.source}},
            "spec": spec,
        })
    }

    /// Adds a policy with its bindings, each with a selector and its actions. `None` if it cannot be read, which would be a
    /// bug.
    pub(super) fn add(&mut self, spec: &Json, bindings: &[(Json, Vec<&'static str>)], param_ref: &Json) -> Option<()> {
        let spec = &without_unseen(spec);
        let name = numbered(&format!("repaired-{}", self.name), self.policies.len());
        let policy = self.head("ValidatingAdmissionPolicy", &name, spec);
        self.policies
            .push(object(&policy, ValidatingAdmissionPolicy::from_value)?);
        for (number, (selected, actions)) in bindings.iter().enumerate() {
            let mut spec = json!({"policyName": name});
            if !param_ref.is_null() {
                spec["paramRef"] = param_ref.clone();
            }
            if !selected.is_null() {
                spec["matchResources"] = json!({"namespaceSelector": selected});
            }
            spec["validationActions"] = json!(actions);
            let own = numbered(&format!("{name}-binding"), number);
            let binding = self.head("ValidatingAdmissionPolicyBinding", &own, &spec);
            self.bindings
                .push(object(&binding, ValidatingAdmissionPolicyBinding::from_value)?);
        }
        Some(())
    }
}

/// Resources that native policies see and Kyverno never does: by group, with their subresources.
const UNSEEN: [(&str, &[&str]); 2] = [
    (
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    ),
    ("kyverno.io", &["updaterequests", "updaterequests/status"]),
];

/// Excludes what Kyverno never sees from a native policy that would see it.
fn without_unseen(spec: &Json) -> Json {
    let names = |rule: &Json, key: &str, wanted: &[&str]| {
        let mut listed = rule[key].as_array().into_iter().flatten().filter_map(Json::as_str);
        listed.any(|text| wanted.contains(&text))
    };
    let mut spec = spec.clone();
    for (group, resources) in UNSEEN {
        let rules = spec["matchConstraints"]["resourceRules"].as_array();
        let sees_them = rules.into_iter().flatten().any(|rule| {
            let any = ["*", "*/*", "*/status"];
            names(rule, "apiGroups", &["*", group])
                && (names(rule, "resources", &any) || names(rule, "resources", resources))
        });
        if !sees_them {
            continue;
        }
        let exclude = json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": resources, "scope": "*",
        });
        let constraints = &mut spec["matchConstraints"];
        match constraints["excludeResourceRules"].as_array_mut() {
            Some(list) => list.push(exclude),
            None => constraints["excludeResourceRules"] = json!([exclude]),
        }
    }
    spec
}

/// The selectors and actions of bindings of a classic rule.
pub(super) fn bindings(bound: &[Bound], warns: bool) -> Vec<(Json, Vec<&'static str>)> {
    let each = bound.iter().map(|bound| {
        let selected = if bound.needs.is_empty() {
            Json::Null
        } else {
            selector(&bound.needs)
        };
        let actions = match (bound.denies, warns) {
            (true, _) => vec!["Deny"],
            (false, true) => vec!["Audit", "Warn"],
            (false, false) => vec!["Audit"],
        };
        (selected, actions)
    });
    each.collect()
}

/// Validations, without what is empty in them. A message of several lines becomes one line: the API server takes no other.
pub(super) fn validations(list: &Json, steps: &mut Steps) -> Json {
    let each = list.as_array().into_iter().flatten().map(|validation| {
        let mut validation = validation.clone();
        if let Some(map) = validation.as_object_mut() {
            map.retain(|key, value| {
                let is_empty = value.as_str().is_some_and(str::is_empty);
                !value.is_null() && (key == "expression" || !is_empty)
            });
            if let Some(Json::String(message)) = map.get_mut("message") {
                let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
                if message.trim().contains('\n') {
                    steps.add(Construct::OneLine);
                }
                if message.contains('\n') {
                    *message = line;
                }
            }
        }
        validation
    });
    each.collect()
}

/// Match conditions in the making: names that the API server takes, each once.
#[derive(Default)]
pub(super) struct Conditions {
    list: Vec<(String, String)>,
}

impl Conditions {
    /// Adds a condition under a name like this.
    pub(super) fn add(&mut self, name: &str, expression: &str, steps: &mut Steps) {
        let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let clean: String = name.chars().map(|c| if kept(c) { c } else { '-' }).collect();
        let clean = clean.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let base = if clean.is_empty() { "condition" } else { clean };
        let base: String = base.chars().take(60).collect();
        let mut own = base.clone();
        let mut number = 1;
        while self.list.iter().any(|(other, _)| *other == own) {
            number += 1;
            own = format!("{base}-{number}");
        }
        if own != name {
            steps.add(Construct::Renamed);
        }
        self.list.push((own, expression.to_owned()));
    }

    /// The list, if there is any.
    pub(super) fn json(&self) -> Option<Json> {
        let each = self
            .list
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}));
        (!self.list.is_empty()).then(|| each.collect())
    }
}
