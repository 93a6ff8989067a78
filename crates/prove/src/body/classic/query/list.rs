//! Lists of queries: projections, filters, flattening, indexes and slices.

use std::rc::Rc;

use kyvtest_jmespath::ast::Node;

use super::{Queried, Reader, fresh, is_false, null_if_missing};
use crate::body::{
    cel::renamed,
    formula::{Arena, Formula},
    shape::Kind,
    split,
    value::{Part, Result, Sym, Value, unsupported},
};

/// How many elements a slice may have.
const SLICE: i64 = 4;

impl Reader<'_, '_, '_> {
    pub(super) fn of_list(&mut self, arena: &mut Arena, node: &Node, at: Option<&Value>) -> Result<Queried> {
        match node {
            Node::Projection(sides) => {
                let left = self.execute(arena, &sides.0, at)?.or_null(arena);
                let projected = self.project(arena, &left.value, |reader, arena, element| {
                    reader.execute(arena, &sides.1, Some(element))
                })?;
                Ok(Queried {
                    failed: arena.or([left.failed, projected.failed]),
                    ..projected
                })
            }
            Node::ValueProjection(sides) => {
                let left = self.execute(arena, &sides.0, at)?.any_or_null(arena);
                let values = self.values(arena, &left)?;
                self.project(arena, &values, |reader, arena, value| {
                    reader.execute(arena, &sides.1, Some(value))
                })
            }
            Node::FilterProjection(parts) => {
                let left = self.execute(arena, &parts.0, at)?.any_or_null(arena);
                self.project(arena, &left, |reader, arena, element| {
                    let condition = reader.execute(arena, &parts.2, Some(element))?.or_null(arena);
                    let mut wanted = Vec::new();
                    for (guard, sym) in &condition.value.0 {
                        let falsy = is_false(arena, sym)?;
                        let truthy = arena.not(falsy);
                        wanted.push(arena.and([*guard, truthy]));
                    }
                    let wanted = arena.or(wanted);
                    let not = arena.not(wanted);
                    let made = reader.execute(arena, &parts.1, Some(element))?;
                    let mut cases = vec![(not, Sym::Null)];
                    for (guard, sym) in made.value.0 {
                        cases.push((arena.and([wanted, guard]), sym));
                    }
                    let later = arena.and([wanted, made.failed]);
                    Ok(Queried {
                        value: arena.value(cases),
                        failed: arena.or([condition.failed, later]),
                    })
                })
            }
            Node::Flatten(inner) => {
                let left = self.execute(arena, inner, at)?.any_or_null(arena);
                self.over(arena, &left, |reader, arena, parts| {
                    let used = reader.bound.clone();
                    let flat = arena.flatten(parts, |arena, list| fresh(arena, list, &used))?;
                    Ok(Queried::of(Value::of(Sym::List(Rc::from(flat)))))
                })
            }
            Node::Index(index) => match (at, u32::try_from(*index)) {
                (Some(value), Ok(position)) if position < 64 => Ok(Queried::of(position_of(arena, value, position)?)),
                _ => unsupported("an index from the end of a list"),
            },
            Node::Slice([start, stop, step]) => match (at, start.unwrap_or(0), stop, step.unwrap_or(1)) {
                (Some(value), 0, Some(count), 1) if (0..=SLICE).contains(count) => {
                    let count = u32::try_from(*count).unwrap_or_default();
                    Ok(Queried::of(first_of(arena, value, count)?))
                }
                _ => unsupported("a slice"),
            },
            _ => unsupported("a query"),
        }
    }

    /// The values of a map as a list, in no order; anything else becomes null.
    fn values(&mut self, arena: &mut Arena, value: &Value) -> Result<Value> {
        arena.each(value, |arena, sym| {
            let parts = match sym {
                Sym::Map(entries) => {
                    let values = entries.iter().map(|(_, value)| Part::One(Formula::TRUE, value.clone()));
                    values.collect()
                }
                Sym::At(place) => {
                    let kinds = arena.shape(*place).kinds;
                    if !kinds.has(Kind::Map) {
                        return Ok(Value::of(Sym::Null));
                    }
                    if !kinds.is_single() || arena.shape(*place).entry().is_none() {
                        return unsupported("the values of a structure, or of a value of unknown type");
                    }
                    let bound = fresh(arena, *place, &self.bound)?;
                    let Some(value) = arena.entry_value(bound) else {
                        return unsupported("the values of a structure");
                    };
                    vec![Part::each(*place, bound).with(Formula::TRUE, Value::of(Sym::At(value)))]
                }
                _ => return Ok(Value::of(Sym::Null)),
            };
            Ok(Value::of(Sym::List(Rc::from(parts))))
        })
    }

    /// Does something with each list that a value may be; anything but a list becomes null.
    fn over(
        &mut self,
        arena: &mut Arena,
        value: &Value,
        mut apply: impl FnMut(&mut Self, &mut Arena, &[Part]) -> Result<Queried>,
    ) -> Result<Queried> {
        // Lists in several cases are one list of which each part is there in its case.
        let mut all = Vec::new();
        let mut lists = Vec::new();
        for (guard, sym) in &value.0 {
            let (is_list, parts) = match sym {
                Sym::List(parts) => (*guard, parts.to_vec()),
                Sym::At(place) if arena.shape(*place).kinds.has(Kind::List) => {
                    let is_list = arena.is_kind(*place, Kind::List);
                    let bound = fresh(arena, *place, &self.bound)?;
                    (arena.and([*guard, is_list]), vec![Part::each(*place, bound)])
                }
                _ => continue,
            };
            lists.push(is_list);
            for part in parts {
                let part = renamed(arena, &part, &self.bound)?;
                let keep = arena.and([is_list, part.keep()]);
                all.push(part.with(keep, part.value().clone()));
            }
        }
        let is_list = arena.or(lists);
        let other = arena.not(is_list);
        let found = apply(self, arena, &all)?;
        let mut cases = vec![(other, Sym::Null)];
        for (guard, sym) in found.value.0 {
            cases.push((arena.and([is_list, guard]), sym));
        }
        Ok(Queried {
            value: arena.value(cases),
            failed: arena.and([is_list, found.failed]),
        })
    }

    /// What is made of each element; nulls are left out.
    fn project(
        &mut self,
        arena: &mut Arena,
        value: &Value,
        mut make: impl FnMut(&mut Self, &mut Arena, &Value) -> Result<Queried>,
    ) -> Result<Queried> {
        self.over(arena, value, |reader, arena, parts| {
            let mut made = Vec::new();
            let mut failures = Vec::new();
            for part in parts {
                let before = reader.bound.len();
                reader.bound.extend(part.bounds());
                let found = make(reader, arena, part.value());
                reader.bound.truncate(before);
                let found = found?;
                let mut kept = Vec::new();
                let mut there = Vec::new();
                for (guard, sym) in null_if_missing(arena, &found.value).0 {
                    let guard = match &sym {
                        Sym::Null => continue,
                        Sym::At(place) => {
                            let is_null = arena.is_kind(*place, Kind::Null);
                            let not = arena.not(is_null);
                            arena.and([guard, not])
                        }
                        _ => guard,
                    };
                    there.push(guard);
                    kept.push((guard, sym));
                }
                failures.push((part, found.failed));
                let there = arena.or(there);
                let keep = arena.and([part.keep(), there]);
                if keep != Formula::FALSE {
                    made.push(part.with(keep, Value(kept)));
                }
            }
            let failed = arena.count(&failures, 1);
            Ok(Queried {
                value: Value::of(Sym::List(Rc::from(made))),
                failed,
            })
        })
    }
}

/// `x[n]`: null where there is no such element.
fn position_of(arena: &mut Arena, value: &Value, position: u32) -> Result<Value> {
    arena.each(value, |arena, sym| match sym {
        Sym::Error => Ok(Value::error()),
        Sym::At(place) => {
            let place = *place;
            if let Some((text, separator)) = arena.split_of(place) {
                let there = split::at_least(arena, text, &separator, position + 1);
                let absent = arena.not(there);
                let piece = split::piece(text, &separator, position);
                return Ok(arena.value([(there, piece), (absent, Sym::Null)]));
            }
            let is_list = arena.is_kind(place, Kind::List);
            if is_list == Formula::FALSE {
                return Ok(Value::of(Sym::Null));
            }
            let Some(bound) = arena.bound(place, 0) else {
                return unsupported("an index into a structure");
            };
            let long = arena.at_least(place, bound, Formula::TRUE, position + 1);
            let item = arena.item(place, position);
            let there = arena.and([is_list, long]);
            let absent = arena.not(there);
            Ok(arena.value([(there, Sym::At(item)), (absent, Sym::Null)]))
        }
        Sym::List(parts) => {
            let certain = parts.iter().all(|part| matches!(part, Part::One(Formula::TRUE, _)));
            if !certain {
                return unsupported("an index into a computed list");
            }
            Ok(match parts.get(position as usize) {
                Some(part) => part.value().clone(),
                None => Value::of(Sym::Null),
            })
        }
        _ => Ok(Value::of(Sym::Null)),
    })
}

/// `x[:n]`: the first elements; null if there is no list.
fn first_of(arena: &mut Arena, value: &Value, count: u32) -> Result<Value> {
    arena.each(value, |arena, sym| match sym {
        Sym::At(place) if arena.shape(*place).kinds.is_single() && arena.shape(*place).kinds.has(Kind::List) => {
            let Some(bound) = arena.bound(*place, 0) else {
                return unsupported("a slice of a structure");
            };
            let mut parts = Vec::new();
            for position in 0..count {
                let there = arena.at_least(*place, bound, Formula::TRUE, position + 1);
                let item = arena.item(*place, position);
                parts.push(Part::One(there, Value::of(Sym::At(item))));
            }
            Ok(Value::of(Sym::List(Rc::from(parts))))
        }
        Sym::Error => Ok(Value::error()),
        Sym::Null => Ok(Value::of(Sym::Null)),
        _ => unsupported("a slice"),
    })
}
