//! Variables, fields and elements.
//!
//! Upstream counterpart: cel-go `interpreter/attributes.go`, by way of `kyvtest_cel::eval::attribute`.

use std::rc::Rc;

use kyvtest_cel::{
    program::{Attribute, Node, NodeId, Qualifier, Root},
    val::Val,
};

use super::{Reader, fold::substitute, value};
use crate::body::{
    formula::{Formula, Place, Step},
    shape::{Inner, Kind, Shape},
    split,
    value::{Part, Result, Sym, Truth, Value, unsupported},
};

/// The number of leading elements of computed lists that are distinguished by position.
const INDEXED: u32 = 4;

/// What reading a field found.
pub(super) enum Found {
    Value(Value),
    Missing,
    Error,
}

impl<'a> Reader<'a, '_> {
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Result<Value> {
        let value = self.resolve(attribute)?;
        if !attribute.test_only {
            return Ok(value);
        }
        self.each(&value, |_, sym| {
            Ok(match sym {
                Sym::Optional(inner) => Value::bool(inner.is_some()),
                sym => Value::of(sym.clone()),
            })
        })
    }

    fn resolve(&mut self, attribute: &'a Attribute) -> Result<Value> {
        let root = match &attribute.root {
            Root::Slot(slot) => match &self.slots[slot.0 as usize] {
                Some(value) => value.clone(),
                None => Value::of(Sym::Null),
            },
            Root::LazySlot(slot, init) => match &self.slots[slot.0 as usize] {
                Some(value) => value.clone(),
                None => self.read(*init)?,
            },
            Root::Variable(number) => {
                let name = &self.program.variables[*number as usize];
                match self.surroundings.roots.get(&**name) {
                    Some(value) => value.clone(),
                    None if &**name == "variables" => Value::of(Sym::Variables),
                    None => return unsupported(format!("`{name}`")),
                }
            }
            Root::Value(node) => self.read(*node)?,
            Root::Conditional(branches) => {
                let (condition, truthy, falsy) = &**branches;
                let Truth { yes, no } = self.truth_of(*condition)?;
                let known = self.arena.or([yes, no]);
                let error = self.arena.not(known);
                let mut cases = vec![(error, Sym::Error)];
                for (guard, branch) in [(yes, truthy), (no, falsy)] {
                    if guard == Formula::FALSE {
                        continue;
                    }
                    for (own, sym) in self.resolve(branch)?.0 {
                        cases.push((self.arena.and([guard, own]), sym));
                    }
                }
                return Ok(self.arena.value(cases));
            }
        };
        if attribute.qualifiers.is_empty() {
            return Ok(root);
        }
        self.each(&root, |reader, sym| match sym {
            Sym::Error => Ok(Value::error()),
            Sym::Optional(None) => Ok(Value::of(Sym::Optional(None))),
            Sym::Optional(Some(inner)) => reader.apply(inner, &attribute.qualifiers, true),
            sym => reader.apply(&Value::of(sym.clone()), &attribute.qualifiers, false),
        })
    }

    /// Selects from a value what the qualifiers say; `optional` if an earlier step was.
    fn apply(&mut self, object: &Value, qualifiers: &'a [Qualifier], optional: bool) -> Result<Value> {
        let Some((qualifier, rest)) = qualifiers.split_first() else {
            return Ok(if optional {
                Value::of(Sym::Optional(Some(Rc::new(object.clone()))))
            } else {
                object.clone()
            });
        };
        self.each(object, |reader, sym| {
            let (steps, is_optional, test_only) = match qualifier {
                Qualifier::Field {
                    name,
                    optional,
                    test_only,
                    ..
                } => (reader.field(sym, name)?, *optional, *test_only),
                Qualifier::Constant { key, optional } => (reader.index(sym, *key)?, *optional, false),
                Qualifier::Computed { index, optional } => (reader.computed(sym, *index)?, *optional, false),
            };
            let optional = optional || is_optional;
            let mut cases = Vec::new();
            for (guard, found) in steps {
                if guard == Formula::FALSE {
                    continue;
                }
                let value = match found {
                    Found::Error => Value::error(),
                    Found::Value(_) if test_only && optional => reader.apply(&Value::of(Sym::Null), rest, optional)?,
                    Found::Value(_) if test_only => reader.apply(&Value::bool(true), rest, optional)?,
                    Found::Value(value) => reader.apply(&value, rest, optional)?,
                    Found::Missing if test_only && !optional => reader.apply(&Value::bool(false), rest, optional)?,
                    Found::Missing if optional => Value::of(Sym::Optional(None)),
                    Found::Missing => Value::error(),
                };
                for (own, sym) in value.0 {
                    cases.push((reader.arena.and([guard, own]), sym));
                }
            }
            Ok(reader.arena.value(cases))
        })
    }

    /// What lies behind a value that is not a container.
    fn outside(&self) -> Found {
        if self.program.profile.behaviour.presence_needs_a_container {
            Found::Error
        } else {
            Found::Missing
        }
    }

    fn field(&mut self, sym: &Sym, name: &str) -> Result<Vec<(Formula, Found)>> {
        let single = |found: Found| Ok(vec![(Formula::TRUE, found)]);
        match sym {
            Sym::At(place) => {
                let place = *place;
                let is_map = self.arena.is_kind(place, Kind::Map);
                let is_list = self.arena.is_kind(place, Kind::List);
                let container = self.arena.or([is_map, is_list]);
                let neither = self.arena.not(container);
                let mut cases = vec![(is_list, Found::Error), (neither, self.outside())];
                match self.arena.field(place, name) {
                    Some(found) => {
                        let present = self.arena.present(found);
                        let absent = self.arena.not(present);
                        cases.push((
                            self.arena.and([is_map, present]),
                            Found::Value(Value::of(Sym::At(found))),
                        ));
                        cases.push((self.arena.and([is_map, absent]), Found::Missing));
                    }
                    None => cases.push((is_map, Found::Missing)),
                }
                Ok(cases)
            }
            Sym::Map(entries) => {
                let found = entries.iter().find(|(key, _)| &**key == name);
                single(found.map_or(Found::Missing, |(_, value)| Found::Value(value.clone())))
            }
            Sym::Variables if self.surroundings.known.contains_key(name) => {
                let known = self.surroundings.known[name].0.iter();
                let found = known.map(|(guard, sym)| match sym {
                    Sym::Error => (*guard, Found::Error),
                    sym => (*guard, Found::Value(Value::of(sym.clone()))),
                });
                Ok(found.collect())
            }
            Sym::Variables => match self.surroundings.variables.get(name) {
                Some(Some(program)) => {
                    let value = value(
                        self.arena,
                        program,
                        self.surroundings,
                        (self.depth + 1, self.bound.clone()),
                    )?;
                    let mut cases = Vec::new();
                    for (guard, sym) in value.0 {
                        let found = if sym == Sym::Error {
                            Found::Error
                        } else {
                            Found::Value(Value::of(sym))
                        };
                        cases.push((guard, found));
                    }
                    Ok(cases)
                }
                Some(None) => single(Found::Error),
                None => single(Found::Missing),
            },
            Sym::List(_) => single(Found::Error),
            Sym::Optional(_) => single(Found::Missing),
            Sym::Error => single(Found::Error),
            Sym::Null | Sym::Bool(_) | Sym::Int(_) | Sym::Uint(_) | Sym::Double(_) | Sym::Text(_) | Sym::Words(..) => {
                single(self.outside())
            }
            Sym::Plus(..) | Sym::Minus(..) | Sym::Length(_) | Sym::Size(_) | Sym::Offset(_) => single(self.outside()),
            Sym::Steps(..) => single(self.outside()),
            Sym::Changed(changed) if changed.type_name.is_some() => unsupported("a field of a typed object"),
            Sym::Changed(_) => {
                let Some(entry) = self.arena.entry_of(sym, name) else {
                    return unsupported("a field of a changed value");
                };
                let absent = self.arena.not(entry.present);
                Ok(vec![
                    (entry.present, Found::Value(entry.value)),
                    (absent, Found::Missing),
                ])
            }
            Sym::Constant(_) | Sym::Quantity(_) | Sym::Moment(_) | Sym::Position(..) | Sym::Pointer(_) => {
                unsupported("a field of a library's value")
            }
        }
    }

    fn index(&mut self, sym: &Sym, key: Val<'_>) -> Result<Vec<(Formula, Found)>> {
        match key {
            Val::String(text) => self.field(sym, text),
            Val::Int(position) => self.position(sym, position),
            _ => unsupported("an index that is neither a text nor an integer"),
        }
    }

    fn position(&mut self, sym: &Sym, position: i64) -> Result<Vec<(Formula, Found)>> {
        match sym {
            Sym::At(place) => {
                let place = *place;
                if let (Some((text, separator)), Ok(position)) = (self.arena.split_of(place), u32::try_from(position))
                    && position < 64
                {
                    let long = split::at_least(self.arena, text, &separator, position + 1);
                    let short = self.arena.not(long);
                    let piece = Value::of(split::piece(text, &separator, position));
                    return Ok(vec![(long, Found::Value(piece)), (short, Found::Missing)]);
                }
                let is_list = self.arena.is_kind(place, Kind::List);
                let is_map = self.arena.is_kind(place, Kind::Map);
                let container = self.arena.or([is_map, is_list]);
                let neither = self.arena.not(container);
                // Keys of documents are texts.
                let mut cases = vec![(neither, self.outside()), (is_map, Found::Missing)];
                match u32::try_from(position).ok().filter(|position| *position < 64) {
                    Some(position) => {
                        let long = self.size_at_least(place, position + 1)?;
                        let short = self.arena.not(long);
                        let item = self.arena.item(place, position);
                        cases.push((self.arena.and([is_list, long]), Found::Value(Value::of(Sym::At(item)))));
                        cases.push((self.arena.and([is_list, short]), Found::Missing));
                    }
                    None if position < 0 => cases.push((is_list, Found::Missing)),
                    None => return unsupported("a large index"),
                }
                Ok(cases)
            }
            Sym::List(parts) => {
                let plain = parts.iter().all(|part| matches!(part, Part::One(Formula::TRUE, _)));
                match u32::try_from(position) {
                    Err(_) => Ok(vec![(Formula::TRUE, Found::Missing)]),
                    Ok(position) if plain || position < INDEXED => self.nth(parts, position),
                    Ok(_) => unsupported("a large index into a computed list"),
                }
            }
            Sym::Map(_) | Sym::Optional(_) => Ok(vec![(Formula::TRUE, Found::Missing)]),
            Sym::Error => Ok(vec![(Formula::TRUE, Found::Error)]),
            Sym::Changed(_) => unsupported("an index into a changed value"),
            _ => Ok(vec![(Formula::TRUE, self.outside())]),
        }
    }

    /// The element of a computed list at a position, which may be in any of its parts.
    fn nth(&mut self, parts: &[Part], position: u32) -> Result<Vec<(Formula, Found)>> {
        let Some((part, rest)) = parts.split_first() else {
            return Ok(vec![(Formula::TRUE, Found::Missing)]);
        };
        let mut cases = Vec::new();
        // So many elements of the part are before the position.
        let mut skips = Vec::new();
        match part {
            Part::One(keep, value) => {
                if position == 0 {
                    cases.push((*keep, Found::Value(value.clone())));
                } else {
                    skips.push((*keep, 1));
                }
                skips.push((self.arena.not(*keep), 0));
            }
            Part::Each {
                outer,
                list,
                bound,
                keep,
                value,
            } if outer.is_empty() && !self.arena.mentions(*keep, *bound) => {
                let long = self.size_at_least(*list, position + 1)?;
                let item = self.arena.item(*list, position);
                let value = substitute(self.arena, value, *bound, item);
                cases.push((self.arena.and([*keep, long]), Found::Value(value)));
                skips.push((self.arena.not(*keep), 0));
                for count in 0..=position {
                    let least = self.size_at_least(*list, count)?;
                    let more = self.size_at_least(*list, count + 1)?;
                    let no_more = self.arena.not(more);
                    skips.push((self.arena.and([*keep, least, no_more]), count));
                }
            }
            Part::Each { .. } => return unsupported("an index into a filtered list"),
        }
        for (condition, count) in skips {
            if condition == Formula::FALSE {
                continue;
            }
            for (own, found) in self.nth(rest, position - count)? {
                cases.push((self.arena.and([condition, own]), found));
            }
        }
        Ok(cases)
    }

    fn computed(&mut self, sym: &Sym, index: NodeId) -> Result<Vec<(Formula, Found)>> {
        let key = match &self.program.nodes[index.0 as usize] {
            Node::Attribute(attribute) => self.resolve(attribute)?,
            _ => self.read(index)?,
        };
        let mut all = Vec::new();
        for (guard, key) in key.0 {
            let cases = match &key {
                Sym::Error | Sym::Null => vec![(Formula::TRUE, Found::Error)],
                Sym::Text(text) => self.field(sym, text)?,
                Sym::Int(position) => self.position(sym, *position)?,
                Sym::At(key) => self.symbolic_index(sym, *key)?,
                _ => return unsupported("a computed index"),
            };
            for (own, found) in cases {
                all.push((self.arena.and([guard, own]), found));
            }
        }
        Ok(all)
    }

    /// `map[key]` with a text of a document: the entry itself if the key is that of an entry of the map.
    pub(super) fn symbolic_index(&mut self, sym: &Sym, key: Place) -> Result<Vec<(Formula, Found)>> {
        let Sym::At(map) = sym else {
            return unsupported("a computed index into a computed value");
        };
        let shape = self.arena.shape(key).kinds;
        if !shape.is_single() || !shape.has(Kind::Text) {
            return unsupported("an index of unknown type");
        }
        if *self.arena.step(key) == Step::Key
            && let Some(entry) = self.arena.parent(key)
            && self.arena.parent(entry) == Some(*map)
            && let Some(value) = self.arena.entry_value(entry)
        {
            return Ok(vec![(Formula::TRUE, Found::Value(Value::of(Sym::At(value))))]);
        }
        let kinds = self.arena.shape(*map).kinds;
        if !kinds.is_single() || !kinds.has(Kind::Map) {
            return unsupported("an index into a value of unknown type");
        }
        let value_shape = match self.arena.shape(*map).entry() {
            Some(Shape {
                inner: Inner::Entry(_, value),
                ..
            }) => *value,
            _ => return unsupported("a computed field of a structure"),
        };
        let args = [*map, key];
        let found = self.arena.term("index", &args, value_shape);
        let (Some(present), Some(found)) = (self.arena.has_key(*map, key), found) else {
            return unsupported("an index that joins two lists");
        };
        let absent = self.arena.not(present);
        Ok(vec![
            (present, Found::Value(Value::of(Sym::At(found)))),
            (absent, Found::Missing),
        ])
    }
}
