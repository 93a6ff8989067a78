//! Equality, order, membership and sums.
//!
//! Upstream counterpart: cel-go `common/types`, by way of `kyvtest_cel::ops`.

use std::{rc::Rc, sync::Arc};

use super::{Reader, attribute::Found, equal::numeric};
use crate::body::{
    document::unique,
    formula::{Atom, Formula, Place, Step},
    shape::{Inner, Kind, Shape},
    split,
    value::{Edit, Measure, Moment, Part, Result, Sized, Sym, Truth, Value, Words, unsupported},
};

impl Reader<'_, '_> {
    /// `a < b`, or `a <= b`; what has no order is an error.
    pub(super) fn order(&mut self, a: &Sym, b: &Sym, or_equal: bool, name: &str) -> Result<Value> {
        let yes = |truth: Formula| Ok(Value::of(Sym::Bool(truth)));
        match (a, b) {
            (Sym::At(place), Sym::Int(number)) => self.order_at(*place, *number, or_equal, true),
            (Sym::Int(number), Sym::At(place)) => self.order_at(*place, *number, or_equal, false),
            (Sym::At(a), Sym::At(b)) => self.order_places(*a, *b, or_equal, name),
            (Sym::Plus(..), Sym::At(_) | Sym::Plus(..)) | (Sym::At(_), Sym::Plus(..)) => {
                let part = |sym: &Sym| match sym {
                    Sym::Plus(place, number) => (*place, *number),
                    Sym::At(place) => (*place, 0),
                    _ => unreachable!("matched above"),
                };
                let (a, b) = (part(a), part(b));
                let ints = [a.0, b.0].iter().all(|place| {
                    let kinds = self.arena.shape(*place).kinds;
                    kinds.is_single() && kinds.has(Kind::Int)
                });
                if !ints {
                    return unsupported("a sum compared with a value of unknown type");
                }
                let truth = self.integer_order(a, b, or_equal)?;
                yes(truth)
            }
            (Sym::Plus(place, add), Sym::Int(number)) => match number.checked_sub(*add) {
                Some(number) => self.order_at(*place, number, or_equal, true),
                None => unsupported("a sum of large numbers"),
            },
            (Sym::Int(number), Sym::Plus(place, add)) => match number.checked_sub(*add) {
                Some(number) => self.order_at(*place, number, or_equal, false),
                None => unsupported("a sum of large numbers"),
            },
            (Sym::Minus(a, b), Sym::Int(number)) => {
                let truth = self.integer_order((*a, 0), (*b, *number), or_equal)?;
                yes(truth)
            }
            (Sym::Int(number), Sym::Minus(a, b)) => {
                let truth = self.integer_order((*b, *number), (*a, 0), or_equal)?;
                yes(truth)
            }
            (Sym::Moment(a), Sym::Moment(b)) if a.duration == b.duration => {
                let truth = self.moment_order(*a, *b, or_equal)?;
                yes(truth)
            }
            (Sym::Steps(place, steps), Sym::Int(number)) => {
                let Some(least) = number.checked_add(i64::from(or_equal)) else {
                    return yes(Formula::TRUE);
                };
                let reached = self.steps_at_least(*place, *steps, least)?;
                let not = self.arena.not(reached);
                yes(not)
            }
            (Sym::Int(number), Sym::Steps(place, steps)) => {
                let Some(least) = number.checked_add(i64::from(!or_equal)) else {
                    return yes(Formula::FALSE);
                };
                let reached = self.steps_at_least(*place, *steps, least)?;
                yes(reached)
            }
            (Sym::Length(a), Sym::Length(b)) if a.place == b.place => {
                // `a < b` if `b - a` is at least 1.
                let truth = self.longer_by(b, a, i64::from(!or_equal))?;
                yes(truth)
            }
            (Sym::Size(first), Sym::Size(second)) => {
                if let Some(more) = self.more_elements(first, second) {
                    return yes(if or_equal { Formula::TRUE } else { more });
                }
                match self.more_elements(second, first) {
                    Some(more) if or_equal => yes(self.arena.not(more)),
                    Some(_) => yes(Formula::FALSE),
                    None => self.unknown(name, &[a.clone(), b.clone()], boolean()),
                }
            }
            (Sym::Length(_) | Sym::Size(_) | Sym::Offset(_), Sym::Int(number)) => {
                // At most n: not at least n + 1.
                let least = if or_equal { number.checked_add(1) } else { Some(*number) };
                match least {
                    None => yes(Formula::TRUE),
                    Some(least) => {
                        let reached = self.counted(a, least)?;
                        let not = self.arena.not(reached);
                        yes(not)
                    }
                }
            }
            (Sym::Int(number), Sym::Length(_) | Sym::Size(_) | Sym::Offset(_)) => {
                let least = if or_equal { Some(*number) } else { number.checked_add(1) };
                match least {
                    None => yes(Formula::FALSE),
                    Some(least) => {
                        let reached = self.counted(b, least)?;
                        yes(reached)
                    }
                }
            }
            _ => match (numeric(a), numeric(b)) {
                (Some(a), Some(b)) => yes(Formula::of(if or_equal { a <= b } else { a < b })),
                _ => match (a, b) {
                    (Sym::Text(a), Sym::Text(b)) => yes(Formula::of(if or_equal { a <= b } else { a < b })),
                    (Sym::Null | Sym::List(_) | Sym::Map(_) | Sym::Optional(_), _)
                    | (_, Sym::Null | Sym::List(_) | Sym::Map(_) | Sym::Optional(_)) => Ok(Value::error()),
                    _ => self.unknown(name, &[a.clone(), b.clone()], boolean()),
                },
            },
        }
    }

    /// `place < number` (the place first) or `number < place`.
    fn order_at(&mut self, place: Place, number: i64, or_equal: bool, place_first: bool) -> Result<Value> {
        let is_int = self.arena.is_kind(place, Kind::Int);
        let is_double = self.arena.is_kind(place, Kind::Double);
        let int = match (place_first, or_equal) {
            (true, true) => self.arena.at_most(place, number),
            (true, false) => match number.checked_sub(1) {
                Some(less) => self.arena.at_most(place, less),
                None => Formula::FALSE,
            },
            (false, true) => {
                let less = match number.checked_sub(1) {
                    Some(less) => self.arena.at_most(place, less),
                    None => Formula::FALSE,
                };
                self.arena.not(less)
            }
            (false, false) => {
                let most = self.arena.at_most(place, number);
                self.arena.not(most)
            }
        };
        let double = if is_double == Formula::FALSE {
            Formula::FALSE
        } else {
            // `n <= x` is not `x < n`.
            let strict = if place_first { !or_equal } else { or_equal };
            let bound = self
                .arena
                .literal(Atom::Double(place, (number as f64).to_bits(), strict));
            if place_first { bound } else { self.arena.not(bound) }
        };
        let (int_yes, double_yes) = (self.arena.and([is_int, int]), self.arena.and([is_double, double]));
        let yes = self.arena.or([int_yes, double_yes]);
        let (int, double) = (self.arena.not(int), self.arena.not(double));
        let (int_no, double_no) = (self.arena.and([is_int, int]), self.arena.and([is_double, double]));
        let no = self.arena.or([int_no, double_no]);
        Ok(Truth { yes, no }.value(self.arena))
    }

    fn order_places(&mut self, a: Place, b: Place, or_equal: bool, name: &str) -> Result<Value> {
        let int = |reader: &Self, place: Place| {
            let kinds = reader.arena.shape(place).kinds;
            kinds.is_single() && kinds.has(Kind::Int)
        };
        if int(self, a) && int(self, b) {
            let truth = self.integer_order((a, 0), (b, 0), or_equal)?;
            return Ok(Value::of(Sym::Bool(truth)));
        }
        self.unknown(name, &[Sym::At(a), Sym::At(b)], boolean())
    }

    /// Whether a length, size or position is at least a number.
    pub(super) fn counted(&mut self, sym: &Sym, least: i64) -> Result<Formula> {
        if let Sym::Offset(position) = sym {
            return self.begins_at_least(position, least);
        }
        if let Sym::Length(measure) = sym {
            return Ok(self.arena.text(measure.place, measure.at_least(least)));
        }
        let Ok(least) = u32::try_from(least.max(0)) else {
            return unsupported("a size compared with a large number");
        };
        match sym {
            Sym::Size(parts) => {
                if least > 24 {
                    return unsupported("a size compared with a large number");
                }
                let all: Vec<(&Part, Formula)> = parts.iter().map(|part| (part, Formula::TRUE)).collect();
                Ok(self.arena.count(&all, least))
            }
            _ => unsupported("a size"),
        }
    }

    /// That a list has more elements than a part of it that was filtered; `None` if it is not such a part.
    pub(super) fn more_elements(&mut self, small: &[Part], large: &[Part]) -> Option<Formula> {
        if small.len() != large.len() {
            return None;
        }
        let mut dropped = Vec::new();
        for (part, whole) in small.iter().zip(large) {
            let (
                Part::Each {
                    outer,
                    list,
                    bound,
                    keep,
                    ..
                },
                Part::Each {
                    outer: other_outer,
                    list: other_list,
                    bound: other_bound,
                    keep: other_keep,
                    ..
                },
            ) = (part, whole)
            else {
                return None;
            };
            if list != other_list || !outer.is_empty() || !other_outer.is_empty() {
                return None;
            }
            let other_keep = self.arena.substitute(*other_keep, *other_bound, *bound);
            let not_kept = self.arena.not(*keep);
            let other_not = self.arena.not(other_keep);
            if self.arena.and([*keep, other_not]) != Formula::FALSE {
                return None;
            }
            let lost = self.arena.and([other_keep, not_kept]);
            dropped.push(self.arena.at_least(*list, *bound, lost, 1));
        }
        Some(self.arena.or(dropped))
    }

    /// Whether one length of a text is larger than another one of the same text by at least a number.
    pub(super) fn longer_by(&mut self, a: &Measure, b: &Measure, least: i64) -> Result<Formula> {
        let (first, second) = (a.replaced.as_ref(), b.replaced.as_ref());
        let (Some((old, _)), same) = (first.or(second), second.or(first)) else {
            return Ok(Formula::of(a.plus - b.plus >= least));
        };
        if same.is_some_and(|(other, _)| other != old) {
            return unsupported("lengths of a text with different characters replaced");
        }
        // Each occurrence makes the difference larger by `growth`; so many are needed.
        let growth = a.growth() - b.growth();
        let missing = least - (a.plus - b.plus);
        let (count, wanted) = match growth {
            0 => return Ok(Formula::of(missing <= 0)),
            growth if growth > 0 => (
                missing.div_euclid(growth) + i64::from(missing.rem_euclid(growth) > 0),
                true,
            ),
            growth => ((-missing).div_euclid(-growth) + 1, false),
        };
        let reached = match u32::try_from(count) {
            Err(_) | Ok(0) => Formula::of(count <= 0),
            Ok(count) if count < 64 => split::at_least(self.arena, a.place, &old.to_string(), count + 1),
            Ok(_) => return unsupported("a large number of characters"),
        };
        Ok(if wanted { reached } else { self.arena.not(reached) })
    }

    /// `needle in container`
    pub(super) fn contains(&mut self, needle: &Sym, container: &Sym) -> Result<Value> {
        match container {
            Sym::List(parts) => {
                let hit = self.any_equal(needle, parts)?;
                Ok(Value::of(Sym::Bool(hit)))
            }
            Sym::Map(entries) => match needle {
                Sym::Text(text) => Ok(Value::bool(entries.iter().any(|(key, _)| key == text))),
                _ => {
                    let mut hits = Vec::new();
                    for (key, _) in entries.iter() {
                        hits.push(self.equal(needle, &Sym::Text(Arc::clone(key)))?);
                    }
                    let hit = self.arena.or(hits);
                    Ok(Value::of(Sym::Bool(hit)))
                }
            },
            Sym::At(place) => {
                let place = *place;
                let is_list = self.arena.is_kind(place, Kind::List);
                let is_map = self.arena.is_kind(place, Kind::Map);
                let mut yes = Vec::new();
                if is_list != Formula::FALSE {
                    let parts = self.elements(place)?;
                    let hit = self.any_equal(needle, &parts)?;
                    yes.push(self.arena.and([is_list, hit]));
                }
                if is_map != Formula::FALSE {
                    let hit = self.has_key(place, needle)?;
                    yes.push(self.arena.and([is_map, hit]));
                }
                let yes = self.arena.or(yes);
                let container = self.arena.or([is_list, is_map]);
                let not = self.arena.not(yes);
                let no = self.arena.and([container, not]);
                Ok(Truth { yes, no }.value(self.arena))
            }
            Sym::Constant(_) | Sym::Quantity(_) | Sym::Variables => unsupported("`in` a library's value"),
            _ => Ok(Value::error()),
        }
    }

    fn has_key(&mut self, map: Place, needle: &Sym) -> Result<Formula> {
        match needle {
            Sym::Text(key) => Ok(match self.arena.field(map, key) {
                Some(field) => self.arena.present(field),
                None => Formula::FALSE,
            }),
            // Whether it is a map at all was decided before.
            Sym::At(key) if self.arena.shape(map).inner == Inner::Unknown => {
                let kinds = self.arena.shape(*key).kinds;
                match self.arena.has_key(map, *key) {
                    Some(present) if kinds.is_single() && kinds.has(Kind::Text) => Ok(present),
                    _ => unsupported("a key of unknown type `in` a map"),
                }
            }
            Sym::At(key) => {
                let cases = self.symbolic_index(&Sym::At(map), *key)?;
                let mut present = Vec::new();
                for (guard, found) in cases {
                    if matches!(found, Found::Value(_)) {
                        present.push(guard);
                    }
                }
                Ok(self.arena.or(present))
            }
            Sym::Null | Sym::Int(_) | Sym::Bool(_) => Ok(Formula::FALSE),
            _ => unsupported("`in` a map"),
        }
    }

    /// That the key of an element is among those of some elements of the same list, which have different keys: the element is
    /// one of them.
    fn is_own_key(&mut self, needle: &Sym, part: &Part) -> Option<Formula> {
        let (
            Sym::At(own),
            Part::Each {
                outer,
                list,
                bound,
                keep,
                value,
            },
        ) = (needle, part)
        else {
            return None;
        };
        let (element, key) = (self.arena.parent(*own)?, self.arena.step(*own).clone());
        let Step::Field(key) = key else { return None };
        let is_element =
            matches!(self.arena.step(element), Step::Bound(_)) && self.arena.parent(element) == Some(*list);
        let theirs = self.arena.field(*bound, &key)?;
        let is_key = self.arena.present(theirs) == Formula::TRUE && value.single() == Some(&Sym::At(theirs));
        let distinct = element == *bound || !self.arena.mentions(*keep, element);
        if !outer.is_empty() || !is_element || !is_key || !distinct || !unique(self.arena, *list, &key) {
            return None;
        }
        Some(self.arena.substitute(*keep, *bound, element))
    }

    pub(super) fn any_equal(&mut self, needle: &Sym, parts: &[Part]) -> Result<Formula> {
        let mut own = Vec::new();
        let mut hits = Vec::new();
        for part in parts {
            if let Some(hit) = self.is_own_key(needle, part) {
                own.push(hit);
                continue;
            }
            let bounds = part.bounds();
            if bounds.iter().any(|bound| self.bound.contains(bound)) {
                return unsupported("a search in a list within a comprehension over it");
            }
            let before = self.bound.len();
            self.bound.extend(bounds);
            let equal = self.equal_values(&Value::of(needle.clone()), part.value());
            self.bound.truncate(before);
            hits.push((part, equal?));
        }
        own.push(self.arena.count(&hits, 1));
        Ok(self.arena.or(own))
    }

    /// `a + b`
    pub(super) fn add(&mut self, a: &Sym, b: &Sym) -> Result<Value> {
        if super::made::is_made(a) || super::made::is_made(b) {
            return super::made::added(a, b);
        }
        match (a, b) {
            (Sym::Int(a), Sym::Int(b)) => Ok(a.checked_add(*b).map_or(Value::error(), |n| Value::of(Sym::Int(n)))),
            (Sym::Text(a), Sym::Text(b)) => Ok(Value::text(&format!("{a}{b}"))),
            // The sum of two sizes is the size of both lists together.
            (Sym::Size(a), Sym::Size(b)) => {
                let both: Vec<Part> = a.iter().chain(b.iter()).cloned().collect();
                Ok(Value::of(Sym::Size(Rc::from(both))))
            }
            (Sym::Length(measure), Sym::Int(number)) | (Sym::Int(number), Sym::Length(measure))
                if number.unsigned_abs() < 1 << 20 && measure.plus.unsigned_abs() < 1 << 30 =>
            {
                Ok(Value::of(Sym::Length(Measure {
                    plus: measure.plus + number,
                    ..measure.clone()
                })))
            }
            (Sym::Moment(first), Sym::Moment(second)) => {
                let (base, step) = if second.duration {
                    (first, second)
                } else {
                    (second, first)
                };
                let plus = match step {
                    Moment {
                        duration: true,
                        at: None,
                        plus,
                    } => self.moment_plus(*base, *plus),
                    _ => None,
                };
                match plus {
                    Some(value) => Ok(value),
                    None => self.moment("+", &[a.clone(), b.clone()], first.duration && second.duration),
                }
            }
            (Sym::List(_) | Sym::At(_), Sym::List(_)) | (Sym::List(_), Sym::At(_)) => self.join(a, b),
            (Sym::At(first), Sym::At(second)) => {
                let lists = [first, second]
                    .iter()
                    .any(|place| self.arena.shape(**place).kinds.has(Kind::List));
                let texts = [first, second]
                    .iter()
                    .any(|place| self.arena.shape(**place).kinds.has(Kind::Text));
                if lists && !texts {
                    return self.join(a, b);
                }
                self.unknown("+", &[a.clone(), b.clone()], Shape::any())
            }
            (Sym::At(place), Sym::Int(number)) | (Sym::Int(number), Sym::At(place)) => self.plus(*place, *number),
            (Sym::Plus(place, own), Sym::Int(number)) | (Sym::Int(number), Sym::Plus(place, own)) => {
                match own.checked_add(*number) {
                    // The order of the two sums decides about an overflow.
                    Some(sum) if (*own < 0) == (*number < 0) => self.plus(*place, sum),
                    _ => self.unknown("+", &[a.clone(), b.clone()], Shape::any()),
                }
            }
            (Sym::Text(text), Sym::At(place)) => self.words(*place, &Words::default(), text, ""),
            (Sym::At(place), Sym::Text(text)) => self.words(*place, &Words::default(), "", text),
            (Sym::Text(text), Sym::Words(place, words)) => self.words(*place, words, text, ""),
            (Sym::Words(place, words), Sym::Text(text)) => self.words(*place, words, "", text),
            (Sym::Null | Sym::Bool(_) | Sym::Map(_) | Sym::Optional(_), _)
            | (_, Sym::Null | Sym::Bool(_) | Sym::Map(_) | Sym::Optional(_)) => Ok(Value::error()),
            _ => self.unknown("+", &[a.clone(), b.clone()], Shape::any()),
        }
    }

    pub(super) fn subtract(&mut self, a: &Sym, b: &Sym) -> Result<Value> {
        match (a, b) {
            (Sym::Int(a), Sym::Int(b)) => Ok(a.checked_sub(*b).map_or(Value::error(), |n| Value::of(Sym::Int(n)))),
            (Sym::At(place), Sym::Int(number)) if *number != i64::MIN => self.plus(*place, -*number),
            (Sym::Length(_), Sym::Int(number)) if number.unsigned_abs() < 1 << 20 => self.add(a, &Sym::Int(-number)),
            (Sym::At(first), Sym::At(second)) if self.is_small(*first) && self.is_small(*second) => {
                Ok(Value::of(if first == second {
                    Sym::Int(0)
                } else {
                    Sym::Minus(*first, *second)
                }))
            }
            _ => self.unknown("-", &[a.clone(), b.clone()], Shape::any()),
        }
    }

    /// Whether a value is an integer whose differences cannot overflow.
    fn is_small(&self, place: Place) -> bool {
        self.is_within(place, 1 << 60)
    }

    /// Whether a value is an integer that is smaller than a number, its sign aside.
    pub(super) fn is_within(&self, place: Place, limit: i64) -> bool {
        let shape = self.arena.shape(place);
        let small = matches!(shape.inner, Inner::Int(low, high) if low >= -limit && high < limit);
        small && shape.kinds.is_single() && shape.kinds.has(Kind::Int)
    }

    /// An integer of a document plus a constant: an overflow is an error.
    fn plus(&mut self, place: Place, number: i64) -> Result<Value> {
        let kinds = self.arena.shape(place).kinds;
        if !kinds.is_single() || !kinds.has(Kind::Int) {
            return unsupported("a sum with a value of unknown type");
        }
        let fits = if number >= 0 {
            self.arena.at_most(place, i64::MAX - number)
        } else {
            let less = match i64::MIN.checked_sub(number).and_then(|least| least.checked_sub(1)) {
                Some(less) => self.arena.at_most(place, less),
                None => Formula::FALSE,
            };
            self.arena.not(less)
        };
        let overflow = self.arena.not(fits);
        Ok(self
            .arena
            .value([(fits, Sym::Plus(place, number)), (overflow, Sym::Error)]))
    }

    /// A text of a document between two constants.
    fn words(&mut self, place: Place, words: &Words, before: &str, after: &str) -> Result<Value> {
        let is_text = self.arena.is_kind(place, Kind::Text);
        let other = self.arena.not(is_text);
        let edit = Edit::Between(Arc::from(before), Arc::from(after));
        let sym = Sym::Words(place, words.then(edit));
        Ok(self.arena.value([(is_text, sym), (other, Sym::Error)]))
    }

    /// A value all of whose cases are lists, as one list, and when it is one; `None` for any other value.
    pub(super) fn as_list(&mut self, value: &Value) -> Result<Option<(Formula, Vec<Part>)>> {
        let mut fine = Vec::new();
        let mut all = Vec::new();
        for (guard, sym) in &value.0 {
            let parts = match sym {
                Sym::Error => continue,
                Sym::List(parts) => parts.to_vec(),
                Sym::At(place) => {
                    let kinds = self.arena.shape(*place).kinds;
                    if !kinds.is_single() || !kinds.has(Kind::List) {
                        return Ok(None);
                    }
                    self.elements(*place)?
                }
                _ => return Ok(None),
            };
            fine.push(*guard);
            for part in parts {
                let keep = self.arena.and([*guard, part.keep()]);
                all.push(part.with(keep, part.value().clone()));
            }
        }
        Ok(Some((self.arena.or(fine), all)))
    }

    /// The parts of a list, with what must hold for it to be one.
    pub(super) fn parts(&mut self, sym: &Sym) -> Result<Option<(Formula, Vec<Part>)>> {
        Ok(match sym {
            Sym::List(parts) => Some((Formula::TRUE, parts.to_vec())),
            Sym::At(place) => {
                let is_list = self.arena.is_kind(*place, Kind::List);
                if is_list == Formula::FALSE {
                    None
                } else {
                    Some((is_list, self.elements(*place)?))
                }
            }
            _ => None,
        })
    }

    fn join(&mut self, a: &Sym, b: &Sym) -> Result<Value> {
        let (Some((first, left)), Some((second, right))) = (self.parts(a)?, self.parts(b)?) else {
            return Ok(Value::error());
        };
        let fine = self.arena.and([first, second]);
        let error = self.arena.not(fine);
        let joined: Vec<Part> = left.into_iter().chain(right).collect();
        Ok(self
            .arena
            .value([(fine, Sym::List(Rc::from(joined))), (error, Sym::Error)]))
    }

    /// One quantity is at most, or less than, another.
    pub(super) fn quantity_order(&mut self, a: &Sized, b: &Sized, strict: bool) -> Result<Formula> {
        Ok(match (a, b) {
            (Sized::Constant(a), Sized::Constant(b)) => Formula::of(if strict { a.0 < b.0 } else { a.0 <= b.0 }),
            (Sized::At(place), Sized::Constant(amount)) => self.arena.quantity(*place, amount.clone(), strict),
            (Sized::Constant(amount), Sized::At(place)) => {
                // `c <= x` is not `x < c`.
                let less = self.arena.quantity(*place, amount.clone(), !strict);
                self.arena.not(less)
            }
            // `c + x < d` is `x < d - c`, and `c - x < d` is `c - d < x`.
            (Sized::Sum(amount, place, minus), Sized::Constant(bound)) => {
                let at = Sized::At(*place);
                if *minus {
                    self.quantity_order(&Sized::constant(amount.0.sub(&bound.0)), &at, strict)?
                } else {
                    self.quantity_order(&at, &Sized::constant(bound.0.sub(&amount.0)), strict)?
                }
            }
            (Sized::Constant(bound), Sized::Sum(amount, place, minus)) => {
                let at = Sized::At(*place);
                if *minus {
                    self.quantity_order(&at, &Sized::constant(amount.0.sub(&bound.0)), strict)?
                } else {
                    self.quantity_order(&Sized::constant(bound.0.sub(&amount.0)), &at, strict)?
                }
            }
            (Sized::Sum(..), _) | (_, Sized::Sum(..)) => {
                let name = if strict { "quantity <" } else { "quantity <=" };
                let value = self.unknown(name, &[Sym::Quantity(a.clone()), Sym::Quantity(b.clone())], boolean())?;
                self.arena.truth(&value).yes
            }
            (Sized::At(a), Sized::At(b)) if a == b => Formula::of(!strict),
            (Sized::At(a), Sized::At(b)) => {
                // One atom for both directions: `a < b` is not `b <= a`.
                if a < b {
                    self.arena.literal(Atom::QuantityOrder(*a, *b, strict))
                } else {
                    let other = self.arena.literal(Atom::QuantityOrder(*b, *a, !strict));
                    self.arena.not(other)
                }
            }
        })
    }
}

pub(super) fn boolean() -> Shape {
    Shape::of(Kind::Bool, Inner::Unknown)
}
