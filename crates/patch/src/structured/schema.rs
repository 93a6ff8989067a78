//! Types of structured merge, and the table of the built-in kinds.
//!
//! Upstream counterpart: `structured-merge-diff/v6/schema`, and the OpenAPI documents of Kubernetes 1.36.
//! `schema.txt` lists every type with its fields: a scalar (`string`, `number`, `boolean`, `scalar` for any of them), `any`,
//! `object` (free-form), a type, `[type]` for an atomic list, `[type] set`, `[type] key=default,…` for a list by keys,
//! `{type}` for a map and `{type} atomic`. `= version kind` names the resource of a type.
//!
//! Known deviation: `autoscaling/v1` `Scale` is left out, because the document of its own group version lacks it.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use kyvtest_go_compat::value::{Data, Document, Value};

use super::{
    Error,
    config::Input,
    validate::{Duplicates, validate},
};

/// The scalars that a type accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    String,
    Number,
    Boolean,
    Any,
}

/// A type; a value may have several forms.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Atom {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<Arc<ListType>>,
    pub(super) map: Option<Arc<MapType>>,
}

#[derive(Debug, PartialEq)]
pub(super) struct ListType {
    pub(super) item: usize,
    pub(super) is_atomic: bool,
    /// Without keys, a list that is not atomic is a set.
    pub(super) keys: Vec<ListKey>,
}

#[derive(Debug, PartialEq)]
pub(super) struct ListKey {
    pub(super) name: String,
    /// The value for elements that lack the key.
    pub(super) default: Option<Data>,
}

#[derive(Debug, PartialEq, Default)]
pub(super) struct MapType {
    pub(super) fields: BTreeMap<String, usize>,
    /// The type of undeclared fields; `None` rejects them.
    pub(super) element: Option<usize>,
    pub(super) is_atomic: bool,
}

impl MapType {
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.fields.get(name).copied().or(self.element)
    }
}

/// Types, and the kinds that they describe.
#[derive(Debug)]
pub struct Schema {
    atoms: Vec<Atom>,
    /// By `apiVersion` and kind.
    kinds: BTreeMap<(String, String), usize>,
}

/// A type of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Type<'s> {
    schema: &'s Schema,
    index: usize,
}

impl<'s> Type<'s> {
    /// The type of a field; `None` if it is not declared.
    pub fn field(self, name: &str) -> Option<Self> {
        let map = self.atom().map.as_ref()?;
        map.field(name).map(|index| self.at(index))
    }

    /// The type of the elements of a list.
    pub fn item(self) -> Option<Self> {
        let list = self.atom().list.as_ref()?;
        Some(self.at(list.item))
    }

    /// Whether a list or map is replaced as a whole.
    pub fn is_atomic(self) -> bool {
        let Atom { list, map, .. } = self.atom();
        list.as_ref().is_some_and(|list| list.is_atomic) || map.as_ref().is_some_and(|map| map.is_atomic)
    }

    /// Whether the value is a map with keys of any name.
    pub fn is_open_map(self) -> bool {
        let map = self.atom().map.as_ref();
        map.is_some_and(|map| map.fields.is_empty() && map.element.is_some())
    }

    /// The keys by which a list is merged; none for an atomic list and a set.
    pub fn keys(self) -> Vec<&'s str> {
        let list = self.atom().list.as_ref().filter(|list| !list.is_atomic);
        list.into_iter()
            .flat_map(|list| list.keys.iter().map(|key| key.name.as_str()))
            .collect()
    }

    /// The keys of a list that elements may leave out: for them there is a value by default.
    pub fn default_keys(self) -> Vec<&'s str> {
        let list = self.atom().list.as_ref().filter(|list| !list.is_atomic);
        let keys = list.into_iter().flat_map(|list| &list.keys);
        keys.filter(|key| key.default.is_some())
            .map(|key| key.name.as_str())
            .collect()
    }

    /// The declared fields of a map.
    pub fn fields(self) -> impl Iterator<Item = (&'s str, Self)> {
        let map = self.atom().map.as_ref();
        let fields = map.into_iter().flat_map(|map| &map.fields);
        fields.map(move |(name, index)| (name.as_str(), self.at(*index)))
    }

    /// Whether the value is a list, however it is merged.
    pub fn is_list(self) -> bool {
        self.atom().list.is_some()
    }

    /// Whether a scalar fits the type.
    pub fn accepts(self, scalar: Value<'_>) -> bool {
        let is_plain = matches!(
            scalar,
            Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::String(_)
        );
        is_plain && validate(self, Input::Value(scalar), Duplicates::Reject).is_ok() && self.atom().scalar.is_some()
    }

    pub(super) fn atom(self) -> &'s Atom {
        &self.schema.atoms[self.index]
    }

    pub(super) fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }
}

/// Any value, replaced as a whole.
pub(super) const UNTYPED: usize = 0;
/// Any value; maps are merged.
pub(super) const DEDUCED: usize = 1;
pub(super) const STRING: usize = 2;
pub(super) const NUMBER: usize = 3;
pub(super) const BOOLEAN: usize = 4;
pub(super) const SCALAR: usize = 5;
pub(super) const OBJECT: usize = 6;

impl Schema {
    fn common() -> Vec<Atom> {
        let scalar = |scalar| Atom {
            scalar: Some(scalar),
            ..Atom::default()
        };
        let any = |element, is_atomic| Atom {
            scalar: Some(Scalar::Any),
            list: Some(Arc::new(ListType {
                item: UNTYPED,
                is_atomic: true,
                keys: Vec::new(),
            })),
            map: Some(Arc::new(MapType {
                element: Some(element),
                is_atomic,
                ..MapType::default()
            })),
        };
        let object = Atom {
            map: any(DEDUCED, false).map,
            ..Atom::default()
        };
        vec![
            any(UNTYPED, true),
            any(DEDUCED, false),
            scalar(Scalar::String),
            scalar(Scalar::Number),
            scalar(Scalar::Boolean),
            scalar(Scalar::Any),
            object,
        ]
    }

    /// The built-in kinds of Kubernetes 1.36.
    pub fn builtin() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| Reader::read(TEXT))
    }

    /// The schema of one custom kind, from its CRD's `openAPIV3Schema`; `None` for a version without one.
    pub fn custom(api_version: &str, kind: &str, open_api: Option<Value<'_>>) -> Self {
        let mut schema = Self {
            atoms: Self::builtin().atoms.clone(),
            kinds: BTreeMap::new(),
        };
        let root = super::openapi::convert(&mut schema, open_api);
        schema.kinds.insert((api_version.to_owned(), kind.to_owned()), root);
        schema
    }

    /// The type of an object without a schema: maps are merged, everything else is replaced.
    pub fn deduced() -> Type<'static> {
        Type {
            schema: Self::builtin(),
            index: DEDUCED,
        }
    }

    /// Whether any kind of a group version is known.
    pub fn has_version(&self, api_version: &str) -> bool {
        self.kinds.keys().any(|(version, _)| version == api_version)
    }

    pub fn kind(&self, api_version: &str, kind: &str) -> Result<Type<'_>, Error> {
        let key = (api_version.to_owned(), kind.to_owned());
        let Some(&index) = self.kinds.get(&key) else {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return Err(Error::NoType(format!("{group}/{version}, Kind={kind}")));
        };
        Ok(Type { schema: self, index })
    }

    pub(super) fn push(&mut self, atom: Atom) -> usize {
        self.atoms.push(atom);
        self.atoms.len() - 1
    }

    /// The type of `metadata`.
    pub(super) fn metadata(&self) -> usize {
        let pod = &Self::builtin().kinds[&("v1".to_owned(), "Pod".to_owned())];
        self.atoms[*pod]
            .map
            .as_ref()
            .map_or(OBJECT, |pod| pod.fields["metadata"])
    }
}

/// The committed table.
pub const TEXT: &str = include_str!("schema.txt");

/// Reads the table.
struct Reader {
    schema: Schema,
    names: BTreeMap<&'static str, usize>,
}

impl Reader {
    fn read(text: &'static str) -> Schema {
        let atoms = Schema::common();
        let first = atoms.len();
        let mut names: BTreeMap<&str, usize> = [
            ("any", DEDUCED),
            ("untyped", UNTYPED),
            ("string", STRING),
            ("number", NUMBER),
            ("boolean", BOOLEAN),
            ("scalar", SCALAR),
            ("object", OBJECT),
        ]
        .into();
        let headers = text.lines().filter(|line| !line.starts_with([' ', '=']));
        let headers: Vec<&str> = headers.collect();
        for (i, header) in headers.iter().enumerate() {
            names.insert(header.split(' ').next().unwrap_or_default(), first + i);
        }
        let mut reader = Self {
            schema: Schema {
                atoms,
                kinds: BTreeMap::new(),
            },
            names,
        };
        reader.schema.atoms.resize(first + headers.len(), Atom::default());
        let mut lines = text.lines().peekable();
        let mut index = first;
        while let Some(header) = lines.next() {
            let mut atom = MapType {
                is_atomic: header.ends_with(" atomic"),
                ..MapType::default()
            };
            while let Some(line) = lines.next_if(|line| line.starts_with([' ', '='])) {
                if let Some(resource) = line.strip_prefix("= ") {
                    let (version, kind) = resource.split_once(' ').expect("a version and a kind");
                    let key = (version.to_owned(), kind.to_owned());
                    reader.schema.kinds.insert(key, index);
                } else {
                    let (name, form) = line.trim_start().split_once(' ').expect("a field and its type");
                    let form = reader.form(form);
                    atom.fields.insert(name.to_owned(), form);
                }
            }
            reader.schema.atoms[index] = match header.split_once(" : ") {
                Some((_, alias)) => reader.schema.atoms[reader.names[alias]].clone(),
                None => Atom {
                    map: Some(Arc::new(atom)),
                    ..Atom::default()
                },
            };
            index += 1;
        }
        reader.schema
    }

    fn form(&mut self, form: &'static str) -> usize {
        let (of, rest) = form.split_once(' ').unwrap_or((form, ""));
        if let Some(item) = of.strip_prefix('[') {
            let item = self.form(item.strip_suffix(']').expect("a closed list"));
            let keys = match rest {
                "" | "set" => Vec::new(),
                keys => keys.split(',').map(key).collect(),
            };
            let list = ListType {
                item,
                is_atomic: rest.is_empty(),
                keys,
            };
            return self.schema.push(Atom {
                list: Some(Arc::new(list)),
                ..Atom::default()
            });
        }
        if let Some(element) = of.strip_prefix('{') {
            let element = self.form(element.strip_suffix('}').expect("a closed map"));
            let map = MapType {
                element: Some(element),
                is_atomic: rest == "atomic",
                ..MapType::default()
            };
            return self.schema.push(Atom {
                map: Some(Arc::new(map)),
                ..Atom::default()
            });
        }
        self.names[of]
    }
}

fn key(text: &str) -> ListKey {
    let (name, default) = text
        .split_once('=')
        .map_or((text, None), |(name, default)| (name, Some(default)));
    ListKey {
        name: name.to_owned(),
        default: default.map(|default| {
            let document = Document::from_json(default).expect("a JSON default");
            Data::from(document.root())
        }),
    }
}
