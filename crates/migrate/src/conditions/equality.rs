//! `Equals` and `NotEquals`.
//!
//! Upstream counterpart: `pkg/engine/variables/operator/{equal,notequal}.go` (Kyverno 1.19). A text is compared as a duration, then
//! as a quantity, then with wildcards in the value.
//!
//! Known deviation: two names from the request that are the same number in other digits (`1000`, `1e3`) count as different.

use kyvtest_go_compat::{
    text::{duration, number, quantity::Quantity},
    value::Data,
};

use super::{is_duration, is_text, type_unknown, unknown};
use crate::{
    Expr, Refusal,
    query::{Missing, Type, Value, is_glob, matches_glob, text_matches_glob_of},
};

/// Whether key and value are equal, given that the key is not null.
pub(super) fn equals(key: &Value, value: &Value) -> Result<Expr, Refusal> {
    if key.or_empty_text || value.or_empty_text {
        return type_unknown(if key.or_empty_text { key } else { value });
    }
    match (&key.literal, &value.literal) {
        (Some(key), Some(value)) => constant(key, value),
        (_, Some(literal)) => with_literal(key, literal),
        (_, None) if value.missing == Missing::Null => {
            unknown(format!("`{}` may be null; write a default behind it", value.plain()))
        }
        (Some(Data::String(literal)), None) => {
            // The value is the pattern; a constant key fits a plain one only if they are the same.
            if is_text(value) && value.ty.as_text().is_some_and(|text| text.plain) && is_simple(literal) {
                return Ok(key.plain().relation("==", value.plain()));
            }
            if is_text(value) && is_simple(literal) {
                return Ok(text_matches_glob_of(key.plain(), value.plain()));
            }
            type_unknown(value)
        }
        (_, None) => variables(key, value),
    }
}

/// Whether key and value differ, given that the key is not null.
pub(super) fn not_equals(key: &Value, value: &Value) -> Result<Expr, Refusal> {
    if let Some(Data::String(text)) = &value.literal
        && text.is_empty()
        && is_text(key)
        && key.literal.is_none()
    {
        return Ok(key.plain().relation("!=", &Expr::string("")));
    }
    Ok(equals(key, value)?.negated_relation())
}

/// A text that is neither a duration, a quantity nor a wildcard: equal is what is the same.
fn is_simple(text: &str) -> bool {
    duration::parse(text).is_err() && Quantity::parse(text).is_err() && !is_glob(text)
}

fn constant(key: &Data, value: &Data) -> Result<Expr, Refusal> {
    match (key, value) {
        (Data::String(key), Data::String(value)) if is_simple(key) && is_simple(value) => Ok(Expr::bool(key == value)),
        (Data::Bool(key), Data::Bool(value)) => Ok(Expr::bool(key == value)),
        (Data::Double(key), Data::Double(value)) => Ok(Expr::bool(key == value)),
        _ => unknown("key and value are constants"),
    }
}

fn with_literal(key: &Value, literal: &Data) -> Result<Expr, Refusal> {
    let expr = key.plain();
    let never = || Ok(Expr::bool(false));
    match literal {
        Data::Null => never(),
        Data::Bool(wanted) => match &key.ty {
            Type::Bool if *wanted => Ok(expr.clone()),
            Type::Bool => Ok(expr.negate()),
            Type::Any => Ok(expr.relation("==", &Expr::bool(*wanted))),
            Type::Truth => type_unknown(key),
            _ => never(),
        },
        Data::String(text) => text_literal(key, text),
        Data::Int(_) | Data::Uint(_) | Data::Double(_) => match &key.ty {
            // CEL compares numbers of one type only.
            Type::Number => {
                let Data::Double(number) = literal.with_doubles() else {
                    return never();
                };
                Ok(expr.relation("==", &double(number)?))
            }
            Type::Int | Type::Any | Type::IntOrText => {
                let literal = Value::literal(literal)?;
                Ok(expr.relation("==", literal.plain()))
            }
            Type::Text(_) => {
                let Data::Double(seconds) = literal.with_doubles() else {
                    return never();
                };
                let seconds = format!("{}s", seconds.trunc());
                let same = Expr::function("duration", [expr.clone()])
                    .relation("==", &Expr::function("duration", [Expr::string(&seconds)]));
                Ok(Expr::all([is_duration(expr), same]))
            }
            Type::Truth | Type::Duration => type_unknown(key),
            _ => never(),
        },
        Data::List(items) => match &key.ty {
            Type::List { .. } | Type::Any if items.iter().all(|item| item.as_str().is_some()) => {
                Ok(expr.relation("==", Value::literal(literal)?.plain()))
            }
            Type::List { .. } | Type::Any | Type::Truth => type_unknown(key),
            _ => never(),
        },
        Data::Map(entries) => match &key.ty {
            Type::Merged(added) if entries.values().all(|value| value.as_str().is_some()) => {
                let agrees = |(name, value): &(String, Option<String>)| {
                    entries.get(name.as_str()).and_then(Data::as_str) == value.as_deref() && value.is_some()
                };
                if !added.iter().all(agrees) {
                    return never();
                }
                let is_added = |name: &str| added.iter().any(|(key, _)| key == name);
                let rest = entries.iter().filter(|(name, _)| !is_added(name));
                let rest: Data = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
                Ok(expr.relation("==", Value::literal(&rest)?.plain()))
            }
            Type::Map(_) | Type::Any if entries.values().all(|value| value.as_str().is_some()) => {
                Ok(expr.relation("==", Value::literal(literal)?.plain()))
            }
            Type::Map(_) | Type::Any | Type::Object(_) | Type::Resource | Type::Truth | Type::Merged(_) => {
                type_unknown(key)
            }
            _ => never(),
        },
    }
}

/// A number as a double, also if it is whole.
fn double(number: f64) -> Result<Expr, Refusal> {
    let literal = Value::literal(&Data::Double(number))?;
    let text = literal.plain().as_str();
    let is_whole = text.chars().all(|c| c.is_ascii_digit() || c == '-');
    Ok(if is_whole {
        Expr::primary(format!("{text}.0"))
    } else {
        literal.plain().clone()
    })
}

fn text_literal(key: &Value, literal: &str) -> Result<Expr, Refusal> {
    let expr = key.plain();
    let same = || Ok(expr.relation("==", &Expr::string(literal)));
    match &key.ty {
        Type::Text(_) => Ok(text_equals(key, literal)),
        Type::Int | Type::Number => match number::parse_float(literal) {
            Ok(number) if key.ty == Type::Number => Ok(expr.relation("==", &double(number)?)),
            Ok(number) => Ok(expr.relation("==", Value::literal(&Data::Double(number))?.plain())),
            Err(_) => Ok(Expr::bool(false)),
        },
        Type::Duration if duration::parse(literal).is_ok() => {
            Ok(expr.relation("==", &Expr::function("duration", [Expr::string(literal)])))
        }
        // No number, duration or quantity equals such a text.
        Type::Any | Type::IntOrText if is_simple(literal) => same(),
        Type::Any if is_glob(literal) => Ok(text_equals(key, literal)),
        Type::IntOrText => match number::parse_int(literal, 10, 64) {
            Ok(number) => {
                let numeric = expr.relation("==", &Expr::int(number));
                let textual = expr.relation("==", &Expr::string(literal));
                Ok(Expr::any([numeric, textual]))
            }
            Err(_) => type_unknown(key),
        },
        Type::Any | Type::Truth | Type::Duration | Type::Timestamp => type_unknown(key),
        _ => Ok(Expr::bool(false)),
    }
}

/// Whether a text equals a constant one.
fn text_equals(key: &Value, literal: &str) -> Expr {
    let expr = key.plain();
    let is_duration_literal = literal != "0" && duration::parse(literal).is_ok();
    let quantity = |text: Expr| Expr::function("quantity", [text]);
    let is_quantity = Expr::function("isQuantity", [expr.clone()]);
    let known = key.ty.as_text().is_some_and(|text| text.quantity);
    let as_quantities = || {
        let order = quantity(expr.clone()).call("compareTo", [quantity(Expr::string(literal))]);
        let same = order.relation("==", &Expr::int(0));
        if known {
            same
        } else {
            Expr::all([is_quantity.clone(), same])
        }
    };
    let is_quantity_literal = Quantity::parse(literal).is_ok();
    if is_duration_literal {
        let same = Expr::function("duration", [expr.clone()])
            .relation("==", &Expr::function("duration", [Expr::string(literal)]));
        let as_durations = Expr::all([is_duration(expr), same]);
        if is_quantity_literal {
            return Expr::any([as_durations, Expr::all([is_duration(expr).negate(), as_quantities()])]);
        }
        return as_durations;
    }
    if is_quantity_literal {
        return as_quantities();
    }
    let matches = matches_glob(expr, literal);
    if is_glob(literal) && may_be_quantity(literal) {
        // A quantity fits no wildcard.
        return Expr::all([is_quantity.negate(), matches]);
    }
    matches
}

/// Whether a quantity could fit a pattern with wildcards: they have digits, signs, a point and suffixes.
fn may_be_quantity(pattern: &str) -> bool {
    pattern
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '*' | '?' | '+' | '-' | '.') || "eEinumkKMGTP".contains(c))
}

fn variables(key: &Value, value: &Value) -> Result<Expr, Refusal> {
    let same = || Ok(key.plain().relation("==", value.plain()));
    match (&key.ty, &value.ty) {
        (Type::Int | Type::Number, Type::Int | Type::Number) | (Type::Bool, Type::Bool) => same(),
        (Type::Any, Type::Int | Type::Number | Type::Bool) | (Type::Int | Type::Number | Type::Bool, Type::Any) => {
            same()
        }
        (Type::Text(left), Type::Text(right)) if left.quantity && right.quantity => {
            let [left, right] = [key, value].map(|side| Expr::function("quantity", [side.plain().clone()]));
            Ok(left.call("compareTo", [right]).relation("==", &Expr::int(0)))
        }
        (Type::Text(_), Type::Text(right)) if right.plain => same(),
        (Type::Merged(left), Type::Merged(right)) if left == right => same(),
        (Type::List { item: left, .. }, Type::List { item: right, .. })
            if matches!((&**left, &**right), (Type::Text(_), Type::Text(_))) =>
        {
            same()
        }
        (Type::Map(left), Type::Map(right)) if matches!((&**left, &**right), (Type::Text(_), Type::Text(_))) => same(),
        _ => type_unknown(if matches!(key.ty, Type::Any | Type::Truth) {
            key
        } else {
            value
        }),
    }
}
