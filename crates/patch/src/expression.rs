//! The patches of CEL expressions: apply configurations and JSON patches.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch` and `pkg/cel/mutation/dynamic`
//! (Kubernetes 1.36), which Kyverno 1.19 links for MutatingPolicy.
//!
//! Known deviation: upstream panics on an `Object` inside a list or map that is the value of an operation; here it is
//! [`JsonPatchError::Panic`].

use kyvtest_cel::{
    context::Context,
    mutation,
    print::go_display,
    val::{Object, Val},
};
use kyvtest_go_compat::{
    text::{
        duration, float,
        quote::{quote, quote_bytes, quote_char},
        time_layout::MONTHS,
    },
    value::{Document, Value},
};
use thiserror::Error;

use crate::{
    json6902::{Error as JsonError, Operation, Options, Patch},
    structured::{Config, Opaque},
};

/// Returns the apply configuration that an expression evaluated to.
///
/// # Errors
/// Upstream's message.
pub fn apply_configuration(value: Val<'_>) -> Result<Config<'_>, String> {
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
    object_config(config).map_err(|_| "invalid return type: *dynamic.ObjectVal".to_owned())
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
        let value = field_config(*value).map_err(|error| format!("fail to convert field {}: {error}", quote(name)))?;
        entries.push(((*name).into(), value));
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
                return Err(format!(
                    "map key {} is of type {}, not string",
                    quoted_key(key),
                    key_type(key)
                ));
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
        Val::String(text) | Val::Type(text) => Config::Value(Value::String(text)),
        Val::Null => Config::Opaque(Opaque::null()),
        Val::Object(object) => object_config(object).unwrap_or_else(|error| {
            Config::Opaque(Opaque {
                go_type: "*types.Err".to_owned(),
                debug: error.clone(),
                display: error,
            })
        }),
        Val::DocumentList(list) if !list.is_literal() => Config::Value(Value::List(list)),
        Val::DocumentMap(map) if !map.is_literal() => Config::Value(Value::Map(map)),
        Val::Duration(nanos) => Config::Opaque(Opaque {
            go_type: "time.Duration".to_owned(),
            display: duration::format(nanos),
            debug: nanos.to_string(),
        }),
        Val::Timestamp(time) => Config::Opaque(Opaque {
            go_type: "time.Time".to_owned(),
            display: go_display(value),
            debug: go_date(&time.to_string()),
        }),
        Val::Bytes(bytes) => Config::Opaque(Opaque {
            go_type: "[]uint8".to_owned(),
            display: go_display(value),
            debug: go_bytes(bytes),
        }),
        Val::Optional(Some(inner)) => native_config(*inner)?,
        Val::Optional(None) => Config::Value(Value::Null),
        other => Config::Opaque(Opaque {
            go_type: "ref.Val".to_owned(),
            debug: native_debug(other),
            display: native_display(other),
        }),
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

/// A time in RFC 3339 as Go's `%#v` prints it; times of other zones than UTC as they are.
fn go_date(text: &str) -> String {
    let parts = || {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let number = |text: &str| text.parse::<i64>().ok();
        let mut date = date.rsplitn(3, '-').map(number);
        let (day, month, year) = (date.next()??, date.next()??, date.next()??);
        let mut time = time.split(':').map(number);
        let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
        let nanos = number(&format!("{fraction:0<9}"))?;
        let month = MONTHS.get(usize::try_from(month - 1).ok()?)?;
        Some(format!(
            "time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {nanos}, time.UTC)"
        ))
    };
    parts().unwrap_or_else(|| text.to_owned())
}

/// Bytes as Go's `%#v` prints them.
fn go_bytes(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
    format!("[]uint8{{{}}}", bytes.join(", "))
}

/// The Go type of a map key, as `%T` prints it.
fn key_type(key: Val<'_>) -> &'static str {
    match key {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::Bytes(_) => "types.Bytes",
        Val::Duration(_) => "types.Duration",
        Val::Timestamp(_) => "types.Timestamp",
        Val::Type(_) => "*types.Type",
        Val::Optional(_) => "*types.Optional",
        key if key.is_list() => "*types.baseList",
        key if key.is_map() => "*types.baseMap",
        _ => "ref.Val",
    }
}

/// A map key as `%q` prints it: numbers as the character of that code.
fn quoted_key(key: Val<'_>) -> String {
    let character =
        |code: Option<u32>| quote_char(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
    match key {
        Val::Null => character(Some(0)),
        Val::Int(number) => character(u32::try_from(number).ok()),
        Val::Uint(number) => character(u32::try_from(number).ok()),
        Val::Bool(value) => format!("%!q(types.Bool={value})"),
        Val::Double(_) => format!("%!q(types.Double={})", go_display(key)),
        Val::Bytes(bytes) => quote_bytes(bytes),
        key => quote(&key_display(key)),
    }
}

/// A value as cel-go's `String` prints it.
fn key_display(value: Val<'_>) -> String {
    match value {
        Val::Optional(None) => "optional.none()".to_owned(),
        value if value.is_list() => {
            let items: Vec<String> = value.list_iter().map(key_display).collect();
            format!("[{}]", items.join(", "))
        }
        value if value.is_map() => {
            let entries = value.map_iter();
            let entries: Vec<String> = entries
                .map(|(key, value)| format!("{}: {}", key_display(key), key_display(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        value => go_display(value),
    }
}

/// A list or map of an expression as `%#v` prints what cel-go has behind it.
fn native_debug(value: Val<'_>) -> String {
    match value {
        Val::String(text) => quote(text),
        value if value.is_list() => {
            let items: Vec<String> = value.list_iter().map(native_debug).collect();
            format!("[]ref.Val{{{}}}", items.join(", "))
        }
        value if value.is_map() => {
            let entries = value.map_iter();
            let mut entries: Vec<String> = entries
                .map(|(key, value)| format!("{}:{}", native_debug(key), native_debug(value)))
                .collect();
            entries.sort();
            format!("map[ref.Val]ref.Val{{{}}}", entries.join(", "))
        }
        value => native_display(value),
    }
}

/// The reason why a JSON patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonPatchError {
    /// Upstream's message.
    #[error("{0}")]
    Invalid(String),
    /// Upstream panics.
    #[error("{0}")]
    Panic(String),
}

/// Applies the operations of a JSON patch to an object; `None` if a `test` failed, which leaves the object unchanged.
pub fn json_patch<'a>(
    value: Val<'a>,
    object: Value<'_>,
    context: &Context<'a>,
) -> Result<Option<Document>, JsonPatchError> {
    if let Val::Error(error) = value {
        return Err(JsonPatchError::Invalid(error.to_owned()));
    }
    let mut operations = Vec::new();
    for item in value.list_iter() {
        let Val::Object(operation) = item else {
            let error = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
            return Err(JsonPatchError::Invalid(error.to_owned()));
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
    match Patch::from_operations(operations).apply(object, &Options::v4()) {
        Ok(patched) => Ok(Some(patched.document)),
        Err(JsonError::Test(_)) => Ok(None),
        Err(error @ JsonError::Panic(_)) => Err(JsonPatchError::Panic(error.to_string())),
        Err(error) => Err(JsonPatchError::Invalid(format!("JSON Patch: {error}"))),
    }
}

fn operation_value<'a>(value: Val<'a>, context: &Context<'a>) -> Result<Document, JsonPatchError> {
    match value {
        Val::Object(object) => check_types(object).map_err(JsonPatchError::Invalid)?,
        value if mutation::holds_objects(value) => {
            let text = "a list or map with typed objects cannot be the value of a JSON patch";
            return Err(JsonPatchError::Panic(text.to_owned()));
        }
        _ => {}
    }
    let unmarshalled = |error: String| {
        JsonPatchError::Invalid(format!(
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        ))
    };
    let document = mutation::patch_value(context, value).map_err(unmarshalled)?;
    match infinite(document.root()) {
        None => Ok(document),
        Some(number) => Err(unmarshalled(format!(
            "json: error calling MarshalJSON for type *structpb.Value: proto: google.protobuf.Value.number_value: \
             invalid {} value",
            float::display(number)
        ))),
    }
}

/// The first number that JSON cannot hold.
fn infinite(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => (!number.is_finite()).then_some(number),
        Value::List(items) => items.iter().find_map(infinite),
        Value::Map(entries) => entries.iter().find_map(|(_, value)| infinite(value)),
        _ => None,
    }
}
