//! Builds a [`Document`] from events: begin, key, scalar, end.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Document, Entry, Key, Node, Parts, SCAN_LIMIT, Value};

/// Receives the parts of a value in order and lays them out as a [`Document`].
///
/// Children are collected on a stack and moved into the arena when their parent ends, so that each list and each map is
/// contiguous.
#[derive(Debug, Default)]
pub struct Builder {
    text: String,
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    large: Vec<(u32, Box<[u32]>)>,
    /// Finished children of open lists, and candidates for the root.
    items: Vec<Node>,
    /// Finished entries of open maps.
    pairs: Vec<Entry>,
    open: Vec<Open>,
    keys: RecentKeys,
}

/// Where keys stand in the text, so that most repeated keys are stored once. One place per low bits of the hash: a key
/// that another one has displaced is stored again.
#[derive(Debug)]
struct RecentKeys([StoredKey; RecentKeys::SIZE]);

#[derive(Clone, Copy, Debug, Default)]
struct StoredKey {
    hash: u32,
    start: u32,
    len: u32,
}

impl RecentKeys {
    const SIZE: usize = 64;

    #[inline]
    fn slot(&mut self, hash: u32) -> &mut StoredKey {
        &mut self.0[hash as usize % Self::SIZE]
    }
}

impl Default for RecentKeys {
    fn default() -> Self {
        Self([StoredKey::default(); Self::SIZE])
    }
}

#[derive(Debug)]
enum Open {
    List { items: usize },
    Map { pairs: usize, key: Option<(u32, u32, u32)> },
}

/// Where the arenas of a document begin in those of a builder.
#[derive(Clone, Copy)]
struct Offsets {
    text: u32,
    nodes: u32,
    entries: u32,
}

impl Offsets {
    fn shift(self, node: Node) -> Node {
        match node {
            Node::Text { start, len } => Node::Text {
                start: start + self.text,
                len,
            },
            Node::List { start, len } => Node::List {
                start: start + self.nodes,
                len,
            },
            Node::Map { start, len } => Node::Map {
                start: start + self.entries,
                len,
            },
            scalar => scalar,
        }
    }
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty builder with room for `values` values, so that it need not grow.
    pub fn with_room(values: usize) -> Self {
        Self {
            text: String::with_capacity(values * 16),
            nodes: Vec::with_capacity(values / 2),
            entries: Vec::with_capacity(values),
            items: Vec::with_capacity(16),
            pairs: Vec::with_capacity(32),
            open: Vec::with_capacity(12),
            ..Self::default()
        }
    }

    #[inline]
    fn push(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(Open::Map { key, .. }) => {
                let (key_start, key_len, hash) = key.take().expect("a key before each value of a map");
                self.pairs.push(Entry {
                    key_start,
                    key_len,
                    hash,
                    value: node,
                });
            }
            Some(Open::List { .. }) | None => self.items.push(node),
        }
    }

    fn append(&mut self, text: &str) -> (u32, u32) {
        let start = u32::try_from(self.text.len()).expect("a document's text is below 4 GiB");
        self.text.push_str(text);
        (start, text.len() as u32)
    }

    /// Adds `null`.
    pub fn null(&mut self) {
        self.push(Node::Null);
    }

    /// Adds a boolean.
    pub fn bool(&mut self, value: bool) {
        self.push(Node::Bool(value));
    }

    /// Adds an integer.
    pub fn int(&mut self, value: i64) {
        self.push(Node::Int(value));
    }

    /// Adds an unsigned integer, without converting it.
    pub fn uint(&mut self, value: u64) {
        self.push(Node::Uint(value));
    }

    /// Adds a double, without converting it.
    pub fn double(&mut self, value: f64) {
        self.push(Node::Double(value));
    }

    /// Adds text.
    pub fn string(&mut self, value: &str) {
        let (start, len) = self.append(value);
        self.push(Node::Text { start, len });
    }

    /// Opens a list.
    pub fn begin_list(&mut self) {
        self.open.push(Open::List {
            items: self.items.len(),
        });
    }

    /// Opens a map.
    pub fn begin_map(&mut self) {
        self.open.push(Open::Map {
            pairs: self.pairs.len(),
            key: None,
        });
    }

    /// Sets the key of the next value of the open map.
    ///
    /// # Panics
    /// If no map is open.
    pub fn key(&mut self, text: &str) {
        self.hashed_key(Key::new(text));
    }

    /// Sets the key, already hashed, of the next value of the open map.
    ///
    /// # Panics
    /// If no map is open.
    #[inline]
    pub fn hashed_key(&mut self, key: Key<'_>) {
        let (text, hash) = (key.text(), key.hash());
        let known = *self.keys.slot(hash);
        let stored = &self.text.as_bytes()[known.start as usize..known.start as usize + known.len as usize];
        let (start, len) = if known.hash == hash && stored == text.as_bytes() {
            (known.start, known.len)
        } else {
            let (start, len) = self.append(text);
            *self.keys.slot(hash) = StoredKey { hash, start, len };
            (start, len)
        };
        match self.open.last_mut() {
            Some(Open::Map { key, .. }) => *key = Some((start, len, hash)),
            _ => panic!("a key outside of a map"),
        }
    }

    /// Closes the list or map that was opened last.
    ///
    /// # Panics
    /// If none is open.
    pub fn end(&mut self) {
        match self.open.pop().expect("something is open") {
            Open::List { items } => {
                let start = self.nodes.len() as u32;
                self.nodes.extend_from_slice(&self.items[items..]);
                self.items.truncate(items);
                let len = self.nodes.len() as u32 - start;
                self.push(Node::List { start, len });
            }
            Open::Map { pairs, .. } => {
                self.replace_duplicates(pairs);
                let start = self.entries.len() as u32;
                self.entries.extend_from_slice(&self.pairs[pairs..]);
                self.pairs.truncate(pairs);
                let len = self.entries.len() as u32 - start;
                if len > SCAN_LIMIT {
                    let mut index: Box<[u32]> = (0..len).collect();
                    index.sort_by_key(|&i| self.entries[(start + i) as usize].hash);
                    self.large.push((start, index));
                }
                self.push(Node::Map { start, len });
            }
        }
    }

    /// Keeps the last value of each key at the position of the first, like a Go map that is filled in order.
    fn replace_duplicates(&mut self, from: usize) {
        let pairs = &self.pairs[from..];
        let text =
            |entry: &Entry| &self.text[entry.key_start as usize..entry.key_start as usize + entry.key_len as usize];
        let mut replaced = Vec::new();
        if pairs.len() <= 16 {
            // Most keys differ in the low bits of their hashes from all before them.
            let mut seen = 0_u64;
            for (i, pair) in pairs.iter().enumerate() {
                let bit = 1 << (pair.hash % 64);
                if seen & bit == 0 {
                    seen |= bit;
                    continue;
                }
                if let Some(earlier) = pairs[..i]
                    .iter()
                    .position(|other| other.hash == pair.hash && text(other) == text(pair))
                {
                    replaced.push((earlier, i));
                }
            }
        } else {
            let mut first: FxHashMap<&str, usize> = FxHashMap::default();
            for (i, pair) in pairs.iter().enumerate() {
                let earlier = *first.entry(text(pair)).or_insert(i);
                if earlier != i {
                    replaced.push((earlier, i));
                }
            }
        }
        for &(earlier, later) in &replaced {
            self.pairs[from + earlier].value = self.pairs[from + later].value;
        }
        if !replaced.is_empty() {
            let mut later = replaced.iter().map(|&(_, later)| from + later).peekable();
            let mut i = 0;
            self.pairs.retain(|_| {
                let gone = later.next_if_eq(&i).is_some();
                i += 1;
                !gone
            });
        }
    }

    /// Adds a copy of a value with everything below it.
    pub fn value(&mut self, value: Value<'_>) {
        if let Some(parts) = value.whole_document() {
            return self.document(parts);
        }
        match value {
            Value::Null => self.null(),
            Value::Bool(b) => self.bool(b),
            Value::Int(i) => self.int(i),
            Value::Uint(u) => self.uint(u),
            Value::Double(d) => self.double(d),
            Value::String(s) => self.string(s),
            Value::List(list) => {
                self.begin_list();
                for item in list.iter() {
                    self.value(item);
                }
                self.end();
            }
            Value::Map(map) => {
                self.begin_map();
                for (key, item) in map.iter() {
                    self.hashed_key(key);
                    self.value(item);
                }
                self.end();
            }
        }
    }

    /// Adds a copy of a document: its arenas are appended, and what they refer to moves with them.
    fn document(&mut self, parts: &Parts) {
        let (text, _) = self.append(&parts.text);
        let offsets = Offsets {
            text,
            nodes: self.nodes.len() as u32,
            entries: self.entries.len() as u32,
        };
        self.nodes.extend(parts.nodes.iter().map(|node| offsets.shift(*node)));
        let entries = parts.entries.iter().map(|entry| Entry {
            key_start: entry.key_start + offsets.text,
            value: offsets.shift(entry.value),
            ..*entry
        });
        self.entries.extend(entries);
        let large = parts.large.iter();
        self.large
            .extend(large.map(|(start, index)| (start + offsets.entries, index.clone())));
        self.push(offsets.shift(parts.root));
    }

    /// Adds a copy of a value in which integers are doubles.
    pub fn value_with_doubles(&mut self, value: Value<'_>) {
        match value {
            Value::Int(number) => self.double(number as f64),
            Value::List(list) => {
                self.begin_list();
                for item in list.iter() {
                    self.value_with_doubles(item);
                }
                self.end();
            }
            Value::Map(map) => {
                self.begin_map();
                for (key, value) in map.iter() {
                    self.key(key.text());
                    self.value_with_doubles(value);
                }
                self.end();
            }
            value => self.value(value),
        }
    }

    /// Returns the document; `null` if nothing was added.
    ///
    /// # Panics
    /// If a list or map is still open.
    pub fn finish(mut self) -> Document {
        assert!(self.open.is_empty(), "everything opened is closed");
        let root = self.items.pop().unwrap_or(Node::Null);
        if matches!(root, Node::Null) {
            return Document::null();
        }
        self.large.sort_by_key(|(start, _)| *start);
        Document(Arc::new(Parts {
            text: self.text,
            nodes: self.nodes,
            entries: self.entries,
            large: self.large,
            root,
            literal: false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document with a map that is large enough to be indexed.
    fn indexed() -> Document {
        let entries: Vec<String> = (0..40).map(|i| format!(r#""k{i}":[{i},{{"x":"{i}"}}]"#)).collect();
        Document::from_json(&format!("{{{}}}", entries.join(","))).expect("valid")
    }

    #[test]
    fn copies_of_documents_and_of_their_parts_are_equal_to_them() {
        let source = indexed();
        let part = source.root().get("k7").expect("present");
        let mut builder = Builder::new();
        builder.begin_map();
        for (key, value) in [("k7", part), ("whole", source.root()), ("again", source.root())] {
            builder.key(key);
            builder.value(value);
        }
        builder.end();
        let copy = builder.finish();
        for key in ["whole", "again"] {
            let whole = copy.root().get(key).expect("present");
            assert_eq!(whole, source.root());
            assert_eq!(whole.get("k39"), source.root().get("k39"));
            assert_eq!(whole.to_json(), source.root().to_json());
        }
        assert_eq!(copy.root().get("k7"), Some(part));
    }
}
