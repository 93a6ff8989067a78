//! `split` with a separator of one character: how many pieces a text has, and what each of them is.
//!
//! Upstream counterpart: cel-go `ext/strings.go`, by way of `kyvtest_cel::library`. Any other use of the pieces is that of a
//! list of which nothing is known.

use std::sync::Arc;

use super::Reader;
use crate::body::{
    formula::{Formula, Place},
    shape::{Inner, Kind, Shape},
    text::{Predicate, pieces},
    value::{Edit, Result, Sym, Value, Words},
};

/// Up to how many pieces are counted.
const COUNTED: u32 = 8;

impl Reader<'_, '_> {
    /// The pieces of a text of a document.
    pub(super) fn split(&mut self, text: Place, separator: &Arc<str>) -> Result<Value> {
        let mut shape = Shape::of(
            Kind::List,
            Inner::List(Box::new(Shape::of(Kind::Text, Inner::Text(Vec::new())))),
        );
        shape.nonzero = true;
        let args = [Sym::At(text), Sym::Text(Arc::clone(separator))];
        let value = self.unknown("split", &args, shape)?;
        let is_text = self.arena.is_kind(text, Kind::Text);
        let other = self.arena.not(is_text);
        let list = value.0.iter().find_map(|(_, sym)| match sym {
            Sym::At(place) => Some(*place),
            _ => None,
        });
        let Some(list) = list else { return Ok(value) };
        self.arena.note_split(list, text, separator);
        Ok(self.arena.value([(is_text, Sym::At(list)), (other, Sym::Error)]))
    }

    /// Whether a text has at least N pieces.
    pub(super) fn pieces_at_least(&mut self, text: Place, separator: &str, count: u32) -> Formula {
        match pieces::at_least(separator, count) {
            Some(predicate) => self.arena.text(text, predicate),
            None => Formula::TRUE,
        }
    }

    /// One piece of a text.
    pub(super) fn piece(text: Place, separator: &Arc<str>, position: u32) -> Sym {
        Sym::Words(text, Words(vec![Edit::Piece(Arc::clone(separator), position)]))
    }

    /// How many pieces a text has.
    pub(super) fn piece_count(&mut self, list: Place, text: Place, separator: &str) -> Result<Value> {
        let mut cases = Vec::new();
        for count in 1..=COUNTED {
            let least = self.pieces_at_least(text, separator, count);
            let more = self.pieces_at_least(text, separator, count + 1);
            let not = self.arena.not(more);
            cases.push((self.arena.and([least, not]), Sym::Int(i64::from(count))));
        }
        let more = self.pieces_at_least(text, separator, COUNTED + 1);
        let shape = Shape::of(Kind::Int, Inner::Int(i64::from(COUNTED) + 1, i64::MAX));
        for (_, sym) in self.unknown("size", &[Sym::At(list)], shape)?.0 {
            if matches!(sym, Sym::At(_)) {
                cases.push((more, sym));
            }
        }
        Ok(self.arena.value(cases))
    }
}

impl Words {
    /// The predicate of a text one of whose pieces has a predicate; `None` if that is not modelled.
    pub(in crate::body) fn of_piece(separator: &str, position: u32, inner: &Predicate) -> Option<Predicate> {
        pieces::predicate(separator, position, inner)
    }
}
