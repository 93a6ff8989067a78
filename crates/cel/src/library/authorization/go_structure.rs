//! Structures from JSON, as Go's `encoding/json` decodes them: names in any case, null leaves a field unset, unknown
//! fields are ignored, and the first value of the wrong type is the error.
//!
//! Known deviation: a number such as `1e3` is an integer here; Go rejects it.

use super::{
    mcp::REQUEST_ID,
    message::{Item, Kind, Message, Schema},
};
use kyvtest_go_compat::{
    text::{base64, float},
    value::{Data, Value},
};

/// Decodes a structure.
///
/// # Errors
/// Go's message for a value of the wrong type.
pub(super) fn read(schema: &'static Schema, value: Value<'_>) -> Result<Message, String> {
    let mut reader = Reader { error: None };
    let message = reader.structure(schema, value, "");
    reader.error.map_or(Ok(message), Err)
}

/// Continues after an error, as Go does; the first one is reported.
struct Reader {
    error: Option<String>,
}

impl Reader {
    fn structure(&mut self, schema: &'static Schema, value: Value<'_>, path: &str) -> Message {
        let mut message = Message::new(schema);
        let entries = match value {
            Value::Map(entries) => entries,
            Value::Null => return message,
            other => {
                let at = format!("Go value of type {}", schema.name);
                self.fail(format!("json: cannot unmarshal {} into {at}", kind(other)));
                return message;
            }
        };
        for (key, value) in entries.iter() {
            let key = if key.text() == "_meta" { "Meta" } else { key.text() };
            let mut fields = schema.fields.iter();
            let Some((name, field)) = fields.find(|(name, _)| name.eq_ignore_ascii_case(key)) else {
                continue;
            };
            if value.is_null() {
                continue;
            }
            let path = if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            };
            if let Some(item) = self.item(schema, *field, value, &path) {
                let unset = match &item {
                    Item::Message(inner) => matches!(field, Kind::Inline(_)) && inner.fields.is_empty(),
                    item => item.is_zero(),
                };
                if !unset {
                    message.set(name, item);
                }
            }
        }
        message
    }

    fn item(&mut self, owner: &Schema, field: Kind, value: Value<'_>, path: &str) -> Option<Item> {
        let wrong = |wanted: &str, value: Value<'_>| {
            let owner = owner.name.rsplit('.').next().unwrap_or_default();
            format!(
                "json: cannot unmarshal {} into Go struct field {owner}.{path} of type {wanted}",
                kind(value)
            )
        };
        let read = match (field, value) {
            (Kind::Bool | Kind::OptionalBool, Value::Bool(value)) => Ok(Item::Bool(value)),
            (Kind::Int, value) => integer(value).map(Item::Int).ok_or_else(|| wrong("int64", value)),
            (Kind::Double, Value::Double(value)) => Ok(Item::Double(value)),
            (Kind::Text, Value::String(text)) => Ok(Item::Text(text.to_owned())),
            (Kind::Bytes, Value::String(text)) => base64::decode(text.as_bytes(), true)
                .map(Item::Bytes)
                .map_err(|at| format!("illegal base64 data at input byte {at}")),
            // Go also reads bytes as a list of numbers.
            (Kind::Bytes, Value::List(list)) => {
                let bytes = list.iter().map(|item| match integer(item).map(u8::try_from) {
                    Some(Ok(byte)) => Ok(byte),
                    _ => Err(wrong("uint8", item)),
                });
                bytes.collect::<Result<Vec<u8>, _>>().map(Item::Bytes)
            }
            // The id of a request is a string or a number, and not visible to expressions.
            (Kind::Message(schema), Value::String(_) | Value::Double(_)) if schema.name == REQUEST_ID.name => {
                return Some(Item::Message(Message::new(schema)));
            }
            (Kind::Message(schema), value) if schema.name == REQUEST_ID.name => {
                Err(format!("invalid request id: {}", value.to_json()))
            }
            (Kind::Message(schema) | Kind::Inline(schema), value @ Value::Map(_)) => {
                return Some(Item::Message(self.structure(schema, value, path)));
            }
            (Kind::Messages(schema), Value::List(list)) => {
                let items: Data = list
                    .iter()
                    .map(|item| self.structure(schema, item, path).data())
                    .collect();
                return Some(Item::Document(items.to_document()));
            }
            (Kind::Texts, Value::List(list)) => {
                texts(list.iter()).map(document).map_err(|value| wrong("string", value))
            }
            (Kind::TextMap, Value::Map(map)) => {
                let entries = map.iter().map(|(key, value)| match value {
                    Value::String(text) => Ok((key.text().into(), Data::from(text))),
                    Value::Null => Ok((key.text().into(), Data::from(""))),
                    other => Err(wrong("string", other)),
                });
                entries
                    .collect::<Result<Vec<_>, _>>()
                    .map(|entries| document(entries.into_iter().collect()))
            }
            (Kind::TextLists, Value::Map(map)) => {
                let entries = map.iter().map(|(key, value)| match value {
                    Value::List(list) => {
                        let list = texts(list.iter()).map_err(|value| wrong("string", value))?;
                        Ok((key.text().into(), list))
                    }
                    Value::Null => Ok((key.text().into(), std::iter::empty::<Data>().collect())),
                    other => Err(wrong("[]string", other)),
                });
                entries
                    .collect::<Result<Vec<_>, _>>()
                    .map(|entries| document(entries.into_iter().collect()))
            }
            (Kind::Json | Kind::Jsons | Kind::Anys | Kind::Hidden, value) => Ok(Item::Document(value.to_document())),
            (field, value) => Err(wrong(go_type(field), value)),
        };
        match read {
            Ok(item) => Some(item),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

fn document(data: Data) -> Item {
    Item::Document(data.to_document())
}

fn texts<'v>(mut list: impl Iterator<Item = Value<'v>>) -> Result<Data, Value<'v>> {
    let items = list.by_ref().map(|item| match item {
        Value::String(text) => Ok(Data::from(text)),
        Value::Null => Ok(Data::from("")),
        other => Err(other),
    });
    let items: Vec<Data> = items.collect::<Result<_, _>>()?;
    Ok(items.into_iter().collect())
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 => Some(value as i64),
        _ => None,
    }
}

/// Go's name for the type of the value; a number that does not fit is quoted.
fn kind(value: Value<'_>) -> String {
    match value {
        Value::String(_) => "string".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::List(_) => "array".to_owned(),
        Value::Map(_) => "object".to_owned(),
        Value::Double(value) if value.fract() != 0.0 => {
            format!("number {}", float::json(value).unwrap_or_default())
        }
        _ => "number".to_owned(),
    }
}

fn go_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool | Kind::OptionalBool => "bool",
        Kind::Int | Kind::Enumeration(_) => "int64",
        Kind::Uint => "uint32",
        Kind::Double => "float64",
        Kind::Text | Kind::Timestamp => "string",
        Kind::Bytes => "[]uint8",
        Kind::Message(schema) | Kind::Inline(schema) | Kind::Messages(schema) => schema.name,
        Kind::Texts => "[]string",
        Kind::AnyList => "[]interface {}",
        Kind::TextMap => "map[string]string",
        Kind::TextLists => "map[string][]string",
        Kind::Json | Kind::Jsons | Kind::Anys | Kind::Hidden => "map[string]interface {}",
    }
}
