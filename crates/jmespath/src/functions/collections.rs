//! Kyverno's functions on lists and maps.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/functions.go`.

use std::{collections::BTreeMap, sync::Arc};

use super::{Call, data, failed, strings::text_of};
use crate::{interpreter::ItemResult, item::Item};
use kyvtest_go_compat::{text::float, value::Data};

pub(super) fn label_match<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let (Item::Data(Data::Map(labels)), Item::Data(Data::Map(found))) = (call.arg(0), call.arg(1)) else {
        return failed("label_match", "argument #0 is not of type Object");
    };
    for (key, value) in labels.iter() {
        let equal = match found.get(key) {
            Some(other) => call
                .interpreter
                .equal(&Item::Data(value.clone()), &Item::Data(other.clone()))?,
            None => false,
        };
        if !equal {
            return data(false);
        }
    }
    data(true)
}

/// Converts a float to an integer; the error is upstream's message.
pub(super) fn integer(number: f64) -> Result<i64, String> {
    let shown = || float::display(number);
    if !number.is_finite() || number.trunc() != number {
        return Err(format!("expected an integer number but got: {}", shown()));
    }
    let integer = float::truncate(number);
    if integer as f64 != number {
        return Err(format!("number is outside the range of integer numbers: {}", shown()));
    }
    Ok(integer)
}

pub(super) fn lookup<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match (call.arg(0), call.arg(1)) {
        (Item::Data(Data::Map(entries)), Item::Data(Data::String(key))) => {
            Ok(Item::Data(entries.get(key).cloned().unwrap_or_default()))
        }
        (Item::Data(Data::Map(_)), _) => failed("lookup", "argument #2 is not of type String"),
        (Item::Data(Data::List(items)), Item::Data(Data::Double(index))) => {
            let index = match integer(*index) {
                Ok(index) => index,
                Err(error) => return failed("lookup", format_args!("argument #2: {error}")),
            };
            let found = usize::try_from(index).ok().and_then(|index| items.get(index));
            Ok(Item::Data(found.cloned().unwrap_or_default()))
        }
        (Item::Data(Data::List(_)), _) => failed("lookup", "argument #2 is not of type Number"),
        _ => failed("lookup", "argument #1 is not of type Object or Array"),
    }
}

pub(super) fn items<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let (Item::Data(Data::String(key_name)), Item::Data(Data::String(value_name))) = (call.arg(1), call.arg(2)) else {
        return failed("items", "argument #2 is not of type String");
    };
    // If both names are the same, the value wins.
    let object =
        |key: Data, value: &Data| Data::from_iter([(key_name.clone(), key), (value_name.clone(), value.clone())]);
    let objects: Vec<Data> = match call.arg(0) {
        Item::Data(Data::Map(entries)) => entries
            .iter()
            .map(|(key, value)| object(Data::String(key.clone()), value))
            .collect(),
        Item::Data(Data::List(items)) => items
            .iter()
            .enumerate()
            .map(|(index, value)| object(Data::Double(index as f64), value))
            .collect(),
        _ => return failed("items", "argument #1 is not of type Object or Array"),
    };
    call.interpreter.charge(objects.len())?;
    Ok(Item::Objects(Arc::new(objects)))
}

pub(super) fn object_from_lists<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let Item::Data(Data::List(keys)) = call.arg(0) else {
        return failed("object_from_lists", "argument #1 is not of type Array");
    };
    let Item::Data(Data::List(values)) = call.arg(1) else {
        return failed("object_from_lists", "argument #2 is not of type Array");
    };
    call.interpreter.charge(keys.len())?;
    let mut object = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        let Some(key) = text_of(key) else {
            return failed("object_from_lists", "argument #1 is not of type StringArray");
        };
        object.insert(Arc::from(key), values.get(i).cloned().unwrap_or_default());
    }
    Ok(Item::Data(Data::Map(Arc::new(object))))
}
