//! Operators on run-time values: arithmetic, order, membership, indexing, size.
//!
//! Upstream counterpart: the trait methods of cel-go `common/types` (`Add`, `Compare`, `Contains`, …) behind the
//! dispatch of `interpreter/interpretable.go`. Every function accepts errors as operands and returns the first one.

use std::cmp::Ordering;

use super::{
    context::Context,
    time,
    val::{NO_SUCH_OVERLOAD, Trait, Val},
};

pub(crate) const INT_OVERFLOW: Val<'static> = Val::Error("integer overflow");
pub(crate) const UINT_OVERFLOW: Val<'static> = Val::Error("unsigned integer overflow");
const DIVISION_BY_ZERO: Val<'static> = Val::Error("division by zero");
const MODULUS_BY_ZERO: Val<'static> = Val::Error("modulus by zero");
const NAN_IS_UNORDERED: Val<'static> = Val::Error("NaN values cannot be ordered");

/// The error if the left operand's type lacks the operator: upstream then looks for an old-style method of that name on
/// some types, and finds none.
#[cold]
pub(crate) fn missing_trait<'a>(context: &Context<'a>, operand: Val<'a>, operator: &str) -> Val<'a> {
    if operand.has_trait(Trait::Receiver) {
        NO_SUCH_OVERLOAD
    } else {
        context.error(format_args!("no such overload: {operator}"))
    }
}

/// The error for incompatible operands: an error among them, or the matching overload error.
#[cold]
fn mismatch<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>, wanted: Trait, operator: &str) -> Val<'a> {
    if a.is_error() {
        a
    } else if b.is_error() {
        b
    } else if a.has_trait(wanted) {
        NO_SUCH_OVERLOAD
    } else {
        missing_trait(context, a, operator)
    }
}

/// `a + b`
pub(crate) fn add<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_add(y).map_or(INT_OVERFLOW, Val::Int),
        (Val::String(x), Val::String(y)) => concatenate(context, x, y),
        (Val::Double(x), Val::Double(y)) => Val::Double(x + y),
        (Val::Uint(x), Val::Uint(y)) => x.checked_add(y).map_or(UINT_OVERFLOW, Val::Uint),
        (Val::List(_) | Val::DocumentList(_), Val::List(_) | Val::DocumentList(_)) => join(context, a, b),
        (Val::Bytes(x), Val::Bytes(y)) => {
            if !context.spend(x.len() + y.len()) {
                return context.exhausted();
            }
            let joined = context.bump().alloc_slice_fill_copy(x.len() + y.len(), 0u8);
            joined[..x.len()].copy_from_slice(x);
            joined[x.len()..].copy_from_slice(y);
            Val::Bytes(joined)
        }
        (Val::Duration(x), Val::Duration(y)) => x.checked_add(y).map_or(INT_OVERFLOW, Val::Duration),
        (Val::Timestamp(t), Val::Duration(d)) | (Val::Duration(d), Val::Timestamp(t)) => {
            t.plus(d).map_or(time::OVERFLOW, Val::Timestamp)
        }
        _ => mismatch(context, a, b, Trait::Adder, "_+_"),
    }
}

fn concatenate<'a>(context: &Context<'a>, x: &'a str, y: &'a str) -> Val<'a> {
    if x.is_empty() {
        return Val::String(y);
    }
    if y.is_empty() {
        return Val::String(x);
    }
    if !context.spend(x.len() + y.len()) {
        return context.exhausted();
    }
    let mut joined = bumpalo::collections::String::with_capacity_in(x.len() + y.len(), context.bump());
    joined.push_str(x);
    joined.push_str(y);
    Val::String(joined.into_bump_str())
}

fn join<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    if a.is_empty() {
        return b;
    }
    if b.is_empty() {
        return a;
    }
    if !context.spend_items(a.len() + b.len()) {
        return context.exhausted();
    }
    let mut joined = bumpalo::collections::Vec::with_capacity_in(a.len() + b.len(), context.bump());
    joined.extend(a.list_iter());
    joined.extend(b.list_iter());
    Val::List(joined.into_bump_slice())
}

/// `a - b`
pub(crate) fn subtract<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_sub(y).map_or(INT_OVERFLOW, Val::Int),
        (Val::Double(x), Val::Double(y)) => Val::Double(x - y),
        (Val::Uint(x), Val::Uint(y)) => x.checked_sub(y).map_or(UINT_OVERFLOW, Val::Uint),
        (Val::Duration(x), Val::Duration(y)) => x.checked_sub(y).map_or(INT_OVERFLOW, Val::Duration),
        (Val::Timestamp(t), Val::Duration(d)) => match d.checked_neg() {
            Some(d) => t.plus(d).map_or(time::OVERFLOW, Val::Timestamp),
            None => INT_OVERFLOW,
        },
        (Val::Timestamp(x), Val::Timestamp(y)) => x.since(y).map_or(INT_OVERFLOW, Val::Duration),
        _ => mismatch(context, a, b, Trait::Subtractor, "_-_"),
    }
}

/// `a * b`
pub(crate) fn multiply<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.checked_mul(y).map_or(INT_OVERFLOW, Val::Int),
        (Val::Double(x), Val::Double(y)) => Val::Double(x * y),
        (Val::Uint(x), Val::Uint(y)) => x.checked_mul(y).map_or(UINT_OVERFLOW, Val::Uint),
        _ => mismatch(context, a, b, Trait::Multiplier, "_*_"),
    }
}

/// `a / b`
pub(crate) fn divide<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => DIVISION_BY_ZERO,
        (Val::Int(x), Val::Int(y)) => x.checked_div(y).map_or(INT_OVERFLOW, Val::Int),
        (Val::Double(x), Val::Double(y)) => Val::Double(x / y),
        (Val::Uint(x), Val::Uint(y)) => Val::Uint(x / y),
        _ => mismatch(context, a, b, Trait::Divider, "_/_"),
    }
}

/// `a % b`
pub(crate) fn modulo<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => MODULUS_BY_ZERO,
        (Val::Int(x), Val::Int(y)) => x.checked_rem(y).map_or(INT_OVERFLOW, Val::Int),
        (Val::Uint(x), Val::Uint(y)) => Val::Uint(x % y),
        _ => mismatch(context, a, b, Trait::Modder, "_%_"),
    }
}

/// `-a`
pub(crate) fn negate<'a>(context: &Context<'a>, a: Val<'a>) -> Val<'a> {
    match a {
        Val::Int(x) => x.checked_neg().map_or(INT_OVERFLOW, Val::Int),
        Val::Double(x) => Val::Double(-x),
        Val::Duration(x) => x.checked_neg().map_or(INT_OVERFLOW, Val::Duration),
        Val::Error(_) => a,
        Val::Bool(_) => NO_SUCH_OVERLOAD,
        _ => missing_trait(context, a, "-_"),
    }
}

/// Compares two values of ordered types, as cel-go's `Compare` of the left one does.
///
/// The left value must not be an error and must have [`Trait::Comparer`]; otherwise the result is `no such overload`.
pub(crate) fn compare<'a>(a: Val<'a>, b: Val<'a>) -> Result<Ordering, Val<'a>> {
    Ok(match (a, b) {
        (Val::Int(x), Val::Int(y)) => x.cmp(&y),
        (Val::String(x), Val::String(y)) => x.cmp(y),
        // Upstream checks this before the other operand's type.
        (Val::Double(x), _) if x.is_nan() => return Err(NAN_IS_UNORDERED),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            return a.compare_numbers(&b).flatten().ok_or(NAN_IS_UNORDERED);
        }
        (Val::Bool(x), Val::Bool(y)) => x.cmp(&y),
        (Val::Bytes(x), Val::Bytes(y)) => x.cmp(y),
        (Val::Duration(x), Val::Duration(y)) => x.cmp(&y),
        (Val::Timestamp(x), Val::Timestamp(y)) => x.instant().cmp(&y.instant()),
        (_, Val::Error(_)) => return Err(b),
        _ => return Err(NO_SUCH_OVERLOAD),
    })
}

fn is_nan(value: Val<'_>) -> bool {
    matches!(value, Val::Double(d) if d.is_nan())
}

fn relation<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>, operator: &str, holds: fn(Ordering) -> bool) -> Val<'a> {
    if a.is_error() {
        return a;
    }
    if b.is_error() {
        return b;
    }
    if context.profile.behaviour.nan_compares_false && (is_nan(a) || is_nan(b)) && a.has_trait(Trait::Comparer) {
        return Val::Bool(false);
    }
    match compare(a, b) {
        Ok(order) => Val::Bool(holds(order)),
        Err(_) if !a.has_trait(Trait::Comparer) => missing_trait(context, a, operator),
        Err(error) => error,
    }
}

/// `a < b`
pub(crate) fn less<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    relation(context, a, b, "_<_", Ordering::is_lt)
}

/// `a <= b`
pub(crate) fn less_equals<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    relation(context, a, b, "_<=_", Ordering::is_le)
}

/// `a > b`
pub(crate) fn greater<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    relation(context, a, b, "_>_", Ordering::is_gt)
}

/// `a >= b`
pub(crate) fn greater_equals<'a>(context: &Context<'a>, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    relation(context, a, b, "_>=_", Ordering::is_ge)
}

/// `needle in container`
pub(crate) fn contains<'a>(context: &Context<'a>, needle: Val<'a>, container: Val<'a>) -> Val<'a> {
    if needle.is_error() {
        return needle;
    }
    match container {
        Val::List(_) | Val::DocumentList(_) => Val::Bool(list_contains(context, container, needle)),
        Val::Map(_) | Val::DocumentMap(_) => Val::Bool(container.map_get(&needle).is_some()),
        Val::Error(_) => container,
        _ => NO_SUCH_OVERLOAD,
    }
}

/// Whether a list has an element that equals a value; failed comparisons do not count.
pub(crate) fn list_contains(context: &Context<'_>, list: Val<'_>, needle: Val<'_>) -> bool {
    list.list_iter()
        .any(|item| context.equals(&needle, &item) == Some(true))
}

/// `size(a)`: code points of text, bytes, elements, entries.
pub(crate) fn size<'a>(context: &Context<'a>, a: Val<'a>) -> Val<'a> {
    match a {
        Val::String(s) => Val::Int(characters(s) as i64),
        Val::Bytes(b) => Val::Int(b.len() as i64),
        Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) => Val::Int(a.len() as i64),
        Val::Error(_) => a,
        _ => missing_trait(context, a, "size"),
    }
}

/// The number of code points of a text.
pub(crate) fn characters(text: &str) -> usize {
    // Both of the standard library's loops process many bytes at once.
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// The position of an index value, or the message of cel-go's `IndexOrError`.
pub(crate) fn list_index<'a>(context: &Context<'a>, index: Val<'a>) -> Result<i64, Val<'a>> {
    let position = match index {
        Val::Int(i) => Some(i),
        Val::Uint(u) => i64::try_from(u).ok(),
        Val::Double(d) => double_to_int(d).filter(|i| *i as f64 == d),
        Val::Error(_) => return Err(index),
        _ => {
            let name = index.type_name();
            return Err(context.error(format_args!("unsupported index type '{name}' in list")));
        }
    };
    position.ok_or_else(|| {
        context.error(format_args!(
            "unsupported index value {} in list",
            context.display(index)
        ))
    })
}

/// Converts a double to an integer, truncating; `None` outside the range, whose ends are excluded.
///
/// Upstream: `doubleToInt64Checked`.
pub(crate) fn double_to_int(d: f64) -> Option<i64> {
    (d > -9_223_372_036_854_775_808.0 && d < 9_223_372_036_854_775_808.0).then_some(d as i64)
}

/// Converts a double to an unsigned integer; `None` outside the range.
pub(crate) fn double_to_uint(d: f64) -> Option<u64> {
    (0.0..18_446_744_073_709_551_616.0).contains(&d).then_some(d as u64)
}
