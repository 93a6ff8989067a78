//! A JSON value that can be built and changed step by step, for JMESPath and the classic rules.
//!
//! [`super::Document`] is laid out once and read many times; this one shares its parts, so that a copy costs a counter.
//! Keys are sorted as Go prints and marshals maps. Numbers keep the type that Go's decoder gave them.

use std::{collections::BTreeMap, sync::Arc};

use super::{Builder, Document, Value, go_json};

/// A JSON value whose parts are shared.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Data {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer, Go's `int64`.
    Int(i64),
    /// A larger integer, Go's `uint64`.
    Uint(u64),
    /// Any other number, Go's `float64`.
    Double(f64),
    String(Arc<str>),
    List(Arc<Vec<Data>>),
    Map(Arc<BTreeMap<Arc<str>, Data>>),
}

impl Data {
    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_list(&self) -> Option<&[Data]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&BTreeMap<Arc<str>, Data>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a field, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Data> {
        self.as_map()?.get(key)
    }

    /// The value at the end of a path of fields.
    pub fn at(&self, path: &[&str]) -> Option<&Data> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The size of the value: the number of its values plus its text in units of 16 bytes. `None` if it exceeds
    /// `limit`, or nests more than `Data::DEPTH_LIMIT` levels deep. Shared parts count each time they occur.
    pub fn size(&self, limit: usize) -> Option<usize> {
        let mut size = 0;
        self.add_size(&mut size, limit, 0).then_some(size)
    }

    /// The maximum nesting of computed values.
    pub(crate) const DEPTH_LIMIT: usize = 1_200;

    fn add_size(&self, size: &mut usize, limit: usize, depth: usize) -> bool {
        *size += 1;
        if *size > limit || depth > Self::DEPTH_LIMIT {
            return false;
        }
        match self {
            Self::String(text) => *size += text.len() / 16,
            Self::List(items) => return items.iter().all(|item| item.add_size(size, limit, depth + 1)),
            Self::Map(entries) => {
                return entries.iter().all(|(key, item)| {
                    *size += key.len() / 16;
                    item.add_size(size, limit, depth + 1)
                });
            }
            _ => {}
        }
        true
    }

    /// Converts every number to a double, as Go's `encoding/json` reads them. Parts without integers stay shared.
    pub fn with_doubles(&self) -> Self {
        self.converted_to_doubles().unwrap_or_else(|| self.clone())
    }

    /// `None` if no number is an integer.
    fn converted_to_doubles(&self) -> Option<Self> {
        match self {
            Self::Int(value) => Some(Self::Double(*value as f64)),
            Self::Uint(value) => Some(Self::Double(*value as f64)),
            Self::List(items) => {
                let mut changed = items.iter().enumerate();
                let (first, item) = changed.find_map(|(at, item)| Some((at, item.converted_to_doubles()?)))?;
                let rest = items.iter().skip(first + 1).map(Self::with_doubles);
                Some(items.iter().take(first).cloned().chain([item]).chain(rest).collect())
            }
            Self::Map(entries) => {
                let mut converted: Option<BTreeMap<Arc<str>, Self>> = None;
                for (key, item) in entries.iter() {
                    if let Some(item) = item.converted_to_doubles() {
                        let copy = converted.get_or_insert_with(|| (**entries).clone());
                        copy.insert(Arc::clone(key), item);
                    }
                }
                converted.map(|entries| Self::Map(Arc::new(entries)))
            }
            _ => None,
        }
    }

    /// Marshals the value like Go's `encoding/json`, HTML characters escaped; the error is Go's message.
    pub fn to_go_json(&self) -> Result<String, String> {
        let mut out = String::new();
        go_json::write_data(&mut out, self)?;
        Ok(out)
    }

    /// Lays the value out as a document.
    pub fn to_document(&self) -> Document {
        let mut builder = Builder::new();
        builder.data(self);
        builder.finish()
    }

    /// Marshals the value as JSON on one line, like Go without escaping HTML characters.
    pub fn to_json(&self) -> String {
        self.to_document().root().to_json()
    }
}

impl Builder {
    /// Adds a value with everything below it.
    pub fn data(&mut self, value: &Data) {
        match value {
            Data::Null => self.null(),
            Data::Bool(value) => self.bool(*value),
            Data::Int(value) => self.int(*value),
            Data::Uint(value) => self.uint(*value),
            Data::Double(value) => self.double(*value),
            Data::String(text) => self.string(text),
            Data::List(items) => {
                self.begin_list();
                for item in items.iter() {
                    self.data(item);
                }
                self.end();
            }
            Data::Map(entries) => {
                self.begin_map();
                for (key, value) in entries.iter() {
                    self.key(key);
                    self.data(value);
                }
                self.end();
            }
        }
    }
}

impl From<Value<'_>> for Data {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::Uint(value) => Self::Uint(value),
            Value::Double(value) => Self::Double(value),
            Value::String(text) => Self::String(text.into()),
            Value::List(items) => items.iter().map(Self::from).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, value)| (Arc::from(key.text()), Self::from(value)))
                .collect(),
        }
    }
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Data {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Data {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Data {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl FromIterator<Data> for Data {
    fn from_iter<I: IntoIterator<Item = Data>>(items: I) -> Self {
        Self::List(Arc::new(items.into_iter().collect()))
    }
}

impl FromIterator<(Arc<str>, Data)> for Data {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Data)>>(entries: I) -> Self {
        Self::Map(Arc::new(entries.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_survives_the_way_there_and_back() {
        let document = Document::from_json(r#"{"b":[1,2.5,null,true],"a":{"c":"x"}}"#).expect("valid");
        let data = Data::from(document.root());
        assert_eq!(data.to_document(), document);
        assert_eq!(data.to_json(), r#"{"a":{"c":"x"},"b":[1,2.5,null,true]}"#);
    }
}
