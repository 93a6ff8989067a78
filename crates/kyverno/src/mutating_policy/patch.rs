//! The mutations of a policy on an object.
//!
//! Upstream counterpart: `pkg/cel/policies/mpol/compiler/{applyconfig,json,smd}.go` (Kyverno 1.19) and the values of
//! `k8s.io/apiserver/pkg/cel/mutation`.

use crate::classic::missing_kind;
use kyvtest_cel::{
    context::Context,
    mutation,
    print::go_display,
    val::{Object, Val},
};
use kyvtest_go_compat::{
    text::duration,
    value::{Document, Value},
};
use kyvtest_patch::{
    json6902::{Error as JsonError, Operation, Options, Patch},
    structured::{self, Atomics, Config, Opaque, Schema},
};

/// Merges an apply configuration into an object. `api_version` is that of the request.
pub(super) fn apply(
    value: Val<'_>,
    object: &Document,
    api_version: &str,
    atomics: Atomics,
) -> Result<Document, String> {
    let config = match value {
        Val::Object(config) => config,
        Val::Error(error) => return Err(error.to_owned()),
        other => {
            let found = other.type_name();
            return Err(format!(
                "unsupported return type from ApplyConfiguration expression: {found}"
            ));
        }
    };
    check_types(config)?;
    let config = object_config(config).map_err(|_| "invalid return type: *dynamic.ObjectVal".to_owned())?;
    let text = |key: &str| object.root().get(key).and_then(Value::as_str).unwrap_or_default();
    let schema = Schema::builtin();
    let merged = if schema.has_version(api_version) {
        let ty = schema.kind(text("apiVersion"), text("kind"));
        ty.and_then(|ty| structured::apply(ty, object.root(), &config, atomics))
    } else {
        Err(structured::Error::NoConverter)
    };
    merged.map_err(|error| format!("error applying patch: {error}"))
}

fn check_types(object: &Object<'_>) -> Result<(), String> {
    let mismatches = mutation::type_mismatches(object);
    if mismatches.is_empty() {
        Ok(())
    } else {
        Err(format!("type mismatch: {}", mismatches.join("\n")))
    }
}

/// The fields of an object; lists and maps that an expression makes are converted one level deep.
fn object_config<'a>(object: &Object<'a>) -> Result<Config<'a>, String> {
    let mut entries = Vec::with_capacity(object.fields.len());
    for (name, value) in object.fields {
        entries.push(((*name).into(), field_config(*value)?));
    }
    Ok(Config::Map(entries))
}

fn field_config(value: Val<'_>) -> Result<Config<'_>, String> {
    if is_made_list(value) {
        let items = value.list_iter().map(native_config);
        return Ok(Config::List(items.collect::<Result<_, _>>()?));
    }
    if is_made_map(value) {
        let mut entries = Vec::new();
        for (key, value) in value.map_iter() {
            let Val::String(key) = key else {
                return Err("a key is not a string".to_owned());
            };
            entries.push((key.into(), native_config(value)?));
        }
        return Ok(Config::Map(entries));
    }
    native_config(value)
}

/// Whether an expression made the list; the others are lists of documents, which are JSON already.
fn is_made_list(value: Val<'_>) -> bool {
    match value {
        Val::List(_) => true,
        Val::DocumentList(list) => list.is_literal(),
        _ => false,
    }
}

fn is_made_map(value: Val<'_>) -> bool {
    match value {
        Val::Map(_) => true,
        Val::DocumentMap(map) => map.is_literal(),
        _ => false,
    }
}

/// A value as cel-go's `Value()` returns it.
fn native_config(value: Val<'_>) -> Result<Config<'_>, String> {
    Ok(match value {
        Val::Bool(value) => Config::Value(Value::Bool(value)),
        Val::Int(value) => Config::Value(Value::Int(value)),
        Val::Uint(value) => Config::Value(Value::Uint(value)),
        Val::Double(value) => Config::Value(Value::Double(value)),
        Val::String(text) => Config::Value(Value::String(text)),
        Val::Null => Config::Opaque(Opaque::null()),
        Val::Object(object) => object_config(object)?,
        Val::DocumentList(list) if !list.is_literal() => Config::Value(Value::List(list)),
        Val::DocumentMap(map) if !map.is_literal() => Config::Value(Value::Map(map)),
        Val::Duration(nanos) => Config::Opaque(Opaque {
            go_type: "time.Duration".to_owned(),
            display: duration::format(nanos),
            debug: nanos.to_string(),
        }),
        Val::Bytes(bytes) => Config::Opaque(Opaque {
            go_type: "[]uint8".to_owned(),
            display: go_display(value),
            debug: go_bytes(bytes),
        }),
        Val::Optional(Some(inner)) => native_config(*inner)?,
        other => {
            let display = native_display(other);
            Config::Opaque(Opaque {
                go_type: "ref.Val".to_owned(),
                debug: display.clone(),
                display,
            })
        }
    })
}

/// A value as Go's `%v` prints the native value behind it.
fn native_display(value: Val<'_>) -> String {
    if value.is_list() {
        let items: Vec<String> = value.list_iter().map(native_display).collect();
        return format!("[{}]", items.join(" "));
    }
    if value.is_map() {
        let entries = value.map_iter();
        let mut entries: Vec<(String, String)> = entries
            .map(|(key, value)| (native_display(key), native_display(value)))
            .collect();
        entries.sort();
        let entries: Vec<String> = entries
            .into_iter()
            .map(|(key, value)| format!("{key}:{value}"))
            .collect();
        return format!("map[{}]", entries.join(" "));
    }
    go_display(value)
}

/// Bytes as Go's `%#v` prints them.
fn go_bytes(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
    format!("[]uint8{{{}}}", bytes.join(", "))
}

/// Applies the operations of a JSON patch to an object. A failed `test` leaves the object as it is.
pub(super) fn json_patch<'a>(value: Val<'a>, object: &Document, context: &Context<'a>) -> Result<Document, String> {
    if let Val::Error(error) = value {
        return Err(error.to_owned());
    }
    let mut operations = Vec::new();
    for item in value.list_iter() {
        let Val::Object(operation) = item else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned());
        };
        let value = operation.get("value").map(|value| operation_value(value, context));
        operations.push((operation, value.transpose()?));
    }
    let operations = operations.iter().map(|(operation, value)| {
        let text = |name: &str| match operation.get(name) {
            Some(Val::String(text)) => text,
            _ => "",
        };
        Operation {
            op: text("op"),
            path: text("path"),
            from: text("from"),
            value: value.as_ref().map(Document::root),
        }
    });
    let patched = match Patch::from_operations(operations).apply(object.root(), &Options::v4()) {
        Ok(patched) => patched.document,
        Err(JsonError::Test(_)) => return Ok(object.clone()),
        Err(error) => return Err(format!("JSON Patch: {error}")),
    };
    match missing_kind(patched.root(), true) {
        Some(error) => Err(format!("Internal error occurred: {error}")),
        None => Ok(patched),
    }
}

fn operation_value<'a>(value: Val<'a>, context: &Context<'a>) -> Result<Document, String> {
    if let Val::Object(object) = value {
        check_types(object)?;
    }
    mutation::patch_value(context, value).map_err(|error| {
        format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
    })
}
