//! Paths of fields in objects: reading, changing and naming what is at them.

use std::fmt;

use kyvtest_go_compat::yaml::Node;
use serde_json::Value as Json;

/// One step into an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A field of a map.
    Field(String),
    /// An item of a list.
    Item(usize),
}

/// The path of a field, written `spec.containers[0].image`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FieldPath(Vec<Key>);

impl FieldPath {
    pub(super) fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Key::Field((*name).to_owned())).collect())
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Key::Field(name.to_owned()));
        path
    }

    pub(super) fn item(&self, number: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Key::Item(number));
        path
    }

    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    /// The steps.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.0
    }

    pub(super) fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The path without its last step, and that step.
    pub(super) fn split(&self) -> Option<(Self, &Key)> {
        let (last, parents) = self.0.split_last()?;
        Some((Self(parents.to_vec()), last))
    }

    /// The name of the last field; items of a list have the name of the list.
    pub fn name(&self) -> &str {
        let fields = self.0.iter().rev().find_map(|key| match key {
            Key::Field(name) => Some(name.as_str()),
            Key::Item(_) => None,
        });
        fields.unwrap_or_default()
    }

    pub(super) fn get<'j>(&self, value: &'j Json) -> Option<&'j Json> {
        self.0.iter().try_fold(value, |value, key| match key {
            Key::Field(name) => value.get(name),
            Key::Item(number) => value.get(*number),
        })
    }

    pub(super) fn get_mut<'j>(&self, value: &'j mut Json) -> Option<&'j mut Json> {
        self.0.iter().try_fold(value, |value, key| match key {
            Key::Field(name) => value.get_mut(name),
            Key::Item(number) => value.get_mut(*number),
        })
    }

    /// Puts a value at the path, whose parent must exist; `false` if it does not.
    pub(super) fn set(&self, value: &mut Json, new: Json) -> bool {
        let Some((parent, last)) = self.split() else {
            *value = new;
            return true;
        };
        match (parent.get_mut(value), last) {
            (Some(Json::Object(map)), Key::Field(name)) => {
                map.insert(name.clone(), new);
                true
            }
            (Some(Json::Array(list)), Key::Item(number)) => match list.get_mut(*number) {
                Some(item) => {
                    *item = new;
                    true
                }
                None => {
                    list.push(new);
                    true
                }
            },
            _ => false,
        }
    }

    /// Takes away what is at the path; `false` if nothing is.
    pub(super) fn remove(&self, value: &mut Json) -> bool {
        let Some((parent, last)) = self.split() else {
            return false;
        };
        match (parent.get_mut(value), last) {
            (Some(Json::Object(map)), Key::Field(name)) => map.shift_remove(name).is_some(),
            (Some(Json::Array(list)), Key::Item(number)) if *number < list.len() => {
                list.remove(*number);
                true
            }
            _ => false,
        }
    }

    /// The node at the path.
    pub(super) fn exact<'t>(&self, root: Node<'t>) -> Option<Node<'t>> {
        self.0.iter().try_fold(root, |node, key| match key {
            Key::Field(name) => node.get(name),
            Key::Item(number) => node.as_seq().and_then(|items| items.get(*number)),
        })
    }

    /// The node at the path, or the last one on the way to it.
    pub(crate) fn nearest<'t>(&self, root: Node<'t>) -> Node<'t> {
        let mut node = root;
        for key in &self.0 {
            let next = match key {
                Key::Field(name) => node.get(name),
                Key::Item(number) => node.as_seq().and_then(|items| items.get(*number)),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.0.iter().enumerate() {
            match key {
                Key::Field(name) if name.contains(['.', '/', '[']) => write!(f, "[{name:?}]")?,
                Key::Field(name) if at == 0 => f.write_str(name)?,
                Key::Field(name) => write!(f, ".{name}")?,
                Key::Item(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}

/// Every path below a value, parents before their children.
pub(super) fn below(value: &Json, at: &FieldPath) -> Vec<FieldPath> {
    let mut paths = Vec::new();
    let mut open = vec![at.clone()];
    while let Some(path) = open.pop() {
        let children: Vec<FieldPath> = match path.get(value) {
            Some(Json::Object(map)) => map.keys().map(|key| path.field(key)).collect(),
            Some(Json::Array(list)) => (0..list.len()).map(|number| path.item(number)).collect(),
            _ => Vec::new(),
        };
        if path.depth() > at.depth() {
            paths.push(path);
        }
        open.extend(children.into_iter().rev());
    }
    paths
}
