//! Apply configurations: JSON values, and the values of expressions that can replace them.

use std::borrow::Cow;

use kyvtest_go_compat::{
    text::{float, quote},
    value::{Builder, Data, Document, Value},
};

/// An apply configuration, or a part of it.
#[derive(Debug, Clone)]
pub enum Config<'a> {
    Value(Value<'a>),
    /// A list of an expression. An empty one is upstream's nil list, which is null in the merged object.
    List(Vec<Config<'a>>),
    Map(Vec<(Cow<'a, str>, Config<'a>)>),
    /// A value that is not JSON. No schema accepts it.
    Opaque(Opaque),
}

/// A Go value that is not JSON, as messages print it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// `%T`
    pub go_type: String,
    /// `%v`
    pub display: String,
    /// `%#v`
    pub debug: String,
}

impl Opaque {
    /// CEL's null, which upstream does not convert to JSON's.
    pub fn null() -> Self {
        Self {
            go_type: "structpb.NullValue".to_owned(),
            display: "NULL_VALUE".to_owned(),
            debug: "0".to_owned(),
        }
    }
}

impl<'a> From<Value<'a>> for Config<'a> {
    fn from(value: Value<'a>) -> Self {
        Self::Value(value)
    }
}

impl Config<'_> {
    /// The configuration without the fields that always have the object's values.
    pub(super) fn without_type(&self) -> Self {
        let is_type = |key: &str| matches!(key, "apiVersion" | "kind");
        match self {
            Self::Map(entries) => Self::Map(entries.iter().filter(|(key, _)| !is_type(key)).cloned().collect()),
            Self::Value(Value::Map(entries)) => Self::Map(
                entries
                    .iter()
                    .filter(|(key, _)| !is_type(key.text()))
                    .map(|(key, value)| (Cow::Borrowed(key.text()), Self::Value(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// The configuration as JSON. Opaque values become null, but validation has rejected them before.
    pub(super) fn to_document(&self) -> Document {
        let mut builder = Builder::new();
        self.build(&mut builder);
        builder.finish()
    }

    fn build(&self, builder: &mut Builder) {
        match self {
            Self::Value(value) => builder.value(*value),
            Self::List(items) if items.is_empty() => builder.null(),
            Self::List(items) => {
                builder.begin_list();
                for item in items {
                    item.build(builder);
                }
                builder.end();
            }
            Self::Map(entries) => {
                builder.begin_map();
                for (key, item) in entries {
                    builder.key(key);
                    item.build(builder);
                }
                builder.end();
            }
            Self::Opaque(_) => builder.null(),
        }
    }
}

/// A value under validation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input<'a> {
    Value(Value<'a>),
    Config(&'a Config<'a>),
}

impl<'a> From<&'a Config<'a>> for Input<'a> {
    fn from(config: &'a Config<'a>) -> Self {
        match config {
            Config::Value(value) => Self::Value(*value),
            config => Self::Config(config),
        }
    }
}

/// The kinds of values that schemas distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    String,
    List,
    Map,
    Opaque,
}

impl Kind {
    pub(super) fn is_scalar(self) -> bool {
        matches!(self, Self::Bool | Self::Number | Self::String)
    }
}

pub(super) fn kind(value: Value<'_>) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Bool,
        Value::Int(_) | Value::Double(_) => Kind::Number,
        // Upstream does not count Go's uint64 among the integers.
        Value::Uint(_) => Kind::Opaque,
        Value::String(_) => Kind::String,
        Value::List(_) => Kind::List,
        Value::Map(_) => Kind::Map,
    }
}

impl<'a> Input<'a> {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Value(value) => kind(value),
            Self::Config(Config::List(_)) => Kind::List,
            Self::Config(Config::Map(_)) => Kind::Map,
            Self::Config(_) => Kind::Opaque,
        }
    }

    pub(super) fn items(self) -> Vec<Self> {
        match self {
            Self::Value(Value::List(items)) => items.iter().map(Self::Value).collect(),
            Self::Config(Config::List(items)) => items.iter().map(Self::from).collect(),
            _ => Vec::new(),
        }
    }

    /// The entries of a map, sorted by key.
    pub(super) fn entries(self) -> Vec<(&'a str, Self)> {
        let mut entries: Vec<(&'a str, Self)> = match self {
            Self::Value(Value::Map(entries)) => entries
                .iter()
                .map(|(key, value)| (key.text(), Self::Value(value)))
                .collect(),
            Self::Config(Config::Map(entries)) => entries
                .iter()
                .map(|(key, value)| (key.as_ref(), Self::from(value)))
                .collect(),
            _ => Vec::new(),
        };
        entries.sort_by_key(|(key, _)| *key);
        entries
    }

    pub(super) fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Value(value) => value.get(key).map(Self::Value),
            Self::Config(Config::Map(entries)) => {
                let mut entries = entries.iter();
                entries
                    .find(|(name, _)| name == key)
                    .map(|(_, value)| Self::from(value))
            }
            Self::Config(_) => None,
        }
    }

    /// The value for the comparison of keys; opaque ones are null.
    pub(super) fn data(self) -> Data {
        match self {
            Self::Value(value) => Data::from(value),
            Self::Config(config) => Data::from(config.to_document().root()),
        }
    }

    /// `%T`
    pub(super) fn go_type(self) -> String {
        match self {
            Self::Config(Config::Opaque(opaque)) => opaque.go_type.clone(),
            input => input.data().go_type().to_owned(),
        }
    }

    /// `%v` of the library's wrapper.
    pub(super) fn display(self) -> String {
        format!("&{{{}}}", self.inner_display())
    }

    fn inner_display(self) -> String {
        match self {
            Self::Config(Config::Opaque(opaque)) => opaque.display.clone(),
            Self::Config(Config::List(_)) => {
                let items: Vec<String> = self.items().into_iter().map(Self::inner_display).collect();
                format!("[{}]", items.join(" "))
            }
            Self::Config(Config::Map(_)) => {
                let entries = self.entries().into_iter();
                let entries: Vec<String> = entries
                    .map(|(key, value)| format!("{key}:{}", value.inner_display()))
                    .collect();
                format!("map[{}]", entries.join(" "))
            }
            input => input.data().to_go(),
        }
    }

    /// `%#v` of the library's wrapper.
    pub(super) fn debug(self) -> String {
        format!("&value.valueUnstructured{{Value:{}}}", self.inner_debug())
    }

    fn inner_debug(self) -> String {
        match self {
            Self::Config(Config::Opaque(opaque)) => opaque.debug.clone(),
            Self::Config(Config::List(items)) if items.is_empty() => "[]interface {}(nil)".to_owned(),
            Self::Config(Config::List(_)) => {
                let items: Vec<String> = self.items().into_iter().map(Self::inner_debug).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            Self::Config(Config::Map(_)) => {
                let entries = self.entries().into_iter();
                let entries: Vec<String> = entries
                    .map(|(key, value)| format!("{}:{}", quote::quote(key), value.inner_debug()))
                    .collect();
                format!("map[string]interface {{}}{{{}}}", entries.join(", "))
            }
            input => go_syntax(&input.data()),
        }
    }
}

/// A decoded value as `%#v` prints it.
fn go_syntax(value: &Data) -> String {
    match value {
        Data::Null => "interface {}(nil)".to_owned(),
        Data::Bool(value) => value.to_string(),
        Data::Int(value) => value.to_string(),
        Data::Uint(value) => format!("{value:#x}"),
        Data::Double(value) => float::display(*value),
        Data::String(text) => quote::quote(text),
        Data::List(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Data::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", quote::quote(key), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}
