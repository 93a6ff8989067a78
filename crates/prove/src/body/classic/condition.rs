//! `preconditions` and `deny.conditions`.
//!
//! Upstream counterpart: `pkg/engine/variables/{evaluate.go,operator}`, by way of `kyvtest_kyverno::classic::condition`.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{context::value_of, query::Context};
use crate::body::{
    formula::{Arena, Atom, Formula, Place},
    shape::{Inner, Kind, Shape},
    text::Predicate,
    value::{Part, Result, Sym, Truth, Value, unsupported},
};
use kyvtest_go_compat::text::{duration, number, quantity::Quantity, wildcard};

/// A block of conditions.
pub(super) struct Conditions<'j> {
    /// `None` if there is no `any`.
    any: Option<Vec<&'j Json>>,
    all: Vec<&'j Json>,
}

impl<'j> Conditions<'j> {
    pub(super) fn read(block: &'j Json) -> Self {
        let list = |json: &'j Json| json.as_array().map(|items| items.iter().collect::<Vec<_>>());
        if let Some(all) = list(block) {
            return Self { any: None, all };
        }
        Self {
            any: list(&block["any"]),
            all: list(&block["all"]).unwrap_or_default(),
        }
    }

    /// Conditions are evaluated in order up to the one that decides; an error ends the evaluation.
    pub(super) fn evaluate(&self, arena: &mut Arena, context: &Context<'_, '_>) -> Result<Truth> {
        let mut error = Formula::FALSE;
        let mut any_holds = Formula::of(self.any.is_none());
        for condition in self.any.iter().flatten() {
            let truth = evaluate(arena, context, condition)?;
            let (open, fine) = (arena.not(any_holds), arena.not(error));
            let fails = truth.error(arena);
            let failed = arena.and([open, fine, fails]);
            let holds = arena.and([fine, truth.yes]);
            error = arena.or([error, failed]);
            any_holds = arena.or([any_holds, holds]);
        }
        let mut all_hold = Formula::TRUE;
        for condition in &self.all {
            let truth = evaluate(arena, context, condition)?;
            let fine = arena.not(error);
            let fails = truth.error(arena);
            let failed = arena.and([all_hold, fine, fails]);
            error = arena.or([error, failed]);
            all_hold = arena.and([all_hold, truth.yes]);
        }
        let fine = arena.not(error);
        let yes = arena.and([fine, any_holds, all_hold]);
        let not = arena.not(yes);
        Ok(Truth {
            yes,
            no: arena.and([fine, not]),
        })
    }
}

impl Conditions<'_> {
    /// When the conditions of an exception hold: `all` is evaluated first, and what cannot be evaluated does not hold.
    pub(super) fn lift(&self, arena: &mut Arena, context: &Context<'_, '_>) -> Result<Formula> {
        let mut all_hold = Formula::TRUE;
        for condition in &self.all {
            let truth = evaluate(arena, context, condition)?;
            all_hold = arena.and([all_hold, truth.yes]);
        }
        let any = self.any.as_deref().unwrap_or_default();
        let mut holds = Formula::of(any.is_empty());
        // No condition so far could not be evaluated.
        let mut fine = Formula::TRUE;
        for condition in any {
            let truth = evaluate(arena, context, condition)?;
            let held = arena.and([fine, truth.yes]);
            holds = arena.or([holds, held]);
            let error = truth.error(arena);
            let not = arena.not(error);
            fine = arena.and([fine, not]);
        }
        Ok(arena.and([all_hold, holds]))
    }
}

/// A key or value: a variable, or a constant.
fn operand(arena: &mut Arena, context: &Context<'_, '_>, json: &Json) -> Result<(Value, Formula)> {
    // A missing key is an error of the condition.
    let found = value_of(arena, context, json)?;
    Ok((found.value, found.failed))
}

fn evaluate(arena: &mut Arena, context: &Context<'_, '_>, condition: &Json) -> Result<Truth> {
    let (key, no_key) = operand(arena, context, &condition["key"])?;
    let (value, no_value) = operand(arena, context, &condition["value"])?;
    let name = condition["operator"].as_str().unwrap_or_default();
    let mut yes = Vec::new();
    for (first, key) in &key.0 {
        for (second, value) in &value.0 {
            let holds = holds(arena, name, key, value)?;
            yes.push(arena.and([*first, *second, holds]));
        }
    }
    let error = arena.or([no_key, no_value]);
    let fine = arena.not(error);
    let yes = arena.or(yes);
    let yes = arena.and([fine, yes]);
    let not = arena.not(yes);
    Ok(Truth {
        yes,
        no: arena.and([fine, not]),
    })
}

fn holds(arena: &mut Arena, operator: &str, key: &Sym, value: &Sym) -> Result<Formula> {
    match operator.to_lowercase().as_str() {
        "equal" | "equals" => Ok(equality(arena, key, value)?.0),
        "notequal" | "notequals" => {
            if let (Sym::At(place), Sym::Text(text)) = (key, value)
                && text.is_empty()
                && arena.shape(*place).kinds.is_single()
                && arena.shape(*place).kinds.has(Kind::Text)
            {
                let empty = arena.text(*place, Predicate::Is(Arc::from("")));
                return Ok(arena.not(empty));
            }
            if let (Sym::Text(key), Sym::Text(text)) = (key, value)
                && text.is_empty()
            {
                return Ok(Formula::of(!key.is_empty()));
            }
            // What is null differs from nothing.
            let (equal, compared) = equality(arena, key, value)?;
            let not = arena.not(equal);
            Ok(arena.and([compared, not]))
        }
        "in" | "notin" | "anyin" | "allin" | "anynotin" | "allnotin" => membership(arena, operator, key, value),
        "greaterthan" | "greaterthanorequals" | "lessthan" | "lessthanorequals" => {
            order_of(arena, operator, key, value)
        }
        _ => unsupported(format!("the operator `{operator}`")),
    }
}

/// A whole number that is written as a text: numbers are compared with it as with the number. `0` alone is a duration.
fn number(value: &Sym) -> Option<Sym> {
    let Sym::Text(text) = value else { return None };
    let digits = (1..16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<i64>()
        .ok()
        .filter(|_| digits && &**text != "0")
        .map(Sym::Int)
}

/// Whether a key is certainly a number.
fn is_number(arena: &Arena, key: &Sym) -> bool {
    match key {
        Sym::Int(_) | Sym::Size(_) | Sym::Length(_) => true,
        Sym::At(place) => {
            let kinds = arena.shape(*place).kinds;
            kinds.is_single() && kinds.has(Kind::Int)
        }
        _ => false,
    }
}

/// Whether a text is compared as it is: neither a duration nor a quantity.
fn is_plain(text: &str) -> bool {
    duration::parse(text).is_err() && Quantity::parse(text).is_err()
}

/// Whether key and value are equal, and whether the key is of a type that is compared.
fn equality(arena: &mut Arena, key: &Sym, value: &Sym) -> Result<(Formula, Formula)> {
    let always = |formula: Formula| Ok((formula, Formula::TRUE));
    let read = number(value);
    let value = read.as_ref().filter(|_| is_number(arena, key)).unwrap_or(value);
    match (key, value) {
        (Sym::List(_) | Sym::Map(_), Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Null) => always(Formula::FALSE),
        (Sym::Size(_) | Sym::Length(_) | Sym::Int(_), Sym::Bool(_) | Sym::Null) => always(Formula::FALSE),
        (Sym::Text(_), Sym::Null) => always(Formula::FALSE),
        (Sym::Null, _) => Ok((Formula::FALSE, Formula::FALSE)),
        (Sym::Bool(key), Sym::Bool(value)) => {
            let not = arena.not(*value);
            always(arena.choose(*key, *value, not))
        }
        (Sym::Bool(_), Sym::Text(_) | Sym::Int(_) | Sym::Double(_) | Sym::Null) => always(Formula::FALSE),
        (Sym::Text(key), Sym::Text(value)) if is_plain(key) && is_plain(value) => {
            always(Formula::of(wildcard::matches(value, key)))
        }
        (Sym::Words(place, words), Sym::Text(text)) if is_plain(text) && !wildcard::has_wildcard(text) => {
            always(arena.text(*place, words.before(Predicate::Is(Arc::clone(text)))?))
        }
        (Sym::Text(key), Sym::At(value)) if is_text(arena, *value) => {
            let (key, value) = (Arc::clone(key), *value);
            let matches = matched(arena, &format!("{key:?} equal in a condition"), &[value])?;
            let same = arena.text(value, Predicate::Is(key));
            always(arena.or([same, matches]))
        }
        (Sym::Text(_), Sym::Bool(_)) => always(Formula::FALSE),
        (Sym::Int(key), Sym::Int(value)) => always(Formula::of(key == value)),
        (Sym::Length(_) | Sym::Size(_), Sym::Int(number)) => {
            let (least, more) = (
                counted(arena, key, *number)?,
                counted(arena, key, number.saturating_add(1))?,
            );
            let not = arena.not(more);
            always(arena.and([least, not]))
        }
        (Sym::At(place), _) => {
            let place = *place;
            let mut equal = Vec::new();
            let mut compared = Vec::new();
            for kind in Kind::ALL {
                let is_kind = arena.is_kind(place, kind);
                if is_kind == Formula::FALSE {
                    continue;
                }
                if kind != Kind::Null {
                    compared.push(is_kind);
                }
                let same = equal_of_kind(arena, place, kind, value)?;
                equal.push(arena.and([is_kind, same]));
            }
            Ok((arena.or(equal), arena.or(compared)))
        }
        _ => unsupported("an equality in a condition"),
    }
}

fn equal_of_kind(arena: &mut Arena, place: Place, kind: Kind, value: &Sym) -> Result<Formula> {
    Ok(match (kind, value) {
        (Kind::Null, _) => Formula::FALSE,
        (Kind::Bool, Sym::Bool(truth)) => {
            let own = arena.is_true(place);
            let not = arena.not(*truth);
            arena.choose(own, *truth, not)
        }
        (Kind::Bool, Sym::Text(_) | Sym::Int(_) | Sym::Null) => Formula::FALSE,
        (Kind::Int, Sym::Int(number)) => {
            let most = arena.at_most(place, *number);
            let less = arena.at_most(place, number.saturating_sub(1));
            let not = arena.not(less);
            arena.and([most, not])
        }
        (Kind::Int, Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        (Kind::Text, Sym::Text(text)) if is_plain(text) => {
            if wildcard::has_wildcard(text) {
                let fits = arena.text(place, Predicate::Glob(Arc::clone(text)));
                // A key that is a quantity is compared as one.
                let quantity = arena.text(place, Predicate::Quantity);
                let not = arena.not(quantity);
                arena.and([fits, not])
            } else {
                arena.text(place, Predicate::Is(Arc::clone(text)))
            }
        }
        (Kind::Text, Sym::At(other)) if is_text(arena, *other) => equal_texts(arena, place, *other)?,
        (Kind::Int | Kind::Double, Sym::At(other)) if is_text(arena, *other) => {
            matched(arena, "number equal in a condition", &[place, *other])?
        }
        (Kind::Bool | Kind::List | Kind::Map, Sym::At(other)) if is_text(arena, *other) => Formula::FALSE,
        (Kind::Int | Kind::Double, Sym::Text(text)) if !is_numeric(text) => Formula::FALSE,
        (Kind::Double, Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        (Kind::Text, Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        (Kind::List | Kind::Map, Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        _ => return unsupported("an equality in a condition"),
    })
}

/// Whether a text may be read as a number.
fn is_numeric(text: &str) -> bool {
    number::parse_float(text).is_ok() || number::parse_int(text, 10, 64).is_ok()
}

/// Whether a text equals another one in a condition: the same text does, regardless of the type it is read as.
fn equal_texts(arena: &mut Arena, key: Place, value: Place) -> Result<Formula> {
    let matches = matched(arena, "equal in a condition", &[key, value])?;
    let same = arena.same(key, value);
    Ok(arena.or([same, matches]))
}

/// Whether texts that are not the same match as wildcards, durations or quantities: nothing is known but that the same texts do so
/// everywhere.
fn matched(arena: &mut Arena, name: &str, places: &[Place]) -> Result<Formula> {
    match arena.term(name, places, Shape::of(Kind::Bool, Inner::Unknown)) {
        Some(matches) => Ok(arena.is_true(matches)),
        None => unsupported("an equality of elements of two lists in a condition"),
    }
}

pub(super) fn counted(arena: &mut Arena, sym: &Sym, least: i64) -> Result<Formula> {
    if let Sym::Length(measure) = sym {
        return Ok(arena.text(measure.place, measure.at_least(least)));
    }
    let Ok(least) = u32::try_from(least.max(0)) else {
        return unsupported("a large number");
    };
    match sym {
        Sym::Size(parts) if least <= 16 => {
            let all: Vec<(&Part, Formula)> = parts.iter().map(|part| (part, Formula::TRUE)).collect();
            Ok(arena.count(&all, least))
        }
        _ => unsupported("a size"),
    }
}

/// The order of numbers; what has none does not hold.
pub(super) fn order_of(arena: &mut Arena, operator: &str, key: &Sym, value: &Sym) -> Result<Formula> {
    // Those must be spelled as they are.
    let (greater, or_equal) = match operator {
        "GreaterThan" => (true, false),
        "GreaterThanOrEquals" => (true, true),
        "LessThan" => (false, false),
        "LessThanOrEquals" => (false, true),
        _ => return Ok(Formula::FALSE),
    };
    let is_int = |arena: &Arena, place: &Place| {
        let kinds = arena.shape(*place).kinds;
        kinds.is_single() && kinds.has(Kind::Int)
    };
    let read = number(value);
    let value = read.as_ref().filter(|_| is_number(arena, key)).unwrap_or(value);
    match (key, value) {
        (Sym::Null, _) => Ok(Formula::FALSE),
        (Sym::Int(a), Sym::Int(b)) => Ok(Formula::of(match (greater, or_equal) {
            (true, false) => a > b,
            (true, true) => a >= b,
            (false, false) => a < b,
            (false, true) => a <= b,
        })),
        (Sym::At(place), Sym::Int(number)) if is_int(arena, place) => Ok(match (greater, or_equal) {
            (true, false) => {
                let most = arena.at_most(*place, *number);
                arena.not(most)
            }
            (true, true) => {
                let less = arena.at_most(*place, number.saturating_sub(1));
                arena.not(less)
            }
            (false, false) => arena.at_most(*place, number.saturating_sub(1)),
            (false, true) => arena.at_most(*place, *number),
        }),
        (Sym::At(a), Sym::At(b)) if is_int(arena, a) && is_int(arena, b) => {
            let (low, high) = if greater { (*b, *a) } else { (*a, *b) };
            if low == high {
                return Ok(Formula::of(or_equal));
            }
            Ok(arena.literal(Atom::Difference(low, high, if or_equal { 0 } else { -1 })))
        }
        (Sym::Length(_) | Sym::Size(_), Sym::Int(number)) => {
            let number = *number;
            match (greater, or_equal) {
                (true, false) => counted(arena, key, number.saturating_add(1)),
                (true, true) => counted(arena, key, number),
                (false, false) => {
                    let reached = counted(arena, key, number)?;
                    Ok(arena.not(reached))
                }
                (false, true) => {
                    let reached = counted(arena, key, number.saturating_add(1))?;
                    Ok(arena.not(reached))
                }
            }
        }
        _ => unsupported("an order in a condition"),
    }
}

/// Members of lists: wildcards are read on both sides.
fn membership(arena: &mut Arena, operator: &str, key: &Sym, value: &Sym) -> Result<Formula> {
    let operator = operator.to_lowercase();
    if matches!(key, Sym::Null | Sym::Map(_)) || matches!(value, Sym::Null | Sym::Map(_)) {
        return Ok(Formula::FALSE);
    }
    // What is null is in nothing, and nothing is in it.
    let mut lists = Vec::new();
    for sym in [key, value] {
        if let Sym::At(place) = sym {
            lists.extend(if_list(arena, *place));
        }
    }
    lists.push(membership_in(arena, &operator, key, value)?);
    Ok(arena.and(lists))
}

/// That a value is a list, if it is either one or null.
fn if_list(arena: &mut Arena, place: Place) -> Option<Formula> {
    let kinds = arena.shape(place).kinds;
    let rest = kinds.without(Kind::Null).without(Kind::List);
    (kinds.has(Kind::List) && rest.0 == 0).then(|| arena.is_kind(place, Kind::List))
}

fn membership_in(arena: &mut Arena, operator: &str, key: &Sym, value: &Sym) -> Result<Formula> {
    let negated = operator.ends_with("notin");
    let keys = parts(arena, key);
    let deprecated = matches!(operator, "in" | "notin");
    if let Sym::Text(text) = value {
        if let Some((low, high)) = range(text) {
            if deprecated {
                return unsupported("a range in a deprecated operator");
            }
            return in_range(arena, operator, (key, keys.as_deref()), (low, high));
        }
        // What is JSON is a list.
        if deprecated
            || serde_json::from_str::<Json>(text).is_ok()
            || text.contains('-') && text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
        {
            return unsupported("a membership of something other than a list");
        }
    }
    let values = match value {
        Sym::Text(_) => vec![Part::One(Formula::TRUE, Value::of(value.clone()))],
        Sym::Int(_) if keys.is_some() && matches!(operator, "anyin" | "anynotin") => {
            vec![Part::One(Formula::TRUE, Value::of(value.clone()))]
        }
        Sym::Int(_) | Sym::Bool(_) => return Ok(Formula::FALSE),
        value => match parts(arena, value) {
            Some(values) => values,
            None => return unsupported("a membership of something other than a list"),
        },
    };
    if let (Sym::Text(text), None) = (value, &keys) {
        // A single key is compared with the pattern, and not the other way round.
        let holds = match key {
            Sym::Text(key) => Formula::of(wildcard::matches(text, key)),
            Sym::At(place) if is_text(arena, *place) => arena.text(*place, Predicate::Glob(Arc::clone(text))),
            _ => return unsupported("a membership of a value of unknown type"),
        };
        return Ok(if negated { arena.not(holds) } else { holds });
    }
    if deprecated && keys.is_some() {
        return unsupported("a list as the key of a deprecated operator");
    }
    if let Some(keys) = keys {
        let mut found = Vec::new();
        for part in &keys {
            found.push((part, among(arena, part.value(), &values)?));
        }
        // Any found, or any not found.
        let wanted = matches!(operator, "anyin" | "allnotin");
        let some: Vec<(&Part, Formula)> = found
            .into_iter()
            .map(|(part, found)| (part, if wanted { found } else { arena.not(found) }))
            .collect();
        let some = arena.count(&some, 1);
        return Ok(match operator {
            "anyin" | "anynotin" => some,
            _ => arena.not(some),
        });
    }
    let found = among(arena, &Value::of(key.clone()), &values)?;
    // A single key of a type without members is in nothing and outside of nothing.
    if let Sym::At(place) = key {
        let kinds = arena.shape(*place).kinds;
        if !kinds.is_single() || kinds.has(Kind::Map) || kinds.has(Kind::Null) {
            return unsupported("a membership of a value of unknown type");
        }
    }
    Ok(if negated { arena.not(found) } else { found })
}

fn is_text(arena: &Arena, place: Place) -> bool {
    let kinds = arena.shape(place).kinds;
    kinds.is_single() && kinds.has(Kind::Text)
}

/// A range of whole numbers, as `5000-6000`.
fn range(text: &str) -> Option<(i64, i64)> {
    let (low, high) = text.split_once('-')?;
    let number = |text: &str| {
        let digits = (1..16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| digits)
    };
    Some((number(low)?, number(high)?))
}

/// Whether numbers are within a range.
fn in_range(
    arena: &mut Arena,
    operator: &str,
    (key, keys): (&Sym, Option<&[Part]>),
    (low, high): (i64, i64),
) -> Result<Formula> {
    let inside = |arena: &mut Arena, sym: &Sym| -> Result<Formula> {
        let Sym::At(place) = sym else {
            return unsupported("a range for something other than a number");
        };
        let kinds = arena.shape(*place).kinds;
        if !kinds.is_single() || !kinds.has(Kind::Int) {
            return unsupported("a range for something other than a number");
        }
        let (most, less) = (
            arena.at_most(*place, high),
            arena.at_most(*place, low.saturating_sub(1)),
        );
        let least = arena.not(less);
        Ok(arena.and([least, most]))
    };
    let Some(keys) = keys else {
        let inside = inside(arena, key)?;
        return Ok(if operator.ends_with("notin") {
            arena.not(inside)
        } else {
            inside
        });
    };
    let wanted = matches!(operator, "anyin" | "allnotin");
    let mut some = Vec::new();
    for part in keys {
        let mut ways = Vec::new();
        for (guard, sym) in &part.value().0 {
            let inside = inside(arena, sym)?;
            let way = if wanted { inside } else { arena.not(inside) };
            ways.push(arena.and([*guard, way]));
        }
        some.push((part, arena.or(ways)));
    }
    let some = arena.count(&some, 1);
    Ok(match operator {
        "anyin" | "anynotin" => some,
        _ => arena.not(some),
    })
}

fn parts(arena: &mut Arena, sym: &Sym) -> Option<Vec<Part>> {
    match sym {
        Sym::List(parts) => Some(parts.to_vec()),
        Sym::At(place) => {
            let kinds = arena.shape(*place).kinds.without(Kind::Null);
            if !kinds.is_single() || !kinds.has(Kind::List) {
                return None;
            }
            let bound = arena.bound(*place, OWN)?;
            Some(vec![Part::each(*place, bound)])
        }
        _ => None,
    }
}

/// The number of the element that a membership is about: queries use smaller ones.
const OWN: u32 = 20;

/// Whether a key equals one of the values, either read as a pattern.
fn among(arena: &mut Arena, key: &Value, values: &[Part]) -> Result<Formula> {
    let mut hits = Vec::new();
    for part in values {
        let value = part.value();
        let mut equal = Vec::new();
        for (first, key) in &key.0 {
            for (second, value) in &value.0 {
                let meets = either_way(arena, key, value)?;
                equal.push(arena.and([*first, *second, meets]));
            }
        }
        let equal = arena.or(equal);
        hits.push((part, equal));
    }
    Ok(arena.count(&hits, 1))
}

fn either_way(arena: &mut Arena, a: &Sym, b: &Sym) -> Result<Formula> {
    match (a, b) {
        (Sym::Text(a), Sym::Text(b)) => Ok(Formula::of(wildcard::matches(a, b) || wildcard::matches(b, a))),
        (Sym::At(a), Sym::At(b)) if is_text(arena, *a) && is_text(arena, *b) => {
            let (a, b) = (*a, *b);
            let matches = matched(arena, "match either way in a condition", &[a, b])?;
            let same = arena.same(a, b);
            Ok(arena.or([same, matches]))
        }
        (Sym::At(place), Sym::Text(text)) | (Sym::Text(text), Sym::At(place)) => {
            let kinds = arena.shape(*place).kinds;
            if !kinds.is_single() || !kinds.has(Kind::Text) {
                return unsupported("a membership of a value of unknown type");
            }
            let fits = arena.text(*place, Predicate::Glob(Arc::clone(text)));
            let covers = arena.text(*place, Predicate::PatternOf(Arc::clone(text)));
            Ok(arena.or([fits, covers]))
        }
        (Sym::Words(place, words), Sym::Text(text)) | (Sym::Text(text), Sym::Words(place, words)) => {
            let fits = arena.text(*place, words.before(Predicate::Glob(Arc::clone(text)))?);
            let covers = arena.text(*place, words.before(Predicate::PatternOf(Arc::clone(text)))?);
            Ok(arena.or([fits, covers]))
        }
        (Sym::At(place), Sym::Int(number)) | (Sym::Int(number), Sym::At(place)) => {
            let kinds = arena.shape(*place).kinds;
            if !kinds.is_single() || !kinds.has(Kind::Int) {
                return unsupported("a membership of a value of unknown type");
            }
            equal_of_kind(arena, *place, Kind::Int, &Sym::Int(*number))
        }
        (Sym::Int(a), Sym::Int(b)) => Ok(Formula::of(a == b)),
        _ => unsupported("a membership"),
    }
}
