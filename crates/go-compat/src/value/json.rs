//! JSON text to documents and back.
//!
//! Numbers are read like `k8s.io/apimachinery/pkg/util/json`: an integer literal that fits int64 stays an integer,
//! every other number is a double.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Builder, Document, Value};

impl Document {
    /// Parses JSON.
    ///
    /// # Errors
    /// If the text is not JSON, or is nested more than 128 levels deep.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let mut builder = Builder::new();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Seed { builder: &mut builder }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(builder.finish())
    }
}

impl From<&serde_json::Value> for Document {
    fn from(value: &serde_json::Value) -> Self {
        let mut builder = Builder::new();
        builder.json(value);
        builder.finish()
    }
}

impl Builder {
    /// Adds a copy of a `serde_json` value.
    pub fn json(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::Null => self.null(),
            serde_json::Value::Bool(b) => self.bool(*b),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) => self.int(i),
                None => self.double(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(s) => self.string(s),
            serde_json::Value::Array(items) => {
                self.begin_list();
                for item in items {
                    self.json(item);
                }
                self.end();
            }
            serde_json::Value::Object(entries) => {
                self.begin_map();
                for (key, item) in entries {
                    self.key(key);
                    self.json(item);
                }
                self.end();
            }
        }
    }
}

struct Seed<'b> {
    builder: &'b mut Builder,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.builder.null();
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.builder.bool(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.builder.int(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.builder.int(value),
            Err(_) => self.builder.double(value as f64),
        }
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.builder.double(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.builder.string(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.builder.begin_list();
        while items.next_element_seed(Seed { builder: self.builder })?.is_some() {}
        self.builder.end();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.builder.begin_map();
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            self.builder.key(&key);
            entries.next_value_seed(Seed { builder: self.builder })?;
        }
        self.builder.end();
        Ok(())
    }
}

impl Value<'_> {
    /// Compact JSON, entries in document order.
    pub fn to_json(self) -> String {
        let mut out = String::new();
        write_json(&mut out, self);
        out
    }

    /// Converts the value to `serde_json`'s type.
    pub fn to_serde(self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => b.into(),
            Value::Int(i) => i.into(),
            Value::Uint(u) => u.into(),
            Value::Double(d) => d.into(),
            Value::String(s) => s.into(),
            Value::List(list) => list.iter().map(Value::to_serde).collect(),
            Value::Map(map) => map
                .iter()
                .map(|(key, value)| (key.text().to_owned(), value.to_serde()))
                .collect(),
        }
    }
}

fn write_json(out: &mut String, value: Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Value::Int(i) => write!(out, "{i}").expect("a string takes everything"),
        Value::Uint(u) => write!(out, "{u}").expect("a string takes everything"),
        Value::Double(d) => out.push_str(&serde_json::Value::from(d).to_string()),
        Value::String(s) => write_string(out, s),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key.text());
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::to_string(text).expect("text is always JSON"));
}
