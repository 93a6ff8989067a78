//! The located tree: values as Kubernetes sees them, each with its location in the source.

use std::{borrow::Cow, sync::Arc};

use super::{
    number::format_float,
    position::Span,
    scalar::{Segments, Shape, Text},
};

/// One document: nodes in an arena, strings as slices of the source if possible.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(super) source: Arc<str>,
    pub(super) nodes: Vec<NodeData>,
    pub(super) items: Vec<NodeId>,
    pub(super) entries: Vec<EntryData>,
    pub(super) decoded: String,
    pub(super) shapes: Vec<Shape>,
    /// The source locations of edited strings.
    pub(super) tables: Vec<Segments>,
    pub(super) root: NodeId,
}

/// The index of a node in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

#[derive(Debug, Clone, Copy)]
pub(super) struct NodeData {
    pub(super) span: Span,
    pub(super) data: Data,
    /// The scalar as written; empty for collections.
    pub(super) raw: Text,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Data {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// The raw text.
    Str,
    /// Text that was decoded from base64.
    Bytes(Text),
    Seq {
        start: u32,
        end: u32,
    },
    Map {
        start: u32,
        end: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EntryData {
    pub(super) key: Text,
    pub(super) key_span: Span,
    pub(super) value: NodeId,
}

#[derive(Debug, Clone, Copy)]
pub enum Kind<'a> {
    /// Null, also an absent value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer that fits 64 bits with sign.
    Int(i64),
    /// A larger integer that fits 64 bits without sign.
    Uint(u64),
    /// A number with a fraction or exponent, or too large for an integer.
    Float(f64),
    /// A string.
    Str(&'a str),
    /// A list.
    Seq(Items<'a>),
    Map(Entries<'a>),
}

/// A number as the Kubernetes JSON decoder delivers it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// `int64`.
    Int(i64),
    /// `float64`.
    Float(f64),
}

impl Tree {
    /// The document's root.
    pub fn root(&self) -> Node<'_> {
        self.node(self.root)
    }

    /// Returns the node with an index from this tree.
    pub fn node(&self, id: NodeId) -> Node<'_> {
        Node { tree: self, id }
    }

    /// The text of the whole source that contains this document.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    pub(super) fn text(&self, text: Text) -> &str {
        match text {
            Text::Source { start, end } => &self.source[start as usize..end as usize],
            Text::Decoded { start, end, .. } | Text::Made { start, end } | Text::Edited { start, end, .. } => {
                &self.decoded[start as usize..end as usize]
            }
        }
    }

    pub(super) fn segments(&self, text: Text, span: Span) -> Segments {
        match text {
            Text::Source { start, end } => Segments::slice(start, end),
            Text::Decoded { shape, .. } => Segments::of(&self.source, &self.shapes[shape as usize], span.end),
            Text::Made { .. } => Segments::slice(span.start, span.start),
            Text::Edited { table, .. } => self.tables[table as usize].clone(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    tree: &'a Tree,
    id: NodeId,
}

impl<'a> Node<'a> {
    fn data(self) -> &'a NodeData {
        &self.tree.nodes[self.id.0 as usize]
    }

    /// The node's index, for [`Tree::node`].
    pub fn id(self) -> NodeId {
        self.id
    }

    pub fn tree(self) -> &'a Tree {
        self.tree
    }

    /// The location: the scalar with its quotes, the collection from its first to its last character, without anchor
    /// and tag. The value of an alias has the location of its anchor.
    pub fn span(self) -> Span {
        self.data().span
    }

    pub fn kind(self) -> Kind<'a> {
        match self.data().data {
            Data::Null => Kind::Null,
            Data::Bool(bool) => Kind::Bool(bool),
            Data::Int(int) => Kind::Int(int),
            Data::Uint(uint) => Kind::Uint(uint),
            Data::Float(float) => Kind::Float(float),
            Data::Str => Kind::Str(self.tree.text(self.data().raw)),
            Data::Bytes(text) => Kind::Str(self.tree.text(text)),
            Data::Seq { start, end } => Kind::Seq(Items {
                tree: self.tree,
                items: &self.tree.items[start as usize..end as usize],
            }),
            Data::Map { start, end } => Kind::Map(Entries {
                tree: self.tree,
                entries: &self.tree.entries[start as usize..end as usize],
            }),
        }
    }

    pub fn is_null(self) -> bool {
        matches!(self.data().data, Data::Null)
    }

    pub fn as_bool(self) -> Option<bool> {
        match self.kind() {
            Kind::Bool(bool) => Some(bool),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self.kind() {
            Kind::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_seq(self) -> Option<Items<'a>> {
        match self.kind() {
            Kind::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if it is a map.
    pub fn as_map(self) -> Option<Entries<'a>> {
        match self.kind() {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.as_map()?.get(key).map(|entry| entry.value)
    }

    /// The number as the Kubernetes JSON decoder delivers it: an `int64` if it prints as an integer in that range
    /// (`1.0`, `1e3`), otherwise a `float64`.
    pub fn number(self) -> Option<Number> {
        Some(match self.data().data {
            Data::Int(int) => Number::Int(int),
            Data::Uint(uint) => Number::Float(uint as f64),
            Data::Float(float) => json_number(float),
            _ => return None,
        })
    }

    /// The scalar as written, escapes and folding undone but not interpreted: `0777` if the value is 511. `None` for
    /// collections.
    pub fn raw_text(self) -> Option<&'a str> {
        match self.data().data {
            Data::Seq { .. } | Data::Map { .. } => None,
            _ => Some(self.tree.text(self.data().raw)),
        }
    }

    /// The string that a field of Go type `string` receives from this node when a file is decoded directly into Go
    /// types: `123` gives `123`, `on` gives `true`, `0777` gives `511`. `None` for null and collections.
    pub fn string_field(self) -> Option<Cow<'a, str>> {
        Some(match self.kind() {
            Kind::Str(text) => Cow::Borrowed(text),
            Kind::Bool(bool) => Cow::Borrowed(if bool { "true" } else { "false" }),
            Kind::Int(int) => Cow::Owned(int.to_string()),
            Kind::Uint(uint) => Cow::Owned(uint.to_string()),
            Kind::Float(float) => Cow::Owned(format_float(float)),
            Kind::Null | Kind::Seq(_) | Kind::Map(_) => return None,
        })
    }

    /// The source byte that a byte of [`Node::raw_text`] comes from, through folding, indentation and escapes. For
    /// repeated lookups in one scalar use [`Node::segments`].
    pub fn source_offset(self, offset: usize) -> u32 {
        match self.data().raw {
            Text::Source { start, end } => (start as usize).saturating_add(offset).min(end as usize) as u32,
            Text::Decoded { .. } | Text::Made { .. } | Text::Edited { .. } => self.segments().source_offset(offset),
        }
    }

    /// The table from [`Node::raw_text`] to the source.
    pub fn segments(self) -> Segments {
        self.tree.segments(self.data().raw, self.data().span)
    }
}

/// Converts a float as JSON does.
fn json_number(float: f64) -> Number {
    // Go prints the shortest digits that give the float back, padded with zeros: 2^62 arrives as 4611686018427388000.
    if float.trunc() == float
        && float.abs() < 1e19
        && let Ok(int) = format!("{float}").parse()
    {
        return Number::Int(int);
    }
    Number::Float(float)
}

/// The items of a list.
#[derive(Debug, Clone, Copy)]
pub struct Items<'a> {
    tree: &'a Tree,
    items: &'a [NodeId],
}

impl<'a> Items<'a> {
    pub fn len(self) -> usize {
        self.items.len()
    }

    pub fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The item at an index.
    pub fn get(self, place: usize) -> Option<Node<'a>> {
        self.items.get(place).map(|id| self.tree.node(*id))
    }

    pub fn iter(self) -> impl ExactSizeIterator<Item = Node<'a>> + Clone {
        self.items.iter().map(move |id| self.tree.node(*id))
    }
}

/// The entries of a map, in the order in which their keys first occur.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    tree: &'a Tree,
    entries: &'a [EntryData],
}

impl<'a> Entries<'a> {
    pub fn len(self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }

    pub fn at(self, place: usize) -> Option<Entry<'a>> {
        self.entries.get(place).map(|data| Entry::new(self.tree, data))
    }

    pub fn get(self, key: &str) -> Option<Entry<'a>> {
        self.iter().find(|entry| entry.key == key)
    }

    pub fn iter(self) -> impl ExactSizeIterator<Item = Entry<'a>> + Clone {
        self.entries.iter().map(move |data| Entry::new(self.tree, data))
    }
}

/// One entry of a map.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The key as a string; other scalars are converted like sigs.k8s.io/yaml does (`on:` is `true`).
    pub key: &'a str,
    pub key_span: Span,
    pub value: Node<'a>,
    pub(super) text: Text,
}

impl<'a> Entry<'a> {
    fn new(tree: &'a Tree, data: &EntryData) -> Self {
        Self {
            key: tree.text(data.key),
            key_span: data.key_span,
            value: tree.node(data.value),
            text: data.key,
        }
    }

    /// The source byte that a byte of the key comes from; the start of the key if it is not a string in the source.
    pub fn key_source_offset(&self, offset: usize) -> u32 {
        self.value.tree.segments(self.text, self.key_span).source_offset(offset)
    }
}
