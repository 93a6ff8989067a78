//! The YAML nodes that a strategic merge works on.
//!
//! Upstream counterpart: `yaml.Node` and kyaml's `RNode` v0.21.1. The merge has many nodes that are reachable from two
//! places and changed through one of them, so nodes live in an arena and are identified by index, as upstream's are by
//! pointer. Of a node's style only the quoting of scalars is kept: nothing else can affect a merge of JSON texts.

use std::borrow::Cow;

use kyvtest_go_compat::{
    text::float,
    value::{Builder, Data, Value, go_json},
};

use super::Stop;

/// The name of a node in its [`Arena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(u32);

/// The type of a scalar, apart from its text and its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    /// A boolean or a number.
    Plain,
    String,
}

#[derive(Debug, Clone)]
pub(super) enum Body<'a> {
    Scalar {
        tag: Tag,
        text: Cow<'a, str>,
    },
    List(Vec<Id>),
    /// In written order; a key may occur twice after a rename.
    Map(Vec<(Cow<'a, str>, Id)>),
}

#[derive(Debug, Clone)]
struct Node<'a> {
    quoted: bool,
    body: Body<'a>,
}

/// The kinds of nodes, with upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    List,
    Map,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scalar => "ScalarNode",
            Self::List => "SequenceNode",
            Self::Map => "MappingNode",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Arena<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Arena<'a> {
    fn push(&mut self, node: Node<'a>) -> Id {
        let id = Id(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.nodes.push(node);
        id
    }

    fn node(&self, id: Id) -> &Node<'a> {
        &self.nodes[id.0 as usize]
    }

    /// Adds a value as the YAML reader reads its JSON text, map keys sorted.
    pub(super) fn read(&mut self, value: Value<'a>) -> Result<Id, Stop> {
        let plain = |text: Cow<'a, str>| Node {
            quoted: false,
            body: Body::Scalar { tag: Tag::Plain, text },
        };
        let node = match value {
            Value::Null => Node {
                quoted: false,
                body: Body::Scalar {
                    tag: Tag::Null,
                    text: Cow::Borrowed("null"),
                },
            },
            Value::Bool(value) => plain(Cow::Borrowed(if value { "true" } else { "false" })),
            Value::Int(value) => plain(Cow::Owned(value.to_string())),
            Value::Uint(value) => plain(Cow::Owned(value.to_string())),
            Value::Double(value) => {
                let text = float::json(value).ok_or_else(|| Stop::Other("json: unsupported value".to_owned()))?;
                plain(Cow::Owned(text))
            }
            Value::String(text) => Node {
                quoted: true,
                body: Body::Scalar {
                    tag: Tag::String,
                    text: read_text(text)?,
                },
            },
            Value::List(items) => {
                let items: Result<_, _> = items.iter().map(|item| self.read(item)).collect();
                Node {
                    quoted: false,
                    body: Body::List(items?),
                }
            }
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().map(|(key, item)| (key.text(), item)).collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let entries: Result<_, Stop> = sorted
                    .into_iter()
                    .map(|(key, item)| Ok((read_key(key)?, self.read(item)?)))
                    .collect();
                Node {
                    quoted: false,
                    body: Body::Map(entries?),
                }
            }
        };
        Ok(self.push(node))
    }

    pub(super) fn new_list(&mut self) -> Id {
        self.push(Node {
            quoted: false,
            body: Body::List(Vec::new()),
        })
    }

    pub(super) fn new_map(&mut self) -> Id {
        self.push(Node {
            quoted: false,
            body: Body::Map(Vec::new()),
        })
    }

    /// A string; like upstream, omits the quotes if the unquoted text is a string.
    pub(super) fn new_string(&mut self, text: Cow<'a, str>) -> Id {
        self.push(Node {
            quoted: true,
            body: Body::Scalar { tag: Tag::String, text },
        })
    }

    /// Copies a node with everything below it.
    pub(super) fn copy(&mut self, id: Id) -> Id {
        let mut node = self.node(id).clone();
        match &mut node.body {
            Body::Scalar { .. } => {}
            Body::List(items) => {
                for item in items {
                    *item = self.copy(*item);
                }
            }
            Body::Map(entries) => {
                for (_, item) in entries {
                    *item = self.copy(*item);
                }
            }
        }
        self.push(node)
    }

    pub(super) fn body(&self, id: Id) -> &Body<'a> {
        &self.node(id).body
    }

    pub(super) fn kind(&self, id: Id) -> Kind {
        match self.body(id) {
            Body::Scalar { .. } => Kind::Scalar,
            Body::List(_) => Kind::List,
            Body::Map(_) => Kind::Map,
        }
    }

    pub(super) fn is_null(&self, id: Id) -> bool {
        matches!(self.body(id), Body::Scalar { tag: Tag::Null, .. })
    }

    /// Whether the node is null, an empty list or an empty map.
    pub(super) fn is_empty(&self, id: Id) -> bool {
        match self.body(id) {
            Body::Scalar { tag, .. } => *tag == Tag::Null,
            Body::List(items) => items.is_empty(),
            Body::Map(entries) => entries.is_empty(),
        }
    }

    pub(super) fn is_null_or_empty_map(&self, id: Id) -> bool {
        self.kind(id) != Kind::List && self.is_empty(id)
    }

    /// The text of a scalar; empty for lists and maps.
    pub(super) fn text(&self, id: Id) -> &str {
        match self.body(id) {
            Body::Scalar { text, .. } => text,
            _ => "",
        }
    }

    /// As [`Arena::text`], able to outlive the node.
    pub(super) fn shared_text(&self, id: Id) -> Cow<'a, str> {
        match self.body(id) {
            Body::Scalar { text, .. } => text.clone(),
            _ => Cow::Borrowed(""),
        }
    }

    /// The elements of a list; none of anything else.
    pub(super) fn items(&self, id: Id) -> &[Id] {
        match self.body(id) {
            Body::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of a map; none of anything else.
    pub(super) fn entries(&self, id: Id) -> &[(Cow<'a, str>, Id)] {
        match self.body(id) {
            Body::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The first value of a key; `None` also if the node is not a map.
    pub(super) fn field(&self, id: Id, key: &str) -> Option<Id> {
        self.entries(id)
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }

    pub(super) fn set_items(&mut self, id: Id, items: Vec<Id>) {
        self.nodes[id.0 as usize].body = Body::List(items);
    }

    pub(super) fn append(&mut self, id: Id, item: Id) {
        if let Body::List(items) = &mut self.nodes[id.0 as usize].body {
            items.push(item);
        }
    }

    /// Removes the element at a position as Go cuts a slice, which panics beyond the end.
    pub(super) fn remove_item(&mut self, id: Id, index: usize) -> Result<(), Stop> {
        let Body::List(items) = &mut self.nodes[id.0 as usize].body else {
            return Ok(());
        };
        if index >= items.len() {
            let message = format!(
                "runtime error: slice bounds out of range [{}:{}]",
                index + 1,
                items.len()
            );
            return Err(Stop::Panic(message));
        }
        items.remove(index);
        Ok(())
    }

    /// Removes the first entry of a key.
    pub(super) fn clear(&mut self, id: Id, key: &str) {
        if let Body::Map(entries) = &mut self.nodes[id.0 as usize].body
            && let Some(index) = entries.iter().position(|(name, _)| name == key)
        {
            entries.remove(index);
        }
    }

    /// Renames the first entry of a key in place, even if the new key exists.
    pub(super) fn rename(&mut self, id: Id, key: &str, new: String) {
        if let Body::Map(entries) = &mut self.nodes[id.0 as usize].body
            && let Some(entry) = entries.iter_mut().find(|(name, _)| name == key)
        {
            entry.0 = Cow::Owned(new);
        }
    }

    /// Sets a field of a map. The value of an existing field is overwritten in place and keeps its quotes, so that a
    /// number over a string becomes a string. An empty key is upstream's error.
    pub(super) fn set_field(&mut self, id: Id, key: &str, value: Id) -> Result<(), Stop> {
        if key.is_empty() {
            self.expect(Some(id), Kind::Scalar)?;
            return Ok(());
        }
        match self.field(id, key) {
            Some(field) if field == value => {}
            Some(field) => {
                self.nodes[value.0 as usize].quoted = self.node(field).quoted;
                self.nodes[field.0 as usize] = self.node(value).clone();
            }
            None => {
                if let Body::Map(entries) = &mut self.nodes[id.0 as usize].body {
                    entries.push((Cow::Owned(key.to_owned()), value));
                }
            }
        }
        Ok(())
    }

    /// Checks a node's kind; missing and null nodes pass.
    pub(super) fn expect(&self, id: Option<Id>, kind: Kind) -> Result<(), Stop> {
        let Some(id) = id.filter(|&id| !self.is_null(id)) else {
            return Ok(());
        };
        let found = self.kind(id);
        if found == kind {
            return Ok(());
        }
        let mut contents = String::new();
        super::text::write(&mut contents, self, id);
        Err(Stop::Other(format!(
            "wrong node kind: expected {} but got {}: node contents:\n{contents}\n",
            kind.name(),
            found.name()
        )))
    }

    pub(super) fn is_quoted(&self, id: Id) -> bool {
        self.node(id).quoted
    }

    /// The node as a JSON value. A key that occurs twice is the YAML reader's error.
    pub(super) fn data(&self, id: Id) -> Result<Data, String> {
        let mut builder = Builder::new();
        self.build(&mut builder, id)?;
        Ok(Data::from(builder.finish().root()))
    }

    /// Adds the node as a JSON value, map keys sorted. A key that occurs twice is the YAML reader's error.
    pub(super) fn build(&self, builder: &mut Builder, id: Id) -> Result<(), String> {
        match self.body(id) {
            Body::Scalar { tag: Tag::Null, .. } => builder.null(),
            Body::Scalar { tag, text } if self.is_quoted(id) || *tag == Tag::String => builder.string(text),
            Body::Scalar { text, .. } => plain(builder, text),
            Body::List(items) => {
                builder.begin_list();
                for &item in items {
                    self.build(builder, item)?;
                }
                builder.end();
            }
            Body::Map(entries) => {
                let mut sorted: Vec<(&str, Id)> = entries.iter().map(|(key, item)| (key.as_ref(), *item)).collect();
                sorted.sort_by_key(|(key, _)| *key);
                if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    let key = kyvtest_go_compat::text::quote::quote(pair[0].0);
                    return Err(format!(
                        "yaml: unmarshal errors:\n  line 1: mapping key {key} already defined at line 1"
                    ));
                }
                builder.begin_map();
                for (key, item) in sorted {
                    builder.key(key);
                    self.build(builder, item)?;
                }
                builder.end();
            }
        }
        Ok(())
    }
}

/// Adds the boolean or number that a text of JSON is.
fn plain(builder: &mut Builder, text: &str) {
    match text {
        "true" => builder.bool(true),
        "false" => builder.bool(false),
        _ => match text.parse() {
            Ok(int) => builder.int(int),
            Err(_) => builder.double(text.parse().unwrap_or(f64::NAN)),
        },
    }
}

/// A string as the YAML reader reads it between double quotes: it rejects control characters that JSON permits
/// unescaped, and reads U+0085 as a line break.
fn read_text(text: &str) -> Result<Cow<'_, str>, Stop> {
    if text.is_ascii() && !text.contains('\u{7f}') {
        return Ok(Cow::Borrowed(text));
    }
    let rejected = |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(rejected) {
        return Err(Stop::Panic("yaml: control characters are not allowed".to_owned()));
    }
    if text.contains('\u{85}') {
        return Ok(Cow::Owned(fold(text)));
    }
    Ok(Cow::Borrowed(text))
}

/// The longest key, in characters of its JSON text, that the YAML reader accepts.
const LONGEST_KEY: usize = 1_024;

/// A key as the YAML reader reads it: on one line, and not too long.
fn read_key(text: &str) -> Result<Cow<'_, str>, Stop> {
    // An escaped character has six.
    let may_be_long = text.len() > LONGEST_KEY / 6;
    if text.contains('\u{85}') || may_be_long && json_length(text) > LONGEST_KEY {
        let message = "yaml: line 1: did not find expected ',' or '}'".to_owned();
        return Err(Stop::Panic(message));
    }
    read_text(text)
}

fn json_length(text: &str) -> usize {
    let mut out = String::new();
    go_json::write_string(&mut out, text);
    out.chars().count()
}

/// Joins lines: a single break is a space, of several all but the first stay; blanks around breaks are dropped.
fn fold(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{85}') {
        out.push_str(rest[..at].trim_end_matches([' ', '\t']));
        let after = rest[at..].trim_start_matches(['\u{85}', ' ', '\t']);
        let breaks = rest[at..rest.len() - after.len()].matches('\u{85}').count();
        match breaks {
            1 => out.push(' '),
            _ => out.extend(std::iter::repeat_n('\n', breaks - 1)),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
