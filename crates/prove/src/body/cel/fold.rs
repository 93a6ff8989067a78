//! Comprehensions over lists and maps of any size.
//!
//! Upstream counterpart: cel-go `evalFold`, by way of `kyvtest_cel::fold`. A quantifier becomes statements that at least some
//! number of elements has a property; nothing is said about how many elements there are.

use std::rc::Rc;

use kyvtest_cel::program::{Fold, FoldKind, NodeId};

use super::{Reader, Seconds};
use crate::body::{
    changed::{Changed, Entry, Piece},
    formula::{Arena, Formula, Place},
    shape::{Inner, Kind, Shape},
    value::{Measure, Moment, Offset, Part, Result, Sym, Truth, Value, unsupported},
};

impl<'a> Reader<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Value> {
        let range = self.read(fold.range)?;
        if range.0.len() > 1
            && let Some((fine, parts)) = self.as_list(&range)?
        {
            let value = self.over(fold, &parts)?;
            let error = self.arena.not(fine);
            let mut cases = vec![(error, Sym::Error)];
            for (own, sym) in value.0 {
                cases.push((self.arena.and([fine, own]), sym));
            }
            return Ok(self.arena.value(cases));
        }
        self.each(&range, |reader, sym| match sym {
            Sym::At(place) => {
                let place = *place;
                let is_list = reader.arena.is_kind(place, Kind::List);
                let is_map = reader.arena.is_kind(place, Kind::Map);
                let container = reader.arena.or([is_list, is_map]);
                let neither = reader.arena.not(container);
                let mut cases = vec![(neither, Sym::Error)];
                for (guard, is_a_map) in [(is_list, false), (is_map, true)] {
                    if guard == Formula::FALSE {
                        continue;
                    }
                    let value = if let Some(parts) = reader.structure_keys(place) {
                        reader.over(fold, &parts)?
                    } else if is_a_map && is_list != Formula::FALSE {
                        reader.anything(place)?
                    } else if is_a_map {
                        reader.over_map(fold, place)?
                    } else {
                        reader.over_list(fold, place)?
                    };
                    for (own, sym) in value.0 {
                        cases.push((reader.arena.and([guard, own]), sym));
                    }
                }
                Ok(reader.arena.value(cases))
            }
            Sym::List(parts) => reader.over(fold, parts),
            Sym::Map(entries) => {
                let mut parts = Vec::new();
                for (key, _) in entries.iter() {
                    parts.push(Part::One(Formula::TRUE, Value::of(Sym::Text(key.clone()))));
                }
                let outer = reader.seconds.replace(Seconds::Entries(Rc::clone(entries)));
                let value = reader.run(fold, &parts);
                reader.seconds = outer;
                value
            }
            Sym::Constant(_) | Sym::Quantity(_) => unsupported("a comprehension over a library's value"),
            Sym::Changed(_) => unsupported("a comprehension over a changed map"),
            _ => Ok(Value::error()),
        })
    }

    /// The result of a comprehension over a map that might as well be a list: a separate value of which nothing is known.
    fn anything(&mut self, map: Place) -> Result<Value> {
        let name = format!("comprehension {}", self.arena.places().count());
        let mut args = vec![Sym::At(map)];
        args.extend(self.bound.iter().map(|bound| Sym::At(*bound)));
        self.unknown(&name, &args, Shape::any())
    }

    /// The keys of a structure, each if it is there.
    fn structure_keys(&mut self, place: Place) -> Option<Vec<Part>> {
        let Inner::Struct(own) = self.arena.shape(place).inner else {
            return None;
        };
        let mut parts = Vec::new();
        for name in own.fields() {
            if let Some(field) = self.arena.field(place, name) {
                let present = self.arena.present(field);
                parts.push(Part::One(present, Value::text(name)));
            }
        }
        Some(parts)
    }

    /// The elements of a list of a document, under a name that no quantifier around uses.
    pub(super) fn elements(&mut self, list: Place) -> Result<Vec<Part>> {
        let bound = self.fresh(list)?;
        Ok(self.arena.elements_of(list, bound))
    }

    pub(super) fn fresh(&mut self, list: Place) -> Result<Place> {
        for number in 0..16 {
            match self.arena.bound(list, number) {
                Some(bound) if !self.bound.contains(&bound) => return Ok(bound),
                Some(_) => {}
                None => return unsupported("a comprehension over a structure"),
            }
        }
        unsupported("comprehensions are nested too deeply")
    }

    /// Folds over the entries of a map of a document.
    fn over_map(&mut self, fold: &'a Fold, map: Place) -> Result<Value> {
        let bound = self.fresh(map)?;
        let (Some(key), Some(value)) = (self.arena.entry_key(bound), self.arena.entry_value(bound)) else {
            return unsupported("a comprehension over a structure");
        };
        if let Some(second) = fold.second {
            self.slots[second.0 as usize] = Some(Value::of(Sym::At(value)));
        }
        let part = Part::each(map, bound).with(Formula::TRUE, Value::of(Sym::At(key)));
        self.run(fold, &[part])
    }

    /// Folds over the elements of a list of a document, with their positions if the number of elements is limited.
    fn over_list(&mut self, fold: &'a Fold, list: Place) -> Result<Value> {
        let parts = self.elements(list)?;
        if fold.second.is_some() && self.arena.limit().is_none() {
            return self.with_positions(fold, &parts);
        }
        if fold.second.is_none() {
            return self.over(fold, &parts);
        }
        let mut positions = Vec::new();
        for (position, part) in (0i64..).zip(&parts) {
            positions.push(part.with(part.keep(), Value::of(Sym::Int(position))));
        }
        let outer = self.seconds.replace(Seconds::Items(list));
        let value = self.run(fold, &positions);
        self.seconds = outer;
        value
    }

    /// The value of a comprehension's second variable, if that depends on the first one.
    fn second(&mut self, first: &Sym) -> Option<Value> {
        if let Sym::Position(_, element) = first {
            return Some((**element).clone());
        }
        match (self.seconds.as_ref()?, first) {
            (Seconds::Items(list), Sym::Int(position)) => {
                let list = *list;
                let item = self.arena.item(list, u32::try_from(*position).ok()?);
                Some(Value::of(Sym::At(item)))
            }
            (Seconds::Entries(entries), Sym::Text(key)) => {
                let (_, value) = entries.iter().find(|(own, _)| own == key)?;
                Some(value.clone())
            }
            _ => None,
        }
    }

    fn over(&mut self, fold: &'a Fold, parts: &[Part]) -> Result<Value> {
        if fold.second.is_some() {
            return self.with_positions(fold, parts);
        }
        let mut own = Vec::new();
        for part in parts {
            own.push(renamed(self.arena, part, &self.bound)?);
        }
        self.run(fold, &own)
    }

    pub(super) fn run(&mut self, fold: &'a Fold, parts: &[Part]) -> Result<Value> {
        match &fold.kind {
            FoldKind::All(body) => {
                let truths = self.bodies(fold, parts, *body)?;
                let no = self.at_least(parts, &truths, 1, |_, truth| truth.no);
                // What is neither true nor false is an error.
                let bad = self.at_least(parts, &truths, 1, |arena, truth| arena.not(truth.yes));
                let yes = self.arena.not(bad);
                Ok(Truth { yes, no }.value(self.arena))
            }
            FoldKind::Exists(body) => {
                let truths = self.bodies(fold, parts, *body)?;
                let yes = self.at_least(parts, &truths, 1, |_, truth| truth.yes);
                let open = self.at_least(parts, &truths, 1, |arena, truth| arena.not(truth.no));
                let no = self.arena.not(open);
                Ok(Truth { yes, no }.value(self.arena))
            }
            FoldKind::ExistsOne(body) => {
                let truths = self.bodies(fold, parts, *body)?;
                let one = self.at_least(parts, &truths, 1, |_, truth| truth.yes);
                let two = self.at_least(parts, &truths, 2, |_, truth| truth.yes);
                let error = self.at_least(parts, &truths, 1, |arena, truth| truth.error(arena));
                let (fine, single) = (self.arena.not(error), self.arena.not(two));
                let yes = self.arena.and([fine, one, single]);
                let not_one = self.arena.not(yes);
                let no = self.arena.and([fine, not_one]);
                Ok(Truth { yes, no }.value(self.arena))
            }
            FoldKind::Map { transform, filter, .. } => self.mapped(fold, parts, *transform, *filter),
            FoldKind::General { .. } => unsupported("a comprehension that is not a standard macro"),
        }
    }

    /// The formula is true of at least N elements.
    fn at_least(
        &mut self,
        parts: &[Part],
        truths: &[Truth],
        count: u32,
        mut formula: impl FnMut(&mut Arena, &Truth) -> Formula,
    ) -> Formula {
        let mut true_of = Vec::new();
        for (part, truth) in parts.iter().zip(truths) {
            true_of.push((part, formula(self.arena, truth)));
        }
        self.arena.count(&true_of, count)
    }

    /// Reads an expression with the fold's variable set to the element of a part.
    fn with_element<T>(&mut self, fold: &Fold, part: &Part, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.bound.len();
        self.bound.extend(part.bounds());
        let slot = fold.variable.0 as usize;
        let outer = self.slots[slot].replace(part.value().clone());
        if let (Some(second), Some(first)) = (fold.second, part.value().single())
            && let Some(value) = self.second(first)
        {
            self.slots[second.0 as usize] = Some(value);
        }
        let result = read(self);
        self.slots[slot] = outer;
        self.bound.truncate(before);
        result
    }

    fn bodies(&mut self, fold: &Fold, parts: &[Part], body: NodeId) -> Result<Vec<Truth>> {
        parts
            .iter()
            .map(|part| self.with_element(fold, part, |reader| reader.truth_of(body)))
            .collect()
    }

    /// `map` and `filter`: an error in any element is an error of the whole.
    fn mapped(&mut self, fold: &Fold, parts: &[Part], transform: NodeId, filter: Option<NodeId>) -> Result<Value> {
        let mut made = Vec::new();
        let mut errors = Vec::new();
        for part in parts {
            let (condition, value) = self.with_element(fold, part, |reader| {
                let condition = match filter {
                    Some(filter) => reader.truth_of(filter)?,
                    None => Truth::YES,
                };
                Ok((condition, reader.read(transform)?))
            })?;
            let mut kept = Vec::new();
            let mut failed = vec![condition.error(self.arena)];
            for (guard, sym) in value.0 {
                if sym == Sym::Error {
                    failed.push(self.arena.and([condition.yes, guard]));
                } else {
                    kept.push((guard, sym));
                }
            }
            let failed = self.arena.or(failed);
            errors.push((part, failed));
            let keep = self.arena.and([part.keep(), condition.yes]);
            made.push(part.with(keep, Value(kept)));
        }
        let error = self.arena.count(&errors, 1);
        let fine = self.arena.not(error);
        Ok(self
            .arena
            .value([(fine, Sym::List(Rc::from(made))), (error, Sym::Error)]))
    }

    /// A list, or a map, of a document has at least N elements.
    pub(super) fn size_at_least(&mut self, list: Place, count: u32) -> Result<Formula> {
        let Some(bound) = self.arena.bound(list, 0) else {
            return unsupported("the size of a structure");
        };
        Ok(self.arena.at_least(list, bound, Formula::TRUE, count))
    }
}

/// A part about elements under names that are not in use.
pub(in crate::body) fn renamed(arena: &mut Arena, part: &Part, used: &[Place]) -> Result<Part> {
    let mut part = part.clone();
    let mut taken = used.to_vec();
    let Part::Each { outer, .. } = &part else {
        return Ok(part);
    };
    for at in 0..=outer.len() {
        let own = part.bounds()[at];
        if !taken.contains(&own) {
            taken.push(own);
            continue;
        }
        let Part::Each {
            outer,
            list,
            bound,
            keep,
            value,
        } = part
        else {
            return Ok(part);
        };
        let of = outer.get(at).map_or(list, |(list, _)| *list);
        let others: Vec<Place> = outer.iter().map(|(_, bound)| *bound).chain([bound]).collect();
        let free = |place: &Place| !taken.contains(place) && !others.contains(place);
        let Some(fresh) = (0..32).filter_map(|number| arena.bound(of, number)).find(free) else {
            return unsupported("comprehensions are nested too deeply");
        };
        let mut chain = Vec::new();
        for (number, (list, bound)) in outer.iter().copied().chain([(list, bound)]).enumerate() {
            let list = if number > at {
                arena.move_place(list, own, fresh)
            } else {
                list
            };
            let bound = match number.cmp(&at) {
                std::cmp::Ordering::Less => bound,
                std::cmp::Ordering::Equal => fresh,
                std::cmp::Ordering::Greater => arena.move_place(bound, own, fresh),
            };
            chain.push((list, bound));
        }
        let Some((list, bound)) = chain.pop() else {
            return unsupported("a list");
        };
        part = Part::Each {
            outer: Rc::from(chain),
            list,
            bound,
            keep: arena.substitute(keep, own, fresh),
            value: substitute(arena, &value, own, fresh),
        };
        taken.push(fresh);
    }
    Ok(part)
}

/// A value about another element.
pub(in crate::body) fn substitute(arena: &mut Arena, value: &Value, from: Place, to: Place) -> Value {
    let mut cases = Vec::new();
    for (guard, sym) in &value.0 {
        let guard = arena.substitute(*guard, from, to);
        let sym = match sym {
            Sym::Bool(truth) => Sym::Bool(arena.substitute(*truth, from, to)),
            Sym::At(place) => Sym::At(arena.move_place(*place, from, to)),
            Sym::Plus(place, number) => Sym::Plus(arena.move_place(*place, from, to), *number),
            Sym::Minus(a, b) => Sym::Minus(arena.move_place(*a, from, to), arena.move_place(*b, from, to)),
            Sym::Words(place, words) => Sym::Words(arena.move_place(*place, from, to), words.clone()),
            Sym::Length(measure) => Sym::Length(Measure {
                place: arena.move_place(measure.place, from, to),
                ..measure.clone()
            }),
            Sym::Offset(position) => Sym::Offset(Rc::new(Offset {
                place: arena.move_place(position.place, from, to),
                ..(**position).clone()
            })),
            Sym::Steps(place, steps) => Sym::Steps(arena.move_place(*place, from, to), *steps),
            Sym::Moment(moment) => Sym::Moment(Moment {
                at: moment.at.map(|place| arena.move_place(place, from, to)),
                ..*moment
            }),
            Sym::Quantity(super::super::value::Sized::At(place)) => {
                Sym::Quantity(super::super::value::Sized::At(arena.move_place(*place, from, to)))
            }
            Sym::Quantity(super::super::value::Sized::Sum(amount, place, minus)) => {
                let place = arena.move_place(*place, from, to);
                Sym::Quantity(super::super::value::Sized::Sum(amount.clone(), place, *minus))
            }
            Sym::Optional(Some(inner)) => Sym::Optional(Some(Rc::new(substitute(arena, inner, from, to)))),
            Sym::Map(entries) => {
                let mut made = Vec::new();
                for (key, value) in entries.iter() {
                    made.push((key.clone(), substitute(arena, value, from, to)));
                }
                Sym::Map(Rc::from(made))
            }
            Sym::Changed(changed) => {
                let base = changed.base.map(|base| arena.move_place(base, from, to));
                let mut made = Changed {
                    base,
                    type_name: changed.type_name.clone(),
                    entries: Vec::new(),
                };
                for (key, entry) in &changed.entries {
                    let entry = Entry {
                        present: arena.substitute(entry.present, from, to),
                        value: substitute(arena, &entry.value, from, to),
                    };
                    made.entries.push((key.clone(), entry));
                }
                Sym::Changed(Rc::new(made))
            }
            Sym::Position(bound, element) => {
                let bound = arena.move_place(*bound, from, to);
                Sym::Position(bound, Rc::new(substitute(arena, element, from, to)))
            }
            Sym::Pointer(pieces) => {
                let pieces = pieces.iter().map(|piece| match piece {
                    Piece::Position(bound) => Piece::Position(arena.move_place(*bound, from, to)),
                    Piece::Text(_) => piece.clone(),
                });
                Sym::Pointer(pieces.collect())
            }
            Sym::List(parts) => Sym::List(substitute_parts(arena, parts, from, to)),
            Sym::Size(parts) => Sym::Size(substitute_parts(arena, parts, from, to)),
            other => other.clone(),
        };
        cases.push((guard, sym));
    }
    Value(cases)
}

fn substitute_parts(arena: &mut Arena, parts: &[Part], from: Place, to: Place) -> Rc<[Part]> {
    let mut made = Vec::new();
    for part in parts {
        made.push(match part {
            Part::One(keep, value) => Part::One(arena.substitute(*keep, from, to), substitute(arena, value, from, to)),
            Part::Each { .. } if part.bounds().contains(&from) => part.clone(),
            Part::Each {
                outer,
                list,
                bound,
                keep,
                value,
            } => Part::Each {
                outer: outer
                    .iter()
                    .map(|(list, bound)| (arena.move_place(*list, from, to), arena.move_place(*bound, from, to)))
                    .collect(),
                list: arena.move_place(*list, from, to),
                bound: arena.move_place(*bound, from, to),
                keep: arena.substitute(*keep, from, to),
                value: substitute(arena, value, from, to),
            },
        });
    }
    Rc::from(made)
}
