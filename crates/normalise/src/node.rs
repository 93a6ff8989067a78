//! The mutable tree that the steps of normalisation work on.
//!
//! Upstream counterpart: the Go struct that the API server decodes into. A field that is absent here has Go's zero value;
//! a struct that is not behind a pointer is always present, even if empty. Strings are borrowed from the input as far as
//! possible, and struct fields have static names from the table.

use std::borrow::Cow;

use kyvtest_go_compat::value::{Builder, Value};

/// Key of a map entry or name of a struct field.
pub(crate) type Name<'a> = Cow<'a, str>;

/// Compares names; most differ in length or in their last letter.
#[inline]
pub(crate) fn is_name(key: &str, name: &str) -> bool {
    key.len() == name.len() && key.as_bytes().last() == name.as_bytes().last() && key == name
}

/// A value while it is being normalised.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(Name<'a>, Node<'a>)>),
}

impl<'a> Node<'a> {
    pub(crate) const EMPTY: Node<'static> = Node::Map(Vec::new());

    pub(crate) fn text(text: &'static str) -> Node<'static> {
        Node::Text(Cow::Borrowed(text))
    }

    /// Copies a value regardless of its types.
    pub(crate) fn of(value: Value<'a>) -> Self {
        match value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(value),
            Value::Int(value) => Node::Int(value),
            Value::Uint(value) => Node::Uint(value),
            Value::Double(value) => Node::Double(value),
            Value::String(text) => Node::Text(Cow::Borrowed(text)),
            Value::List(items) => Node::List(items.iter().map(Node::of).collect()),
            Value::Map(entries) => Node::Map(
                entries
                    .iter()
                    .map(|(key, value)| (Cow::Borrowed(key.text()), Node::of(value)))
                    .collect(),
            ),
        }
    }

    /// How many values there are: this one and all below it.
    pub(crate) fn count(&self) -> usize {
        1 + match self {
            Node::List(items) => items.iter().map(Node::count).sum(),
            Node::Map(entries) => entries.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }

    /// A copy that borrows nothing.
    pub(crate) fn to_owned<'b>(&self) -> Node<'b> {
        match self {
            Node::Null => Node::Null,
            Node::Bool(value) => Node::Bool(*value),
            Node::Int(value) => Node::Int(*value),
            Node::Uint(value) => Node::Uint(*value),
            Node::Double(value) => Node::Double(*value),
            Node::Text(text) => Node::Text(Cow::Owned(text.clone().into_owned())),
            Node::List(items) => Node::List(items.iter().map(Node::to_owned).collect()),
            Node::Map(entries) => Node::Map(
                entries
                    .iter()
                    .map(|(key, value)| (Cow::Owned(key.clone().into_owned()), value.to_owned()))
                    .collect(),
            ),
        }
    }

    pub(crate) fn entries(&self) -> &[(Name<'a>, Node<'a>)] {
        match self {
            Node::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [(Name<'a>, Node<'a>)] {
        match self {
            Node::Map(entries) => entries,
            _ => &mut [],
        }
    }

    pub(crate) fn items(&self) -> &[Node<'a>] {
        match self {
            Node::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn items_mut(&mut self) -> &mut [Node<'a>] {
        match self {
            Node::List(items) => items,
            _ => &mut [],
        }
    }

    /// The value of a field; `None` if absent or null.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&Node<'a>> {
        self.entries()
            .iter()
            .find(|(key, _)| is_name(key, name))
            .map(|(_, value)| value)
            .filter(|value| !matches!(value, Node::Null))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Node<'a>> {
        self.entries_mut()
            .iter_mut()
            .find(|(key, _)| is_name(key, name))
            .map(|(_, value)| value)
            .filter(|value| !matches!(value, Node::Null))
    }

    /// Whether a field is set: not Go's nil.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The value at the end of a chain of fields.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node<'a>> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn at_mut(&mut self, path: &[&str]) -> Option<&mut Node<'a>> {
        path.iter().try_fold(self, |node, name| node.get_mut(name))
    }

    /// The text of a field, `""` if absent.
    pub(crate) fn str(&self, name: &str) -> &str {
        self.get(name).map_or("", Node::as_str)
    }

    /// The string, `""` if this is not one.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Node::Text(text) => text,
            _ => "",
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Node::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_int()
    }

    /// The boolean of a field, `false` if absent.
    pub(crate) fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Node::Bool(true)))
    }

    /// The elements of a field, none if absent.
    pub(crate) fn list(&self, name: &str) -> &[Node<'a>] {
        self.get(name).map_or(&[], Node::items)
    }

    #[inline]
    pub(crate) fn list_mut(&mut self, name: &str) -> &mut [Node<'a>] {
        self.get_mut(name).map_or(&mut [], Node::items_mut)
    }

    /// The entries of a field, none if absent.
    pub(crate) fn map(&self, name: &str) -> &[(Name<'a>, Node<'a>)] {
        self.get(name).map_or(&[], Node::entries)
    }

    /// Sets or replaces a field.
    pub(crate) fn set(&mut self, name: impl Into<Name<'a>>, value: impl Into<Node<'a>>) {
        let name = name.into();
        if let Node::Map(entries) = self {
            match entries.iter_mut().find(|(key, _)| *key == name) {
                Some((_, old)) => *old = value.into(),
                None => entries.push((name, value.into())),
            }
        }
    }

    /// Sets a field unless it is set.
    pub(crate) fn set_default(&mut self, name: &'static str, value: impl Into<Node<'a>>) {
        if !self.has(name) {
            self.set(name, value);
        }
    }

    /// Removes a field and returns it.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Node<'a>> {
        match self {
            Node::Map(entries) => {
                let index = entries.iter().position(|(key, _)| key == name)?;
                Some(entries.remove(index).1)
            }
            _ => None,
        }
    }

    /// The value of a field, which becomes an empty map if it is absent.
    pub(crate) fn child(&mut self, name: &'static str) -> &mut Node<'a> {
        if !self.has(name) {
            self.set(name, Node::EMPTY);
        }
        self.get_mut(name).expect("set above")
    }

    /// The list of a field, which becomes an empty one if it is absent.
    pub(crate) fn child_list(&mut self, name: &'static str) -> &mut Vec<Node<'a>> {
        if !matches!(self.get(name), Some(Node::List(_))) {
            self.set(name, Node::List(Vec::new()));
        }
        match self.get_mut(name) {
            Some(Node::List(items)) => items,
            _ => unreachable!("set above"),
        }
    }

    /// Go's `len(x) == 0` and zero values of scalars.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Node::Null => true,
            Node::Bool(value) => !value,
            Node::Int(value) => *value == 0,
            Node::Uint(value) => *value == 0,
            Node::Double(value) => *value == 0.0,
            Node::Text(text) => text.is_empty(),
            Node::List(items) => items.is_empty(),
            Node::Map(entries) => entries.is_empty(),
        }
    }

    /// Equality like Go's `DeepEqual` of semantic types: ignores the order of map entries.
    pub(crate) fn same(&self, other: &Node<'_>) -> bool {
        match (self, other) {
            (Node::List(a), Node::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Node::Map(a), Node::Map(b)) => {
                let known = |entries: &[(Name<'_>, Node<'_>)]| {
                    entries.iter().filter(|(_, value)| !matches!(value, Node::Null)).count()
                };
                known(a) == known(b)
                    && a.iter().all(|(key, value)| {
                        matches!(value, Node::Null) || other.get(key).is_some_and(|other| value.same(other))
                    })
            }
            (Node::Null, Node::Null) => true,
            (Node::Bool(a), Node::Bool(b)) => a == b,
            (Node::Int(a), Node::Int(b)) => a == b,
            (Node::Uint(a), Node::Uint(b)) => a == b,
            (Node::Double(a), Node::Double(b)) => a == b,
            (Node::Text(a), Node::Text(b)) => a == b,
            _ => false,
        }
    }

    /// Adds the value to a document unchanged.
    pub(crate) fn write(&self, out: &mut Builder) {
        match self {
            Node::Null => out.null(),
            Node::Bool(value) => out.bool(*value),
            Node::Int(value) => out.int(*value),
            Node::Uint(value) => out.uint(*value),
            Node::Double(value) => out.double(*value),
            Node::Text(text) => out.string(text),
            Node::List(items) => {
                out.begin_list();
                for item in items {
                    item.write(out);
                }
                out.end();
            }
            Node::Map(entries) => {
                out.begin_map();
                for (key, value) in entries {
                    out.key(key);
                    value.write(out);
                }
                out.end();
            }
        }
    }
}

impl From<&'static str> for Node<'_> {
    fn from(text: &'static str) -> Self {
        Node::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Node<'_> {
    fn from(text: String) -> Self {
        Node::Text(Cow::Owned(text))
    }
}

impl From<i64> for Node<'_> {
    fn from(value: i64) -> Self {
        Node::Int(value)
    }
}

impl From<bool> for Node<'_> {
    fn from(value: bool) -> Self {
        Node::Bool(value)
    }
}
