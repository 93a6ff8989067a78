//! Functions of queries. An argument of the wrong type is an error of the query.

use std::{rc::Rc, sync::Arc};

use kyvtest_go_compat::text::{case, wildcard};
use kyvtest_jmespath::ast::Node;

use super::{Queried, Reader, compare::equal, fresh};
use crate::body::{
    formula::{Arena, Formula, Place},
    shape::{Inner, Kind},
    split,
    text::Predicate,
    value::{Edit, Measure, Part, Result, Sym, Value, Words, unsupported},
};

impl Reader<'_, '_, '_> {
    pub(super) fn function(
        &mut self,
        arena: &mut Arena,
        name: &str,
        args: &[Node],
        at: Option<&Value>,
    ) -> Result<Queried> {
        let mut values = Vec::new();
        let mut failed = Vec::new();
        for arg in args {
            let found = self.execute(arena, arg, at)?.or_null(arena);
            failed.push(found.failed);
            values.push(found.value);
        }
        let called = self.call_each(arena, name, &values, &mut Vec::new())?;
        failed.push(called.failed);
        Ok(Queried {
            value: called.value,
            failed: arena.or(failed),
        })
    }

    /// Calls with each combination of the arguments' cases.
    fn call_each(&mut self, arena: &mut Arena, name: &str, args: &[Value], chosen: &mut Vec<Sym>) -> Result<Queried> {
        let Some((first, rest)) = args.split_first() else {
            let syms = chosen.clone();
            return self.call(arena, name, &syms);
        };
        self.then(arena, &Queried::of(first.clone()), |reader, arena, sym| {
            chosen.push(sym.clone());
            let found = reader.call_each(arena, name, rest, chosen);
            chosen.pop();
            found
        })
    }

    fn call(&mut self, arena: &mut Arena, name: &str, args: &[Sym]) -> Result<Queried> {
        match (name, args) {
            ("length", [sym]) => self.length(arena, sym),
            ("keys", [sym]) => self.keys(arena, sym),
            ("contains", [Sym::List(_), _]) => self.has_member(arena, args),
            ("contains", [Sym::At(place), _]) if may_be(arena, *place, Kind::List) => self.has_member(arena, args),
            ("contains", [text, Sym::Text(part)]) => tested(arena, text, &Predicate::Contains(Arc::clone(part))),
            ("starts_with", [text, Sym::Text(part)]) => tested(arena, text, &Predicate::StartsWith(Arc::clone(part))),
            ("ends_with", [text, Sym::Text(part)]) => tested(arena, text, &Predicate::EndsWith(Arc::clone(part))),
            ("regex_match", [Sym::Text(pattern), text]) => {
                let predicate = Predicate::Matches(Arc::clone(pattern));
                if !predicate.is_regular() {
                    return unsupported("a regular expression in a query");
                }
                // Numbers are matched as well.
                if let Sym::At(place) = text
                    && (may_be(arena, *place, Kind::Int) || may_be(arena, *place, Kind::Double))
                {
                    return unsupported("a regular expression on a number");
                }
                tested(arena, text, &predicate)
            }
            ("pattern_match", [Sym::Text(pattern), Sym::Text(text)]) => {
                Ok(Queried::of(Value::bool(wildcard::matches(pattern, text))))
            }
            ("to_lower", [text]) => edited(arena, text, &Edit::GoLower),
            ("to_upper", [text]) => edited(arena, text, &Edit::GoUpper),
            ("split", [Sym::At(place), Sym::Text(separator)]) if separator.chars().count() == 1 => {
                split(arena, *place, separator)
            }
            ("replace_all", [text, Sym::Text(old), Sym::Text(new)]) if old.chars().count() == 1 => {
                let old = old.chars().next().unwrap_or_default();
                edited(arena, text, &Edit::Replaced(old, Arc::clone(new)))
            }
            ("not_null", args) => Ok(Queried::of(first_not_null(arena, args))),
            _ => unsupported(format!("the function `{name}`")),
        }
    }

    fn length(&mut self, arena: &mut Arena, sym: &Sym) -> Result<Queried> {
        let size = |parts: &[Part]| Queried::of(Value::of(Sym::Size(Rc::from(parts))));
        Ok(match sym {
            Sym::List(parts) => size(parts),
            Sym::Text(text) => Queried::of(Value::of(Sym::Int(text.chars().count() as i64))),
            Sym::Map(entries) => Queried::of(Value::of(Sym::Int(entries.len() as i64))),
            Sym::At(place) => {
                let place = *place;
                if let Some((text, separator)) = arena.split_of(place) {
                    return Ok(Queried::of(split::count(arena, place, text, &separator)?));
                }
                let mut cases = Vec::new();
                let is_text = arena.is_kind(place, Kind::Text);
                cases.push((is_text, Sym::Length(Measure::of(place))));
                let is_map = arena.is_kind(place, Kind::Map);
                let is_list = arena.is_kind(place, Kind::List);
                if is_list != Formula::FALSE || is_map != Formula::FALSE {
                    let sized = arena.or([is_list, is_map]);
                    let parts = match structure_keys(arena, place) {
                        Some(parts) => parts,
                        None => vec![Part::each(place, fresh(arena, place, &self.bound)?)],
                    };
                    cases.push((sized, Sym::Size(Rc::from(parts))));
                }
                let known = arena.or([is_text, is_map, is_list]);
                Queried {
                    value: arena.value(cases),
                    failed: arena.not(known),
                }
            }
            Sym::Words(..) => return unsupported("the length of a computed text"),
            _ => failure(),
        })
    }

    fn keys(&mut self, arena: &mut Arena, sym: &Sym) -> Result<Queried> {
        Ok(match sym {
            Sym::Map(entries) => {
                let keys = entries
                    .iter()
                    .map(|(key, _)| Part::One(Formula::TRUE, Value::text(key)));
                Queried::of(Value::of(Sym::List(keys.collect())))
            }
            Sym::At(place) => {
                let place = *place;
                let is_map = arena.is_kind(place, Kind::Map);
                if is_map == Formula::FALSE {
                    return Ok(failure());
                }
                let parts = match structure_keys(arena, place) {
                    Some(parts) => parts,
                    None => {
                        let bound = fresh(arena, place, &self.bound)?;
                        let Some(key) = arena.entry_key(bound) else {
                            return unsupported("the keys of a value of unknown type");
                        };
                        vec![Part::each(place, bound).with(Formula::TRUE, Value::of(Sym::At(key)))]
                    }
                };
                Queried {
                    value: arena.value([(is_map, Sym::List(Rc::from(parts)))]),
                    failed: arena.not(is_map),
                }
            }
            _ => failure(),
        })
    }

    /// `contains` of a list. Go panics if it compares two lists or two maps.
    fn has_member(&mut self, arena: &mut Arena, args: &[Sym]) -> Result<Queried> {
        let [list, wanted] = args else {
            return unsupported("`contains`");
        };
        if !matches!(wanted, Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Null) {
            return unsupported("`contains` of a computed value");
        }
        let parts = match list {
            Sym::List(parts) => parts.to_vec(),
            Sym::At(place) if arena.shape(*place).kinds.is_single() => {
                vec![Part::each(*place, fresh(arena, *place, &self.bound)?)]
            }
            _ => return unsupported("`contains` of a value of unknown type"),
        };
        let mut hits = Vec::new();
        for part in &parts {
            let mut ways = Vec::new();
            for (guard, sym) in &part.value().0 {
                let same = equal(arena, sym, wanted)?;
                ways.push(arena.and([*guard, same]));
            }
            hits.push((part, arena.or(ways)));
        }
        Ok(Queried::of(Value::of(Sym::Bool(arena.count(&hits, 1)))))
    }
}

fn may_be(arena: &Arena, place: Place, kind: Kind) -> bool {
    arena.shape(place).kinds.has(kind)
}

/// The error of a function.
fn failure() -> Queried {
    Queried {
        value: Value(Vec::new()),
        failed: Formula::TRUE,
    }
}

/// The keys of a structure, each if it is there.
pub(super) fn structure_keys(arena: &mut Arena, place: Place) -> Option<Vec<Part>> {
    let Inner::Struct(own) = arena.shape(place).inner else {
        return None;
    };
    let mut parts = Vec::new();
    for name in own.fields() {
        if let Some(field) = arena.field(place, name) {
            parts.push(Part::One(arena.present(field), Value::text(name)));
        }
    }
    Some(parts)
}

/// The pieces of a text; anything but a string is an error of the query.
fn split(arena: &mut Arena, text: Place, separator: &Arc<str>) -> Result<Queried> {
    let mut pieces = split::pieces_of(arena, text, separator)?;
    pieces.0.retain(|(_, sym)| *sym != Sym::Error);
    let is_text = arena.is_kind(text, Kind::Text);
    Ok(Queried {
        value: pieces,
        failed: arena.not(is_text),
    })
}

/// Whether a text has a predicate.
fn tested(arena: &mut Arena, sym: &Sym, predicate: &Predicate) -> Result<Queried> {
    let (place, words) = match sym {
        Sym::Text(text) => return Ok(Queried::of(Value::bool(predicate.holds(text)))),
        Sym::At(place) => (*place, Words::default()),
        Sym::Words(place, words) => (*place, words.clone()),
        _ => return Ok(failure()),
    };
    let is_text = arena.is_kind(place, Kind::Text);
    let holds = arena.text(place, words.before(predicate.clone())?);
    Ok(Queried {
        value: arena.value([(is_text, Sym::Bool(holds))]),
        failed: arena.not(is_text),
    })
}

fn edited(arena: &mut Arena, sym: &Sym, edit: &Edit) -> Result<Queried> {
    let (place, words) = match sym {
        Sym::Text(text) => {
            let text = match edit {
                Edit::GoLower => case::lower(text),
                Edit::GoUpper => case::upper(text),
                Edit::Replaced(old, new) => text.replace(*old, new),
                _ => return unsupported("a text"),
            };
            return Ok(Queried::of(Value::text(&text)));
        }
        Sym::At(place) => (*place, Words::default()),
        Sym::Words(place, words) => (*place, words.clone()),
        _ => return Ok(failure()),
    };
    let is_text = arena.is_kind(place, Kind::Text);
    Ok(Queried {
        value: arena.value([(is_text, Sym::Words(place, words.then(edit.clone())))]),
        failed: arena.not(is_text),
    })
}

fn first_not_null(arena: &mut Arena, args: &[Sym]) -> Value {
    let mut open = Formula::TRUE;
    let mut cases = Vec::new();
    for sym in args {
        let is_null = match sym {
            Sym::Null => Formula::TRUE,
            Sym::At(place) => arena.is_kind(*place, Kind::Null),
            _ => Formula::FALSE,
        };
        let not = arena.not(is_null);
        cases.push((arena.and([open, not]), sym.clone()));
        open = arena.and([open, is_null]);
    }
    cases.push((open, Sym::Null));
    arena.value(cases)
}
