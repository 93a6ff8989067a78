//! What is known of a value before it is read: its type, and which of its fields are always there.
//!
//! Upstream counterpart: the Go types of Kubernetes as `kyvtest_normalise::schema` has them. A translation uses these facts to
//! leave out guards; the proof checks each of them.

use kyvtest_normalise::schema::{self, Shape};

use crate::query::{Seen, field_of, is_given};

/// The facts about a value, given that it is there. A rule for several kinds knows what all of them have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// The types that the value may have; none if nothing is known.
    shapes: Vec<Shape>,
    /// Whether the value is never Go's zero value.
    pub(crate) nonzero: bool,
    /// The only texts that validation accepts; none if there are others.
    pub(crate) choices: Vec<&'static str>,
    /// Whether the value is an object of a custom kind, of which only the metadata is known.
    custom: bool,
    /// When the object is looked at.
    seen: Seen,
}

/// A field of a value.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) known: Known,
    /// Whether the field is there whenever its parent is.
    pub(crate) always: bool,
    /// Whether the field may be there and null.
    pub(crate) nullable: bool,
}

/// The type of a scalar, as far as a translation tells types apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int,
    Text,
    Quantity,
    IntOrText,
    List,
    Map,
    Unknown,
}

impl Known {
    pub(crate) const fn nothing() -> Self {
        Self {
            shapes: Vec::new(),
            nonzero: false,
            choices: Vec::new(),
            custom: false,
            seen: Seen::Validated,
        }
    }

    /// Objects of these kinds (API version and kind).
    pub(crate) fn objects<'k>(kinds: impl IntoIterator<Item = (&'k str, &'k str)>, seen: Seen) -> Self {
        let mut shapes = Vec::new();
        for (api_version, kind) in kinds {
            let Some(found) = schema::of_kind(api_version, kind) else {
                return Self {
                    custom: true,
                    seen,
                    ..Self::nothing()
                };
            };
            let shape = Shape::Struct(found);
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        Self {
            custom: shapes.is_empty(),
            shapes,
            seen,
            ..Self::nothing()
        }
    }

    /// A field of the value.
    pub(crate) fn field(&self, name: &str) -> Member {
        let unknown = Member {
            known: Self {
                seen: self.seen,
                ..Self::nothing()
            },
            always: false,
            nullable: false,
        };
        if self.custom && name == "metadata" {
            let object = schema::of_kind("v1", "ConfigMap").and_then(|found| found.field(name, true));
            return Member {
                known: Self {
                    shapes: object.into_iter().map(|field| field.shape).collect(),
                    ..unknown.known
                },
                always: true,
                nullable: false,
            };
        }
        let mut shapes: Vec<Shape> = Vec::new();
        let (mut always, mut nonzero, mut nullable) = (!self.shapes.is_empty(), true, false);
        let mut choices: Option<Vec<&'static str>> = None;
        for shape in &self.shapes {
            match shape {
                Shape::Struct(own) => {
                    let Some(found) = field_of(*own, name, self.seen) else {
                        always = false;
                        continue;
                    };
                    let metadata = own.name() == "meta.v1.ObjectMeta";
                    let containers =
                        own.name() == "core.v1.PodSpec" && name == "containers" && self.seen.has_containers();
                    always &= containers || is_given(*own, name, &found) || metadata && name == "name";
                    choices = Some(match choices {
                        Some(known) if known != found.choices => Vec::new(),
                        _ => found.choices,
                    });
                    nullable |= found.nullable && !containers;
                    nonzero &= found.nonzero || containers || metadata && name == "name";
                    if !shapes.contains(&found.shape) {
                        shapes.push(found.shape);
                    }
                }
                Shape::Map(value) => {
                    (always, nonzero) = (false, false);
                    if !shapes.contains(value) {
                        shapes.push((**value).clone());
                    }
                }
                _ => return unknown,
            }
        }
        Member {
            known: Self {
                nonzero: nonzero && !shapes.is_empty(),
                shapes,
                choices: choices.unwrap_or_default(),
                custom: false,
                seen: self.seen,
            },
            always,
            nullable,
        }
    }

    /// An element of the value, which is a list.
    pub(crate) fn element(&self) -> Self {
        let mut shapes: Vec<Shape> = Vec::new();
        for shape in &self.shapes {
            match shape {
                Shape::List(item) if !shapes.contains(item) => shapes.push((**item).clone()),
                Shape::List(_) => {}
                _ => shapes.clear(),
            }
        }
        Self {
            shapes,
            seen: self.seen,
            ..Self::nothing()
        }
    }

    /// The value at the end of a path below the value; `*` is an element of a list.
    pub(crate) fn at<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> Self {
        path.into_iter().fold(self.clone(), |known, step| match step {
            "*" => known.element(),
            step => known.field(step).known,
        })
    }

    /// The type of the value, if all kinds agree.
    pub(crate) fn kind(&self) -> Type {
        let kind = |shape: &Shape| match shape {
            Shape::Bool => Type::Bool,
            Shape::Int(..) => Type::Int,
            Shape::Text | Shape::Time => Type::Text,
            Shape::Quantity => Type::Quantity,
            Shape::IntOrString => Type::IntOrText,
            Shape::List(_) => Type::List,
            Shape::Struct(_) | Shape::Map(_) => Type::Map,
            Shape::Float | Shape::Any => Type::Unknown,
        };
        let mut kinds = self.shapes.iter().map(kind);
        let Some(first) = kinds.next() else {
            return if self.custom { Type::Map } else { Type::Unknown };
        };
        if kinds.all(|other| other == first) {
            first
        } else {
            Type::Unknown
        }
    }
}
