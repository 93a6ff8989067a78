//! Atoms that the shape of a place may decide. No upstream counterpart.

use std::sync::Arc;

use super::{Amount, Arena, Atom, Formula, Inner, Kind, Node, Place, Predicate, Shape, Step};

impl Arena {
    pub(in crate::body) fn present(&mut self, place: Place) -> Formula {
        if self.places[place.0 as usize].optional {
            self.literal(Atom::Present(place))
        } else {
            Formula::TRUE
        }
    }

    pub(in crate::body) fn is_kind(&mut self, place: Place, kind: Kind) -> Formula {
        let kinds = self.shape(place).kinds;
        if !kinds.has(kind) {
            Formula::FALSE
        } else if kinds.is_single() {
            Formula::TRUE
        } else {
            self.literal(Atom::Kind(place, kind))
        }
    }

    pub(in crate::body) fn is_true(&mut self, place: Place) -> Formula {
        if self.shape(place).nonzero {
            return Formula::TRUE;
        }
        self.literal(Atom::True(place))
    }

    pub(in crate::body) fn at_most(&mut self, place: Place, number: i64) -> Formula {
        if let Inner::Int(low, high) = self.shape(place).inner {
            if number < low {
                return Formula::FALSE;
            }
            if number >= high {
                return Formula::TRUE;
            }
        } else if number == i64::MAX {
            return Formula::TRUE;
        }
        self.literal(Atom::AtMost(place, number))
    }

    /// A quantity of a document is at most, or less than, a constant.
    pub(in crate::body) fn quantity(&mut self, place: Place, amount: Amount, strict: bool) -> Formula {
        let sign = amount.0.sign();
        if (sign < 0 || sign == 0 && strict) && self.is_amount(place) {
            return Formula::FALSE;
        }
        self.literal(Atom::Quantity(place, amount, strict))
    }

    /// Whether a place is a request or a limit of a container in an object that is being written: none is negative
    /// (`pkg/apis/core/validation`, `ValidateResourceQuantityValue`).
    fn is_amount(&self, place: Place) -> bool {
        let map = match (self.step(place), self.parent(place)) {
            (Step::Value, Some(entry)) => self.parent(entry),
            (Step::Field(_), parent) => parent,
            _ => None,
        };
        let (Some(map), Some(Inner::Quantity)) = (map, Some(&self.shape(place).inner)) else {
            return false;
        };
        let of_containers = |owner: Place| match &self.shape(owner).inner {
            Inner::Struct(found) => found.name() == "core.v1.ResourceRequirements",
            _ => false,
        };
        let is_list = matches!(self.step(map), Step::Field(key) if matches!(&**key, "limits" | "requests"));
        is_list && self.parent(map).is_some_and(of_containers) && !self.is_stored(map)
    }

    pub(in crate::body) fn text(&mut self, place: Place, predicate: Predicate) -> Formula {
        // Equal questions are one atom.
        let predicate = match predicate {
            Predicate::Glob(text) if !text.contains(['*', '?']) => Predicate::Is(text),
            predicate => predicate,
        };
        match (&self.shape(place).inner, &predicate) {
            (Inner::Choice(choices), _) => {
                let hits = choices.iter().filter(|choice| predicate.holds(choice)).count();
                if hits == 0 {
                    return Formula::FALSE;
                }
                if hits == choices.len() {
                    return Formula::TRUE;
                }
            }
            (_, Predicate::Length(0)) => return Formula::TRUE,
            (_, Predicate::StartsWith(text) | Predicate::EndsWith(text) | Predicate::Contains(text))
                if text.is_empty() =>
            {
                return Formula::TRUE;
            }
            (_, Predicate::Is(text)) if text.is_empty() && self.shape(place).nonzero => return Formula::FALSE,
            (_, Predicate::Length(1)) if self.shape(place).nonzero => return Formula::TRUE,
            (_, Predicate::Length(1)) => {
                let empty = self.literal(Atom::Text(place, Predicate::Is(Arc::from(""))));
                return self.not(empty);
            }
            _ => {}
        }
        self.literal(Atom::Text(place, predicate))
    }

    /// At least `count` elements of the list satisfy `body`, which is about the element `bound`.
    pub(in crate::body) fn at_least(&mut self, list: Place, bound: Place, body: Formula, count: u32) -> Formula {
        if count == 0 {
            return Formula::TRUE;
        }
        let body = self.reduced(body);
        if let (1, Some(found)) = (count, self.key_is(list, bound, body)) {
            return found;
        }
        if body == Formula::FALSE || body == Formula::TRUE && count == 1 && self.shape(list).nonzero {
            return Formula::of(body == Formula::TRUE);
        }
        match self.look(body).clone() {
            // Some element has one of several properties if one of them has some element.
            Node::Or(parts) if count == 1 => {
                let parts: Vec<Formula> = parts
                    .iter()
                    .map(|part| self.at_least(list, bound, *part, count))
                    .collect();
                return self.or(parts);
            }
            // What is not about the element holds by itself.
            Node::And(parts) => {
                let (about, others): (Vec<Formula>, Vec<Formula>) =
                    parts.iter().partition(|part| self.mentions(**part, bound));
                if !others.is_empty() {
                    let about = self.and(about);
                    let about = self.at_least(list, bound, about, count);
                    return self.and(others.into_iter().chain([about]));
                }
            }
            Node::Literal(..) if !self.mentions(body, bound) => {
                let some = self.at_least(list, bound, Formula::TRUE, count);
                return self.and([body, some]);
            }
            _ => {}
        }
        self.literal(Atom::AtLeast(list, bound, body, count))
    }

    /// That some entry of a map has a key that is given: the same as `in`.
    fn key_is(&mut self, map: Place, bound: Place, body: Formula) -> Option<Formula> {
        let &Node::Literal(atom, true) = self.look(body) else {
            return None;
        };
        let atom = self.atom(atom).clone();
        let is_key = |arena: &Self, place: Place| *arena.step(place) == Step::Key && arena.parent(place) == Some(bound);
        match atom {
            Atom::Text(key, Predicate::Is(text)) if is_key(self, key) => {
                let field = self.field(map, &text);
                Some(field.map_or(Formula::FALSE, |field| self.present(field)))
            }
            Atom::Same(a, b) if is_key(self, a) || is_key(self, b) => {
                let other = if is_key(self, a) { b } else { a };
                let kinds = self.shape(other).kinds;
                if self.is_within(other, bound) || !kinds.is_single() || !kinds.has(Kind::Text) {
                    return None;
                }
                self.has_key(map, other)
            }
            _ => None,
        }
    }

    /// That a map has a text of a document as a key; `None` if no single element determines that.
    pub(in crate::body) fn has_key(&mut self, map: Place, key: Place) -> Option<Formula> {
        let found = self.term("has", &[map, key], Shape::of(Kind::Bool, Inner::Unknown))?;
        Some(self.is_true(found))
    }
}
