//! The types that mutating policies construct: `Object` with every type below it, and `JSONPatch`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/mutation` (Kubernetes 1.36).
//!
//! Known deviation: upstream walks the fields of an object in any order, so several mismatches come in any order; here in
//! that of the expression.

use super::{
    context::Context,
    library::kyverno::native,
    val::{Object, Val},
};
use kyvtest_go_compat::value::{Builder, Document};

/// The type of the operations of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";
/// The type of an object in an apply configuration.
pub const OBJECT: &str = "Object";

/// Whether a name is `Object` or below it.
pub fn is_object_type(name: &str) -> bool {
    name.strip_prefix(OBJECT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether [`make`] constructs values of a type.
pub(super) fn is_mutation_type(name: &str) -> bool {
    name == JSON_PATCH || is_object_type(name)
}

/// Constructs a value of `Object`, of a type below it, or of `JSONPatch`.
pub(super) fn make<'a>(context: &Context<'a>, name: &str, fields: &[(&'a str, Val<'a>)]) -> Val<'a> {
    if name == JSON_PATCH {
        for (field, value) in fields {
            if !matches!(*field, "op" | "path" | "from" | "value") {
                return context.error(format_args!("unexpected JSONPatchType field: {field}"));
            }
            if *field != "value" && !matches!(value, Val::String(_)) {
                let found = native_type(value);
                return context.error(format_args!(
                    "unexpected type {found} for JSONPatchType '{field}' field"
                ));
            }
        }
    }
    let bump = context.bump();
    Val::Object(bump.alloc(Object {
        type_name: context.text(name),
        fields: bump.alloc_slice_copy(fields),
    }))
}

/// A field of a value whose type the checker knows. An unset field reads as null, a string field of `JSONPatch` as the
/// empty string, unless its presence is tested.
pub(super) fn field<'a>(object: &Object<'a>, name: &str, tested: bool) -> Option<Val<'a>> {
    match object.get(name) {
        None if tested => None,
        None if object.type_name == JSON_PATCH && name != "value" => Some(Val::String("")),
        None => Some(Val::Null),
        Some(Val::String("")) if tested && object.type_name == JSON_PATCH && name != "value" => None,
        value => value,
    }
}

/// A field of a value that is dyn to the checker: only operations of JSON patches can be indexed.
pub(super) fn indexed<'a>(object: &Object<'a>, name: &str) -> Option<Val<'a>> {
    if object.type_name == JSON_PATCH {
        field(object, name, false)
    } else {
        None
    }
}

/// The Go type of a value, as `%T` prints it.
fn native_type(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "structpb.NullValue",
        Val::Bool(_) => "bool",
        Val::Int(_) => "int64",
        Val::Uint(_) => "uint64",
        Val::Double(_) => "float64",
        Val::Bytes(_) => "[]uint8",
        Val::Duration(_) => "time.Duration",
        Val::Timestamp(_) => "time.Time",
        Val::List(_) => "[]ref.Val",
        Val::DocumentList(_) => "[]interface {}",
        Val::Map(_) => "map[ref.Val]ref.Val",
        Val::DocumentMap(_) | Val::Object(_) => "map[string]interface {}",
        _ => "string",
    }
}

/// Lists the objects whose type differs from the path of fields to them, with upstream's messages.
pub fn type_mismatches(object: &Object<'_>) -> Vec<String> {
    let mut found = Vec::new();
    mismatches(Val::Object(object), object.type_name, &mut found);
    found
}

fn mismatches(value: Val<'_>, path: &str, found: &mut Vec<String>) {
    match value {
        Val::Object(object) => {
            let name = object.type_name;
            if name != path {
                found.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (field, value) in object.fields {
                mismatches(*value, &format!("{path}.{field}"), found);
            }
        }
        Val::List(items) => items.iter().for_each(|item| mismatches(*item, path, found)),
        Val::Map(entries) => entries.iter().for_each(|(_, value)| mismatches(*value, path, found)),
        _ => {}
    }
}

/// Returns the `value` of an operation as JSON.
///
/// # Errors
/// Upstream's message if the value has no JSON form; our own message for a value that [`holds_objects`].
pub fn patch_value<'a>(context: &Context<'a>, value: Val<'a>) -> Result<Document, String> {
    if let Val::Object(_) = value {
        let mut builder = Builder::new();
        add_native(&mut builder, value)?;
        return Ok(builder.finish());
    }
    if holds_objects(value) {
        return Err("a list or map with typed objects cannot be converted".to_owned());
    }
    native::body(context, value).map_err(|error| match error {
        Val::Error(text) => text.to_owned(),
        other => other.type_name().to_owned(),
    })
}

/// Whether a list or map contains typed objects, at which upstream panics.
pub fn holds_objects(value: Val<'_>) -> bool {
    match value {
        Val::List(items) => items.iter().any(|item| holds_objects(*item)),
        Val::Map(entries) => entries.iter().any(|(_, value)| holds_objects(*value)),
        Val::Object(_) => true,
        _ => false,
    }
}

/// Adds the field of an object, as Go's `structpb.NewStruct` converts it.
fn add_native(builder: &mut Builder, value: Val<'_>) -> Result<(), String> {
    match value {
        Val::Bool(value) => builder.bool(value),
        Val::Int(value) => builder.double(value as f64),
        Val::Uint(value) => builder.double(value as f64),
        Val::Double(value) => builder.double(value),
        Val::String(text) => builder.string(text),
        Val::Bytes(bytes) => builder.string(&kyvtest_go_compat::text::base64::encode(bytes)),
        Val::Object(object) => {
            builder.begin_map();
            for (name, value) in object.fields {
                builder.key(name);
                add_native(builder, *value)?;
            }
            builder.end();
        }
        Val::List(_) | Val::DocumentList(_) => {
            builder.begin_list();
            for item in value.list_iter() {
                add_native(builder, item)?;
            }
            builder.end();
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            builder.begin_map();
            for (key, value) in value.map_iter() {
                builder.key(key.as_str().unwrap_or_default());
                add_native(builder, value)?;
            }
            builder.end();
        }
        Val::Null => builder.null(),
        other => return Err(format!("proto: invalid type: {}", native_type(&other))),
    }
    Ok(())
}
