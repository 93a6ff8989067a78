//! Compares expected objects of rows with the results of policies.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/commands/test/compare.go` and `resource/{compare,tidy,labels}.go`
//! (1.19): labels of generation do not count, nor do nulls and empty maps and lists. Numbers are compared by value.
//!
//! Known deviation: a difference is reported as paths with both values; upstream prints a character diff.

use serde_json::{Map, Value as Json};

use crate::suite::Resource;
use kyvtest_go_compat::value::{Document, Value};
pub use kyvtest_prove::mutation::Difference;

/// The expected document for an object: the first with its version, kind, namespace and name.
pub(crate) fn expected_for<'r>(object: &Document, expected: &'r [Resource]) -> Option<&'r Resource> {
    let root = object.root();
    let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default();
    expected.iter().find(|resource| {
        resource.api_version == text(&["apiVersion"])
            && resource.kind == text(&["kind"])
            && resource.namespace == text(&["metadata", "namespace"])
            && resource.name == text(&["metadata", "name"])
    })
}

/// The differences between an object and the expected one, sorted by path; empty if they are equal.
pub fn differences(expected: &Document, actual: &Document) -> Vec<Difference> {
    if expected == actual {
        return Vec::new();
    }
    let ready = |document: &Document| {
        let mut object = document.root().to_serde();
        fix_labels(&mut object);
        tidy(object).unwrap_or(Json::Null)
    };
    kyvtest_prove::mutation::differences(&ready(expected), &ready(actual))
}

/// The differences as lines.
pub fn describe(differences: &[Difference]) -> String {
    let lines = differences.iter().map(|difference| format!("\n{difference}"));
    lines.collect()
}

fn fix_labels(object: &mut Json) {
    let Some(metadata) = object.get_mut("metadata").and_then(Json::as_object_mut) else {
        return;
    };
    let mut labels = Map::new();
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "kyverno".into());
    // A map with values other than strings counts as absent.
    if let Some(own) = metadata.get("labels").and_then(Json::as_object)
        && own.values().all(Json::is_string)
    {
        let own = own.iter().filter(|(key, _)| !key.starts_with("generate.kyverno.io/"));
        labels.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    }
    metadata.insert("labels".to_owned(), labels.into());
}

/// The value without nulls and empty maps and lists.
fn tidy(value: Json) -> Option<Json> {
    match value {
        Json::Null => None,
        Json::Object(map) => {
            let kept: Map<String, Json> = map
                .into_iter()
                .filter_map(|(key, value)| Some((key, tidy(value)?)))
                .collect();
            (!kept.is_empty()).then_some(Json::Object(kept))
        }
        Json::Array(list) => {
            let kept: Vec<Json> = list.into_iter().filter_map(tidy).collect();
            (!kept.is_empty()).then_some(Json::Array(kept))
        }
        scalar => Some(scalar),
    }
}
