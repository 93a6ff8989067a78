//! Rules as Go writes them into its error messages: fields in the order of the Go types, defaults of the schema, HTML
//! escapes.

mod fields;

use self::fields::{Field, Shape};
use kyvtest_go_compat::{
    value::{
        Document, Value,
        go_json::{write_string, write_value},
    },
    yaml::{Entries, Items, Node},
};

/// The defaults that the schema sets in a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schema {
    /// All defaults.
    V1,
    /// All but `allowExistingViolations`, which v2beta1 does not know.
    V2Beta1,
    /// None: the schema accepts anything here.
    Free,
}

impl Schema {
    fn of(v2beta1: bool) -> Self {
        if v2beta1 { Self::V2Beta1 } else { Self::V1 }
    }

    /// The text for an absent field.
    fn absent(self, field: &Field) -> &'static str {
        let unset = match self {
            Self::V1 => false,
            Self::V2Beta1 => field.name == "allowExistingViolations",
            Self::Free => field.schema,
        };
        if unset { "" } else { field.absent }
    }
}

fn shaped(node: Node<'_>, shape: &'static [Field], schema: Schema) -> String {
    let mut out = String::new();
    object(node, shape.iter(), schema, &mut out);
    out
}

pub(super) fn rule(node: Node<'_>, v2beta1: bool) -> String {
    shaped(node, fields::RULE, Schema::of(v2beta1))
}

/// The `validate` section of a rule, without the conditions of `deny`, which upstream's search ignores.
pub(super) fn validate(node: Node<'_>, v2beta1: bool) -> String {
    let mut out = String::new();
    let kept = fields::VALIDATE.iter().filter(|field| field.name != "deny");
    object(node, kept, Schema::of(v2beta1), &mut out);
    out
}

/// The `generate` part of a rule.
pub(super) fn generate(node: Node<'_>) -> String {
    shaped(node, fields::GENERATE, Schema::V1)
}

/// The `mutate` part of a rule.
pub(super) fn mutate(node: Node<'_>) -> String {
    shaped(node, fields::MUTATE, Schema::V1)
}

/// The `validate` part of an entry of `verifyImages`, without the conditions of `deny`.
pub(super) fn image_validate(node: Node<'_>) -> String {
    let mut out = String::new();
    let kept = fields::VALIDATE.iter().filter(|field| field.name == "message");
    object(node, kept, Schema::Free, &mut out);
    out
}

/// Any value, with sorted keys.
pub(super) fn value(node: Node<'_>) -> String {
    let mut out = String::new();
    any_value(Document::from(node).root(), &mut out);
    out
}

/// An entry of `verifyImages`.
pub(super) fn image(node: Node<'_>) -> String {
    shaped(node, fields::IMAGE, Schema::V1)
}

/// A part of an attestor; nested parts have no schema.
fn of_attestor(node: Node<'_>, shape: &'static [Field], nested: bool) -> String {
    shaped(node, shape, if nested { Schema::Free } else { Schema::V1 })
}

/// A set of attestors.
pub(super) fn attestors(node: Node<'_>, nested: bool) -> String {
    of_attestor(node, fields::ATTESTORS, nested)
}

pub(super) fn attestor(node: Node<'_>, nested: bool) -> String {
    of_attestor(node, fields::ATTESTOR, nested)
}

/// The keys of an attestor.
pub(super) fn keys(node: Node<'_>, nested: bool) -> String {
    of_attestor(node, fields::KEYS, nested)
}

/// The certificates of an attestor.
pub(super) fn certificates(node: Node<'_>) -> String {
    shaped(node, fields::CERTIFICATES, Schema::V1)
}

/// An attestor without keys.
pub(super) fn keyless(node: Node<'_>) -> String {
    shaped(node, fields::KEYLESS, Schema::V1)
}

/// A label selector.
pub(super) fn selector(node: Node<'_>) -> String {
    shaped(node, fields::SELECTOR, Schema::V1)
}

pub(super) fn subject(node: Node<'_>) -> String {
    shaped(node, fields::SUBJECT, Schema::V1)
}

/// Any section, as Go keeps it in memory: an empty string is absent, an empty list is not.
pub(super) fn reflected(node: Node<'_>) -> serde_json::Value {
    prune(Document::from(node).root().to_serde())
}

fn prune(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Object(map) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                let value = prune(value);
                let empty = value.is_null()
                    || value.as_str() == Some("")
                    || (key == "resources" && value.as_object().is_some_and(serde_json::Map::is_empty));
                if !empty {
                    kept.insert(key, value);
                }
            }
            Json::Object(kept)
        }
        Json::Array(list) => list.into_iter().map(prune).collect(),
        value => value,
    }
}

fn object<'f>(node: Node<'_>, shape: impl Iterator<Item = &'f Field>, schema: Schema, out: &mut String) {
    out.push('{');
    let mut first = true;
    for field in shape {
        let mut text = String::new();
        match node.get(field.name).filter(|value| !value.is_null()) {
            Some(value) => written(value, field, schema, &mut text),
            None => text.push_str(schema.absent(field)),
        }
        if text.is_empty() {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        out.push('"');
        out.push_str(field.name);
        out.push_str("\":");
        out.push_str(&text);
    }
    out.push('}');
}

/// Writes a present field; nothing if Go omits it.
fn written(value: Node<'_>, field: &Field, schema: Schema, out: &mut String) {
    match &field.shape {
        Shape::Struct(shape) => object(value, shape.iter(), schema, out),
        Shape::List(shape) => {
            if value.as_seq().is_some_and(|items| !items.is_empty()) {
                list(value, shape, schema, out);
            }
        }
        Shape::Wrapped(shape) => list(value, shape, Schema::Free, out),
        Shape::Lists(shape) => {
            let mut entries: Vec<_> = value.as_map().into_iter().flat_map(Entries::iter).collect();
            entries.sort_by_key(|entry| entry.key);
            for (i, entry) in entries.iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                write_string(out, entry.key);
                out.push(':');
                list(entry.value, shape, schema, out);
            }
            if !entries.is_empty() {
                out.push('}');
            }
        }
        // Conditions have no schema in either form.
        Shape::Conditions if value.as_seq().is_some() => list(value, fields::CONDITION, Schema::Free, out),
        Shape::Conditions => object(value, fields::ANY_ALL.iter(), Schema::Free, out),
        Shape::Flag => {
            if value.as_bool() == Some(true) {
                out.push_str("true");
            }
        }
        Shape::Raw => any_value(Document::from(value).root(), out),
        Shape::Any => {
            let document = Document::from(value);
            let empty = match document.root() {
                Value::String(text) => text.is_empty(),
                Value::List(list) => list.is_empty(),
                Value::Map(map) => map.is_empty(),
                _ => false,
            };
            if !empty {
                any_value(document.root(), out);
            }
        }
    }
}

fn list(value: Node<'_>, shape: &'static [Field], schema: Schema, out: &mut String) {
    out.push('[');
    for (i, item) in value.as_seq().into_iter().flat_map(Items::iter).enumerate() {
        if i > 0 {
            out.push(',');
        }
        object(item, shape.iter(), schema, out);
    }
    out.push(']');
}

/// A value with sorted keys.
fn any_value(value: Value<'_>, out: &mut String) {
    // Only numbers that are not finite are errors, and Go cannot read them from YAML.
    let _ = write_value(out, value);
}
