//! The JSON value that all engines read.
//!
//! A [`Document`] is an arena: built once per resource, never changed, read through small copyable references
//! ([`Value`], [`List`], [`Map`]). Maps keep the order of their entries. Keys carry a hash, so that a compiled
//! expression looks a field up by comparing numbers and confirms the one hit by its text; documents and programs need
//! not share an interner. Integers, unsigned integers and doubles are distinguished as in Kubernetes' JSON decoder
//! (`k8s.io/apimachinery/pkg/util/json`).

mod build;
mod data;
mod diff;
mod go;
pub mod go_json;
mod json;
mod yaml;

pub use build::Builder;
pub use data::Data;
pub use diff::{Change, diff};

use std::{
    fmt,
    hash::Hasher,
    sync::{Arc, LazyLock},
};

use rustc_hash::FxHasher;

/// A map key together with its hash, computed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    text: &'a str,
    hash: u32,
}

impl<'a> Key<'a> {
    /// Hashes a key.
    #[inline]
    pub fn new(text: &'a str) -> Self {
        Self { text, hash: hash(text) }
    }

    /// A key whose hash is already known, from [`Key::hash`].
    #[inline]
    pub fn with_hash(text: &'a str, hash: u32) -> Self {
        Self { text, hash }
    }

    #[inline]
    pub fn text(self) -> &'a str {
        self.text
    }

    /// The key's hash; the same for equal keys within one process.
    #[inline]
    pub fn hash(self) -> u32 {
        self.hash
    }
}

#[inline]
fn hash(text: &str) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    let h = hasher.finish();
    (h ^ (h >> 32)) as u32
}

/// One node of the arena: a scalar, or the range of its children.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Node {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text {
        start: u32,
        len: u32,
    },
    List {
        start: u32,
        len: u32,
    },
    Map {
        start: u32,
        len: u32,
    },
}

impl Node {
    /// Whether both are the same scalar of the same type, or ranges at the same place.
    fn is_same(self, other: Node) -> bool {
        match (self, other) {
            (Node::Double(a), Node::Double(b)) => a.to_bits() == b.to_bits(),
            _ => self == other,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key_start: u32,
    key_len: u32,
    hash: u32,
    value: Node,
}

impl Entry {
    fn is_same(&self, other: &Entry) -> bool {
        (self.key_start, self.key_len) == (other.key_start, other.key_len) && self.value.is_same(other.value)
    }
}

/// Maps with more entries than this have an index sorted by hash.
const SCAN_LIMIT: u32 = 24;

/// A JSON value with everything below it. Its parts are shared: a copy costs a counter.
#[derive(Clone)]
pub struct Document(Arc<Parts>);

/// The parts of a document.
#[derive(Clone, Default)]
struct Parts {
    text: String,
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    /// For each large map its first entry and the positions of its entries, sorted by hash; sorted by first entry.
    large: Vec<(u32, Box<[u32]>)>,
    root: Node,
    /// Whether the document is a literal of an expression, see [`Document::into_literal`].
    literal: bool,
}

/// The document `null`, of which there are many.
static NULL: LazyLock<Document> = LazyLock::new(|| Document(Arc::default()));

impl Document {
    /// The top-level value.
    pub fn root(&self) -> Value<'_> {
        self.0.view(self.0.root)
    }

    /// A document that is just `null`.
    pub fn null() -> Self {
        NULL.clone()
    }

    /// Whether any number in the document is a double.
    pub fn has_doubles(&self) -> bool {
        let is_double = |node: &Node| matches!(node, Node::Double(_));
        let Parts {
            nodes, entries, root, ..
        } = &*self.0;
        is_double(root) || nodes.iter().any(is_double) || entries.iter().any(|entry| is_double(&entry.value))
    }

    /// Whether both are copies of one document; equal documents may be built separately.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both were built from the same values in the same order, with the same types of numbers. Stricter than `==`:
    /// nothing that reads the documents can tell them apart.
    pub fn is_identical_to(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        let same_nodes = || {
            let mut pairs = a.nodes.iter().zip(&b.nodes);
            a.nodes.len() == b.nodes.len() && pairs.all(|(a, b)| a.is_same(*b))
        };
        let same_entries = || {
            let mut pairs = a.entries.iter().zip(&b.entries);
            a.entries.len() == b.entries.len() && pairs.all(|(a, b)| a.is_same(b))
        };
        self.is_copy_of(other)
            || (a.literal == b.literal && a.root.is_same(b.root) && a.text == b.text && same_entries() && same_nodes())
    }

    /// The same number for identical documents.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(self.0.text.as_bytes());
        hasher.write_usize(self.0.nodes.len());
        hasher.write_usize(self.0.entries.len());
        hasher.finish()
    }

    /// Marks a document as a literal of an expression: a few functions of Go treat literals differently from input.
    pub fn into_literal(mut self) -> Self {
        Arc::make_mut(&mut self.0).literal = true;
        self
    }

    /// Gives back the memory that building left over, for documents that are kept. Does nothing if the document is shared.
    pub fn shrink_to_fit(&mut self) {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            parts.text.shrink_to_fit();
            parts.nodes.shrink_to_fit();
            parts.entries.shrink_to_fit();
        }
    }
}

impl Parts {
    #[inline]
    fn view(&self, node: Node) -> Value<'_> {
        match node {
            Node::Null => Value::Null,
            Node::Bool(b) => Value::Bool(b),
            Node::Int(i) => Value::Int(i),
            Node::Uint(u) => Value::Uint(u),
            Node::Double(d) => Value::Double(d),
            Node::Text { start, len } => Value::String(self.slice(start, len)),
            Node::List { start, len } => Value::List(List {
                document: self,
                start,
                len,
            }),
            Node::Map { start, len } => Value::Map(Map {
                document: self,
                start,
                len,
            }),
        }
    }

    #[inline]
    fn slice(&self, start: u32, len: u32) -> &str {
        &self.text[start as usize..start as usize + len as usize]
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root().fmt(f)
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.root() == other.root()
    }
}

/// A reference to a value inside a [`Document`]: 24 bytes, freely copied.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer that fits 64 bits with sign.
    Int(i64),
    /// An integer that only fits 64 bits without sign.
    Uint(u64),
    /// Any other number.
    Double(f64),
    String(&'a str),
    List(List<'a>),
    Map(Map<'a>),
}

impl<'a> Value<'a> {
    /// The document whose root this is, if it is a list or a map.
    fn whole_document(self) -> Option<&'a Parts> {
        let (document, start, len) = match self {
            Value::List(list) => (list.document, list.start, list.len),
            Value::Map(map) => (map.document, map.start, map.len),
            _ => return None,
        };
        let is_root = match (self, document.root) {
            (Value::List(_), Node::List { start: s, len: l }) | (Value::Map(_), Node::Map { start: s, len: l }) => {
                (s, l) == (start, len)
            }
            _ => false,
        };
        is_root.then_some(document)
    }

    /// The string, if this is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_list(self) -> Option<List<'a>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The map, if this is one.
    pub fn as_map(self) -> Option<Map<'a>> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value of a field, if this is a map that has it.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.as_map()?.get(key)
    }

    /// The value at the end of a path of fields.
    pub fn at(self, path: &[&str]) -> Option<Value<'a>> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The JSON type, in a user's words.
    pub fn kind(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) | Value::Uint(_) => "integer",
            Value::Double(_) => "number",
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Map(_) => "map",
        }
    }

    /// Copies this value into its own document.
    pub fn to_document(self) -> Document {
        let mut builder = Builder::new();
        builder.value(self);
        builder.finish()
    }
}

impl PartialEq for Value<'_> {
    /// Structural equality; the order of map entries does not matter, the kind of a number does.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Uint(a), Value::Uint(b)) => a == b,
            (Value::Double(a), Value::Double(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a == b),
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len() && a.iter().all(|(key, value)| b.get_key(key) == Some(value))
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// A list inside a [`Document`].
#[derive(Clone, Copy)]
pub struct List<'a> {
    document: &'a Parts,
    start: u32,
    len: u32,
}

impl<'a> List<'a> {
    /// Whether it is part of a literal of an expression.
    pub fn is_literal(self) -> bool {
        self.document.literal
    }

    pub fn len(self) -> usize {
        self.len as usize
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element at a position.
    #[inline]
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        if index >= self.len as usize {
            return None;
        }
        Some(self.document.view(self.document.nodes[self.start as usize + index]))
    }

    /// All elements in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Value<'a>> + Clone {
        let document = self.document;
        let start = self.start as usize;
        document.nodes[start..start + self.len as usize]
            .iter()
            .map(move |node| document.view(*node))
    }
}

/// A map inside a [`Document`], in written order.
#[derive(Clone, Copy)]
pub struct Map<'a> {
    document: &'a Parts,
    start: u32,
    len: u32,
}

impl<'a> Map<'a> {
    /// Whether it is part of a literal of an expression.
    pub fn is_literal(self) -> bool {
        self.document.literal
    }

    pub fn len(self) -> usize {
        self.len as usize
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline]
    fn entries(self) -> &'a [Entry] {
        let start = self.start as usize;
        &self.document.entries[start..start + self.len as usize]
    }

    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.get_key(Key::new(key))
    }

    /// The value of a key that was hashed before.
    #[inline]
    pub fn get_key(self, key: Key<'_>) -> Option<Value<'a>> {
        self.find(key).map(|entry| self.document.view(entry.value))
    }

    pub fn contains(self, key: Key<'_>) -> bool {
        self.find(key).is_some()
    }

    #[inline]
    fn find(self, key: Key<'_>) -> Option<&'a Entry> {
        let entries = self.entries();
        if self.len > SCAN_LIMIT {
            return self.find_indexed(entries, key);
        }
        entries
            .iter()
            .find(|entry| entry.hash == key.hash && self.is_key(entry, key))
    }

    #[cold]
    fn find_indexed(self, entries: &'a [Entry], key: Key<'_>) -> Option<&'a Entry> {
        let large = &self.document.large;
        let slot = large.binary_search_by_key(&self.start, |(start, _)| *start).ok()?;
        let index = &large[slot].1;
        let from = index.partition_point(|&i| entries[i as usize].hash < key.hash);
        index[from..]
            .iter()
            .map(|&i| &entries[i as usize])
            .take_while(|entry| entry.hash == key.hash)
            .find(|entry| self.text_of(entry) == key.text)
    }

    /// Whether an entry has the key; compares bytes, to avoid UTF-8 checks.
    #[inline]
    fn is_key(self, entry: &Entry, key: Key<'_>) -> bool {
        let start = entry.key_start as usize;
        let bytes = &self.document.text.as_bytes()[start..start + entry.key_len as usize];
        bytes == key.text.as_bytes()
    }

    fn text_of(self, entry: &Entry) -> &'a str {
        self.document.slice(entry.key_start, entry.key_len)
    }

    /// The entry at a position.
    #[inline]
    pub fn entry(self, index: usize) -> Option<(Key<'a>, Value<'a>)> {
        let entry = self.entries().get(index)?;
        Some((
            Key::with_hash(self.text_of(entry), entry.hash),
            self.document.view(entry.value),
        ))
    }

    /// All entries in document order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (Key<'a>, Value<'a>)> + Clone {
        self.entries().iter().map(move |entry| {
            (
                Key::with_hash(self.text_of(entry), entry.hash),
                self.document.view(entry.value),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_small() {
        assert_eq!(size_of::<Value<'_>>(), 24);
        assert_eq!(size_of::<Node>(), 16);
    }

    #[test]
    fn large_maps_are_indexed() {
        let mut builder = Builder::new();
        builder.begin_map();
        for i in 0..1000 {
            builder.key(&format!("k{i}"));
            builder.int(i);
        }
        builder.end();
        let document = builder.finish();
        let map = document.root().as_map().expect("a map");
        for i in 0..1000 {
            assert_eq!(map.get(&format!("k{i}")), Some(Value::Int(i)));
        }
        assert_eq!(map.get("k1000"), None);
    }

    #[test]
    fn a_later_entry_replaces_an_earlier_one() {
        let document = Document::from_json(r#"{"a":1,"b":{"c":[1,2]},"a":{"x":null}}"#).expect("valid");
        assert_eq!(document.root().to_json(), r#"{"a":{"x":null},"b":{"c":[1,2]}}"#);
    }
}
