//! The field table: every built-in kind of Kubernetes 1.36 as data.
//!
//! Upstream counterpart: the Go types below `k8s.io/api` with their JSON tags, and the defaults of
//! `pkg/apis/*/*/{defaults,zz_generated.defaults}.go`. `examples/table` generates `table.tsv`.

use std::sync::LazyLock;

use kyvtest_go_compat::value::{Document, Key};
use rustc_hash::FxHashMap;

use crate::{
    defaults::{self, Hook},
    node::Node,
    validate::{self, Check, TypeCheck},
};

/// Index of a struct type in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(u16);

/// The Go type of a field, an element or a value.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Text,
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// `runtime.RawExtension`, apiextensions' `JSON`: kept unchanged.
    Raw,
    /// `JSONSchemaPropsOrBool`
    PropsOrBool(TypeId),
    /// `JSONSchemaPropsOrArray`
    PropsOrArray(TypeId),
    /// `JSONSchemaPropsOrStringArray`
    PropsOrStrings(TypeId),
    Struct(TypeId),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// `ResourceList`: quantities that are rounded up to milli-units.
    Resources,
}

impl Shape {
    /// The struct that is reached through lists and maps.
    pub(crate) fn struct_below(&self) -> Option<TypeId> {
        match self {
            Shape::Struct(id) | Shape::PropsOrBool(id) | Shape::PropsOrArray(id) | Shape::PropsOrStrings(id) => {
                Some(*id)
            }
            Shape::List(item) | Shape::Map(item) => item.struct_below(),
            _ => None,
        }
    }

    /// Whether Go's `omitempty` never omits it, because it is a struct.
    fn is_struct(&self) -> bool {
        matches!(
            self,
            Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime | Shape::Raw
        )
    }
}

/// When a field without a value is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omit {
    Never,
    Empty,
    Zero,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Hash of the name.
    pub(crate) hash: u32,
    pub(crate) shape: Shape,
    pub(crate) pointer: bool,
    pub(crate) omit: Omit,
    pub(crate) default: Option<Node<'static>>,
    /// Dropped, because its feature gate is off by default.
    pub(crate) disabled: bool,
    pub(crate) checks: Vec<Check>,
    /// Allowed values, comma-separated; empty if not an enumeration.
    pub(crate) values: &'static str,
    /// `map:<keys>`, `set`, `atomic`, `granular` or empty.
    pub(crate) list_type: &'static str,
}

impl Field {
    pub(crate) fn key(&self) -> Key<'static> {
        Key::with_hash(self.name, self.hash)
    }

    /// Whether the field is written although it has no value.
    pub(crate) fn always_written(&self) -> bool {
        match self.omit {
            Omit::Never => true,
            Omit::Empty => !self.pointer && self.shape.is_struct(),
            Omit::Zero => false,
        }
    }
}

/// Lines of the table are longer than this, so that no two names begin within as many bytes.
const ADDRESSES: usize = 8;

#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<Field>,
    /// Positions of the fields, sorted by the hash of their names.
    by_hash: Vec<(u32, u8)>,
    /// The address of the first field's name, a slice of the table's text.
    first_address: usize,
    /// For each [`ADDRESSES`] addresses from there, the position of the field whose name begins at one of them. Names that are
    /// not found here are found by their hash.
    by_address: Vec<u8>,
    /// Structs that are part of this one, not behind a pointer.
    pub(crate) embedded: Vec<u8>,
    /// Fields that are written even if they have no value.
    pub(crate) always: Vec<u8>,
    /// Fields with a default.
    pub(crate) defaulted: Vec<u8>,
    /// Fields with a check that concerns a missing value.
    pub(crate) checked_if_missing: Vec<u8>,
    /// Whether the type or one below it has defaults.
    pub(crate) has_defaults: bool,
    /// Whether the type or one below it has checks.
    pub(crate) has_checks: bool,
    pub(crate) hook: Option<Hook>,
    pub(crate) check: Option<TypeCheck>,
}

impl Type {
    /// The field of a name that probably comes from the table itself and then has the same address.
    #[inline]
    pub(crate) fn own_field(&self, name: &str) -> Option<&Field> {
        let address = |name: &str| name.as_ptr() as usize;
        let slot = address(name).wrapping_sub(self.first_address) / ADDRESSES;
        let position = self
            .by_address
            .get(slot)
            .map_or(usize::MAX, |position| usize::from(*position));
        match self.fields.get(position) {
            Some(field) if address(field.name) == address(name) && field.name.len() == name.len() => Some(field),
            _ => self.field(Key::new(name)),
        }
    }

    /// The field of a name.
    #[inline]
    pub(crate) fn field(&self, key: Key<'_>) -> Option<&Field> {
        let hash = key.hash();
        let mut from = self.by_hash.partition_point(|&(other, _)| other < hash);
        while let Some(&(other, position)) = self.by_hash.get(from) {
            if other != hash {
                return None;
            }
            let field = &self.fields[position as usize];
            if field.name == key.text() {
                return Some(field);
            }
            from += 1;
        }
        None
    }
}

/// A kind that the API server serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) type_id: TypeId,
    /// Plural name; empty for kinds of subresources.
    pub(crate) resource: &'static str,
    pub(crate) namespaced: bool,
    /// Whether it has the subresource `status`.
    pub(crate) status: bool,
}

/// All types and kinds.
#[derive(Debug)]
pub(crate) struct Table {
    types: Vec<Type>,
    ids: FxHashMap<&'static str, TypeId>,
    kinds: FxHashMap<(&'static str, &'static str), Served>,
}

/// The table of Kubernetes 1.36.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("table.tsv")));

impl Table {
    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    pub(crate) fn id(&self, name: &str) -> Option<TypeId> {
        self.ids.get(name).copied()
    }

    /// The kind of an object.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<Served> {
        self.kinds.get(&(api_version, kind)).copied()
    }

    /// All kinds, sorted by version and name.
    pub(crate) fn kinds(&self) -> Vec<Served> {
        let mut kinds: Vec<Served> = Vec::with_capacity(self.kinds.len());
        #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
        for kind in self.kinds.values() {
            kinds.push(*kind);
        }
        kinds.sort_by_key(|kind| (kind.api_version, kind.kind));
        kinds
    }

    fn parse(text: &'static str) -> Self {
        let mut names = FxHashMap::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("T\t") {
                let name = name.split('\t').next().unwrap_or_default();
                names.insert(name, TypeId(names.len() as u16));
            }
        }
        let mut table = Table {
            types: Vec::with_capacity(names.len()),
            ids: FxHashMap::default(),
            kinds: FxHashMap::default(),
        };
        for line in text.lines() {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            let first = next();
            match first {
                "K" => {
                    let (api_version, kind, type_name) = (next(), next(), next());
                    let served = Served {
                        api_version,
                        kind,
                        type_id: names[type_name],
                        resource: next(),
                        namespaced: next() == "n",
                        status: next() == "s",
                    };
                    table.kinds.insert((api_version, kind), served);
                }
                "T" => table.types.push(new_type(next())),
                name => {
                    let (go_type, omit, default, checks, values, list_type) =
                        (next(), next(), next(), next(), next(), next());
                    let field = Field {
                        name,
                        hash: Key::new(name).hash(),
                        shape: shape(go_type.trim_start_matches('*'), &names),
                        pointer: go_type.starts_with('*'),
                        omit: match omit {
                            "o" => Omit::Empty,
                            "z" => Omit::Zero,
                            _ => Omit::Never,
                        },
                        default: (!matches!(default, "" | "off")).then(|| constant(default)),
                        disabled: default == "off",
                        checks: checks.split_ascii_whitespace().map(validate::parse_check).collect(),
                        values,
                        list_type,
                    };
                    table
                        .types
                        .last_mut()
                        .expect("a type before its fields")
                        .fields
                        .push(field);
                }
            }
        }
        table.types.iter_mut().for_each(index);
        table.ids = names;
        table.mark();
        table
    }

    /// Finds out which types have defaults or checks below them.
    fn mark(&mut self) {
        loop {
            let mut changed = false;
            for position in 0..self.types.len() {
                let below = |has: &dyn Fn(&Type) -> bool| {
                    self.types[position]
                        .fields
                        .iter()
                        .filter_map(|field| field.shape.struct_below())
                        .any(|id| has(self.get(id)))
                };
                let resources = self.types[position]
                    .fields
                    .iter()
                    .any(|field| matches!(field.shape, Shape::Resources));
                let defaults = resources || below(&|below| below.has_defaults);
                let checks = below(&|below| below.has_checks);
                let found = &mut self.types[position];
                changed |= (defaults && !found.has_defaults) || (checks && !found.has_checks);
                found.has_defaults |= defaults;
                found.has_checks |= checks;
            }
            if !changed {
                return;
            }
        }
    }
}

fn new_type(name: &'static str) -> Type {
    Type {
        name,
        fields: Vec::new(),
        by_hash: Vec::new(),
        first_address: 0,
        by_address: Vec::new(),
        embedded: Vec::new(),
        always: Vec::new(),
        defaulted: Vec::new(),
        checked_if_missing: Vec::new(),
        has_defaults: false,
        has_checks: false,
        hook: defaults::hook(name),
        check: validate::type_check(name),
    }
}

fn index(found: &mut Type) {
    let positions = |keep: &dyn Fn(&Field) -> bool| -> Vec<u8> {
        let fields = found.fields.iter().enumerate();
        fields.filter(|(_, field)| keep(field)).map(|(i, _)| i as u8).collect()
    };
    let embedded = positions(&|field| !field.pointer && matches!(field.shape, Shape::Struct(_)));
    let always = positions(&Field::always_written);
    let defaulted = positions(&|field| field.default.is_some());
    let missing = positions(&|field| field.checks.iter().any(|check| check.concerns_missing(field)));
    let hashes = found.fields.iter().enumerate();
    let mut by_hash: Vec<(u32, u8)> = hashes.map(|(i, field)| (field.hash, i as u8)).collect();
    by_hash.sort_unstable();
    found.has_defaults = !defaulted.is_empty() || found.hook.is_some();
    found.has_checks = found.check.is_some() || found.fields.iter().any(|field| !field.checks.is_empty());
    found.embedded = embedded;
    found.always = always;
    found.defaulted = defaulted;
    found.checked_if_missing = missing;
    found.by_hash = by_hash;
    found.first_address = found.fields.first().map_or(0, |field| field.name.as_ptr() as usize);
    for (position, field) in found.fields.iter().enumerate() {
        let slot = (field.name.as_ptr() as usize - found.first_address) / ADDRESSES;
        found.by_address.resize(slot, u8::MAX);
        found.by_address.push(position as u8);
    }
}

fn shape(text: &'static str, names: &FxHashMap<&'static str, TypeId>) -> Shape {
    if let Some(item) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape(item, names)));
    }
    if let Some(item) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape(item, names)));
    }
    let props = || names["apiextensions.v1.JSONSchemaProps"];
    match text {
        "string" => Shape::Text,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Float,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "intstr" => Shape::IntOrString,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "raw" | "json" => Shape::Raw,
        "resources" => Shape::Resources,
        "propsorbool" => Shape::PropsOrBool(props()),
        "propsorarray" => Shape::PropsOrArray(props()),
        "propsorstrings" => Shape::PropsOrStrings(props()),
        name => Shape::Struct(
            *names
                .get(name)
                .unwrap_or_else(|| panic!("unknown type `{name}` in the table")),
        ),
    }
}

fn constant(json: &str) -> Node<'static> {
    let document = Document::from_json(json).unwrap_or_else(|error| panic!("default `{json}`: {error}"));
    Node::of(document.root()).to_owned()
}
