//! The identity of a list element: its key fields, or its value in a set.
//!
//! Upstream counterpart: `fieldpath.PathElement`, and `listItemToPathElement` of `typed/helpers.go`.

use kyvtest_go_compat::{
    text::{float, quote},
    value::Data,
};

use super::{
    config::{Config, Input, Kind},
    schema::ListType,
};

/// The identity of an element of a keyed list or set.
#[derive(Debug, Clone)]
pub(super) enum Element {
    /// Sorted by name.
    Keys(Vec<(String, Data)>),
    Value(Data),
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Keys(left), Self::Keys(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.0 == b.0 && equal(&a.1, &b.1))
            }
            (Self::Value(left), Self::Value(right)) => equal(left, right),
            _ => false,
        }
    }
}

/// Equality by value: 80 is 80.0.
fn equal(left: &Data, right: &Data) -> bool {
    match (left, right) {
        (Data::Int(a), Data::Double(b)) | (Data::Double(b), Data::Int(a)) => *a as f64 == *b,
        (Data::List(a), Data::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b)),
        (Data::Map(a), Data::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1))
        }
        (left, right) => left == right,
    }
}

impl Element {
    /// Identifies an element of a list that is not atomic.
    pub(super) fn of(list: &ListType, item: Input<'_>) -> Result<Self, String> {
        if list.keys.is_empty() {
            return match item.kind() {
                Kind::Map => Err("associative list without keys has an element that's a map type"),
                Kind::List => Err("not supported: associative list with lists as elements"),
                Kind::Null => Err("associative list without keys has an element that's an explicit null"),
                _ => Ok(Self::Value(item.data())),
            }
            .map_err(str::to_owned);
        }
        match item.kind() {
            Kind::Null => return Err("associative list with keys may not have a null element".to_owned()),
            Kind::Map => {}
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        }
        let mut fields: Vec<(String, Data)> = Vec::new();
        for key in &list.keys {
            if let Some(value) = item.get(&key.name).map(key_value).or_else(|| key.default.clone()) {
                fields.push((key.name.clone(), value));
            }
        }
        if fields.is_empty() {
            let keys: Vec<String> = list.keys.iter().map(|key| quote::quote(&key.name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(Self::Keys(fields))
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keys(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", text(value)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
        }
    }
}

/// The value of a key field. One that is not JSON is printed like Go's uint64, which upstream does not know either.
fn key_value(input: Input<'_>) -> Data {
    match input {
        Input::Config(Config::Opaque(_)) => Data::Uint(0),
        input => input.data(),
    }
}

fn text(value: &Data) -> String {
    match value {
        Data::Null => "null".to_owned(),
        Data::Bool(value) => value.to_string(),
        Data::Int(value) => value.to_string(),
        Data::Uint(_) => "{{undefined}}".to_owned(),
        Data::Double(value) => float::display(*value),
        Data::String(text) => quote::quote(text),
        Data::List(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(","))
        }
        Data::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{key}={}", text(value)))
                .collect();
            entries.concat()
        }
    }
}
