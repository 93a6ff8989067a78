//! The composer: turns syntax into the located tree. Resolves scalars, follows aliases, merges maps and checks keys.
//!
//! Upstream counterpart: the second half of `decode.go` of go.yaml.in/yaml/v2 2.4 and the conversion to JSON of
//! sigs.k8s.io/yaml 1.6. Their three passes (decode, make the keys strings, write JSON) determine which of several
//! errors comes first; an entry that a later one replaces cannot fail the later passes.
//!
//! Deviations: two keys that differ only in type (`1` and `"1"`) are one key, and the later entry wins, whereas Go's
//! choice is random; the depth limit counts expanded aliases.

use std::{collections::HashMap, sync::Arc};

use rustc_hash::FxHashSet;

use super::{
    Limits, Mode,
    error::{Error, ErrorKind, Message, Result},
    number::{base64, format_float, lossy},
    parse::{Syn, SynKind, Syntax},
    position::Span,
    resolve::{Scalar, resolve_plain, resolve_tagged},
    scalar::{Shape, Text},
    tree::{Data, EntryData, NodeData, NodeId, Tree},
};

/// Maps with at least this many entries look their keys up in a table.
const TABLE_FROM: usize = 16;

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// A key with its type, since keys of different types are distinct.
#[derive(Debug, Clone, Copy)]
struct Key {
    text: Text,
    span: Span,
    scalar: Scalar,
}

/// An entry of an open map.
#[derive(Debug, Clone, Copy)]
struct Pending {
    key: Key,
    value: NodeId,
}

struct Composer<'a> {
    syntax: &'a [Syn],
    tags: &'a [String],
    source: &'a str,
    strict: bool,
    depth: usize,
    nodes: Vec<NodeData>,
    items: Vec<NodeId>,
    entries: Vec<EntryData>,
    decoded: String,
    /// Entries of the open maps, the innermost last.
    pending: Vec<Pending>,
    /// Items of the open lists, the innermost last.
    open_items: Vec<NodeId>,
    /// The aliases being followed.
    following: Vec<u32>,
    decodes: u64,
    alias_decodes: u64,
    duplicate: Option<Error>,
    /// Whether the later passes may find an error.
    doubtful: bool,
    bad_keys: FxHashSet<Span>,
}

struct OpenMap {
    /// The index of its first entry in `pending`.
    base: usize,
    table: Option<HashMap<String, usize>>,
}

/// Builds the tree of a document.
pub(super) fn compose(source: &Arc<str>, syntax: Syntax, mode: Mode, limits: &Limits, start: u32) -> Result<Tree> {
    let Syntax {
        nodes: syntax,
        tags,
        decoded,
        shapes,
    } = syntax;
    let mut composer = Composer {
        syntax: &syntax,
        tags: &tags,
        source,
        strict: mode == Mode::Strict,
        depth: limits.depth,
        nodes: Vec::with_capacity(syntax.len()),
        items: Vec::new(),
        entries: Vec::with_capacity(syntax.len() / 2),
        decoded,
        pending: Vec::new(),
        open_items: Vec::new(),
        following: Vec::new(),
        // The document itself counts as one.
        decodes: 1,
        alias_decodes: 0,
        duplicate: None,
        doubtful: false,
        bad_keys: FxHashSet::default(),
    };
    let root = if syntax.is_empty() {
        composer.push(Data::Null, Span::at(start), Text::Source { start, end: start })
    } else {
        composer.value(0, 0)?
    };
    if let Some(error) = composer.duplicate {
        return Err(error);
    }
    let (doubtful, bad_keys) = (composer.doubtful, composer.bad_keys);
    let tree = tree(
        source,
        composer.nodes,
        composer.items,
        composer.entries,
        composer.decoded,
        shapes,
        root,
    );
    if doubtful {
        judge(&tree, &bad_keys)?;
    }
    Ok(tree)
}

fn tree(
    source: &Arc<str>,
    nodes: Vec<NodeData>,
    items: Vec<NodeId>,
    entries: Vec<EntryData>,
    decoded: String,
    shapes: Vec<Shape>,
    root: NodeId,
) -> Tree {
    Tree {
        source: Arc::clone(source),
        nodes,
        items,
        entries,
        decoded,
        shapes,
        tables: Vec::new(),
        root,
    }
}

/// Runs the passes after decoding over the remaining document.
fn judge(tree: &Tree, bad_keys: &FxHashSet<Span>) -> Result<()> {
    let mut number = None;
    let mut todo = vec![tree.root];
    while let Some(id) = todo.pop() {
        let node = &tree.nodes[id.0 as usize];
        match node.data {
            Data::Float(float) if !float.is_finite() => {
                number = number.or(Some(node));
            }
            Data::Seq { start, end } => todo.extend(tree.items[start as usize..end as usize].iter().rev()),
            Data::Map { start, end } => {
                let entries = &tree.entries[start as usize..end as usize];
                if let Some(entry) = entries.iter().find(|entry| bad_keys.contains(&entry.key_span)) {
                    let message = match tree.text(entry.key) {
                        "null" => "null cannot be a key".to_owned(),
                        key => format!("`{key}` is too large for a key"),
                    };
                    return Err(Error::new(ErrorKind::Key, entry.key_span, message));
                }
                todo.extend(entries.iter().rev().map(|entry| entry.value));
            }
            _ => {}
        }
    }
    match number {
        Some(node) => {
            let text = tree.text(node.raw);
            let go = match (text.to_ascii_lowercase().contains("nan"), text.contains('-')) {
                (true, _) => "json: unsupported value: NaN",
                (false, true) => "json: unsupported value: -Inf",
                (false, false) => "json: unsupported value: +Inf",
            };
            let message = Message::new(format!("`{text}` has no counterpart in JSON"), go);
            Err(Error::new(ErrorKind::Number, node.span, message))
        }
        None => Ok(()),
    }
}

impl Composer<'_> {
    fn text(&self, text: Text) -> &str {
        match text {
            Text::Source { start, end } => &self.source[start as usize..end as usize],
            Text::Decoded { start, end, .. } | Text::Made { start, end } | Text::Edited { start, end, .. } => {
                &self.decoded[start as usize..end as usize]
            }
        }
    }

    fn make(&mut self, text: &str) -> Text {
        let start = self.decoded.len() as u32;
        self.decoded.push_str(text);
        Text::Made {
            start,
            end: self.decoded.len() as u32,
        }
    }

    fn push(&mut self, data: Data, span: Span, raw: Text) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(NodeData { span, data, raw });
        id
    }

    /// Counts one step; fails if too many steps come from aliases.
    fn count(&mut self, span: Span) -> Result<()> {
        self.decodes += 1;
        if self.following.is_empty() {
            return Ok(());
        }
        self.alias_decodes += 1;
        if self.alias_decodes > 100 && self.decodes > 1000 {
            let ratio = self.alias_decodes as f64 / self.decodes as f64;
            if ratio > allowed_alias_ratio(self.decodes) {
                let message = "this document expands its aliases too often";
                return Err(Error::new(ErrorKind::Alias, span, message));
            }
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize, span: Span) -> Result<()> {
        if depth > self.depth {
            let message = format!("more than {} levels of nesting", self.depth);
            return Err(Error::new(ErrorKind::Depth, span, message));
        }
        Ok(())
    }

    fn value(&mut self, number: u32, depth: usize) -> Result<NodeId> {
        let syn = self.syntax[number as usize];
        self.count(syn.span)?;
        match syn.kind {
            SynKind::Scalar { text, tag, implicit } => {
                let data = self.scalar(&syn, text, tag, implicit)?;
                Ok(self.push(data, syn.span, text))
            }
            SynKind::Alias { target } => {
                self.enter(number, syn.span)?;
                let id = self.value(target, depth)?;
                self.following.pop();
                Ok(id)
            }
            SynKind::Sequence => {
                self.check_depth(depth, syn.span)?;
                let base = self.open_items.len();
                let mut item = number + 1;
                while item < syn.next {
                    let id = self.value(item, depth + 1)?;
                    self.open_items.push(id);
                    item = self.syntax[item as usize].next;
                }
                let start = self.items.len() as u32;
                self.items.extend(self.open_items.drain(base..));
                let end = self.items.len() as u32;
                Ok(self.push(Data::Seq { start, end }, syn.span, empty(syn.span)))
            }
            SynKind::Mapping => {
                self.check_depth(depth, syn.span)?;
                let mut map = OpenMap {
                    base: self.pending.len(),
                    table: None,
                };
                self.fill(&mut map, number, depth)?;
                let start = self.entries.len() as u32;
                self.entries
                    .extend(self.pending.drain(map.base..).map(|entry| EntryData {
                        key: entry.key.text,
                        key_span: entry.key.span,
                        value: entry.value,
                    }));
                let end = self.entries.len() as u32;
                Ok(self.push(Data::Map { start, end }, syn.span, empty(syn.span)))
            }
        }
    }

    /// Follows an alias, unless it is already being followed.
    fn enter(&mut self, alias: u32, span: Span) -> Result<()> {
        if self.following.contains(&alias) {
            return Err(Error::new(
                ErrorKind::Alias,
                span,
                "this alias refers to an anchor that contains it",
            ));
        }
        // Each followed alias nests at least once, or is directly the target of the one before.
        self.check_depth(self.following.len(), span)?;
        self.following.push(alias);
        Ok(())
    }

    /// Adds the entries of a mapping to an open map, in document order.
    fn fill(&mut self, map: &mut OpenMap, number: u32, depth: usize) -> Result<()> {
        let end = self.syntax[number as usize].next;
        let mut at = number + 1;
        while at < end {
            let value = self.syntax[at as usize].next;
            if self.is_merge(at) {
                self.merge(map, value, depth)?;
            } else {
                let key = self.key(at, depth)?;
                let id = self.value(value, depth + 1)?;
                self.set(map, key, id, value);
            }
            at = self.syntax[value as usize].next;
        }
        Ok(())
    }

    fn is_merge(&self, number: u32) -> bool {
        match self.syntax[number as usize].kind {
            SynKind::Scalar { text, tag, implicit } => {
                (implicit || tag.is_some_and(|tag| self.tags[tag as usize] == MERGE_TAG)) && self.text(text) == "<<"
            }
            _ => false,
        }
    }

    fn merge(&mut self, map: &mut OpenMap, number: u32, depth: usize) -> Result<()> {
        if let SynKind::Sequence = self.syntax[number as usize].kind {
            // The first map of a list takes precedence.
            let mut parts = Vec::new();
            let mut part = number + 1;
            while part < self.syntax[number as usize].next {
                parts.push(part);
                part = self.syntax[part as usize].next;
            }
            return parts
                .into_iter()
                .rev()
                .try_for_each(|part| self.merge_one(map, part, depth));
        }
        self.merge_one(map, number, depth)
    }

    fn merge_one(&mut self, map: &mut OpenMap, number: u32, depth: usize) -> Result<()> {
        let syn = self.syntax[number as usize];
        let target = match syn.kind {
            SynKind::Alias { target } => target,
            _ => number,
        };
        if !matches!(self.syntax[target as usize].kind, SynKind::Mapping) {
            return Err(Error::new(
                ErrorKind::Merge,
                syn.span,
                Message::new(
                    "only a map, or a list of maps, can be merged",
                    "map merge requires map or sequence of maps as the value",
                ),
            ));
        }
        self.check_depth(depth, syn.span)?;
        self.count(syn.span)?;
        if target == number {
            return self.fill(map, target, depth + 1);
        }
        self.enter(number, syn.span)?;
        self.count(syn.span)?;
        self.fill(map, target, depth + 1)?;
        self.following.pop();
        Ok(())
    }

    fn key(&mut self, number: u32, depth: usize) -> Result<Key> {
        let site = self.syntax[number as usize];
        self.count(site.span)?;
        let mut number = number;
        let mut followed = 0;
        while let SynKind::Alias { target } = self.syntax[number as usize].kind {
            self.enter(number, site.span)?;
            followed += 1;
            number = target;
            self.count(site.span)?;
        }
        let syn = self.syntax[number as usize];
        let SynKind::Scalar { text, tag, implicit } = syn.kind else {
            // The content is decoded first, and may fail first.
            self.decodes -= 1;
            self.value(number, depth + 1)?;
            return Err(Error::new(ErrorKind::Key, site.span, "a map or list cannot be a key"));
        };
        let data = self.scalar(&syn, text, tag, implicit)?;
        self.following.truncate(self.following.len() - followed);
        let (text, scalar) = match data {
            Data::Str => (text, Scalar::Str),
            Data::Bytes(text) => (text, Scalar::Str),
            Data::Bool(bool) => (self.make(if bool { "true" } else { "false" }), Scalar::Bool(bool)),
            Data::Int(int) => (self.make(&int.to_string()), Scalar::Int(int)),
            Data::Float(float) => (self.make(&format_float(float)), Scalar::Float(float)),
            Data::Uint(uint) => {
                self.doubtful = true;
                self.bad_keys.insert(site.span);
                (self.make(&uint.to_string()), Scalar::Uint(uint))
            }
            Data::Null | Data::Seq { .. } | Data::Map { .. } => {
                self.doubtful = true;
                self.bad_keys.insert(site.span);
                (self.make("null"), Scalar::Null)
            }
        };
        Ok(Key {
            text,
            span: site.span,
            scalar,
        })
    }

    /// Sets an entry: the position of the first key, the value of the last. In strict mode the first value stays, and
    /// the second is an error.
    fn set(&mut self, map: &mut OpenMap, key: Key, value: NodeId, value_number: u32) {
        let place = self.find(map, &key);
        let Some(place) = place else {
            if let Some(table) = &mut map.table {
                let text = match key.text {
                    Text::Source { start, end } => &self.source[start as usize..end as usize],
                    Text::Decoded { start, end, .. } | Text::Made { start, end } | Text::Edited { start, end, .. } => {
                        &self.decoded[start as usize..end as usize]
                    }
                };
                table.insert(text.to_owned(), self.pending.len());
            }
            self.pending.push(Pending { key, value });
            return;
        };
        let first = self.pending[place].key;
        if self.strict && first.scalar == key.scalar {
            if self.duplicate.is_none() {
                let message = format!("the key `{}` is set twice", self.text(key.text));
                let line = self.syntax[value_number as usize].line + 1;
                let error = Error::new(ErrorKind::Duplicate, key.span, message)
                    .with_related(first.span, "it is set first here")
                    .with_go_line(Some(line));
                self.duplicate = Some(error);
            }
            return;
        }
        self.pending[place] = Pending { key, value };
    }

    fn find(&mut self, map: &mut OpenMap, key: &Key) -> Option<usize> {
        if map.table.is_none() && self.pending.len() - map.base >= TABLE_FROM {
            let table = self.pending[map.base..]
                .iter()
                .enumerate()
                .map(|(n, entry)| (self.text(entry.key.text).to_owned(), map.base + n))
                .collect();
            map.table = Some(table);
        }
        let text = self.text(key.text);
        match &map.table {
            Some(table) => table.get(text).copied(),
            None => self.pending[map.base..]
                .iter()
                .position(|entry| self.text(entry.key.text) == text)
                .map(|n| map.base + n),
        }
    }

    fn scalar(&mut self, syn: &Syn, text: Text, tag: Option<u32>, implicit: bool) -> Result<Data> {
        let scalar = match tag {
            None if implicit => resolve_plain(self.text(text)),
            None => Scalar::Str,
            Some(tag) => {
                let tag = &self.tags[tag as usize];
                resolve_tagged(tag, self.text(text)).map_err(|found| {
                    let short = tag.rsplit(':').next().unwrap_or_default();
                    let message = format!("`{}` is {found}, but its tag is `!!{short}`", self.text(text));
                    Error::new(ErrorKind::Tag, syn.span, message)
                })?
            }
        };
        Ok(match scalar {
            Scalar::Null => Data::Null,
            Scalar::Bool(bool) => Data::Bool(bool),
            Scalar::Int(int) => Data::Int(int),
            Scalar::Uint(uint) => Data::Uint(uint),
            Scalar::Float(float) => {
                self.doubtful |= !float.is_finite();
                Data::Float(float)
            }
            Scalar::Str => Data::Str,
            Scalar::Binary => {
                let Some(bytes) = base64(self.text(text)) else {
                    return Err(Error::new(
                        ErrorKind::Tag,
                        syn.span,
                        Message::new(
                            "this `!!binary` is not base64",
                            "!!binary value contains invalid base64 data",
                        ),
                    ));
                };
                let text = lossy(&bytes);
                Data::Bytes(self.make(&text))
            }
        })
    }
}

fn empty(span: Span) -> Text {
    Text::Source {
        start: span.start,
        end: span.start,
    }
}

/// The fraction of all steps that may come from aliases: nearly all in small documents, a tenth in huge ones.
fn allowed_alias_ratio(decodes: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    match decodes {
        0..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decodes - LOW) as f64 / (HIGH - LOW) as f64),
    }
}
