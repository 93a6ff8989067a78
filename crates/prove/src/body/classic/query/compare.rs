//! Comparisons of queries: equality is deep, and only numbers have an order.

use std::sync::Arc;

use kyvtest_jmespath::ast::{Comparator, Node};

use super::{Queried, Reader};
use crate::body::{
    classic::condition::{counted, order_of},
    formula::{Arena, Formula},
    shape::Kind,
    text::Predicate,
    value::{Result, Sym, Value, unsupported},
};

impl Reader<'_, '_, '_> {
    pub(super) fn compared(
        &mut self,
        arena: &mut Arena,
        comparator: Comparator,
        sides: &(Node, Node),
        at: Option<&Value>,
    ) -> Result<Queried> {
        let left = self.execute(arena, &sides.0, at)?.or_null(arena);
        let right = self.execute(arena, &sides.1, at)?.or_null(arena);
        let mut cases = Vec::new();
        for (first, a) in &left.value.0 {
            for (second, b) in &right.value.0 {
                let guard = arena.and([*first, *second]);
                if guard == Formula::FALSE {
                    continue;
                }
                match comparator {
                    Comparator::Equal | Comparator::NotEqual => {
                        let equal = equal(arena, a, b)?;
                        let holds = if comparator == Comparator::Equal {
                            equal
                        } else {
                            arena.not(equal)
                        };
                        cases.push((guard, Sym::Bool(holds)));
                    }
                    _ => {
                        let (is_number, holds) = ordered(arena, comparator, a, b)?;
                        let other = arena.not(is_number);
                        cases.push((arena.and([guard, is_number]), Sym::Bool(holds)));
                        cases.push((arena.and([guard, other]), Sym::Null));
                    }
                }
            }
        }
        Ok(Queried {
            value: arena.value(cases),
            failed: arena.or([left.failed, right.failed]),
        })
    }
}

/// Whether two values are deeply equal.
pub(super) fn equal(arena: &mut Arena, a: &Sym, b: &Sym) -> Result<Formula> {
    Ok(match (a, b) {
        (Sym::Null, Sym::Null) => Formula::TRUE,
        (Sym::Text(a), Sym::Text(b)) => Formula::of(a == b),
        (Sym::Int(a), Sym::Int(b)) => Formula::of(a == b),
        (Sym::Bool(a), Sym::Bool(b)) => {
            let not = arena.not(*b);
            arena.choose(*a, *b, not)
        }
        (Sym::At(place), Sym::Null) | (Sym::Null, Sym::At(place)) => arena.is_kind(*place, Kind::Null),
        (Sym::At(place), Sym::Text(text)) | (Sym::Text(text), Sym::At(place)) => {
            let is_text = arena.is_kind(*place, Kind::Text);
            let same = arena.text(*place, Predicate::Is(Arc::clone(text)));
            arena.and([is_text, same])
        }
        (Sym::Words(place, words), Sym::Text(text)) | (Sym::Text(text), Sym::Words(place, words)) => {
            arena.text(*place, words.before(Predicate::Is(Arc::clone(text)))?)
        }
        (Sym::At(place), Sym::Int(number)) | (Sym::Int(number), Sym::At(place)) => {
            if arena.shape(*place).kinds.has(Kind::Double) {
                return unsupported("an equality of numbers in a query");
            }
            let is_int = arena.is_kind(*place, Kind::Int);
            let (most, less) = (
                arena.at_most(*place, *number),
                arena.at_most(*place, number.saturating_sub(1)),
            );
            let more = arena.not(less);
            arena.and([is_int, most, more])
        }
        (Sym::At(place), Sym::Bool(truth)) | (Sym::Bool(truth), Sym::At(place)) => {
            let is_bool = arena.is_kind(*place, Kind::Bool);
            let own = arena.is_true(*place);
            let not = arena.not(*truth);
            let same = arena.choose(own, *truth, not);
            arena.and([is_bool, same])
        }
        (Sym::At(a), Sym::At(b)) if a == b => Formula::TRUE,
        (Sym::At(a), Sym::At(b)) => {
            let kinds = [a, b].map(|place| arena.shape(*place).kinds);
            let texts = kinds.iter().all(|kinds| kinds.is_single() && kinds.has(Kind::Text));
            if !texts {
                return unsupported("an equality of two values in a query");
            }
            arena.same(*a, *b)
        }
        (Sym::List(_) | Sym::Map(_), Sym::Null | Sym::Text(_) | Sym::Int(_) | Sym::Bool(_))
        | (Sym::Null | Sym::Text(_) | Sym::Int(_) | Sym::Bool(_), Sym::List(_) | Sym::Map(_))
        | (Sym::Null, Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Words(..) | Sym::Size(_) | Sym::Length(_))
        | (Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Words(..) | Sym::Size(_) | Sym::Length(_), Sym::Null)
        | (Sym::Text(_), Sym::Int(_) | Sym::Bool(_))
        | (Sym::Int(_) | Sym::Bool(_), Sym::Text(_))
        | (Sym::Int(_), Sym::Bool(_))
        | (Sym::Bool(_), Sym::Int(_)) => Formula::FALSE,
        (Sym::Size(_) | Sym::Length(_), Sym::Int(number)) | (Sym::Int(number), Sym::Size(_) | Sym::Length(_)) => {
            let sized = if matches!(a, Sym::Int(_)) { b } else { a };
            let least = counted(arena, sized, *number)?;
            let more = counted(arena, sized, number.saturating_add(1))?;
            let not = arena.not(more);
            let possible = Formula::of(*number >= 0);
            arena.and([possible, least, not])
        }
        _ => return unsupported("an equality in a query"),
    })
}

/// Whether both values are numbers, and how they compare then.
fn ordered(arena: &mut Arena, comparator: Comparator, a: &Sym, b: &Sym) -> Result<(Formula, Formula)> {
    let name = match comparator {
        Comparator::Less => "LessThan",
        Comparator::LessOrEqual => "LessThanOrEquals",
        Comparator::Greater => "GreaterThan",
        _ => "GreaterThanOrEquals",
    };
    let mirrored = match comparator {
        Comparator::Less => "GreaterThan",
        Comparator::LessOrEqual => "GreaterThanOrEquals",
        Comparator::Greater => "LessThan",
        _ => "LessThanOrEquals",
    };
    match (a, b) {
        (Sym::Int(x), Sym::Int(y)) => Ok((
            Formula::TRUE,
            Formula::of(match comparator {
                Comparator::Less => x < y,
                Comparator::LessOrEqual => x <= y,
                Comparator::Greater => x > y,
                _ => x >= y,
            }),
        )),
        (Sym::Null | Sym::Text(_) | Sym::Bool(_) | Sym::List(_) | Sym::Map(_) | Sym::Words(..), _)
        | (_, Sym::Null | Sym::Text(_) | Sym::Bool(_) | Sym::List(_) | Sym::Map(_) | Sym::Words(..)) => {
            Ok((Formula::FALSE, Formula::FALSE))
        }
        (Sym::At(place), Sym::Int(_)) if arena.shape(*place).kinds.has(Kind::Double) => {
            unsupported("an order in a query")
        }
        (Sym::At(place), Sym::Int(_)) => {
            let is_int = arena.is_kind(*place, Kind::Int);
            Ok((is_int, order_of(arena, name, a, b)?))
        }
        (Sym::Int(_), Sym::At(_)) => ordered_mirrored(arena, mirrored, b, a),
        (Sym::Size(_) | Sym::Length(_), Sym::Int(_)) => Ok((Formula::TRUE, order_of(arena, name, a, b)?)),
        (Sym::Int(_), Sym::Size(_) | Sym::Length(_)) => Ok((Formula::TRUE, order_of(arena, mirrored, b, a)?)),
        _ => unsupported("an order in a query"),
    }
}

fn ordered_mirrored(arena: &mut Arena, name: &str, a: &Sym, b: &Sym) -> Result<(Formula, Formula)> {
    match a {
        Sym::At(place) if !arena.shape(*place).kinds.has(Kind::Double) => {
            let is_int = arena.is_kind(*place, Kind::Int);
            Ok((is_int, order_of(arena, name, a, b)?))
        }
        _ => unsupported("an order in a query"),
    }
}
