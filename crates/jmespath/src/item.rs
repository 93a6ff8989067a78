//! Values of an expression: JSON data, and two types that only Go has.
//!
//! Upstream counterpart: Go's `interface{}` values and go-jmespath's `util.go`.

use std::sync::Arc;

use super::{Error, ast::Node};
use kyvtest_go_compat::value::Data;

/// A value of an expression.
#[derive(Debug, Clone)]
pub(super) enum Item<'e> {
    /// JSON.
    Data(Data),
    /// The list that `items()` returns: Go's `[]map[string]interface{}`, which many functions do not accept as a list.
    Objects(Arc<Vec<Data>>),
    /// An unevaluated expression: `&expr`.
    Expref(&'e Node),
}

impl<'e> Item<'e> {
    pub(super) const NULL: Item<'e> = Item::Data(Data::Null);

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Item::Data(Data::Null))
    }

    /// Converts to data, for use in a list or map or as the result.
    pub(super) fn into_data(self) -> Data {
        match self {
            Item::Data(data) => data,
            Item::Objects(objects) => Data::List(objects),
            // Go's JSON of a structure without exported fields.
            Item::Expref(_) => Data::Map(Arc::default()),
        }
    }

    /// The elements of anything that Go's reflection calls a slice.
    pub(super) fn elements(&self) -> Option<&Arc<Vec<Data>>> {
        match self {
            Item::Data(Data::List(items)) | Item::Objects(items) => Some(items),
            _ => None,
        }
    }

    /// Whether the value is false in a condition: null, false, and everything empty.
    pub(super) fn is_false(&self) -> bool {
        match self {
            Item::Data(Data::Null | Data::Bool(false)) => true,
            Item::Data(Data::String(text)) => text.is_empty(),
            Item::Data(Data::List(items)) | Item::Objects(items) => items.is_empty(),
            Item::Data(Data::Map(entries)) => entries.is_empty(),
            _ => false,
        }
    }

    /// The name of the Go type in conversion errors.
    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Item::Data(data) => match data {
                Data::Null => "nil",
                Data::Bool(_) => "bool",
                Data::Int(_) => "int",
                Data::Uint(_) => "uint64",
                Data::Double(_) => "float64",
                Data::String(_) => "string",
                Data::List(_) => "[]interface {}",
                Data::Map(_) => "map[string]interface {}",
            },
            Item::Objects(_) => "[]map[string]interface {}",
            Item::Expref(_) => "jmespath.expRef",
        }
    }

    /// The value as Go's `%v` prints it.
    pub(super) fn to_go(&self) -> String {
        match self {
            Item::Data(data) => data.to_go(),
            Item::Objects(objects) => Data::List(objects.clone()).to_go(),
            Item::Expref(node) => {
                let mut out = String::from("{");
                node.write_go(&mut out);
                out.push('}');
                out
            }
        }
    }
}

/// Go's `reflect.DeepEqual`. Each pair costs a unit of `work`; values with shared parts could cost any amount.
pub(super) fn equal(a: &Item<'_>, b: &Item<'_>, work: &mut u64) -> Result<bool, Error> {
    match (a, b) {
        (Item::Data(a), Item::Data(b)) => equal_data(a, b, work),
        (Item::Objects(a), Item::Objects(b)) => equal_lists(a, b, work),
        (Item::Expref(a), Item::Expref(b)) => Ok(a == b),
        _ => Ok(false),
    }
}

pub(super) fn equal_data(a: &Data, b: &Data, work: &mut u64) -> Result<bool, Error> {
    *work = work
        .checked_sub(1)
        .ok_or(Error::Limit("the comparison takes too much work"))?;
    match (a, b) {
        (Data::List(a), Data::List(b)) => equal_lists(a, b, work),
        (Data::Map(a), Data::Map(b)) => {
            if Arc::ptr_eq(a, b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((key_a, a), (key_b, b)) in a.iter().zip(b.iter()) {
                if key_a != key_b || !equal_data(a, b, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(a == b),
    }
}

fn equal_lists(a: &Arc<Vec<Data>>, b: &Arc<Vec<Data>>, work: &mut u64) -> Result<bool, Error> {
    if Arc::ptr_eq(a, b) {
        return Ok(true);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b.iter()) {
        if !equal_data(a, b, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}
