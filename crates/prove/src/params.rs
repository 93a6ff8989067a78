//! Parameters to try: objects that the policies' references find, filled with what the expressions compare with.
//!
//! This is search, not proof: which parameters a cluster has is not a matter of matching.

use serde_json::{Value as Json, json};

use super::{Target, objects, sides::LoweredRule, witness::Scenario};
use kyvtest_go_compat::value::Document;
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    kube::{Discovery, parse_api_version},
    policy::{LabelSelector, ParamKind, ParamRef},
};

/// What a cluster may have for parameters: lists of objects, the empty one first.
#[derive(Debug)]
pub(super) struct Parameters {
    worlds: Vec<Vec<Json>>,
}

impl Parameters {
    /// What to try for a policy and native ones. Without parameters that is nothing at all, once.
    pub(super) fn new(original: &Policy, target: &Target, bodies: &[LoweredRule]) -> Self {
        let mut wanted: Vec<(&ParamKind, Option<&ParamRef>)> = Vec::new();
        if let Policy::Classic(policy) = original {
            let rules = policy.spec.rules.iter();
            let cel = rules.filter_map(|rule| rule.validate.as_ref()?.cel.as_ref());
            wanted.extend(cel.filter_map(|cel| Some((cel.param_kind.as_ref()?, cel.param_ref.as_ref()))));
        }
        for policy in &target.policies {
            let name = &policy.metadata.name.value;
            let own = target
                .bindings
                .iter()
                .filter(|binding| binding.policy_name.value == *name);
            let kind = policy.param_kind.as_ref();
            wanted.extend(kind.into_iter().flat_map(|kind| {
                let own = own.clone();
                own.map(move |binding| (kind, binding.param_ref.as_ref()))
            }));
        }
        let mut worlds = vec![Vec::new()];
        let bodies = objects::parameters(bodies);
        for (kind, reference) in wanted {
            let singles =
                |name: &str| -> Vec<Json> { bodies.iter().map(|body| object(kind, reference, name, body)).collect() };
            let first = singles("a");
            worlds.extend(first.iter().map(|object| vec![object.clone()]));
            if reference.is_some_and(|reference| reference.selector.is_some()) {
                for (i, one) in first.iter().enumerate() {
                    let others = singles("b").into_iter().enumerate().filter(|(j, _)| *j != i);
                    worlds.extend(others.map(|(_, other)| vec![one.clone(), other]));
                }
            }
        }
        worlds.dedup();
        Self { worlds }
    }

    /// The worlds to try.
    pub(super) fn worlds(&self) -> &[Vec<Json>] {
        &self.worlds
    }
}

/// An object that a reference finds; without a namespace where the request's is meant.
fn object(kind: &ParamKind, reference: Option<&ParamRef>, name: &str, body: &Json) -> Json {
    let mut object = json!({"apiVersion": kind.api_version, "kind": kind.kind});
    let mut metadata = json!({"name": name});
    if let Some(reference) = reference {
        if let Some(name) = &reference.name {
            metadata["name"] = json!(name.value);
        }
        if let Some(namespace) = &reference.namespace {
            metadata["namespace"] = json!(namespace.value);
        }
        if let Some(selector) = &reference.selector {
            metadata["labels"] = labels(selector);
        }
    }
    object["metadata"] = metadata;
    for (key, value) in body.as_object().into_iter().flatten() {
        if object.get(key).is_none() {
            object[key] = value.clone();
        }
    }
    object
}

/// Labels that a selector selects, if there are any.
pub(super) fn labels(selector: &LabelSelector) -> Json {
    let mut labels = json!({});
    for (key, value) in &selector.match_labels {
        labels[&key.value] = json!(value.value);
    }
    for requirement in &selector.match_expressions {
        let value = match requirement.operator.value.as_str() {
            "In" => requirement.values.first().map_or("x", |value| value.value.as_str()),
            "Exists" => "x",
            _ => continue,
        };
        labels[&requirement.key.value] = json!(value);
    }
    labels
}

/// Puts parameters into the cluster around a request.
pub(super) fn place(scenario: &mut Scenario, params: &[Json], discovery: &Discovery) {
    for object in params {
        let mut object = object.clone();
        let text = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default();
        let (group, version) = parse_api_version(text("apiVersion"));
        let namespaced = discovery
            .by_kind(group, version, text("kind"))
            .is_some_and(|resource| resource.namespaced);
        if namespaced && object["metadata"].get("namespace").is_none() {
            object["metadata"]["namespace"] = json!(scenario.request.namespace);
        }
        scenario.world.params.push(Document::from(&object));
    }
}
