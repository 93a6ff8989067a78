//! Requests that people would write first: what makes one a good example.

use super::witness::Scenario;
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::{Operation, RequestClass};

/// How many paths are searched for an example.
pub(super) const PLACES: usize = 9;

/// Kinds of which people think first.
const COMMON: [&str; 8] = [
    "Pod",
    "Deployment",
    "Service",
    "ConfigMap",
    "Secret",
    "Ingress",
    "Namespace",
    "StatefulSet",
];

/// Gives an object the labels and annotations of its body that the path says nothing about.
pub(super) fn keep_metadata(scenario: &mut Scenario, body: &serde_json::Value) {
    let mut object = scenario.request.object.root().to_serde();
    let mut changed = false;
    for key in ["labels", "annotations"] {
        let own = body["metadata"][key].as_object();
        let given = object.get_mut("metadata").and_then(|metadata| metadata.get_mut(key));
        if let (Some(own), Some(given)) = (own, given.and_then(serde_json::Value::as_object_mut)) {
            for (name, value) in own {
                if !given.contains_key(name) {
                    given.insert(name.clone(), value.clone());
                    changed = true;
                }
            }
        }
    }
    if changed {
        scenario.request.object = Document::from(&object);
    }
}

/// How unusual a request is that an example may be about.
pub(super) fn rank(cell: &RequestClass<'_>) -> (bool, usize, Operation) {
    let (resource, operation) = (cell.resource, cell.operation);
    let odd = !resource.subresource.is_empty() || cell.collection || operation == Operation::Connect;
    let kind = resource.object_kind.kind.as_str();
    let place = COMMON.iter().position(|common| *common == kind).unwrap_or(COMMON.len());
    (odd, place, operation)
}
