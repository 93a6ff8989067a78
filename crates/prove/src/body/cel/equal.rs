//! Equality of values of any types.
//!
//! Upstream counterpart: `Equal` of cel-go `common/types`, by way of `kyvtest_cel::val`.

use std::{rc::Rc, sync::Arc};

use super::{Reader, call::TYPE, compare::boolean, fold::substitute};
use crate::body::{
    formula::{Atom, Formula, Place},
    shape::Kind,
    text::Predicate,
    value::{Part, Result, Sym, Value, unsupported},
};

impl Reader<'_, '_> {
    /// Whether two values are equal; neither is an error.
    pub(super) fn equal(&mut self, a: &Sym, b: &Sym) -> Result<Formula> {
        match (a, b) {
            (Sym::Bool(a), Sym::Bool(b)) => {
                let not = self.arena.not(*b);
                Ok(self.arena.choose(*a, *b, not))
            }
            (Sym::At(a), Sym::At(b)) => self.equal_places(*a, *b),
            (Sym::At(place), other) | (other, Sym::At(place)) => self.equal_at(*place, other),
            (Sym::Words(place, words), Sym::Text(text)) | (Sym::Text(text), Sym::Words(place, words)) => {
                let predicate = words.before(Predicate::Is(Arc::clone(text)))?;
                Ok(self.arena.text(*place, predicate))
            }
            (Sym::Words(a, first), Sym::Words(b, second)) if a == b && first == second => Ok(Formula::TRUE),
            (Sym::Plus(place, add), Sym::Int(number)) | (Sym::Int(number), Sym::Plus(place, add)) => {
                let Some(number) = number.checked_sub(*add) else {
                    return Ok(Formula::FALSE);
                };
                self.integer_is(*place, number)
            }
            (Sym::Plus(a, first), Sym::Plus(b, second)) => self.integers_equal((*a, *first), (*b, *second)),
            (Sym::Minus(a, b), Sym::Int(number)) | (Sym::Int(number), Sym::Minus(a, b)) => {
                self.integers_equal((*a, 0), (*b, *number))
            }
            (Sym::Length(a), Sym::Length(b)) if a.place == b.place => {
                let (less, more) = (self.longer_by(b, a, 0)?, self.longer_by(a, b, 0)?);
                Ok(self.arena.and([less, more]))
            }
            (Sym::Size(first), Sym::Size(second)) => {
                let more = match self.more_elements(first, second) {
                    Some(more) => Some(more),
                    None => self.more_elements(second, first),
                };
                match more {
                    Some(more) => Ok(self.arena.not(more)),
                    None => {
                        let value = self.unknown("==", &[a.clone(), b.clone()], boolean())?;
                        Ok(self.arena.truth(&value).yes)
                    }
                }
            }
            (Sym::Length(_) | Sym::Size(_) | Sym::Offset(_), Sym::Int(number))
            | (Sym::Int(number), Sym::Length(_) | Sym::Size(_) | Sym::Offset(_)) => {
                let counted = if matches!(a, Sym::Int(_)) { b } else { a };
                let Some(next) = number.checked_add(1) else {
                    return Ok(Formula::FALSE);
                };
                let (least, more) = (self.counted(counted, *number)?, self.counted(counted, next)?);
                let not = self.arena.not(more);
                Ok(self.arena.and([least, not]))
            }
            (Sym::List(a), Sym::List(b)) => self.equal_lists(a, b),
            (Sym::Optional(a), Sym::Optional(b)) => match (a, b) {
                (None, None) => Ok(Formula::TRUE),
                (Some(a), Some(b)) => self.equal_values(a, b),
                _ => Ok(Formula::FALSE),
            },
            (Sym::Map(a), Sym::Map(b)) => {
                if a.len() != b.len() {
                    return Ok(Formula::FALSE);
                }
                let mut all = Vec::new();
                for (key, value) in a.iter() {
                    match b.iter().find(|(other, _)| other == key) {
                        Some((_, other)) => all.push(self.equal_values(value, other)?),
                        None => return Ok(Formula::FALSE),
                    }
                }
                Ok(self.arena.and(all))
            }
            (Sym::Moment(a), Sym::Moment(b)) => self.moments_equal(*a, *b),
            (Sym::Steps(place, steps), Sym::Int(number)) | (Sym::Int(number), Sym::Steps(place, steps)) => {
                let Some(next) = number.checked_add(1) else {
                    return Ok(Formula::FALSE);
                };
                let least = self.steps_at_least(*place, *steps, *number)?;
                let more = self.steps_at_least(*place, *steps, next)?;
                let not = self.arena.not(more);
                Ok(self.arena.and([least, not]))
            }
            (Sym::Quantity(a), Sym::Quantity(b)) => {
                let (less, more) = (self.quantity_order(a, b, false)?, self.quantity_order(b, a, false)?);
                Ok(self.arena.and([less, more]))
            }
            (Sym::Constant(a), Sym::Constant(b)) if [a, b].iter().all(|name| name.starts_with(TYPE)) => {
                Ok(Formula::of(a == b))
            }
            _ if numeric(a).is_some() && numeric(b).is_some() => Ok(Formula::of(numeric(a) == numeric(b))),
            _ if is_plain(a) && is_plain(b) => Ok(Formula::of(a == b)),
            _ if rank(a) != rank(b) && is_known_type(a) && is_known_type(b) => Ok(Formula::FALSE),
            _ => {
                let value = self.unknown("==", &[a.clone(), b.clone()], boolean())?;
                Ok(self.arena.truth(&value).yes)
            }
        }
    }

    pub(super) fn equal_values(&mut self, a: &Value, b: &Value) -> Result<Formula> {
        let mut all = Vec::new();
        for (first, left) in &a.0 {
            for (second, right) in &b.0 {
                let equal = self.equal(left, right)?;
                all.push(self.arena.and([*first, *second, equal]));
            }
        }
        Ok(self.arena.or(all))
    }

    fn equal_lists(&mut self, a: &Rc<[Part]>, b: &Rc<[Part]>) -> Result<Formula> {
        let plain = |parts: &Rc<[Part]>| -> Option<Vec<Value>> {
            let values = parts.iter().map(|part| match part {
                Part::One(Formula::TRUE, value) => Some(value.clone()),
                _ => None,
            });
            values.collect()
        };
        let whole = |parts: &Rc<[Part]>| match &**parts {
            [part] => part.all_of(),
            _ => None,
        };
        match (plain(a), plain(b), whole(a), whole(b)) {
            (Some(a), Some(b), _, _) => {
                if a.len() != b.len() {
                    return Ok(Formula::FALSE);
                }
                let mut all = Vec::new();
                for (a, b) in a.iter().zip(&b) {
                    all.push(self.equal_values(a, b)?);
                }
                Ok(self.arena.and(all))
            }
            (None, Some(values), Some(list), None) | (Some(values), None, None, Some(list)) => {
                self.list_is(list, &values)
            }
            (None, None, Some(a), Some(b)) => self.equal_places(a, b),
            // A computed list is empty if nothing is kept.
            (None, Some(values), _, _) if values.is_empty() => {
                let some = self.counted(&Sym::Size(Rc::clone(a)), 1)?;
                Ok(self.arena.not(some))
            }
            (Some(values), None, _, _) if values.is_empty() => {
                let some = self.counted(&Sym::Size(Rc::clone(b)), 1)?;
                Ok(self.arena.not(some))
            }
            (None, Some(values), _, _) => self.computed_list_is(a, &values),
            (Some(values), None, _, _) => self.computed_list_is(b, &values),
            _ => unsupported("an equality of computed lists"),
        }
    }

    /// Whether a list of a document has exactly these elements.
    fn list_is(&mut self, list: Place, values: &[Value]) -> Result<Formula> {
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let (least, more) = (self.size_at_least(list, count)?, self.size_at_least(list, count + 1)?);
        let mut all = vec![least, self.arena.not(more)];
        for (position, value) in values.iter().enumerate() {
            let item = self.arena.item(list, u32::try_from(position).unwrap_or(u32::MAX));
            all.push(self.equal_values(&Value::of(Sym::At(item)), value)?);
        }
        Ok(self.arena.and(all))
    }

    /// Whether a list with one element for each of a list of a document is a list of these values.
    fn computed_list_is(&mut self, parts: &[Part], values: &[Value]) -> Result<Formula> {
        let [part] = parts else {
            return unsupported("an equality of computed lists");
        };
        let Some((list, bound, made)) = part.of_all() else {
            return unsupported("an equality of computed lists");
        };
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let (least, more) = (self.size_at_least(list, count)?, self.size_at_least(list, count + 1)?);
        let mut all = vec![least, self.arena.not(more)];
        for (position, value) in (0..).zip(values) {
            let item = self.arena.item(list, position);
            let own = substitute(self.arena, made, bound, item);
            all.push(self.equal_values(&own, value)?);
        }
        Ok(self.arena.and(all))
    }

    fn equal_at(&mut self, place: Place, other: &Sym) -> Result<Formula> {
        let is = |reader: &mut Self, kind: Kind| reader.arena.is_kind(place, kind);
        Ok(match other {
            Sym::Null => is(self, Kind::Null),
            Sym::Bool(truth) => {
                let (is_bool, own) = (is(self, Kind::Bool), self.arena.is_true(place));
                let not = self.arena.not(*truth);
                let same = self.arena.choose(own, *truth, not);
                self.arena.and([is_bool, same])
            }
            Sym::Int(number) => {
                let (is_int, is_double) = (is(self, Kind::Int), is(self, Kind::Double));
                let equal = self.integer_is(place, *number)?;
                let double = self.double_is(place, *number as f64);
                let (int, double) = (self.arena.and([is_int, equal]), self.arena.and([is_double, double]));
                self.arena.or([int, double])
            }
            Sym::Uint(number) => match i64::try_from(*number) {
                Ok(number) => self.equal_at(place, &Sym::Int(number))?,
                Err(_) => return unsupported("a large unsigned number"),
            },
            Sym::Double(number) => {
                let (is_int, is_double) = (is(self, Kind::Int), is(self, Kind::Double));
                let whole = *number as i64;
                let int = if whole as f64 == *number && number.abs() < 9e15 {
                    self.integer_is(place, whole)?
                } else {
                    Formula::FALSE
                };
                let double = self.double_is(place, *number);
                let (int, double) = (self.arena.and([is_int, int]), self.arena.and([is_double, double]));
                self.arena.or([int, double])
            }
            Sym::Text(text) => {
                let is_text = is(self, Kind::Text);
                let equal = self.arena.text(place, Predicate::Is(Arc::clone(text)));
                self.arena.and([is_text, equal])
            }
            Sym::Plus(other, add) => {
                let kinds = self.arena.shape(place).kinds;
                if !kinds.is_single() || !kinds.has(Kind::Int) {
                    return unsupported("a sum compared with a value of unknown type");
                }
                self.integers_equal((place, 0), (*other, *add))?
            }
            Sym::List(parts) => {
                let is_list = is(self, Kind::List);
                if is_list == Formula::FALSE {
                    return Ok(Formula::FALSE);
                }
                let own = self.elements(place)?;
                let equal = self.equal_lists(&Rc::from(own), parts)?;
                self.arena.and([is_list, equal])
            }
            Sym::Map(entries) if entries.is_empty() => {
                let is_map = is(self, Kind::Map);
                match self.size_at_least(place, 1) {
                    Ok(some) => {
                        let none = self.arena.not(some);
                        self.arena.and([is_map, none])
                    }
                    Err(_) => {
                        let value = self.unknown("==", &[Sym::At(place), Sym::Text(Arc::from("{}"))], boolean())?;
                        self.arena.truth(&value).yes
                    }
                }
            }
            Sym::Words(own, words)
                if *own == place
                    && let Some(predicate) = words.changed() =>
            {
                let is_text = is(self, Kind::Text);
                let changed = self.arena.text(place, predicate);
                let same = self.arena.not(changed);
                self.arena.and([is_text, same])
            }
            Sym::Words(..) => {
                let is_text = is(self, Kind::Text);
                let value = self.unknown("==", &[Sym::At(place), other.clone()], boolean())?;
                let yes = self.arena.truth(&value).yes;
                self.arena.and([is_text, yes])
            }
            Sym::Minus(..)
            | Sym::Length(_)
            | Sym::Size(_)
            | Sym::Offset(_)
            | Sym::Steps(..)
            | Sym::Constant(_)
            | Sym::Moment(_)
            | Sym::Map(_) => {
                let value = self.unknown("==", &[Sym::At(place), other.clone()], boolean())?;
                self.arena.truth(&value).yes
            }
            Sym::Optional(_) => Formula::FALSE,
            Sym::Changed(_) | Sym::Position(..) | Sym::Pointer(_) => return unsupported("an equality of a made value"),
            Sym::Quantity(_) | Sym::Variables | Sym::Error | Sym::At(_) => {
                return unsupported("an equality with a library's value");
            }
        })
    }

    pub(super) fn integer_is(&mut self, place: Place, number: i64) -> Result<Formula> {
        if number == 0 && self.arena.shape(place).nonzero {
            return Ok(Formula::FALSE);
        }
        let most = self.arena.at_most(place, number);
        let less = match number.checked_sub(1) {
            Some(less) => self.arena.at_most(place, less),
            None => Formula::FALSE,
        };
        let not = self.arena.not(less);
        Ok(self.arena.and([most, not]))
    }

    fn double_is(&mut self, place: Place, number: f64) -> Formula {
        if !self.arena.shape(place).kinds.has(Kind::Double) {
            return Formula::FALSE;
        }
        let most = self.arena.literal(Atom::Double(place, number.to_bits(), false));
        let less = self.arena.literal(Atom::Double(place, number.to_bits(), true));
        let not = self.arena.not(less);
        self.arena.and([most, not])
    }

    pub(super) fn integers_equal(&mut self, (a, first): (Place, i64), (b, second): (Place, i64)) -> Result<Formula> {
        let less = self.integer_order((a, first), (b, second), true)?;
        let more = self.integer_order((b, second), (a, first), true)?;
        Ok(self.arena.and([less, more]))
    }

    /// `a + first <= b + second`, or `<`.
    pub(super) fn integer_order(
        &mut self,
        (a, first): (Place, i64),
        (b, second): (Place, i64),
        or_equal: bool,
    ) -> Result<Formula> {
        let bound = second
            .checked_sub(first)
            .and_then(|bound| if or_equal { Some(bound) } else { bound.checked_sub(1) });
        let Some(bound) = bound else {
            return unsupported("a sum of large numbers");
        };
        if a == b {
            return Ok(Formula::of(0 <= bound));
        }
        Ok(self.arena.literal(Atom::Difference(a, b, bound)))
    }

    fn equal_places(&mut self, a: Place, b: Place) -> Result<Formula> {
        if a == b {
            return Ok(Formula::TRUE);
        }
        let mut cases = Vec::new();
        for kind in Kind::ALL {
            let (first, second) = (self.arena.is_kind(a, kind), self.arena.is_kind(b, kind));
            if first == Formula::FALSE || second == Formula::FALSE {
                continue;
            }
            let equal = match kind {
                Kind::Null => Formula::TRUE,
                Kind::Bool => {
                    let (own, other) = (self.arena.is_true(a), self.arena.is_true(b));
                    let not = self.arena.not(other);
                    self.arena.choose(own, other, not)
                }
                Kind::Int => self.integers_equal((a, 0), (b, 0))?,
                Kind::Double | Kind::Text | Kind::List | Kind::Map => self.arena.same(a, b),
            };
            cases.push(self.arena.and([first, second, equal]));
        }
        // An integer equals the double of the same value.
        for (int, double) in [(a, b), (b, a)] {
            let (first, second) = (
                self.arena.is_kind(int, Kind::Int),
                self.arena.is_kind(double, Kind::Double),
            );
            let equal = self.arena.same(a, b);
            cases.push(self.arena.and([first, second, equal]));
        }
        Ok(self.arena.or(cases))
    }
}

/// The value of a constant number.
pub(super) fn numeric(sym: &Sym) -> Option<f64> {
    match sym {
        // Larger ones lose digits, and are compared as what they are.
        Sym::Int(number) if number.unsigned_abs() < 1 << 53 => Some(*number as f64),
        Sym::Uint(number) if *number < 1 << 53 => Some(*number as f64),
        Sym::Double(number) => Some(*number),
        _ => None,
    }
}

fn is_plain(sym: &Sym) -> bool {
    matches!(sym, Sym::Null | Sym::Int(_) | Sym::Uint(_) | Sym::Text(_))
}

/// Values of different ranks are of different types.
fn rank(sym: &Sym) -> u8 {
    match sym {
        Sym::Null => 0,
        Sym::Bool(_) => 1,
        Sym::Int(_)
        | Sym::Uint(_)
        | Sym::Double(_)
        | Sym::Plus(..)
        | Sym::Minus(..)
        | Sym::Length(_)
        | Sym::Steps(..)
        | Sym::Offset(_)
        | Sym::Size(_) => 2,
        Sym::Text(_) | Sym::Words(..) => 3,
        Sym::List(_) => 4,
        Sym::Map(_) => 5,
        Sym::Optional(_) => 6,
        Sym::Quantity(_) | Sym::Moment(_) => 7,
        Sym::Constant(_) | Sym::At(_) | Sym::Variables | Sym::Error => 8,
        Sym::Changed(_) | Sym::Position(..) | Sym::Pointer(_) => 8,
    }
}

fn is_known_type(sym: &Sym) -> bool {
    rank(sym) < 7
}
