//! Arithmetic, quantities, durations, times and versions.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/{arithmetic,time}.go` (1.19).
//!
//! Known deviation: `time_now` has no fractions of a second in JMESPath.

use kyvtest_go_compat::{
    text::{duration, number, quantity::Quantity},
    value::Data,
};

use super::{
    functions::{Call, unsupported},
    types::Type,
    value::Value,
    walk::refused,
};
use crate::{Expr, Refusal};

/// The value of a call, if this is where its function is.
pub(super) fn call(call: &Call<'_>) -> Result<Option<Value>, Refusal> {
    Ok(Some(match call.name {
        "add" | "subtract" | "multiply" | "divide" | "modulo" => binary(call)?,
        "abs" => rounded(call, "math.abs")?,
        "ceil" => rounded(call, "math.ceil")?,
        "floor" => rounded(call, "math.floor")?,
        "sum" => {
            let item = call.arg(0)?.ty.item();
            if !item.is_number() && item != Type::Any {
                return unsupported("sum", " for quantities and durations");
            }
            let list = call.plain(0)?;
            // JMESPath has no sum of nothing.
            let first = list.index(&Expr::int(0));
            let sum = list
                .call("size", [])
                .relation("==", &Expr::int(0))
                .choose(&first, &list.call("sum", []));
            call.made(sum, if item == Type::Any { Type::Int } else { item })
                .failing_if(true)
        }
        "avg" | "round" => return unsupported(call.name, ""),
        "to_number" => to_number(call)?,
        "semver_compare" => semver(call)?,
        name if name.starts_with("time_") => time(call)?,
        _ => return Ok(None),
    }))
}

fn double(value: &Value) -> Expr {
    match &value.literal {
        Some(Data::Double(number)) => Expr::primary(format!("{number:?}")),
        _ => Expr::function("double", [value.plain().clone()]),
    }
}

/// How an operand is computed with.
enum Operand {
    Number(Expr),
    Quantity(Expr),
}

fn operand(value: &Value, name: &str) -> Result<Operand, Refusal> {
    if value.ty.is_number() {
        return Ok(Operand::Number(double(value)));
    }
    let quantity = |value: &Value| Operand::Quantity(Expr::function("quantity", [value.plain().clone()]));
    match (&value.literal, value.ty.as_text()) {
        (Some(Data::String(text)), _) if Quantity::parse(text).is_ok() => Ok(quantity(value)),
        (None, Some(text)) if text.quantity => Ok(quantity(value)),
        // `quantity || '0'`: both sides are quantities.
        (None, Some(_)) if value.plain().as_str().contains("orValue(") => Ok(quantity(value)),
        _ => refused(format!("an operand of `{name}` is neither a number nor a quantity")),
    }
}

fn binary(call: &Call<'_>) -> Result<Value, Refusal> {
    let operands = (operand(call.arg(0)?, call.name)?, operand(call.arg(1)?, call.name)?);
    let mut value = match operands {
        (Operand::Number(left), Operand::Number(right)) => {
            let expr = match call.name {
                "add" => left.sum("+", &right),
                "subtract" => left.sum("-", &right),
                "multiply" => left.product("*", &right),
                "divide" if is_nonzero(call.arg(1)?) => left.product("/", &right),
                _ => return unsupported(call.name, " for divisors that may be zero"),
            };
            call.made(expr, Type::Number)
        }
        (Operand::Quantity(left), Operand::Quantity(right)) if call.name == "divide" => {
            // CEL divides doubles by zero without an error, JMESPath does not; integers are divided alike.
            let sign = Expr::function("sign", [right.clone()]);
            let one = Expr::function("double", [sign.product("/", &sign)]);
            let [left, right] = [left, right].map(|side| side.call("asApproximateFloat", []));
            call.made(left.product("/", &right).product("*", &one), Type::Number)
        }
        _ => return unsupported(call.name, " for these operands"),
    };
    value.fails = true;
    Ok(value)
}

fn is_nonzero(value: &Value) -> bool {
    matches!(&value.literal, Some(Data::Double(number)) if *number != 0.0)
}

fn rounded(call: &Call<'_>, function: &str) -> Result<Value, Refusal> {
    let first = call.arg(0)?;
    if !first.ty.is_number() {
        return refused(format!("`{}` of something that is not a number", call.name));
    }
    if first.ty == Type::Int && function != "math.abs" {
        return Ok(first.assumed());
    }
    Ok(call.made(Expr::function(function, [first.plain().clone()]), first.ty.clone()))
}

/// A number, or null for a text that is not one.
fn to_number(call: &Call<'_>) -> Result<Value, Refusal> {
    let first = call.arg(0)?;
    match (&first.literal, &first.ty) {
        (Some(Data::String(text)), _) => match number::parse_float(text) {
            Ok(number) => Value::literal(&Data::Double(number)),
            Err(_) => Value::literal(&Data::Null),
        },
        (_, ty) if ty.is_number() && first.is_always_present() => Ok(first.clone()),
        (_, Type::Text(_)) if first.is_always_present() => {
            let text = first.plain();
            let is_number = text.call(
                "matches",
                [Expr::string("^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$")],
            );
            let mut value = Value::if_present(Expr::function("double", [text.clone()]), Type::Number, is_number);
            value.fails = first.fails;
            Ok(value)
        }
        _ => unsupported(
            "to_number",
            " for values that may be missing or whose type is not known",
        ),
    }
}

/// `semver_compare('1.2.3', '>=1.0.0')`.
fn semver(call: &Call<'_>) -> Result<Value, Refusal> {
    let range = call.literal(1)?.trim();
    let operators = [">=", "<=", "!=", "==", ">", "<", "="];
    let found = operators
        .iter()
        .find_map(|operator| Some((*operator, range.strip_prefix(operator)?.trim())));
    let (operator, version) = found.unwrap_or(("==", range));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if version.split('.').count() != 3 || !version.split('.').all(digits) {
        return unsupported("semver_compare", " for ranges; compare with one version at a time");
    }
    let operator = if operator == "=" { "==" } else { operator };
    let [left, right] = [call.text(0)?.clone(), Expr::string(version)].map(|text| Expr::function("semver", [text]));
    let expr = left.call("compareTo", [right]).relation(operator, &Expr::int(0));
    Ok(call.made(expr, Type::Bool).failing_if(true))
}

/// A point in time as a CEL timestamp.
fn timestamp(value: &Value) -> Result<Expr, Refusal> {
    match &value.ty {
        Type::Timestamp => Ok(value.plain().clone()),
        Type::Text(_) | Type::Any => Ok(Expr::function("timestamp", [value.plain().clone()])),
        _ => refused("a time that is not a text"),
    }
}

fn time(call: &Call<'_>) -> Result<Value, Refusal> {
    let at = |index: usize| timestamp(call.arg(index)?);
    let layout = |index: usize| match call.literal(index)? {
        "" => Ok(()),
        _ => unsupported(call.name, " with a layout of its own; times are in RFC 3339"),
    };
    let span = |index: usize| {
        let text = call.literal(index)?;
        if duration::parse(text).is_err() {
            return refused(format!("`{text}` is not a duration"));
        }
        Ok(Expr::function("duration", [Expr::string(text)]))
    };
    let (expr, ty) = match call.name {
        "time_now" | "time_now_utc" => (Expr::function("time.now", []), Type::Timestamp),
        "time_utc" => (at(0)?, Type::Timestamp),
        "time_parse" => {
            if call.literal(0)? != "2006-01-02T15:04:05Z07:00" {
                return unsupported(call.name, " with a layout of its own; times are in RFC 3339");
            }
            (at(1)?, Type::Timestamp)
        }
        "time_since" => {
            layout(0)?;
            let end = match &call.arg(2)?.literal {
                Some(Data::String(text)) if text.is_empty() => Expr::function("time.now", []),
                _ => at(2)?,
            };
            (end.sum("-", &at(1)?), Type::Duration)
        }
        "time_diff" => (at(1)?.sum("-", &at(0)?), Type::Duration),
        "time_after" => (at(0)?.relation(">", &at(1)?), Type::Bool),
        "time_before" => (at(0)?.relation("<", &at(1)?), Type::Bool),
        "time_between" => {
            let time = at(0)?;
            let inside = [time.relation(">", &at(1)?), time.relation("<", &at(2)?)];
            (Expr::all(inside), Type::Bool)
        }
        "time_add" => (at(0)?.sum("+", &span(1)?), Type::Timestamp),
        "time_truncate" => (Expr::function("time.truncate", [at(0)?, span(1)?]), Type::Timestamp),
        "time_to_cron" => (Expr::function("time.toCron", [at(0)?]), Type::text()),
        _ => return unsupported(call.name, ""),
    };
    let fails = call.name != "time_now" && call.name != "time_now_utc";
    Ok(call.made(expr, ty).failing_if(fails))
}
