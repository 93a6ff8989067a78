//! The functions of the JMESPath standard, as go-jmespath has them.
//!
//! Upstream counterpart: go-jmespath's `functions.go`.
//!
//! Deviation: `sort_by` does not change the document.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use super::{Call, conversion, data, panic, refused};
use crate::{Error, ast::Node, interpreter::ItemResult, item::Item};
use kyvtest_go_compat::{text::number, value::Data};

pub(super) fn abs<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(call.number(0)?.abs())
}

pub(super) fn ceil<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(call.number(0)?.ceil())
}

pub(super) fn floor<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(call.number(0)?.floor())
}

pub(super) fn avg<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let items = call.list(0)?;
    let mut sum = 0.0;
    for item in items.iter() {
        if let Data::Double(number) = item {
            sum += number;
        }
    }
    data(sum / items.len() as f64)
}

pub(super) fn contains<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    if let Item::Data(Data::String(_)) = call.arg(0) {
        let text = call.text(0)?;
        return match call.arg(1) {
            Item::Data(Data::String(_)) => data(text.contains(call.text(1)?)),
            _ => data(false),
        };
    }
    let items = call.list(0)?;
    for item in items.iter() {
        // Go's `==` on interfaces: values of different types are unequal, and a type that is not comparable panics.
        let equal = match (item, call.arg(1)) {
            (Data::List(_), Item::Data(Data::List(_))) => {
                return panic("runtime error: comparing uncomparable type []interface {}");
            }
            (Data::Map(_), Item::Data(Data::Map(_))) => {
                return panic("runtime error: comparing uncomparable type map[string]interface {}");
            }
            (item, Item::Data(wanted)) => item == wanted,
            _ => false,
        };
        if equal {
            return data(true);
        }
    }
    data(false)
}

pub(super) fn starts_with<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(call.text(0)?.starts_with(call.text(1)?))
}

pub(super) fn ends_with<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(call.text(0)?.ends_with(call.text(1)?))
}

pub(super) fn join<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let separator = call.text(0)?;
    let items: Vec<&str> = call.list(1)?.iter().filter_map(Data::as_str).collect();
    let length: usize = items.iter().map(|item| item.len() + separator.len()).sum();
    call.interpreter.charge_text(length)?;
    data(items.join(separator))
}

fn object<'c>(call: &'c Call<'_, '_>, index: usize) -> Result<&'c Arc<BTreeMap<Arc<str>, Data>>, Error> {
    match call.arg(index) {
        Item::Data(Data::Map(entries)) => {
            call.interpreter.charge(entries.len())?;
            Ok(entries)
        }
        other => conversion(other, "map[string]interface {}"),
    }
}

pub(super) fn keys<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let keys = object(call, 0)?.keys();
    Ok(Item::Data(keys.map(|key| Data::String(key.clone())).collect()))
}

pub(super) fn values<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    Ok(Item::Data(object(call, 0)?.values().cloned().collect()))
}

pub(super) fn merge<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let mut merged = BTreeMap::new();
    for index in 0..call.args.len() {
        let entries = object(call, index)?;
        merged.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Ok(Item::Data(Data::Map(Arc::new(merged))))
}

pub(super) fn not_null<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let found = call.args.iter().find(|arg| !arg.is_null());
    Ok(found.cloned().unwrap_or(Item::NULL))
}

pub(super) fn length<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let length = match call.arg(0) {
        Item::Data(Data::String(_)) => call.text(0)?.chars().count(),
        Item::Data(Data::List(items)) | Item::Objects(items) => items.len(),
        Item::Data(Data::Map(entries)) => entries.len(),
        _ => return refused("could not compute length()"),
    };
    data(length as f64)
}

fn expression<'e>(call: &Call<'_, 'e>, index: usize) -> Result<&'e Node, Error> {
    match call.arg(index) {
        Item::Expref(node) => Ok(node),
        other => conversion(other, "jmespath.expRef"),
    }
}

pub(super) fn map<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let node = expression(call, 0)?;
    let items = call.list(1)?;
    let mut mapped = Vec::with_capacity(items.len());
    for item in items.iter() {
        match call.interpreter.execute(node, &Item::Data(item.clone())) {
            Ok(value) => mapped.push(value.into_data()),
            Err(Error::NotFound(_)) => mapped.push(Data::Null),
            Err(error) => return Err(error),
        }
    }
    Ok(Item::Data(mapped.into_iter().collect()))
}

/// The order of two numbers or two strings; `None` for other types and for NaN.
fn order(a: &Data, b: &Data) -> Option<Ordering> {
    match (a, b) {
        (Data::Double(a), Data::Double(b)) => a.partial_cmp(b),
        (Data::String(a), Data::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn extreme<'e>(call: &Call<'_, 'e>, wanted: Ordering) -> ItemResult<'e> {
    let mut best: Option<&Data> = None;
    for item in call.list(0)?.iter() {
        if best.is_none_or(|best| order(item, best) == Some(wanted)) {
            best = Some(item);
        }
    }
    Ok(Item::Data(best.cloned().unwrap_or_default()))
}

pub(super) fn max<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    extreme(call, Ordering::Greater)
}

pub(super) fn min<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    extreme(call, Ordering::Less)
}

/// Evaluates a key expression for an element; a missing key is null.
fn key_of<'e>(call: &Call<'_, 'e>, node: &'e Node, item: &Data) -> Result<Data, Error> {
    match call.interpreter.execute(node, &Item::Data(item.clone())) {
        Ok(key) => Ok(key.into_data()),
        Err(Error::NotFound(_)) => Ok(Data::Null),
        Err(error) => Err(error),
    }
}

fn extreme_by<'e>(call: &Call<'_, 'e>, wanted: Ordering) -> ItemResult<'e> {
    let items = call.list(0)?;
    let node = expression(call, 1)?;
    let (first, rest) = match items.split_first() {
        None => return Ok(Item::NULL),
        Some((first, [])) => return Ok(Item::Data(first.clone())),
        Some(split) => split,
    };
    let mut best_key = key_of(call, node, first)?;
    let mut best = first;
    let kind = match best_key {
        Data::Double(_) => "number",
        Data::String(_) => "string",
        _ => return refused("invalid type, must be number of string"),
    };
    for item in rest {
        let key = key_of(call, node, item)?;
        match (&key, &best_key) {
            (Data::Double(_), Data::Double(_)) | (Data::String(_), Data::String(_)) => {}
            _ => return refused(format!("invalid type, must be {kind}")),
        }
        if order(&key, &best_key) == Some(wanted) {
            best_key = key;
            best = item;
        }
    }
    Ok(Item::Data(best.clone()))
}

pub(super) fn max_by<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    extreme_by(call, Ordering::Greater)
}

pub(super) fn min_by<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    extreme_by(call, Ordering::Less)
}

/// A total order: NaN comes first, as in Go's `sort.Float64Slice`.
fn total_order(a: &Data, b: &Data) -> Ordering {
    let is_nan = |data: &Data| matches!(data, Data::Double(number) if number.is_nan());
    order(a, b).unwrap_or_else(|| is_nan(b).cmp(&is_nan(a)))
}

pub(super) fn sort<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let mut items = call.list(0)?.to_vec();
    items.sort_by(total_order);
    Ok(Item::Data(items.into_iter().collect()))
}

pub(super) fn sort_by<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let items = call.list(0)?;
    let node = expression(call, 1)?;
    let Some(first) = items.first().filter(|_| items.len() > 1) else {
        return Ok(call.arg(0).clone());
    };
    let first = key_of(call, node, first)?;
    if !matches!(first, Data::Double(_) | Data::String(_)) {
        return refused("invalid type, must be number of string");
    }
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.iter() {
        // Each element is compared at least once, and every error has the same message.
        let key = match call.interpreter.execute(node, &Item::Data(item.clone())) {
            Ok(key) => key.into_data(),
            Err(error @ (Error::Limit(_) | Error::Panic(_))) => return Err(error),
            Err(_) => return refused("error in sort_by comparison"),
        };
        match (&first, &key) {
            (Data::Double(_), Data::Double(_)) | (Data::String(_), Data::String(_)) => keyed.push((key, item.clone())),
            _ => return refused("error in sort_by comparison"),
        }
    }
    keyed.sort_by(|(a, _), (b, _)| total_order(a, b));
    Ok(Item::Data(keyed.into_iter().map(|(_, item)| item).collect()))
}

pub(super) fn reverse<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    if let Item::Data(Data::String(_)) = call.arg(0) {
        let reversed: String = call.text(0)?.chars().rev().collect();
        return data(reversed);
    }
    Ok(Item::Data(call.list(0)?.iter().rev().cloned().collect()))
}

pub(super) fn to_array<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match call.arg(0) {
        Item::Data(Data::List(_)) => Ok(call.arg(0).clone()),
        other => Ok(Item::Data([other.clone().into_data()].into_iter().collect())),
    }
}

pub(super) fn to_string<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let value = match call.arg(0) {
        Item::Data(Data::String(text)) => return Ok(Item::Data(Data::String(text.clone()))),
        other => other.clone().into_data(),
    };
    call.interpreter.check_size(&value)?;
    match value.to_go_json() {
        Ok(text) => call.returns(text),
        Err(error) => refused(error),
    }
}

pub(super) fn to_number<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match call.arg(0) {
        Item::Data(Data::Double(number)) => data(*number),
        Item::Data(Data::String(_)) => match number::parse_float(call.text(0)?) {
            Ok(number) => data(number),
            Err(_) => Ok(Item::NULL),
        },
        Item::Data(Data::List(_) | Data::Map(_) | Data::Null | Data::Bool(_)) => Ok(Item::NULL),
        _ => refused("unknown type"),
    }
}

pub(super) fn type_of<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(match call.arg(0) {
        Item::Data(Data::Double(_)) => "number",
        Item::Data(Data::String(_)) => "string",
        Item::Data(Data::List(_)) => "array",
        Item::Data(Data::Map(_)) => "object",
        Item::Data(Data::Null) => "null",
        Item::Data(Data::Bool(_)) => "boolean",
        _ => return refused("unknown type"),
    })
}
