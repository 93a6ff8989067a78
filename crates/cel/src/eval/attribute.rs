//! Reading variables, fields and elements.
//!
//! Upstream counterpart: cel-go `interpreter/attributes.go`.

use super::Machine;
use crate::{
    cost, mutation, ops,
    program::*,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::Key;

/// The result of a selection.
enum Selected<'a> {
    Value(Val<'a>),
    Missing(Missing<'a>),
    Error(Val<'a>),
}

enum Missing<'a> {
    Key(Val<'a>),
    Index(Val<'a>),
}

impl<'a> Machine<'a> {
    #[inline(never)]
    pub(super) fn eval_attribute(&mut self, id: NodeId, attribute: &'a Attribute) -> Val<'a> {
        // The common case `element.field` in a comprehension.
        if let (
            Root::Slot(slot),
            [
                Qualifier::Field {
                    name,
                    hash,
                    optional: false,
                    test_only: false,
                    ..
                },
            ],
        ) = (&attribute.root, &attribute.qualifiers[..])
            && self.trace.is_none()
            && let Some(Val::DocumentMap(map)) = self.slots[slot.0 as usize]
            && let Some(value) = map.get_key(Key::with_hash(name, *hash))
        {
            self.charge(cost::SELECT);
            self.charge(cost::SELECT);
            return value.into();
        }
        let mut value = self.resolve(attribute);
        if attribute.test_only
            && let Val::Optional(inner) = value
        {
            value = Val::Bool(inner.is_some());
        }
        match &attribute.root {
            Root::Conditional(branches) => {
                if let Some(trace) = &mut self.trace {
                    trace.drop_conditional(branches);
                }
            }
            Root::Slot(_) | Root::LazySlot(..) | Root::Variable(_) | Root::Value(_) => {
                if let Some(trace) = &mut self.trace {
                    trace.drop_attribute(attribute);
                }
                // A presence test costs only its steps.
                if !attribute.test_only {
                    self.charge(cost::SELECT);
                }
            }
        }
        self.observe_value(id, value);
        value
    }

    /// The value of an attribute without the cost of its root.
    fn resolve(&mut self, attribute: &'a Attribute) -> Val<'a> {
        let root = match &attribute.root {
            Root::Slot(slot) => self.slots[slot.0 as usize].unwrap_or(Val::Null),
            Root::LazySlot(slot, init) => self.read_lazy(*slot, *init),
            Root::Variable(number) => match self.activation.values.get(*number as usize) {
                Some(Some(value)) => *value,
                _ => {
                    let name = &self.program.variables[*number as usize];
                    return self.context.error(format_args!("no such attribute(s): {name}"));
                }
            },
            Root::Value(node) => self.eval(*node),
            Root::Conditional(branches) => {
                let (condition, truthy, falsy) = &**branches;
                return match self.eval(*condition) {
                    Val::Bool(true) => self.resolve(truthy),
                    Val::Bool(false) => self.resolve(falsy),
                    error @ Val::Error(_) => error,
                    _ => NO_SUCH_OVERLOAD,
                };
            }
        };
        if attribute.qualifiers.is_empty() || root.is_error() {
            return root;
        }
        self.apply(root, attribute)
    }

    #[inline]
    fn apply(&mut self, root: Val<'a>, attribute: &'a Attribute) -> Val<'a> {
        let mut object = root;
        let mut optional = false;
        if let Val::Optional(inner) = root {
            match inner {
                None => return Val::NONE,
                Some(inner) => object = *inner,
            }
            optional = true;
        }
        // Most steps are plain fields that exist.
        let mut plain = 0;
        if self.trace.is_none() {
            while let Val::DocumentMap(map) = object
                && let Some(Qualifier::Field {
                    name,
                    hash,
                    optional: false,
                    test_only: false,
                    ..
                }) = attribute.qualifiers.get(plain)
                && let Some(value) = map.get_key(Key::with_hash(name, *hash))
            {
                object = value.into();
                self.charge(cost::SELECT);
                plain += 1;
            }
        }
        if plain == attribute.qualifiers.len() {
            return if optional { self.context.some(object) } else { object };
        }
        for (i, qualifier) in attribute.qualifiers.iter().enumerate().skip(plain) {
            let optional_so_far = optional;
            let (found, is_optional, test_only) = match qualifier {
                Qualifier::Field {
                    name,
                    hash,
                    optional,
                    test_only,
                    typed,
                } => {
                    let tested = *test_only || *optional || optional_so_far;
                    let found = match object {
                        Val::Object(object) if *typed => match mutation::field(object, name, tested) {
                            Some(value) => Selected::Value(value),
                            None => Selected::Missing(Missing::Key(Val::String(name))),
                        },
                        Val::Opaque(opaque) if (*optional || optional_so_far) && opaque.has_no_optional_fields() => {
                            Selected::Error(self.context.error(format_args!("no such field: {name}")))
                        }
                        Val::Opaque(opaque) if tested && opaque.is_set(name) == Some(false) => {
                            Selected::Missing(Missing::Key(Val::String(name)))
                        }
                        object => self.field(object, name, *hash),
                    };
                    (found, *optional, *test_only)
                }
                Qualifier::Constant { key, optional } => (self.index(object, *key), *optional, false),
                Qualifier::Computed { index, optional } => {
                    let key = match &self.program.nodes[index.0 as usize] {
                        Node::Attribute(attribute) => self.resolve(attribute),
                        _ => self.eval(*index),
                    };
                    let found = match key {
                        Val::Error(_) => Selected::Error(key),
                        Val::String(text) => self.field(object, text, Key::new(text).hash()),
                        key => self.index(object, key),
                    };
                    (found, *optional, false)
                }
            };
            optional |= is_optional;
            // An optional step that is absent or fails is not observed, so it costs nothing.
            match found {
                Selected::Error(error) => {
                    if !optional {
                        self.observe_qualifier(attribute, i, error);
                    }
                    return error;
                }
                Selected::Value(_) if test_only => {
                    object = if optional { Val::Null } else { Val::Bool(true) };
                    self.observe_qualifier(attribute, i, object);
                }
                Selected::Value(value) => {
                    object = value;
                    self.observe_qualifier(attribute, i, object);
                }
                Selected::Missing(_) if test_only && !optional => {
                    object = Val::Bool(false);
                    self.observe_qualifier(attribute, i, object);
                }
                Selected::Missing(_) if optional => return Val::NONE,
                Selected::Missing(error) => {
                    let error = match error {
                        Missing::Key(key) => self.missing_key(key),
                        Missing::Index(index) => self.missing_index(index),
                    };
                    self.observe_qualifier(attribute, i, error);
                    return error;
                }
            }
        }
        if optional { self.context.some(object) } else { object }
    }

    #[inline]
    fn observe_qualifier(&mut self, attribute: &Attribute, i: usize, value: Val<'a>) {
        self.charge(cost::SELECT);
        if let Some(trace) = &mut self.trace {
            let last = i + 1 == attribute.qualifiers.len();
            let computed = match &attribute.qualifiers[i] {
                Qualifier::Computed { index, .. } => {
                    !matches!(self.program.nodes[index.0 as usize], Node::Attribute(_))
                }
                Qualifier::Field { .. } | Qualifier::Constant { .. } => false,
            };
            trace.push_qualifier(attribute.id, last, computed, value);
        }
    }

    #[cold]
    fn missing_key(&self, key: Val<'a>) -> Val<'a> {
        self.context
            .error(format_args!("no such key: {}", self.context.display(key)))
    }

    #[cold]
    fn missing_index(&self, index: Val<'a>) -> Val<'a> {
        self.context
            .error(format_args!("index out of bounds: {}", self.context.display(index)))
    }

    /// A field of an object by its name.
    #[inline]
    fn field(&mut self, object: Val<'a>, name: &'a str, hash: u32) -> Selected<'a> {
        match object {
            Val::DocumentMap(map) => match map.get_key(Key::with_hash(name, hash)) {
                Some(value) => Selected::Value(value.into()),
                None => Selected::Missing(Missing::Key(Val::String(name))),
            },
            Val::Variables => match self.activation.variables.and_then(|variables| variables.get(name)) {
                Some(error @ Val::Error(_)) => Selected::Error(error),
                Some(value) => Selected::Value(value),
                None => Selected::Missing(Missing::Key(Val::String(name))),
            },
            other => self.index(other, Val::String(name)),
        }
    }

    /// An element of a container by any key.
    fn index(&self, object: Val<'a>, key: Val<'a>) -> Selected<'a> {
        if !matches!(
            key,
            Val::String(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Bool(_)
        ) {
            let kind = if matches!(key, Val::Null) {
                "<nil>"
            } else {
                key.go_type()
            };
            return Selected::Error(self.context.error(format_args!("invalid qualifier type: {kind}")));
        }
        match object {
            Val::List(_) | Val::DocumentList(_) => match ops::list_index(&self.context, key) {
                Err(error) => Selected::Error(error),
                Ok(index) => match usize::try_from(index).ok().and_then(|index| object.list_get(index)) {
                    Some(value) => Selected::Value(value),
                    None => Selected::Missing(Missing::Index(key)),
                },
            },
            Val::Map(_) | Val::DocumentMap(_) => match object.map_get(&key) {
                Some(value) => Selected::Value(value),
                None => Selected::Missing(Missing::Key(key)),
            },
            Val::Opaque(opaque) => match key {
                Val::String(name) => match opaque.field(name) {
                    Some(error @ Val::Error(_)) => Selected::Error(error),
                    Some(value) => Selected::Value(value),
                    None if opaque.is_structure() => {
                        Selected::Error(self.context.error(format_args!("no such field: {name}")))
                    }
                    None => Selected::Missing(Missing::Key(key)),
                },
                _ => Selected::Missing(Missing::Key(key)),
            },
            Val::Object(object) => match key {
                Val::String(name) => match mutation::indexed(object, name) {
                    Some(value) => Selected::Value(value),
                    None => Selected::Missing(Missing::Key(key)),
                },
                _ => Selected::Missing(Missing::Key(key)),
            },
            Val::Optional(_) => Selected::Missing(Missing::Key(key)),
            _ if self.context.profile.behaviour.presence_needs_a_container => Selected::Error(self.missing_key(key)),
            _ => Selected::Missing(Missing::Key(key)),
        }
    }
}
