//! Formulas about other places: an element that a quantifier is about becomes one that there is.

use rustc_hash::FxHashMap;

use super::{Arena, Atom, AtomId, Formula, Node, Place, Step};
use crate::body::text::Predicate;

impl Arena {
    /// The formula about another place: every place at or below `from` becomes the same place below `to`.
    pub(in crate::body) fn substitute(&mut self, formula: Formula, from: Place, to: Place) -> Formula {
        let mut known = self.moved.remove(&(from, to)).unwrap_or_default();
        let replaced = self.replace(formula, from, to, &mut known);
        self.move_conversions(from, to, &mut known);
        self.moved.insert((from, to), known);
        replaced
    }

    /// Notes what is read from the texts of an element for the one that takes its place.
    fn move_conversions(&mut self, from: Place, to: Place, known: &mut FxHashMap<Formula, Formula>) {
        let own = self
            .conversions
            .iter()
            .filter(|(value, ..)| self.is_within(*value, from));
        let own: Vec<_> = own.copied().collect();
        for (value, text, readable, conversion) in own {
            let value = self.move_place(value, from, to);
            if self.conversions.iter().any(|(noted, ..)| *noted == value) {
                continue;
            }
            let text = self.move_place(text, from, to);
            let readable = self.replace(readable, from, to, known);
            self.note_conversion(value, text, readable, conversion);
        }
    }

    fn replace(
        &mut self,
        formula: Formula,
        from: Place,
        to: Place,
        known: &mut FxHashMap<Formula, Formula>,
    ) -> Formula {
        if let Some(done) = known.get(&formula) {
            return *done;
        }
        let replaced = match self.look(formula).clone() {
            Node::False | Node::True => formula,
            Node::Literal(atom, holds) => {
                let moved = self.move_atom(atom, from, to, known);
                if holds { moved } else { self.not(moved) }
            }
            Node::And(parts) => {
                let parts: Vec<Formula> = parts.iter().map(|part| self.replace(*part, from, to, known)).collect();
                self.and(parts)
            }
            Node::Or(parts) => {
                let parts: Vec<Formula> = parts.iter().map(|part| self.replace(*part, from, to, known)).collect();
                self.or(parts)
            }
        };
        known.insert(formula, replaced);
        replaced
    }

    fn move_atom(&mut self, id: AtomId, from: Place, to: Place, known: &mut FxHashMap<Formula, Formula>) -> Formula {
        let atom = self.atom(id).clone();
        let place = |arena: &mut Self, place: Place| arena.move_place(place, from, to);
        match atom {
            Atom::Present(at) => {
                let at = place(self, at);
                self.present(at)
            }
            Atom::Kind(at, kind) => {
                let at = place(self, at);
                self.is_kind(at, kind)
            }
            Atom::Text(at, predicate) => {
                let at = place(self, at);
                // The key of an entry may be known.
                if let Step::Key = self.step(at)
                    && let Some(entry) = self.parent(at)
                    && let Step::Field(key) = self.step(entry).clone()
                {
                    return Formula::of(predicate.holds(&key));
                }
                self.text(at, predicate)
            }
            Atom::True(at) => {
                let at = place(self, at);
                self.is_true(at)
            }
            Atom::AtMost(at, number) => {
                let at = place(self, at);
                self.at_most(at, number)
            }
            Atom::Double(at, bits, strict) => {
                let at = place(self, at);
                self.literal(Atom::Double(at, bits, strict))
            }
            Atom::Difference(a, b, number) => {
                let (a, b) = (place(self, a), place(self, b));
                if a == b {
                    return Formula::of(0 <= number);
                }
                self.literal(Atom::Difference(a, b, number))
            }
            Atom::Quantity(at, amount, strict) => {
                let at = place(self, at);
                self.quantity(at, amount, strict)
            }
            Atom::QuantityOrder(a, b, strict) => {
                let (a, b) = (place(self, a), place(self, b));
                if a == b {
                    return Formula::of(!strict);
                }
                self.literal(Atom::QuantityOrder(a, b, strict))
            }
            Atom::Same(a, b) => {
                let (a, b) = (place(self, a), place(self, b));
                self.same(a, b)
            }
            // An inner quantifier over the same element hides the outer one.
            Atom::AtLeast(_, bound, _, _) if bound == from => self.signed(id, true),
            Atom::AtLeast(list, bound, body, count) => {
                let (bound, body) = self.apart(list, bound, body, from, to);
                let (moved, element) = (place(self, list), place(self, bound));
                let body = self.replace(body, from, to, known);
                self.at_least(moved, element, body, count)
            }
            Atom::Free(_) => self.signed(id, true),
        }
    }

    /// A quantified element and its body, renamed if a place that is put into the body would become the element's own.
    fn apart(&mut self, list: Place, bound: Place, body: Formula, from: Place, to: Place) -> (Place, Formula) {
        if !self.is_within(to, bound) || !self.mentions(body, from) {
            return (bound, body);
        }
        let mut number = 0;
        // Every list has as many names for its elements as are needed; a structure has none, and no quantifier either.
        while let Some(other) = self.bound(list, number) {
            let taken = other == from || self.is_within(to, other) || self.mentions(body, other);
            if other != bound && !taken {
                return (other, self.substitute(body, bound, other));
            }
            number += 1;
        }
        (bound, body)
    }

    /// Two values are equal; the smaller place comes first.
    pub(in crate::body) fn same(&mut self, a: Place, b: Place) -> Formula {
        // The key of an entry may be known.
        for (key, other) in [(a, b), (b, a)] {
            if let Step::Key = self.step(key)
                && let Some(entry) = self.parent(key)
                && let Step::Field(text) = self.step(entry).clone()
            {
                return self.text(other, Predicate::Is(text));
            }
        }
        match a.cmp(&b) {
            std::cmp::Ordering::Equal => Formula::TRUE,
            std::cmp::Ordering::Less => self.literal(Atom::Same(a, b)),
            std::cmp::Ordering::Greater => self.literal(Atom::Same(b, a)),
        }
    }

    pub(in crate::body) fn move_place(&mut self, place: Place, from: Place, to: Place) -> Place {
        if place == from {
            return to;
        }
        let Some(parent) = self.parent(place) else {
            return place;
        };
        let moved = self.move_place(parent, from, to);
        if moved == parent {
            return place;
        }
        let (step, shape, optional) = {
            let data = &self.places[place.0 as usize];
            (data.step.clone(), data.shape.clone(), data.optional)
        };
        // The value of an entry whose key is known is the field itself.
        if let (Step::Field(_), Step::Value) = (self.step(moved), &step) {
            return moved;
        }
        if let Step::Field(key) = &step
            && let Some(found) = self.field(moved, key)
        {
            return found;
        }
        self.place(Some(moved), step, shape, optional)
    }
}
