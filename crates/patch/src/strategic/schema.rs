//! How lists are merged: types, fields and merge keys.
//!
//! Upstream counterpart: kyaml's built-in Kubernetes 1.21.2 OpenAPI (`kyaml/openapi`). `schema.txt` lists every type with
//! its fields: `name type`, `name [type] keys` for a list (`-` for a merged list of scalars, no keys for a list that is
//! replaced), `name {type}` for a map, `name {[]}` for a map of lists; `= version kind` names the resource of a type.
//!
//! Known deviation: fields that are scalars, or lists and maps of scalars, are left out and count as undeclared. That shows
//! only if such a field holds a whole resource instead.

use std::{collections::BTreeMap, sync::OnceLock};

/// The part of the schema that describes one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    Type(usize),
    List { item: Option<usize>, merge: Option<Keys> },
    Map(usize),
    MapOfLists,
}

/// The merge keys of a list; none for a list of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys(&'static str);

impl Keys {
    pub(super) fn names(self) -> Vec<&'static str> {
        match self.0 {
            "-" => Vec::new(),
            keys => keys.split(',').collect(),
        }
    }
}

impl Schema {
    /// The schema of a resource; `None` for kinds that kyaml does not know.
    pub(super) fn of_resource(api_version: &str, kind: &str) -> Option<Self> {
        let kinds = table().resources.get(kind)?;
        let (_, index) = kinds.iter().find(|(version, _)| *version == api_version)?;
        Some(Self::Type(*index))
    }

    pub(super) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Type(index) => table().types[index].get(name).copied(),
            Self::Map(index) => Some(Self::Type(index)),
            Self::MapOfLists => Some(Self::List {
                item: None,
                merge: None,
            }),
            Self::List { .. } => None,
        }
    }

    /// The merge keys of a list; `None` if it is replaced.
    pub(super) fn merge_keys(self) -> Option<Vec<&'static str>> {
        match self {
            Self::List { merge, .. } => merge.map(Keys::names),
            _ => None,
        }
    }

    pub(super) fn elements(self) -> Option<Self> {
        match self {
            Self::List { item, .. } => item.map(Self::Type),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    types: Vec<BTreeMap<&'static str, Schema>>,
    /// By kind, then by version.
    resources: BTreeMap<&'static str, Vec<(&'static str, usize)>>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(TEXT))
}

/// The committed table.
pub const TEXT: &str = include_str!("schema.txt");

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        let names = text.lines().filter(|line| !line.starts_with([' ', '=']));
        let index: BTreeMap<&str, usize> = names.enumerate().map(|(i, name)| (name, i)).collect();
        for line in text.lines() {
            if let Some(line) = line.strip_prefix("= ") {
                let (version, kind) = line.split_once(' ').expect("a version and a kind");
                let current = table.types.len() - 1;
                table.resources.entry(kind).or_default().push((version, current));
            } else if let Some(line) = line.strip_prefix(' ') {
                let mut words = line.split(' ');
                let name = words.next().expect("a field");
                let form = words.next().expect("a type");
                let schema = Self::form(form, words.next(), &index);
                table
                    .types
                    .last_mut()
                    .expect("a type before fields")
                    .insert(name, schema);
            } else {
                table.types.push(BTreeMap::new());
            }
        }
        table
    }

    fn form(form: &'static str, keys: Option<&'static str>, index: &BTreeMap<&str, usize>) -> Schema {
        if let Some(item) = form.strip_prefix('[') {
            let item = item.trim_end_matches(']');
            return Schema::List {
                item: index.get(item).copied(),
                merge: keys.map(Keys),
            };
        }
        match form.strip_prefix('{') {
            Some("[]}") => Schema::MapOfLists,
            Some(value) => Schema::Map(index[value.trim_end_matches('}')]),
            None => Schema::Type(index[form]),
        }
    }
}
