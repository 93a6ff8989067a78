//! Texts split at a separator of one character: how many pieces a text has, and what each of them is.
//!
//! Upstream counterparts: cel-go `ext/strings.go` and the `split` of Kyverno's JMESPath, by way of `kyvtest_cel::library` and
//! `kyvtest_jmespath`. Any other use of the pieces is that of a list of which nothing is known.

use std::sync::Arc;

use super::{
    cel::unknown,
    formula::{Arena, Formula, Place},
    shape::{Inner, Kind, Shape},
    text::pieces,
    value::{Edit, Result, Sym, Value, Words},
};

/// Up to how many pieces are counted.
const COUNTED: u32 = 8;

/// The pieces of a text of a document; anything but a string is an error.
pub(super) fn pieces_of(arena: &mut Arena, text: Place, separator: &Arc<str>) -> Result<Value> {
    let mut shape = Shape::of(
        Kind::List,
        Inner::List(Box::new(Shape::of(Kind::Text, Inner::Text(Vec::new())))),
    );
    shape.nonzero = true;
    let args = [Sym::At(text), Sym::Text(Arc::clone(separator))];
    let value = unknown(arena, "split", &args, shape)?;
    let is_text = arena.is_kind(text, Kind::Text);
    let other = arena.not(is_text);
    let list = value.0.iter().find_map(|(_, sym)| match sym {
        Sym::At(place) => Some(*place),
        _ => None,
    });
    let Some(list) = list else { return Ok(value) };
    arena.note_split(list, text, separator);
    Ok(arena.value([(is_text, Sym::At(list)), (other, Sym::Error)]))
}

/// Whether a text has at least N pieces.
pub(super) fn at_least(arena: &mut Arena, text: Place, separator: &str, count: u32) -> Formula {
    match pieces::at_least(separator, count) {
        Some(predicate) => arena.text(text, predicate),
        None => Formula::TRUE,
    }
}

pub(super) fn piece(text: Place, separator: &Arc<str>, position: u32) -> Sym {
    Sym::Words(text, Words(vec![Edit::Piece(Arc::clone(separator), position)]))
}

/// How many pieces a text has; `list` holds them.
pub(super) fn count(arena: &mut Arena, list: Place, text: Place, separator: &str) -> Result<Value> {
    let mut cases = Vec::new();
    for count in 1..=COUNTED {
        let least = at_least(arena, text, separator, count);
        let more = at_least(arena, text, separator, count + 1);
        let not = arena.not(more);
        cases.push((arena.and([least, not]), Sym::Int(i64::from(count))));
    }
    let more = at_least(arena, text, separator, COUNTED + 1);
    let shape = Shape::of(Kind::Int, Inner::Int(i64::from(COUNTED) + 1, i64::MAX));
    for (_, sym) in unknown(arena, "size", &[Sym::At(list)], shape)?.0 {
        if matches!(sym, Sym::At(_)) {
            cases.push((more, sym));
        }
    }
    Ok(arena.value(cases))
}
