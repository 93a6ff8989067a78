//! A document of which only the parts that a patch touches are parsed.
//!
//! Upstream counterpart: `lazyNode`, `partialDoc` and `partialArray` of both versions. Nodes live in an arena, because
//! upstream's are reachable from several places. A null inside a container has no node; upstream keeps a nil pointer.

mod equal;
mod write;

use kyvtest_go_compat::text::number;

use super::{Error, Options, Version, raw::Raw};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(usize);

/// A parsed object or array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Doc(usize),
    List(usize),
}

#[derive(Debug)]
struct Node {
    /// `None` only for the value of an operation whose text is a decoded null (V4).
    raw: Option<Raw>,
    /// The container that replaces the text.
    part: Option<Container>,
}

#[derive(Debug)]
struct Doc {
    /// The node whose text the document was read from; V5 sets it for whole documents only.
    this: Option<NodeId>,
    /// `None` if a null was read.
    members: Option<Vec<(String, Option<NodeId>)>>,
    escape: bool,
}

#[derive(Debug)]
struct List {
    this: Option<NodeId>,
    /// Whether a null was read (V5 keeps a nil pointer).
    is_nil: bool,
    items: Vec<Option<NodeId>>,
}

/// The reason why an access to a container fails, without the operation.
#[derive(Debug)]
pub(super) enum Failure {
    /// A key is missing.
    Missing(String),
    Other(String),
    Panic(String),
}

impl Failure {
    /// Prefixes the message with the operation.
    pub(super) fn within(self, operation: &str) -> Error {
        match self {
            Self::Missing(text) | Self::Other(text) => Error::Apply(format!("{operation}: {text}")),
            Self::Panic(text) => Error::Panic(text),
        }
    }

    /// The text without an operation.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Missing(text) | Self::Other(text) => Error::Apply(text),
            Self::Panic(text) => Error::Panic(text),
        }
    }

    fn nil_pointer() -> Self {
        Self::Panic("runtime error: invalid memory address or nil pointer dereference".to_owned())
    }
}

type Outcome<T> = Result<T, Failure>;

fn invalid_index(index: i64) -> Failure {
    Failure::Other(format!(
        "Unable to access invalid index: {index}: invalid index referenced"
    ))
}

fn expected_object() -> Failure {
    Failure::Other("invalid value, expected object".to_owned())
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) options: Options,
    nodes: Vec<Node>,
    docs: Vec<Doc>,
    lists: Vec<List>,
}

impl Store {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            nodes: Vec::new(),
            docs: Vec::new(),
            lists: Vec::new(),
        }
    }

    pub(super) fn is_v4(&self) -> bool {
        self.options.version == Version::V4
    }

    pub(super) fn node(&mut self, raw: Option<Raw>) -> NodeId {
        self.nodes.push(Node { raw, part: None });
        NodeId(self.nodes.len() - 1)
    }

    pub(super) fn raw(&self, id: NodeId) -> Option<&Raw> {
        self.nodes[id.0].raw.as_ref()
    }

    fn read_doc(&mut self, raw: &Raw, this: Option<NodeId>, escape: bool) -> usize {
        let members = (!raw.is_null()).then(|| {
            let members = raw.members().into_iter();
            members
                .map(|(key, value)| (key, value.map(|value| self.node(Some(value)))))
                .collect()
        });
        self.docs.push(Doc { this, members, escape });
        self.docs.len() - 1
    }

    fn read_list(&mut self, raw: &Raw, this: Option<NodeId>) -> usize {
        let is_nil = raw.is_null();
        let elements = if is_nil { Vec::new() } else { raw.elements() };
        let items = elements
            .into_iter()
            .map(|value| value.map(|value| self.node(Some(value))))
            .collect();
        self.lists.push(List { this, is_nil, items });
        self.lists.len() - 1
    }

    /// Reads a whole document; `Err` with Go's word for the text's type if it is neither object nor array nor null.
    pub(super) fn document(&mut self, raw: Raw) -> Result<Container, &'static str> {
        let this = (!self.is_v4()).then(|| self.node(Some(raw.clone())));
        let escape = self.options.escape_html;
        match raw.first() {
            b'[' => Ok(Container::List(self.read_list(&raw, this))),
            b'{' | b'n' => Ok(Container::Doc(self.read_doc(&raw, this, escape))),
            b'"' => Err("string"),
            b't' | b'f' => Err("bool"),
            _ => Err("number"),
        }
    }

    /// The container of a node on a path, chosen by the first character of the text.
    pub(super) fn open(&mut self, id: NodeId) -> Outcome<Container> {
        let invalid = || Failure::Other("invalid state detected".to_owned());
        let raw = self.raw(id).cloned().ok_or_else(invalid)?;
        let is_list = raw.first() == b'[';
        match self.nodes[id.0].part {
            Some(part @ Container::List(_)) if is_list => return Ok(part),
            Some(part @ Container::Doc(_)) if !is_list => return Ok(part),
            _ => {}
        }
        let part = match raw.first() {
            b'[' => Container::List(self.read_list(&raw, None)),
            b'{' => Container::Doc(self.read_doc(&raw, None, self.options.escape_html)),
            b'n' if self.is_v4() => Container::Doc(self.read_doc(&raw, None, true)),
            _ => return Err(invalid()),
        };
        self.nodes[id.0].part = Some(part);
        Ok(part)
    }

    /// Parses a text as an object, else as an array; `None` if it is neither. A former object is then written with HTML
    /// escapes.
    pub(super) fn try_open(&mut self, id: NodeId) -> Option<Container> {
        if let Some(part) = self.nodes[id.0].part {
            return Some(part);
        }
        self.try_doc(id).or_else(|| self.try_list(id))
    }

    fn try_doc(&mut self, id: NodeId) -> Option<Container> {
        let raw = self.raw(id)?.clone();
        if raw.first() != b'{' && !(self.is_v4() && raw.is_null()) {
            return None;
        }
        let part = Container::Doc(self.read_doc(&raw, None, true));
        self.nodes[id.0].part = Some(part);
        Some(part)
    }

    fn try_list(&mut self, id: NodeId) -> Option<Container> {
        let raw = self.raw(id)?.clone();
        if raw.first() != b'[' && !raw.is_null() {
            return None;
        }
        let part = Container::List(self.read_list(&raw, None));
        self.nodes[id.0].part = Some(part);
        Some(part)
    }

    /// Sets the escaping of a document that [`Store::try_open`] made.
    pub(super) fn apply_options(&mut self, container: Container) {
        if let Container::Doc(doc) = container {
            self.docs[doc].escape = self.options.escape_html;
        }
    }

    fn position(&self, key: &str, length: usize) -> Outcome<i64> {
        let index = number::atoi(key).map_err(|error| Failure::Other(error.to_string()))?;
        if index >= 0 {
            return Ok(index);
        }
        if !self.options.negative_indices || index < -(length as i64) {
            return Err(invalid_index(index));
        }
        Ok(index + length as i64)
    }

    pub(super) fn get(&self, container: Container, key: &str) -> Outcome<Option<NodeId>> {
        match container {
            Container::Doc(doc) => {
                let doc = &self.docs[doc];
                if key.is_empty() && !self.is_v4() {
                    return Ok(doc.this);
                }
                let found = |members: &Vec<(String, Option<NodeId>)>| {
                    members.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
                };
                if self.is_v4() {
                    return Ok(doc.members.as_ref().and_then(found).flatten());
                }
                let members = doc.members.as_ref().ok_or_else(expected_object)?;
                let missing = || Failure::Missing(format!("unable to get nonexistent key: {key}: missing value"));
                found(members).ok_or_else(missing)
            }
            Container::List(list) => {
                if key.is_empty() && !self.is_v4() {
                    return Ok(self.list(list)?.this);
                }
                number::atoi(key).map_err(|error| Failure::Other(error.to_string()))?;
                let list = self.list(list)?;
                let index = self.position(key, list.items.len())?;
                let item = usize::try_from(index).ok().and_then(|index| list.items.get(index));
                item.copied().ok_or_else(|| invalid_index(index))
            }
        }
    }

    fn list(&self, list: usize) -> Outcome<&List> {
        let list = &self.lists[list];
        if list.is_nil && !self.is_v4() {
            return Err(Failure::nil_pointer());
        }
        Ok(list)
    }

    /// Sets a member, or an existing element.
    pub(super) fn set(&mut self, container: Container, key: &str, value: Option<NodeId>) -> Outcome<()> {
        match container {
            Container::Doc(doc) => {
                let is_v4 = self.is_v4();
                let Some(members) = &mut self.docs[doc].members else {
                    return Err(if is_v4 {
                        Failure::Panic("assignment to entry in nil map".to_owned())
                    } else {
                        expected_object()
                    });
                };
                match members.iter_mut().find(|(name, _)| name == key) {
                    Some(member) => member.1 = value,
                    None => members.push((key.to_owned(), value)),
                }
                Ok(())
            }
            Container::List(list) => {
                number::atoi(key).map_err(|error| Failure::Other(error.to_string()))?;
                let length = self.list(list)?.items.len();
                let index = self.position(key, length)?;
                let range = || {
                    Failure::Panic(format!(
                        "runtime error: index out of range [{index}] with length {length}"
                    ))
                };
                let items = &mut self.lists[list].items;
                let item = usize::try_from(index).ok().and_then(|index| items.get_mut(index));
                *item.ok_or_else(range)? = value;
                Ok(())
            }
        }
    }

    /// Sets a member, or inserts an element.
    pub(super) fn add(&mut self, container: Container, key: &str, value: Option<NodeId>) -> Outcome<()> {
        let Container::List(list) = container else {
            return self.set(container, key, value);
        };
        if key == "-" {
            self.list(list)?;
            self.lists[list].items.push(value);
            return Ok(());
        }
        let index = number::atoi(key)
            .map_err(|error| Failure::Other(format!("value was not a proper array index: '{key}': {error}")))?;
        let length = self.list(list)?.items.len();
        if index > length as i64 {
            return Err(invalid_index(index));
        }
        let index = self.position(key, length + 1)?;
        self.lists[list].items.insert(index as usize, value);
        Ok(())
    }

    pub(super) fn remove(&mut self, container: Container, key: &str) -> Outcome<()> {
        let is_v4 = self.is_v4();
        let may_miss = self.options.allow_missing_path_on_remove && !is_v4;
        match container {
            Container::Doc(doc) => {
                let members = match &mut self.docs[doc].members {
                    Some(members) => members,
                    None if is_v4 => &mut Vec::new(),
                    None => return Err(expected_object()),
                };
                match members.iter().position(|(name, _)| name == key) {
                    Some(index) => {
                        members.remove(index);
                    }
                    None if may_miss => {}
                    None => {
                        let unable = if is_v4 { "Unable" } else { "unable" };
                        let text = format!("{unable} to remove nonexistent key: {key}: missing value");
                        return Err(Failure::Missing(text));
                    }
                }
                Ok(())
            }
            Container::List(list) => {
                let index = number::atoi(key).map_err(|error| Failure::Other(error.to_string()))?;
                let length = self.list(list)?.items.len();
                let is_outside = index >= length as i64 || index < -(length as i64) && self.options.negative_indices;
                if is_outside && may_miss {
                    return Ok(());
                }
                if index >= length as i64 {
                    return Err(invalid_index(index));
                }
                let index = self.position(key, length)?;
                self.lists[list].items.remove(index as usize);
                Ok(())
            }
        }
    }

    pub(super) fn length(&self, container: Container) -> Option<usize> {
        match container {
            Container::List(list) => Some(self.lists[list].items.len()),
            Container::Doc(_) => None,
        }
    }
}
