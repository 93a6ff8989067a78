//! Decoded JSON as Go prints it with `%v` and `%T`.

use std::fmt::Write as _;

use super::{Data, Value};
use crate::text::float;

impl Value<'_> {
    /// Appends the value as `%v` prints it.
    pub fn write_go(self, out: &mut String) {
        // Writing into memory cannot fail.
        let _ = match self {
            Value::Null => out.write_str("<nil>"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Int(value) => write!(out, "{value}"),
            Value::Uint(value) => write!(out, "{value}"),
            Value::Double(value) => out.write_str(&float::display(value)),
            Value::String(text) => out.write_str(text),
            Value::List(list) => {
                out.push('[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(' ');
                    }
                    item.write_go(out);
                }
                out.write_char(']')
            }
            Value::Map(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(key, _)| key.text());
                out.push_str("map[");
                for (i, (key, value)) in entries.into_iter().enumerate() {
                    if i > 0 {
                        out.push(' ');
                    }
                    out.push_str(key.text());
                    out.push(':');
                    value.write_go(out);
                }
                out.write_char(']')
            }
        };
    }
}

impl Data {
    /// The value as `%v` prints it.
    pub fn to_go(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            Self::Double(value) => float::display(*value),
            _ => {
                let mut out = String::new();
                self.to_document().root().write_go(&mut out);
                out
            }
        }
    }

    /// The value's type as `%T` prints it.
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Uint(_) => "uint64",
            Self::Double(_) => "float64",
            Self::String(_) => "string",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
        }
    }
}
