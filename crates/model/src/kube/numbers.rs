//! Numbers of an object as each side sees them.
//!
//! Upstream counterpart (Kubernetes 1.36.4): native policies and webhook match conditions read the decoded object.
//! There a custom resource keeps `1.0` as a float, regardless of its schema, and the float fields of Go types are
//! floats in any notation. The webhook request carries the object as JSON, where Go writes the float 1.0 as `1`, so
//! Kyverno reads an integer.
//!
//! Known deviation: of the built-in kinds only CustomResourceDefinition has float fields (`maximum`, `minimum` and
//! `multipleOf` of a schema); kinds of aggregated servers are treated as custom resources.

use std::borrow::Cow;

use super::{GroupVersionKind, Resource};
use kyvtest_go_compat::value::{Builder, Document, Value};

/// Float fields of `JSONSchemaProps`.
const SCHEMA_FLOATS: [&str; 3] = ["maximum", "minimum", "multipleOf"];

/// From here on Go's JSON encoder writes an exponent, and the decoder reads a float again.
const EXPONENT: f64 = 1e21;

/// Returns the object as the API server decodes it.
pub fn decoded_numbers<'o>(object: &'o Document, kind: &GroupVersionKind) -> Cow<'o, Document> {
    if !has_float_fields(kind) || !any_schema_float(object.root()) {
        return Cow::Borrowed(object);
    }
    let mut builder = Builder::new();
    with_schema_floats(&mut builder, object.root(), false);
    Cow::Owned(builder.finish())
}

/// Returns the object as a webhook receives it: integral floats are integers.
pub fn webhook_numbers(object: &Document) -> Cow<'_, Document> {
    if !object.has_doubles() || !any_integral_float(object.root()) {
        return Cow::Borrowed(object);
    }
    let mut builder = Builder::new();
    without_integral_floats(&mut builder, object.root());
    Cow::Owned(builder.finish())
}

/// Whether the two sides can see different numbers in objects of a resource. `is_builtin`: Kubernetes itself serves it,
/// from a Go type.
pub fn may_have_floats(resource: &Resource, is_builtin: bool) -> bool {
    !is_builtin || has_float_fields(&resource.object_kind)
}

fn has_float_fields(kind: &GroupVersionKind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.kind == "CustomResourceDefinition"
}

fn as_integer(number: f64) -> Option<i64> {
    let integral = number.fract() == 0.0 && number.abs() < EXPONENT;
    // The bounds of an integer as floats; the upper one is out of range.
    (integral && number >= i64::MIN as f64 && number < i64::MAX as f64).then_some(number as i64)
}

fn any_integral_float(value: Value<'_>) -> bool {
    match value {
        Value::Double(number) => as_integer(number).is_some(),
        Value::List(list) => list.iter().any(any_integral_float),
        Value::Map(map) => map.iter().any(|(_, value)| any_integral_float(value)),
        _ => false,
    }
}

fn without_integral_floats(builder: &mut Builder, value: Value<'_>) {
    match value {
        Value::Double(number) => match as_integer(number) {
            Some(integer) => builder.int(integer),
            None => builder.double(number),
        },
        Value::List(list) => {
            builder.begin_list();
            for item in list.iter() {
                without_integral_floats(builder, item);
            }
            builder.end();
        }
        Value::Map(map) => {
            builder.begin_map();
            for (key, value) in map.iter() {
                builder.key(key.text());
                without_integral_floats(builder, value);
            }
            builder.end();
        }
        value => builder.value(value),
    }
}

fn any_schema_float(value: Value<'_>) -> bool {
    match value {
        Value::List(list) => list.iter().any(any_schema_float),
        Value::Map(map) => map.iter().any(|(key, value)| {
            matches!(value, Value::Int(_)) && SCHEMA_FLOATS.contains(&key.text()) || any_schema_float(value)
        }),
        _ => false,
    }
}

/// Copies a value with the float fields of schemas as floats. `named`: the keys of a map are names of properties, not
/// fields.
fn with_schema_floats(builder: &mut Builder, value: Value<'_>, named: bool) {
    match value {
        Value::List(list) => {
            builder.begin_list();
            for item in list.iter() {
                with_schema_floats(builder, item, false);
            }
            builder.end();
        }
        Value::Map(map) => {
            builder.begin_map();
            for (key, value) in map.iter() {
                builder.key(key.text());
                match (key.text(), value) {
                    (field, Value::Int(number)) if !named && SCHEMA_FLOATS.contains(&field) => {
                        builder.double(number as f64);
                    }
                    // Arbitrary JSON: kept as written.
                    ("default" | "example" | "enum", value) if !named => builder.value(value),
                    (field, value) => {
                        let names = ["properties", "patternProperties", "definitions", "dependencies"];
                        with_schema_floats(builder, value, !named && names.contains(&field));
                    }
                }
            }
            builder.end();
        }
        value => builder.value(value),
    }
}
