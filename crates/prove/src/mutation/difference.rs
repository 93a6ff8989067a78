//! The differences between two objects.

use std::fmt;

use serde_json::Value as Json;

/// A differing field; `None` for a side that lacks it.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The path, such as `spec.containers[0].image`.
    pub path: String,
    pub(crate) expected: Option<Json>,
    pub(crate) actual: Option<Json>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Json>| value.as_ref().map_or_else(|| "nothing".to_owned(), Json::to_string);
        let (expected, actual) = (show(&self.expected), show(&self.actual));
        write!(f, "{}: expected {expected}, got {actual}", self.path)
    }
}

/// Lists the differences between two values, sorted by path. Numbers are compared by value, lists in order.
pub fn differences(expected: &Json, actual: &Json) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(expected), Some(actual), &mut found);
    found
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
