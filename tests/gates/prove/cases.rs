//! The cases of the prototype as policies and native policies.

use std::collections::BTreeMap;

use kyvtest::{prove::Layer, value::Document};
use serde_json::{Value, json};

use super::{Case, optional};
use crate::support::{read, shared};

/// A stand-in of the cases for a match condition, written in CEL.
fn condition(value: &Value) -> String {
    let subject = "(object != null ? object : oldObject)";
    if let Some(word) = value.as_str() {
        return word.to_owned();
    }
    if let Some(word) = value.as_bool() {
        return word.to_string();
    }
    let (name, inner) = value
        .as_object()
        .and_then(|map| map.iter().next())
        .expect("a condition");
    let list = || inner.to_string();
    let all = |word: &str| {
        let parts: Vec<String> = inner.as_array().expect("a list").iter().map(condition).collect();
        format!("({})", parts.join(word))
    };
    let regex = || {
        let text = inner.as_str().expect("a glob");
        format!("matches('^{}$')", text.replace('*', ".*").replace('?', "."))
    };
    let entry = |map: &str| {
        let (key, value) = (&inner[0], &inner[1]);
        format!("{subject}.metadata.?{map}[?{key}].orValue('') == {value}")
    };
    match name.as_str() {
        "not" => format!("!({})", condition(inner)),
        "and" => all(" && "),
        "or" => all(" || "),
        "namespaceIn" => format!("request.namespace in {}", list()),
        "nameIn" => format!("{subject}.metadata.name in {}", list()),
        "nameGlob" => format!("{subject}.metadata.name.{}", regex()),
        "namespaceGlob" => format!("request.namespace.{}", regex()),
        "usernameIn" => format!("request.userInfo.username in {}", list()),
        "usernameGlob" => {
            let text = inner.as_str().expect("a glob").trim_end_matches('*');
            format!("request.userInfo.username.startsWith('{text}')")
        }
        "groupsEq" => format!("request.userInfo.groups == {}", list()),
        "annotation" => entry("annotations"),
        "label" => entry("labels"),
        "kindIn" => format!("request.kind.kind in {}", list()),
        "operationIn" => format!("request.operation in {}", list()),
        other => panic!("unknown condition {other}"),
    }
}

fn conditions(value: &Value) -> Vec<Value> {
    let all = value.as_array().into_iter().flatten().enumerate();
    all.map(|(i, value)| json!({"name": format!("c{i}"), "expression": condition(value)}))
        .collect()
}

/// All of them, by their ids.
pub(super) fn all() -> Option<BTreeMap<String, Value>> {
    let folder = shared("proto/matchproof")?;
    let mut all = BTreeMap::new();
    for name in ["cases_seeds.yaml", "cases_gen.yaml", "cases_conf.yaml"] {
        let text = read(&folder.join(name));
        let list = Document::from_yaml(&text).expect("YAML").root().to_serde();
        for case in list.as_array().expect("a list") {
            all.insert(case["id"].as_str().expect("an id").to_owned(), case.clone());
        }
    }
    Some(all)
}

/// A case as policies.
pub(super) fn case(id: &str, case: &Value) -> Case {
    let layer = match (&case["autogen"], case["layer"].as_str()) {
        (_, Some("helm")) => Layer::Cluster,
        (Value::Bool(true), _) => Layer::Policy,
        _ => Layer::Rule,
    };
    if let (Some(folder), Some(_)) = (shared("golden/vap-generation"), case["notConvertible"].as_str()) {
        let name = id.rsplit('/').next().unwrap_or_default();
        let folder = folder.join(format!("cpol-skip__{name}"));
        return Case {
            id: id.to_owned(),
            policy: read(&folder.join("policy.yaml")),
            exceptions: optional(&folder.join("exceptions.yaml")),
            layer,
            ..Case::default()
        };
    }
    let validations = json!([{"expression": "false", "message": "no"}]);
    let mut name = None;
    let policy = if case["vpol"].is_object() {
        let mut spec = case["vpol"].clone();
        spec["matchConditions"] = conditions(&case["vpol"]["matchConditions"]).into();
        spec["validations"] = validations.clone();
        json!({"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": {"name": "p"}, "spec": spec})
    } else {
        let mut rule = case["rule"].clone();
        rule.as_object_mut().expect("a rule").remove("exceptions");
        let resources = rule
            .pointer_mut("/match/any/0/resources")
            .and_then(Value::as_object_mut);
        if let Some(resources) = resources.filter(|resources| resources.contains_key("names")) {
            name = resources
                .remove("name")
                .and_then(|name| name.as_str().map(str::to_owned));
        }
        rule["name"] = json!("r");
        rule["celPreconditions"] = conditions(&case["ruleConditions"]).into();
        rule["validate"] =
            json!({"failureAction": "Enforce", "cel": {"generate": true, "expressions": validations.clone()}});
        json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
            "spec": {"background": false, "rules": [rule]}
        })
    };
    let rules = if layer == Layer::Rule {
        vec!["r"]
    } else {
        vec!["r", "autogen-r"]
    };
    let exceptions = case["rule"]["exceptions"].as_array().into_iter().flatten().enumerate();
    let exceptions: Vec<String> = exceptions
        .map(|(i, block)| {
            let object = json!({
                "apiVersion": "kyverno.io/v2", "kind": "PolicyException",
                "metadata": {"name": format!("e{i}"), "namespace": "default"},
                "spec": {"match": block, "exceptions": [{"policyName": "p", "ruleNames": rules}]}
            });
            object.to_string()
        })
        .collect();
    let native = case["vap"].is_object().then(|| {
        let mut spec = case["vap"].clone();
        spec["matchConditions"] = conditions(&case["vap"]["matchConditions"]).into();
        spec["validations"] = validations;
        spec["failurePolicy"] = json!("Fail");
        let vap = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "v"}, "spec": spec
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}
        });
        format!("{vap}\n---\n{binding}")
    });
    Case {
        id: id.to_owned(),
        policy: policy.to_string(),
        exceptions: exceptions.join("\n---\n"),
        native,
        layer,
        name,
        spares_exempt: false,
    }
}
