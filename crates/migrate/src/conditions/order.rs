//! `GreaterThan` and the other operators of order, and their deprecated variants for durations.
//!
//! Upstream counterpart: `pkg/engine/variables/operator/{numeric,duration}.go` (Kyverno 1.19). Texts are compared as durations, then
//! as quantities, as numbers, as versions; what cannot be compared is neither greater nor less.

use kyvtest_go_compat::{
    text::{duration, number, quantity::Quantity, semver},
    value::Data,
};

use super::{is_duration, is_numeric_text, type_unknown, unknown};
use crate::{
    Expr, Refusal,
    query::{Type, Value},
};

/// Whether the relation holds, given that neither side is null.
pub(super) fn compare(relation: &str, key: &Value, value: &Value, durations: bool) -> Result<Expr, Refusal> {
    if key.or_empty_text || value.or_empty_text {
        return type_unknown(if key.or_empty_text { key } else { value });
    }
    match (&key.literal, &value.literal) {
        (Some(_), Some(_)) => unknown("key and value are constants"),
        (None, Some(literal)) => with_literal(relation, key, literal, durations),
        (Some(literal), None) => with_literal(flipped(relation), value, literal, durations),
        (None, None) => variables(relation, key, value),
    }
}

fn flipped(relation: &str) -> &'static str {
    match relation {
        ">" => "<",
        ">=" => "<=",
        "<" => ">",
        _ => ">=",
    }
}

fn seconds(nanoseconds: i64) -> Result<Expr, Refusal> {
    #[expect(clippy::cast_precision_loss, reason = "as upstream compares durations")]
    let seconds = nanoseconds as f64 / 1e9;
    Ok(Value::literal(&Data::Double(seconds))?.plain().clone())
}

fn with_literal(relation: &str, subject: &Value, literal: &Data, durations: bool) -> Result<Expr, Refusal> {
    let expr = subject.plain();
    let never = || Ok(Expr::bool(false));
    let as_duration = |text: &str| {
        let wanted = Expr::function("duration", [Expr::string(text)]);
        let same = Expr::function("duration", [expr.clone()]).relation(relation, &wanted);
        Expr::all([is_duration(expr), same])
    };
    match (&subject.ty, literal) {
        (Type::Bool | Type::List { .. } | Type::Map(_) | Type::Object(_) | Type::Null, _) => never(),
        (_, Data::Bool(_) | Data::Null | Data::List(_) | Data::Map(_)) => never(),
        (Type::Int | Type::Number | Type::Any, Data::Double(_) | Data::Int(_)) => {
            Ok(expr.relation(relation, Value::literal(literal)?.plain()))
        }
        (Type::Int | Type::Number, Data::String(text)) => {
            if let Ok(nanoseconds) = duration::parse(text)
                && &**text != "0"
            {
                if subject.ty == Type::Number {
                    return type_unknown(subject);
                }
                return Ok(expr.relation(relation, &seconds(nanoseconds)?));
            }
            match number::parse_float(text) {
                Ok(number) if !durations => Ok(expr.relation(relation, Value::literal(&Data::Double(number))?.plain())),
                _ => never(),
            }
        }
        (Type::Text(_), Data::String(text)) if durations => match duration::parse(text) {
            Ok(_) => Ok(as_duration(text)),
            Err(_) => never(),
        },
        (Type::Text(known), Data::String(text)) => text_literal(relation, expr, text, known.quantity, &as_duration),
        (Type::Text(_), Data::Double(number)) => {
            let seconds = format!("{}s", number.trunc());
            let literal = Value::literal(literal)?;
            let numeric = Expr::function("double", [expr.clone()]).relation(relation, literal.plain());
            let numeric = Expr::all([is_numeric_text(expr), numeric]);
            Ok(if durations {
                as_duration(&seconds)
            } else {
                Expr::any([as_duration(&seconds), numeric])
            })
        }
        (Type::Duration, Data::String(text)) if duration::parse(text).is_ok() => {
            Ok(expr.relation(relation, &Expr::function("duration", [Expr::string(text)])))
        }
        _ => type_unknown(subject),
    }
}

fn text_literal(
    relation: &str,
    expr: &Expr,
    text: &str,
    is_quantity: bool,
    as_duration: &dyn Fn(&str) -> Expr,
) -> Result<Expr, Refusal> {
    let quantity = |text: Expr| Expr::function("quantity", [text]);
    let as_quantity = || {
        let order = quantity(expr.clone()).call("compareTo", [quantity(Expr::string(text))]);
        let order = order.relation(relation, &Expr::int(0));
        if is_quantity {
            return order;
        }
        Expr::all([Expr::function("isQuantity", [expr.clone()]), order])
    };
    let written = text != "0" && duration::parse(text).is_ok();
    let is_quantity_literal = Quantity::parse(text).is_ok();
    if written && is_quantity_literal {
        return Ok(Expr::any([
            as_duration(text),
            Expr::all([is_duration(expr).negate(), as_quantity()]),
        ]));
    }
    if written {
        let nanoseconds = duration::parse(text).unwrap_or_default();
        let whole = Expr::function("int", [Expr::function("double", [expr.clone()])]);
        let numeric = Expr::all([is_numeric_text(expr), whole.relation(relation, &seconds(nanoseconds)?)]);
        return Ok(Expr::any([as_duration(text), numeric]));
    }
    if is_quantity_literal {
        return Ok(as_quantity());
    }
    if semver::parse(text).is_ok() {
        let version = |text: Expr| Expr::function("semver", [text]);
        let order = version(expr.clone()).call("compareTo", [version(Expr::string(text))]);
        let is_version = Expr::function("isSemver", [expr.clone()]);
        return Ok(Expr::all([is_version, order.relation(relation, &Expr::int(0))]));
    }
    Ok(Expr::bool(false))
}

fn variables(relation: &str, key: &Value, value: &Value) -> Result<Expr, Refusal> {
    match (&key.ty, &value.ty) {
        (Type::Int | Type::Number | Type::Any, Type::Int | Type::Number)
        | (Type::Duration, Type::Duration)
        | (Type::Int | Type::Number, Type::Any) => Ok(key.plain().relation(relation, value.plain())),
        (Type::Text(left), Type::Text(right)) if left.quantity && right.quantity => {
            let [left, right] = [key, value].map(|side| Expr::function("quantity", [side.plain().clone()]));
            Ok(left.call("compareTo", [right]).relation(relation, &Expr::int(0)))
        }
        (Type::Text(_), _) => type_unknown(value),
        _ => type_unknown(key),
    }
}
