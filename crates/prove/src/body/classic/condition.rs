//! `preconditions` and `deny.conditions`.
//!
//! Upstream counterpart: `pkg/engine/variables/{evaluate.go,operator}`, by way of `kyvtest_kyverno::classic::condition`.

use std::sync::Arc;

use serde_json::Value as Json;

use super::query::{Context, query};
use crate::body::{
    cel::json_value,
    formula::{Arena, Atom, Formula, Place},
    shape::Kind,
    text::Predicate,
    value::{Part, Result, Sym, Truth, Value, unsupported},
};
use kyvtest_go_compat::text::{duration, quantity::Quantity, wildcard};

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

/// A key or value: a variable, or a constant.
fn operand(arena: &mut Arena, context: &Context<'_, '_>, json: &Json) -> Result<(Value, Formula)> {
    let Some(text) = json.as_str() else {
        if json.to_string().contains("{{") || json.to_string().contains("$(") {
            return unsupported("variables inside of a list");
        }
        return Ok((json_value(json)?, Formula::FALSE));
    };
    if !text.contains("{{") && !text.contains("$(") {
        return Ok((Value::text(text), Formula::FALSE));
    }
    let inside = text
        .strip_prefix("{{")
        .and_then(|text| text.strip_suffix("}}"))
        .filter(|inside| !inside.contains("{{") && !inside.trim_start().starts_with(['-', '@']));
    let Some(inside) = inside else {
        return unsupported("a text with variables");
    };
    let found = query(arena, context, inside)?;
    // A missing key is an error of the condition.
    let mut kept = Vec::new();
    let mut missing = vec![found.failed];
    for (guard, sym) in found.value.0 {
        if sym == Sym::Error {
            missing.push(guard);
        } else {
            kept.push((guard, sym));
        }
    }
    Ok((Value(kept), arena.or(missing)))
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
        "anyin" | "allin" | "anynotin" | "allnotin" => membership(arena, operator, key, value),
        "greaterthan" | "greaterthanorequals" | "lessthan" | "lessthanorequals" => order(arena, operator, key, value),
        _ => unsupported(format!("the operator `{operator}`")),
    }
}

/// Whether a text is compared as it is: neither a duration nor a quantity.
fn is_plain(text: &str) -> bool {
    duration::parse(text).is_err() && Quantity::parse(text).is_err()
}

/// Whether key and value are equal, and whether the key is of a type that is compared.
fn equality(arena: &mut Arena, key: &Sym, value: &Sym) -> Result<(Formula, Formula)> {
    let always = |formula: Formula| Ok((formula, Formula::TRUE));
    match (key, value) {
        (Sym::Null, _) => Ok((Formula::FALSE, Formula::FALSE)),
        (Sym::Bool(key), Sym::Bool(value)) => {
            let not = arena.not(*value);
            always(arena.choose(*key, *value, not))
        }
        (Sym::Bool(_), Sym::Text(_) | Sym::Int(_) | Sym::Double(_) | Sym::Null) => always(Formula::FALSE),
        (Sym::Text(key), Sym::Text(value)) if is_plain(key) && is_plain(value) => {
            always(Formula::of(wildcard::matches(value, key)))
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
        (Kind::Text, Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        (Kind::List | Kind::Map, Sym::Text(_) | Sym::Int(_) | Sym::Bool(_) | Sym::Null) => Formula::FALSE,
        _ => return unsupported("an equality in a condition"),
    })
}

fn counted(arena: &mut Arena, sym: &Sym, least: i64) -> Result<Formula> {
    let Ok(least) = u32::try_from(least.max(0)) else {
        return unsupported("a large number");
    };
    match sym {
        Sym::Length(place) => Ok(arena.text(*place, Predicate::Length(least as usize))),
        Sym::Size(parts) if least <= 16 => {
            let all: Vec<(&Part, Formula)> = parts.iter().map(|part| (part, Formula::TRUE)).collect();
            Ok(arena.count(&all, least))
        }
        _ => unsupported("a size"),
    }
}

/// The order of numbers; what has none does not hold.
fn order(arena: &mut Arena, operator: &str, key: &Sym, value: &Sym) -> Result<Formula> {
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
    match (key, value) {
        (Sym::Null, _) => Ok(Formula::FALSE),
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
    if matches!(key, Sym::Null | Sym::Map(_)) {
        return Ok(Formula::FALSE);
    }
    let Some(values) = parts(arena, value) else {
        return unsupported("a membership of something other than a list");
    };
    let negated = operator.ends_with("notin");
    if let Some(keys) = parts(arena, key) {
        let mut found = Vec::new();
        for part in &keys {
            let value = match part {
                Part::One(_, value) | Part::Each { value, .. } => value,
            };
            found.push((part, among(arena, value, &values)?));
        }
        // Any found, or any not found.
        let wanted = matches!(operator.as_str(), "anyin" | "allnotin");
        let some: Vec<(&Part, Formula)> = found
            .into_iter()
            .map(|(part, found)| (part, if wanted { found } else { arena.not(found) }))
            .collect();
        let some = arena.count(&some, 1);
        return Ok(match operator.as_str() {
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

fn parts(arena: &mut Arena, sym: &Sym) -> Option<Vec<Part>> {
    match sym {
        Sym::List(parts) => Some(parts.to_vec()),
        Sym::At(place) => {
            let kinds = arena.shape(*place).kinds;
            if !kinds.is_single() || !kinds.has(Kind::List) {
                return None;
            }
            let bound = arena.bound(*place, 7)?;
            Some(vec![Part::Each {
                list: *place,
                bound,
                keep: Formula::TRUE,
                value: Value::of(Sym::At(bound)),
            }])
        }
        _ => None,
    }
}

/// Whether a key equals one of the values, either read as a pattern.
fn among(arena: &mut Arena, key: &Value, values: &[Part]) -> Result<Formula> {
    let mut hits = Vec::new();
    for part in values {
        let value = match part {
            Part::One(_, value) | Part::Each { value, .. } => value,
        };
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
        (Sym::At(place), Sym::Text(text)) | (Sym::Text(text), Sym::At(place)) => {
            let kinds = arena.shape(*place).kinds;
            if !kinds.is_single() || !kinds.has(Kind::Text) {
                return unsupported("a membership of a value of unknown type");
            }
            let fits = arena.text(*place, Predicate::Glob(Arc::clone(text)));
            let covers = arena.text(*place, Predicate::PatternOf(Arc::clone(text)));
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
