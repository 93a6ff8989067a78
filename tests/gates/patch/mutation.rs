//! Literal mutations of recorded policies: what they do to an object, compared with the recorded result.

use std::collections::BTreeSet;

use kyvtest_go_compat::value::{self, Document, go_json};
use kyvtest_patch::{
    json6902::{self, Operation, Options, Patch},
    structured::{self, Atomics, Schema},
};
use serde_json::Value;

use super::literal::Literal;

/// One literal mutation of one object.
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) literal: Literal,
    pub(crate) object: Document,
    pub(crate) atomics: Atomics,
    /// The error message, or the object after the mutation.
    pub(crate) expected: Result<Document, String>,
    /// Whether the server decoded and defaulted the recorded object, so that it may have more fields.
    pub(crate) is_decoded: bool,
    /// Whether the parts of the error message come in any order.
    pub(crate) is_unordered: bool,
}

/// The rows with one apply configuration, and those with one JSON patch, as cases. `case` gets a row, the name of the field with the
/// expression, and how the error message begins.
pub(crate) fn cases(
    rows: &[Value],
    is_plain: fn(&Value, &str) -> bool,
    case: fn(&Value, &str, &str) -> Option<Case>,
) -> [Vec<Case>; 2] {
    let kinds = [
        ("ApplyConfiguration", "applyConfiguration", "error applying patch: "),
        ("JSONPatch", "jsonPatch", "JSON Patch: "),
    ];
    kinds.map(|(patch_type, body, prefix)| {
        let rows = rows.iter().filter(|row| is_plain(row, patch_type));
        rows.filter_map(|row| case(row, body, prefix)).collect()
    })
}

/// The object as Go marshals it, without managed fields.
fn sorted(document: &Document) -> String {
    let mut value = document.root().to_serde();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let mut out = String::new();
    go_json::write_value(&mut out, Document::from(&value).root()).expect("finite numbers");
    out
}

impl Case {
    fn compare(&self, ours: Result<Document, String>) -> Result<(), String> {
        let difference = match (ours, &self.expected) {
            (Ok(ours), Ok(expected)) => {
                let (ours, expected) = (sorted(&ours), sorted(expected));
                let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
                if ours == expected || self.is_decoded && is_within(&value(&ours), &value(&expected)) {
                    return Ok(());
                }
                format!("{ours}, expected {expected}")
            }
            (Err(ours), Err(expected)) => {
                let parts =
                    |text: &str| -> BTreeSet<String> { text.split([',', ' ', '\n']).map(str::to_owned).collect() };
                if ours == *expected || self.is_unordered && parts(&ours) == parts(expected) {
                    return Ok(());
                }
                format!("{ours:?}, expected {expected:?}")
            }
            (Ok(ours), Err(expected)) => format!("{}, expected {expected:?}", sorted(&ours)),
            (Err(ours), Ok(expected)) => format!("{ours:?}, expected {}", sorted(expected)),
        };
        Err(difference)
    }

    /// Applies the mutation as an ApplyConfiguration.
    pub(crate) fn apply(&self, crds: &[Value]) -> Result<(), String> {
        let text = |key: &str| {
            self.object
                .root()
                .get(key)
                .and_then(value::Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let schema = custom(crds, api_version, kind);
        let schema = schema.as_ref().unwrap_or_else(|| Schema::builtin());
        let config = self.literal.config();
        if !self.is_decoded && !schema.has_version(api_version) {
            return self.compare(Err(structured::Error::NoConverter.to_string()));
        }
        let ours = schema
            .kind(api_version, kind)
            .and_then(|ty| structured::apply(ty, self.object.root(), &config, self.atomics));
        self.compare(ours.map_err(|error| error.to_string()))
    }

    /// Applies the mutation as a JSONPatch.
    pub(crate) fn json4(&self) -> Result<(), String> {
        let Literal::List(operations) = &self.literal else {
            return Err("not a list".to_owned());
        };
        let values: Vec<Option<Document>> = operations
            .iter()
            .map(|operation| field(operation, "value").map(Literal::document))
            .collect();
        let operations = operations.iter().zip(&values).map(|(operation, value)| {
            let text = |name: &str| match field(operation, name) {
                Some(Literal::Text(text)) => text.as_str(),
                _ => "",
            };
            Operation {
                op: text("op"),
                path: text("path"),
                from: text("from"),
                value: value.as_ref().map(Document::root),
            }
        });
        let ours = match Patch::from_operations(operations).apply(self.object.root(), &Options::v4()) {
            Ok(patched) => Ok(patched.document),
            Err(json6902::Error::Test(_)) => Ok(self.object.clone()),
            Err(error) => Err(error.to_string()),
        };
        self.compare(ours)
    }
}

/// Whether two values are equal but for fields that only the second has.
fn is_within(ours: &Value, expected: &Value) -> bool {
    match (ours, expected) {
        (Value::Object(ours), Value::Object(expected)) => ours
            .iter()
            .all(|(key, ours)| expected.get(key).is_some_and(|expected| is_within(ours, expected))),
        (Value::Array(ours), Value::Array(expected)) => {
            ours.len() == expected.len()
                && ours
                    .iter()
                    .zip(expected)
                    .all(|(ours, expected)| is_within(ours, expected))
        }
        _ => ours == expected,
    }
}

fn custom(crds: &[Value], api_version: &str, kind: &str) -> Option<Schema> {
    let (group, version) = api_version.split_once('/')?;
    let crd = crds
        .iter()
        .find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind)?;
    let versions = crd["spec"]["versions"].as_array()?;
    let open_api = &versions.iter().find(|entry| entry["name"] == version)?["schema"]["openAPIV3Schema"];
    let open_api = Document::from(open_api);
    Some(Schema::custom(api_version, kind, Some(open_api.root())))
}

fn field<'l>(operation: &'l Literal, name: &str) -> Option<&'l Literal> {
    let Literal::Object(fields) = operation else {
        return None;
    };
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}
