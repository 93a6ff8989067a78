//! Messages from protobuf's JSON: names in either spelling, numbers also as strings, no unknown fields.
//!
//! Upstream counterpart: `google.golang.org/protobuf/encoding/protojson`. The messages are upstream's without the
//! position.
//!
//! Known deviations: the last of equal keys counts, upstream rejects them; the type of a `google.protobuf.Any` is not
//! looked up, and its JSON is kept unchanged.

use super::message::{Item, Kind, Message, Schema};
use crate::time::Timestamp;
use kyvtest_go_compat::{
    text::{base64, quote::quote},
    value::{Data, Value},
};

/// Decodes a message.
///
/// # Errors
/// The first problem.
pub(super) fn read(schema: &'static Schema, value: Value<'_>) -> Result<Message, String> {
    let Value::Map(entries) = value else {
        return Err(format!("proto: syntax error: unexpected token {}", value.to_json()));
    };
    let mut message = Message::new(schema);
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in entries.iter() {
        let key = key.text();
        let mut fields = schema.fields.iter();
        let found = fields.find(|(name, _)| *name == key || camel_case(name) == key);
        let Some((name, kind)) = found.filter(|(_, kind)| !matches!(kind, Kind::Hidden)) else {
            return Err(format!("proto: unknown field {}", quote(key)));
        };
        if seen.contains(name) {
            return Err(format!("proto: duplicate field {}", quote(key)));
        }
        seen.push(name);
        if value.is_null() {
            continue;
        }
        let mut oneofs = schema.oneofs.iter();
        let oneof = oneofs.find(|(_, members)| members.contains(name));
        if let Some((group, members)) = oneof
            && members.iter().any(|member| message.get(member).is_some())
        {
            return Err(format!(
                "proto: error parsing {}, oneof {group} is already set",
                quote(key)
            ));
        }
        let item = item(*kind, value).map_err(|error| match error {
            Wrong::Value(what) => format!("proto: invalid value for {what} field {key}: {}", value.to_json()),
            Wrong::Inner(error) => error,
        })?;
        let is_unset = match &item {
            Item::Document(document) => match document.root() {
                Value::List(list) => list.is_empty(),
                Value::Map(map) => map.is_empty() && !matches!(kind, Kind::Json),
                _ => false,
            },
            item => item.is_zero() && !matches!(kind, Kind::OptionalBool),
        };
        if oneof.is_some() || !is_unset {
            message.set(name, item);
        }
    }
    Ok(message)
}

/// A problem with a field's value.
enum Wrong {
    /// The value is not of this type.
    Value(&'static str),
    /// A nested value is invalid.
    Inner(String),
}

fn item(kind: Kind, value: Value<'_>) -> Result<Item, Wrong> {
    let wrong = Wrong::Value;
    Ok(match (kind, value) {
        (Kind::Bool | Kind::OptionalBool, Value::Bool(value)) => Item::Bool(value),
        (Kind::Bool | Kind::OptionalBool, _) => return Err(wrong("bool")),
        (Kind::Int, value) => Item::Int(integer(value).ok_or(wrong("int64"))?),
        (Kind::Uint, value) => {
            let number = integer(value).and_then(|number| u32::try_from(number).ok());
            Item::Uint(number.ok_or(wrong("uint32"))?.into())
        }
        (Kind::Enumeration(names), Value::String(text)) => {
            let mut names = names.iter();
            let number = names.find(|(name, _)| *name == text).map(|(_, number)| *number);
            Item::Int(number.ok_or(wrong("enum"))?)
        }
        (Kind::Enumeration(_), value) => {
            let number = integer(value).and_then(|number| i32::try_from(number).ok());
            Item::Int(number.ok_or(wrong("enum"))?.into())
        }
        (Kind::Double, value) => Item::Double(double(value).ok_or(wrong("double"))?),
        (Kind::Text, value) => Item::Text(value.as_str().ok_or(wrong("string"))?.to_owned()),
        (Kind::Bytes, value) => Item::Bytes(value.as_str().and_then(bytes).ok_or(wrong("bytes"))?),
        (Kind::Timestamp, value) => {
            let text = value.as_str().filter(|text| Timestamp::is_strict_rfc3339(text));
            let timestamp = text.and_then(Timestamp::parse).filter(|time| time.is_in_range());
            Item::Timestamp(timestamp.ok_or(wrong("google.protobuf.Timestamp"))?.to_utc())
        }
        (Kind::Message(schema) | Kind::Inline(schema), value) => {
            Item::Message(read(schema, value).map_err(Wrong::Inner)?)
        }
        (Kind::Messages(schema), Value::List(list)) => {
            let items = list.iter().map(|item| Ok(read(schema, item)?.data()));
            let items: Vec<Data> = items.collect::<Result<_, String>>().map_err(Wrong::Inner)?;
            document(items.into_iter().collect())
        }
        (Kind::Texts, Value::List(list)) if list.iter().all(|item| item.as_str().is_some()) => {
            Item::Document(value.to_document())
        }
        (Kind::TextMap, Value::Map(map)) if map.iter().all(|(_, item)| item.as_str().is_some()) => {
            Item::Document(value.to_document())
        }
        (Kind::Json, Value::Map(_)) => document(Data::from(value).with_doubles()),
        (Kind::Jsons, Value::Map(map)) if map.iter().all(|(_, item)| item.as_map().is_some()) => {
            document(Data::from(value).with_doubles())
        }
        (Kind::Anys, Value::Map(map)) if map.iter().all(|(_, item)| is_any(item)) => {
            document(Data::from(value).with_doubles())
        }
        (Kind::AnyList, Value::List(list)) if list.iter().all(is_any) => document(Data::from(value).with_doubles()),
        (Kind::Messages(_) | Kind::Texts | Kind::AnyList, _) => return Err(wrong("repeated")),
        _ => return Err(wrong("map")),
    })
}

fn is_any(value: Value<'_>) -> bool {
    value
        .as_map()
        .is_some_and(|map| map.is_empty() || map.get("@type").is_some_and(|name| name.as_str().is_some()))
}

fn document(data: Data) -> Item {
    Item::Document(data.to_document())
}

/// An integer, also as a string or with an exponent.
fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Uint(value) => i64::try_from(value).ok(),
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 => Some(value as i64),
        Value::String(text) if !text.starts_with('+') => text.parse().ok().or_else(|| {
            let value: f64 = text.parse().ok()?;
            integer(Value::Double(value))
        }),
        _ => None,
    }
}

fn double(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(value as f64),
        Value::Uint(value) => Some(value as f64),
        Value::Double(value) => Some(value),
        Value::String("NaN") => Some(f64::NAN),
        Value::String("Infinity") => Some(f64::INFINITY),
        Value::String("-Infinity") => Some(f64::NEG_INFINITY),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Base64 in either alphabet, padded or not.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let standard: String = text.replace('-', "+").replace('_', "/");
    let padded = standard.len().is_multiple_of(4);
    base64::decode(standard.as_bytes(), padded).ok()
}

/// A field's name in JSON: `port_value` is `portValue`.
fn camel_case(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for letter in name.chars() {
        if letter == '_' {
            upper = true;
        } else {
            out.push(if upper { letter.to_ascii_uppercase() } else { letter });
            upper = false;
        }
    }
    out
}
