//! What is known of a document's values before anything is read: types, presence, zero values that the server drops.
//!
//! Upstream counterpart: the Go types of Kubernetes 1.36 as `kyvtest_normalise::schema` has them.

use std::sync::Arc;

use kyvtest_normalise::schema::{self, Role, Type};

use super::text::Predicate;
use crate::language::Base;

/// A set of kinds of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kinds(pub(super) u8);

/// One kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Null = 1,
    Bool = 2,
    Int = 4,
    Double = 8,
    Text = 16,
    List = 32,
    Map = 64,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Null,
        Self::Bool,
        Self::Int,
        Self::Double,
        Self::Text,
        Self::List,
        Self::Map,
    ];
}

impl Kinds {
    pub(super) const ANY: Self = Self(127);

    pub(super) fn of(kind: Kind) -> Self {
        Self(kind as u8)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & kind as u8 != 0
    }

    pub(super) fn with(self, kind: Kind) -> Self {
        Self(self.0 | kind as u8)
    }

    pub(super) fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(kind as u8))
    }

    pub(super) fn is_single(self) -> bool {
        self.0.is_power_of_two()
    }
}

/// What is known of one value, given that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) kinds: Kinds,
    pub(super) inner: Inner,
    /// Whether a zero value (false, 0, empty) cannot be.
    pub(super) nonzero: bool,
}

/// What is below or inside a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Inner {
    /// Nothing is known.
    Unknown,
    /// A text of a language.
    Text(Vec<Predicate>),
    /// One of these texts.
    Choice(Vec<Arc<str>>),
    /// An integer within bounds.
    Int(i64, i64),
    /// A canonical quantity.
    Quantity,
    Struct(Type),
    /// An object of a custom kind: the server decodes its metadata, `spec` and `status` are maps, and nothing else is known.
    Custom,
    /// An object as it is written: only its metadata has a form.
    Written,
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A map of texts whose keys and values are those of labels.
    Labels,
    /// One entry of a map: its key and its value.
    Entry(Box<Shape>, Box<Shape>),
    /// A map with these keys alone, and whether each may be absent.
    Record(Arc<[(&'static str, Shape, bool)]>),
}

impl Shape {
    pub(super) fn any() -> Self {
        Self {
            kinds: Kinds::ANY,
            inner: Inner::Unknown,
            nonzero: false,
        }
    }

    pub(super) fn of(kind: Kind, inner: Inner) -> Self {
        Self {
            kinds: Kinds::of(kind),
            inner,
            nonzero: false,
        }
    }

    pub(super) fn text(base: Base) -> Self {
        Self::of(Kind::Text, Inner::Text(vec![Predicate::In(base)]))
    }

    /// An object of a kind; one of which only the metadata is known if the kind is not built in.
    pub(super) fn object(api_version: &str, kind: &str) -> Self {
        match schema::of_kind(api_version, kind) {
            Some(found) => Self::of(Kind::Map, Inner::Struct(found)),
            None => Self::of(Kind::Map, Inner::Custom),
        }
    }

    /// An object as it is written: only the metadata has the form that every server requires.
    pub(super) fn raw() -> Self {
        Self::of(Kind::Map, Inner::Written)
    }

    /// The metadata of any object.
    fn metadata() -> Option<Self> {
        let owner = Self::object("v1", "ConfigMap");
        owner.field("metadata", true).map(|(shape, _)| shape)
    }

    fn read(shape: &schema::Shape) -> Self {
        match shape {
            schema::Shape::Text => Self::of(Kind::Text, Inner::Text(Vec::new())),
            schema::Shape::Bool => Self::of(Kind::Bool, Inner::Unknown),
            schema::Shape::Int(low, high) => Self::of(Kind::Int, Inner::Int(*low, *high)),
            schema::Shape::Float => Self {
                kinds: Kinds::of(Kind::Double).with(Kind::Int),
                inner: Inner::Unknown,
                nonzero: false,
            },
            schema::Shape::Quantity => Self::of(Kind::Text, Inner::Quantity),
            schema::Shape::IntOrString => Self {
                kinds: Kinds::of(Kind::Int).with(Kind::Text),
                inner: Inner::Unknown,
                nonzero: false,
            },
            schema::Shape::Time => Self {
                kinds: Kinds::of(Kind::Text).with(Kind::Null),
                inner: Inner::Unknown,
                nonzero: false,
            },
            schema::Shape::Struct(found) => Self::of(Kind::Map, Inner::Struct(*found)),
            schema::Shape::List(item) => Self::of(Kind::List, Inner::List(Box::new(Self::read(item)))),
            schema::Shape::Map(value) => Self::of(Kind::Map, Inner::Map(Box::new(Self::read(value)))),
            schema::Shape::Any => Self::any(),
        }
    }

    /// A field of a map: its shape and whether it may be absent. `None` if it cannot be there. Of an object that was stored
    /// earlier nothing holds but what decoding does.
    pub(super) fn field(&self, name: &str, decoded: bool) -> Option<(Self, bool)> {
        match &self.inner {
            Inner::Struct(own) => {
                let found = own.field(name, decoded)?;
                let mut shape = Self::read(&found.shape);
                match (own.role(), name) {
                    (Role::OfObject | Role::OfTemplate, "labels") => shape.inner = Inner::Labels,
                    // Objects have names; where they do not count, nothing else does.
                    (Role::OfObject, "name") => return Some((Self::text(Base::Segment), false)),
                    (Role::OfObject, "namespace") => return Some((Self::text(Base::DnsLabel), true)),
                    _ => {}
                }
                if name == "metadata"
                    && let Inner::Struct(metadata) = shape.inner
                {
                    shape.inner = Inner::Struct(metadata.with_role(own.role_of_metadata()));
                }
                if found.nullable {
                    shape.kinds = shape.kinds.with(Kind::Null);
                }
                shape.nonzero = found.nonzero;
                if !found.choices.is_empty() {
                    shape.restrict(&Inner::Choice(
                        found.choices.iter().map(|choice| Arc::from(*choice)).collect(),
                    ));
                }
                // What is not set may be written as an empty text.
                if let Some(format) = found
                    .format
                    .filter(|_| found.nonzero || matches!(shape.inner, Inner::List(_)))
                {
                    shape.restrict(&Inner::Text(vec![language(format)]));
                }
                // Validation requires containers (`pkg/apis/core/validation`, `validateContainers`).
                if own.name() == "core.v1.PodSpec" && name == "containers" && !decoded {
                    shape.kinds = shape.kinds.without(Kind::Null);
                    shape.nonzero = true;
                }
                Some((shape, !found.always))
            }
            Inner::Record(fields) => {
                let (_, shape, optional) = fields.iter().find(|(own, ..)| *own == name)?;
                Some((shape.clone(), *optional))
            }
            Inner::Custom | Inner::Written => match name {
                "spec" | "status" if matches!(self.inner, Inner::Custom) => {
                    Some((Self::of(Kind::Map, Inner::Unknown), true))
                }
                "metadata" => Some((Self::metadata()?, false)),
                "apiVersion" | "kind" => Some((Self::of(Kind::Text, Inner::Text(Vec::new())), false)),
                _ => Some((Self::any(), true)),
            },
            Inner::Map(value) => Some(((**value).clone(), true)),
            Inner::Labels => Some((Self::text(Base::LabelValue), true)),
            Inner::Unknown if self.kinds.has(Kind::Map) => Some((Self::any(), true)),
            _ => None,
        }
    }

    /// Limits a text, or the texts of a list.
    fn restrict(&mut self, texts: &Inner) {
        match &mut self.inner {
            Inner::List(item) => item.restrict(texts),
            inner => *inner = texts.clone(),
        }
    }

    /// An element of a list.
    pub(super) fn item(&self) -> Self {
        match &self.inner {
            Inner::List(item) => (**item).clone(),
            _ => Self::any(),
        }
    }

    /// An entry of a map, if its keys are free.
    pub(super) fn entry(&self) -> Option<Self> {
        let text = || Self::of(Kind::Text, Inner::Text(Vec::new()));
        let entry = |key: Self, value: Self| Some(Self::of(Kind::Map, Inner::Entry(Box::new(key), Box::new(value))));
        match &self.inner {
            Inner::Map(value) => entry(text(), (**value).clone()),
            Inner::Labels => entry(Self::text(Base::LabelKey), Self::text(Base::LabelValue)),
            Inner::Custom | Inner::Written => entry(text(), Self::any()),
            Inner::Unknown if self.kinds.has(Kind::Map) => entry(text(), Self::any()),
            _ => None,
        }
    }
}

/// The texts of a format.
fn language(format: schema::Format) -> Predicate {
    match format {
        schema::Format::Label => Predicate::In(Base::DnsLabel),
        schema::Format::Subdomain => Predicate::In(Base::Subdomain),
        schema::Format::Qualified => Predicate::In(Base::LabelKey),
        schema::Format::EnvName => Predicate::Matches(Arc::from("^[ -<>-~]+$")),
    }
}
