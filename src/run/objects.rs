//! Objects that rows expect, compared with those that came of the policies.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/commands/test/compare.go` and `resource/{compare,tidy,labels}.go` (1.19): labels
//! of generation do not count, nor do nulls and empty maps and lists. Numbers are compared by value.
//!
//! Known deviation: the text of a difference lists paths with both values; upstream's is a diff of characters.

use std::fmt;

use serde_json::{Map, Value as Json};

use crate::suite::Resource;
use kyvtest_go_compat::value::{Document, Value};

/// A place at which two objects differ; a side without a value does not have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The path, such as `spec.containers[0].image`.
    pub path: String,
    /// What is expected there.
    pub expected: Option<Json>,
    /// What is there.
    pub actual: Option<Json>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Json>| value.as_ref().map_or_else(|| "nothing".to_owned(), Json::to_string);
        let (expected, actual) = (show(&self.expected), show(&self.actual));
        write!(f, "{}: expected {expected}, got {actual}", self.path)
    }
}

/// The document that is meant by an object, if there is one: the first of its version, kind, namespace and name.
pub(super) fn expected_for<'r>(object: &Document, expected: &'r [Resource]) -> Option<&'r Resource> {
    let root = object.root();
    let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default();
    expected.iter().find(|resource| {
        resource.api_version == text(&["apiVersion"])
            && resource.kind == text(&["kind"])
            && resource.namespace == text(&["metadata", "namespace"])
            && resource.name == text(&["metadata", "name"])
    })
}

/// Where an object differs from what is expected, in order of the paths; nowhere if they are equal.
pub fn differences(expected: &Document, actual: &Document) -> Vec<Difference> {
    let ready = |document: &Document| {
        let mut object = document.root().to_serde();
        fix_labels(&mut object);
        tidy(object).unwrap_or(Json::Null)
    };
    let mut found = Vec::new();
    compare(String::new(), Some(&ready(expected)), Some(&ready(actual)), &mut found);
    found
}

/// The differences in lines.
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
    // A map with other values than strings counts as none.
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

fn compare(path: String, expected: Option<&Json>, actual: Option<&Json>, found: &mut Vec<Difference>) {
    match (expected, actual) {
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let below = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                compare(below, a.get(key), b.get(key), found);
            }
        }
        (Some(Json::Array(a)), Some(Json::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(format!("{path}[{index}]"), a.get(index), b.get(index), found);
            }
        }
        (Some(Json::Number(a)), Some(Json::Number(b))) if a.as_f64() == b.as_f64() => {}
        (expected, actual) if expected == actual => {}
        (expected, actual) => found.push(Difference {
            path,
            expected: expected.cloned(),
            actual: actual.cloned(),
        }),
    }
}
