//! A scalar of a pattern: alternatives, comparisons, ranges, durations, quantities, wildcards.
//!
//! Upstream counterpart: `pkg/engine/pattern/pattern.go`, by way of `kyvtest_pattern::scalar`.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::body::{
    formula::{Amount, Arena, Formula, Place},
    shape::{Inner, Kind, Shape},
    text::Predicate,
    value::{Result, Sym, unsupported},
};
use kyvtest_go_compat::text::{duration, quantity::Quantity, wildcard};
use kyvtest_kyverno::classic::pattern::scalar::Operator;

/// The syntax of Go's durations, their limits aside.
const DURATION: &str = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Whether a value satisfies a scalar of a pattern.
pub(super) fn satisfies(arena: &mut Arena, sym: &Sym, pattern: &Json) -> Result<Formula> {
    match sym {
        Sym::Null => of_kind(arena, None, Kind::Null, pattern),
        Sym::At(place) => {
            let place = *place;
            let mut ways = Vec::new();
            for kind in Kind::ALL {
                let is_kind = arena.is_kind(place, kind);
                if is_kind == Formula::FALSE {
                    continue;
                }
                let fits = of_kind(arena, Some(place), kind, pattern)?;
                ways.push(arena.and([is_kind, fits]));
            }
            Ok(arena.or(ways))
        }
        _ => unsupported("a pattern on a computed value"),
    }
}

fn of_kind(arena: &mut Arena, place: Option<Place>, kind: Kind, pattern: &Json) -> Result<Formula> {
    match pattern {
        Json::Null => zero(arena, place, kind),
        Json::Bool(wanted) => Ok(match (kind, place) {
            (Kind::Bool, Some(place)) => {
                let truth = arena.is_true(place);
                if *wanted { truth } else { arena.not(truth) }
            }
            _ => Formula::FALSE,
        }),
        Json::Number(number) => {
            let Some(number) = number.as_i64() else {
                return unsupported("a fraction in a pattern");
            };
            Ok(match (kind, place) {
                (Kind::Int, Some(place)) => is_integer(arena, place, number),
                (Kind::Text, Some(place)) => {
                    let digits = number.unsigned_abs();
                    let sign = match number.signum() {
                        -1 => "-",
                        0 => "[+-]?",
                        _ => "[+]?",
                    };
                    let text = format!("^{sign}0*{digits}$");
                    arena.text(place, Predicate::Matches(Arc::from(text.as_str())))
                }
                (Kind::Double, _) => return unsupported("a number that may be a fraction"),
                _ => Formula::FALSE,
            })
        }
        Json::String(text) => text_pattern(arena, place, kind, text),
        Json::Object(_) | Json::Array(_) => unsupported("a tree in place of a scalar"),
    }
}

fn zero(arena: &mut Arena, place: Option<Place>, kind: Kind) -> Result<Formula> {
    Ok(match (kind, place) {
        (Kind::Null, _) => Formula::TRUE,
        (Kind::Bool, Some(place)) => {
            let truth = arena.is_true(place);
            arena.not(truth)
        }
        (Kind::Int, Some(place)) => is_integer(arena, place, 0),
        (Kind::Text, Some(place)) => arena.text(place, Predicate::Is(Arc::from(""))),
        (Kind::Double, _) => return unsupported("a number that may be a fraction"),
        _ => Formula::FALSE,
    })
}

fn is_integer(arena: &mut Arena, place: Place, number: i64) -> Formula {
    if number == 0 && arena.shape(place).nonzero {
        return Formula::FALSE;
    }
    let most = arena.at_most(place, number);
    let less = arena.at_most(place, number.saturating_sub(1));
    let not = arena.not(less);
    arena.and([most, not])
}

/// Alternatives by `|`, each a conjunction by `&`; a text that is the pattern itself fits.
fn text_pattern(arena: &mut Arena, place: Option<Place>, kind: Kind, pattern: &str) -> Result<Formula> {
    let mut ways = Vec::new();
    if let (Kind::Text, Some(place)) = (kind, place) {
        ways.push(arena.text(place, Predicate::Is(Arc::from(pattern))));
    }
    for alternative in pattern.split('|') {
        let mut all = Vec::new();
        for atom in alternative.trim_matches(' ').split('&') {
            all.push(fits_atom(arena, place, kind, atom.trim_matches(' '))?);
        }
        ways.push(arena.and(all));
    }
    Ok(arena.or(ways))
}

fn fits_atom(arena: &mut Arena, place: Option<Place>, kind: Kind, atom: &str) -> Result<Formula> {
    let compare =
        |arena: &mut Arena, operand: &str, operator: Operator<'_>| compare(arena, (place, kind), operand, operator);
    match Operator::read(atom) {
        (Operator::InRange(from, to), _) => {
            let low = compare(arena, from, Operator::MoreEqual)?;
            let high = compare(arena, to, Operator::LessEqual)?;
            Ok(arena.and([low, high]))
        }
        (Operator::NotInRange(from, to), _) => {
            let low = compare(arena, from, Operator::Less)?;
            let high = compare(arena, to, Operator::More)?;
            Ok(arena.or([low, high]))
        }
        (operator, operand) => compare(arena, operand.trim(), operator),
    }
}

/// Compares as durations, else as quantities, else as texts.
fn compare(
    arena: &mut Arena,
    (place, kind): (Option<Place>, Kind),
    operand: &str,
    operator: Operator<'_>,
) -> Result<Formula> {
    let as_duration = duration::parse(operand).ok();
    let as_quantity = Quantity::parse(operand).ok();
    match (kind, place) {
        // Null is the number 0, and has no text.
        (Kind::Null, _) => {
            if let Some(operand) = as_duration {
                return Ok(Formula::of(holds(operator, 0.cmp(&operand))));
            }
            Ok(match (as_quantity, Quantity::parse("0")) {
                (Some(operand), Ok(zero)) => Formula::of(holds(operator, zero.cmp(&operand))),
                _ => Formula::FALSE,
            })
        }
        (Kind::Bool, Some(place)) => {
            let truth = arena.is_true(place);
            let not = arena.not(truth);
            let yes = Formula::of(wildcard::matches(operand, "true"));
            let no = Formula::of(wildcard::matches(operand, "false"));
            let (first, second) = (arena.and([truth, yes]), arena.and([not, no]));
            let matched = arena.or([first, second]);
            Ok(match operator {
                Operator::Equal => matched,
                Operator::NotEqual => arena.not(matched),
                _ => Formula::FALSE,
            })
        }
        (Kind::Int, Some(place)) => integer(arena, place, operand, (as_duration, as_quantity), operator),
        (Kind::Text, Some(place)) => text(arena, place, operand, (as_duration, as_quantity), operator),
        // Its text is digits, a dot and an exponent.
        (Kind::Double, _) if as_duration.is_none() && as_quantity.is_none() && !may_be_number(operand) => {
            let matched = !operand.is_empty() && operand.chars().all(|c| c == '*') || operand == "?*";
            Ok(Formula::of(match operator {
                Operator::Equal => matched,
                Operator::NotEqual => !matched,
                _ => false,
            }))
        }
        (Kind::Double, _) => unsupported("a number that may be a fraction"),
        _ => Ok(Formula::FALSE),
    }
}

/// Whether the text of a number may fit an operand that is more than a single wildcard.
fn may_be_number(operand: &str) -> bool {
    operand != "*" && operand != "?*" && operand.bytes().all(|b| b.is_ascii_digit() || b"+-.E*?".contains(&b))
}

fn holds(operator: Operator<'_>, ordering: std::cmp::Ordering) -> bool {
    match operator {
        Operator::Equal => ordering.is_eq(),
        Operator::NotEqual => ordering.is_ne(),
        Operator::More => ordering.is_gt(),
        Operator::MoreEqual => ordering.is_ge(),
        Operator::Less => ordering.is_lt(),
        Operator::LessEqual => ordering.is_le(),
        Operator::InRange(..) | Operator::NotInRange(..) => false,
    }
}

fn integer(
    arena: &mut Arena,
    place: Place,
    operand: &str,
    (as_duration, as_quantity): (Option<i64>, Option<Quantity>),
    operator: Operator<'_>,
) -> Result<Formula> {
    if let Some(quantity) = as_quantity {
        // Of the numbers only 0 is a duration, which has no other order than the quantity has.
        if as_duration.is_some() && operand != "0" {
            return unsupported("a pattern that is a duration and a quantity, on a number");
        }
        let Some(number) = quantity.as_i64() else {
            return unsupported("a fraction in a pattern");
        };
        let most = arena.at_most(place, number);
        let less = match number.checked_sub(1) {
            Some(less) => arena.at_most(place, less),
            None => Formula::FALSE,
        };
        let (more, least) = (arena.not(most), arena.not(less));
        return Ok(match operator {
            Operator::Equal => is_integer(arena, place, number),
            Operator::NotEqual => {
                let same = is_integer(arena, place, number);
                arena.not(same)
            }
            Operator::More => more,
            Operator::MoreEqual => least,
            Operator::Less => less,
            Operator::LessEqual => most,
            Operator::InRange(..) | Operator::NotInRange(..) => Formula::FALSE,
        });
    }
    if as_duration.is_some() {
        return unsupported("a duration in a pattern, on a number");
    }
    // A value that is not a number is compared as a text.
    let matched = if operand == "*" || operand == "?*" {
        Formula::TRUE
    } else if wildcard::has_wildcard(operand) && may_be_number(operand) {
        return unsupported("wildcards for a number");
    } else {
        Formula::FALSE
    };
    Ok(match operator {
        Operator::Equal => matched,
        Operator::NotEqual => arena.not(matched),
        _ => Formula::FALSE,
    })
}

fn text(
    arena: &mut Arena,
    place: Place,
    operand: &str,
    (as_duration, as_quantity): (Option<i64>, Option<Quantity>),
    operator: Operator<'_>,
) -> Result<Formula> {
    let glob = if wildcard::has_wildcard(operand) {
        Predicate::Glob(Arc::from(operand))
    } else {
        Predicate::Is(Arc::from(operand))
    };
    let matched = arena.text(place, glob);
    let mut result = match operator {
        Operator::Equal => matched,
        Operator::NotEqual => arena.not(matched),
        _ => Formula::FALSE,
    };
    if let Some(quantity) = as_quantity {
        let is_quantity = if arena.shape(place).inner == Inner::Quantity {
            Formula::TRUE
        } else {
            arena.text(place, Predicate::Quantity)
        };
        let most = arena.quantity(place, Amount(quantity.clone()), false);
        let less = arena.quantity(place, Amount(quantity), true);
        let compared = ordered(arena, operator, most, less);
        result = arena.choose(is_quantity, compared, result);
    }
    if let Some(nanoseconds) = as_duration {
        // Durations are an unknown function of the text, and so is whether one is too long.
        let syntax = arena.text(place, Predicate::Matches(Arc::from(DURATION)));
        let shape = Shape::of(Kind::Bool, Inner::Unknown);
        let number = Shape::of(Kind::Int, Inner::Int(i64::MIN, i64::MAX));
        let (Some(fits), Some(length)) = (
            arena.term("duration fits", &[place], shape),
            arena.term("duration", &[place], number),
        ) else {
            return unsupported("a duration");
        };
        let fits = arena.is_true(fits);
        let is_duration = arena.and([syntax, fits]);
        let most = arena.at_most(length, nanoseconds);
        let less = arena.at_most(length, nanoseconds.saturating_sub(1));
        let compared = ordered(arena, operator, most, less);
        result = arena.choose(is_duration, compared, result);
    }
    Ok(result)
}

/// An operator, given whether the value is at most and less than the operand.
fn ordered(arena: &mut Arena, operator: Operator<'_>, most: Formula, less: Formula) -> Formula {
    let (more, least) = (arena.not(most), arena.not(less));
    match operator {
        Operator::Equal => arena.and([most, least]),
        Operator::NotEqual => arena.or([more, less]),
        Operator::More => more,
        Operator::MoreEqual => least,
        Operator::Less => less,
        Operator::LessEqual => most,
        Operator::InRange(..) | Operator::NotInRange(..) => Formula::FALSE,
    }
}
