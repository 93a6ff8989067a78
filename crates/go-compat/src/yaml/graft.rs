//! New trees from parts of old ones, rearranged and with edited strings; each node keeps its location in the source.
//!
//! This is how a generated policy keeps its spans: diagnostics about generated policies point at the source.

use std::sync::Arc;

use super::{
    position::Span,
    scalar::Text,
    tree::{Data, EntryData, Kind, Node, NodeData, NodeId, Tree},
};

/// A string being edited that remembers the source of each byte.
#[derive(Debug, Clone)]
pub struct Edited {
    text: String,
    origins: Vec<u32>,
    changed: bool,
}

impl Edited {
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            origins: (0..text.len() as u32).collect(),
            changed: false,
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces every `from` by `to`, from left to right and without overlap, unless `keep` accepts the text that
    /// follows.
    ///
    /// The common beginning and end of both keep their location; new text is located where the common end begins.
    pub fn replace(&mut self, from: &str, to: &str, keep: impl Fn(&str) -> bool) {
        if from.is_empty() || !self.text.contains(from) {
            return;
        }
        let head = common(from.bytes(), to.bytes());
        let tail = common(from.bytes().skip(head).rev(), to.bytes().skip(head).rev());
        let mut text = String::with_capacity(self.text.len() + to.len());
        let mut origins = Vec::with_capacity(self.origins.len() + to.len());
        let mut at = 0;
        while let Some(found) = self.text[at..].find(from) {
            let start = at + found;
            let end = start + from.len();
            text.push_str(&self.text[at..start]);
            origins.extend_from_slice(&self.origins[at..start]);
            at = end;
            if keep(&self.text[end..]) {
                text.push_str(from);
                origins.extend_from_slice(&self.origins[start..end]);
                continue;
            }
            self.changed = true;
            text.push_str(to);
            origins.extend_from_slice(&self.origins[start..start + head]);
            let middle = self.origins[(end - tail).min(end - 1)];
            origins.extend(std::iter::repeat_n(middle, to.len() - head - tail));
            origins.extend_from_slice(&self.origins[end - tail..end]);
        }
        text.push_str(&self.text[at..]);
        origins.extend_from_slice(&self.origins[at..]);
        self.text = text;
        self.origins = origins;
    }
}

fn common(left: impl Iterator<Item = u8>, right: impl Iterator<Item = u8>) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

/// A tree under construction.
pub struct Graft<'t> {
    old: &'t Tree,
    new: Tree,
    edit: &'t dyn Fn(&mut Edited),
}

impl<'t> Graft<'t> {
    /// Starts a tree from parts of `old`. `edit` is applied to every copied string and key.
    pub fn new(old: &'t Tree, edit: &'t dyn Fn(&mut Edited)) -> Self {
        let new = Tree {
            source: Arc::clone(&old.source),
            nodes: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
            decoded: String::new(),
            shapes: Vec::new(),
            tables: Vec::new(),
            root: NodeId(0),
        };
        Self { old, new, edit }
    }

    /// Copies a node of the old tree with its content.
    ///
    /// The recursion depth is that of the old tree, which the reader limits.
    pub fn copy(&mut self, node: Node<'_>) -> NodeId {
        let data = self.old.nodes[node.id().0 as usize];
        match node.kind() {
            Kind::Seq(items) => {
                let items: Vec<NodeId> = items.iter().map(|item| self.copy(item)).collect();
                self.list(data.span, &items)
            }
            Kind::Map(entries) => {
                let entries: Vec<(Text, Span, NodeId)> = entries
                    .iter()
                    .map(|entry| {
                        let value = self.copy(entry.value);
                        (self.text(entry.text, entry.key_span), entry.key_span, value)
                    })
                    .collect();
                self.entries(data.span, &entries)
            }
            Kind::Str(text) if !matches!(data.data, Data::Str) => self.string(data.span, text),
            _ => {
                let raw = match data.data {
                    Data::Str => self.text(data.raw, data.span),
                    _ => self.made(self.old.text(data.raw)),
                };
                self.push(data.data, data.span, raw)
            }
        }
    }

    /// Adds a string with the location `span`; `edit` is applied to it.
    pub fn string(&mut self, span: Span, text: &str) -> NodeId {
        let mut edited = Edited::new(text);
        (self.edit)(&mut edited);
        let raw = self.made(&edited.text);
        self.push(Data::Str, span, raw)
    }

    pub fn null(&mut self, span: Span) -> NodeId {
        let raw = self.made("null");
        self.push(Data::Null, span, raw)
    }

    pub fn list(&mut self, span: Span, items: &[NodeId]) -> NodeId {
        let start = self.new.items.len() as u32;
        self.new.items.extend_from_slice(items);
        let end = self.new.items.len() as u32;
        let raw = self.made("");
        self.push(Data::Seq { start, end }, span, raw)
    }

    /// Adds a map; each key comes with its location.
    pub fn map(&mut self, span: Span, entries: &[(&str, Span, NodeId)]) -> NodeId {
        let entries: Vec<(Text, Span, NodeId)> = entries
            .iter()
            .map(|(key, span, value)| (self.made(key), *span, *value))
            .collect();
        self.entries(span, &entries)
    }

    pub fn finish(mut self, root: NodeId) -> Tree {
        self.new.root = root;
        self.new
    }

    fn entries(&mut self, span: Span, entries: &[(Text, Span, NodeId)]) -> NodeId {
        let start = self.new.entries.len() as u32;
        self.new
            .entries
            .extend(entries.iter().map(|(key, key_span, value)| EntryData {
                key: *key,
                key_span: *key_span,
                value: *value,
            }));
        let end = self.new.entries.len() as u32;
        let raw = self.made("");
        self.push(Data::Map { start, end }, span, raw)
    }

    fn push(&mut self, data: Data, span: Span, raw: Text) -> NodeId {
        let id = NodeId(self.new.nodes.len() as u32);
        self.new.nodes.push(NodeData { span, data, raw });
        id
    }

    fn made(&mut self, text: &str) -> Text {
        let start = self.new.decoded.len() as u32;
        self.new.decoded.push_str(text);
        Text::Made {
            start,
            end: self.new.decoded.len() as u32,
        }
    }

    /// Applies `edit` to a string of the old tree.
    fn text(&mut self, text: Text, span: Span) -> Text {
        let old = self.old.text(text);
        let mut edited = Edited::new(old);
        (self.edit)(&mut edited);
        if !edited.changed && matches!(text, Text::Source { .. }) {
            return text;
        }
        let table = self.old.segments(text, span).edited(&edited.origins);
        self.new.tables.push(table);
        let start = self.new.decoded.len() as u32;
        self.new.decoded.push_str(&edited.text);
        Text::Edited {
            start,
            end: self.new.decoded.len() as u32,
            table: self.new.tables.len() as u32 - 1,
        }
    }
}
