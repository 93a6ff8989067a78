//! The operators of conditions: equality and order.
//!
//! Upstream counterpart: `pkg/engine/variables/operator/{operator,equal,notequal,numeric,duration}.go`.

use std::cmp::Ordering;

use super::membership::Membership;
use kyvtest_go_compat::{
    text::{duration, float, number, quantity::Quantity, semver, wildcard},
    value::Data,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equals,
    NotEquals,
    Member(Membership),
    /// Greater or less; `None` is a spelling that is found and then not known.
    Order(Option<Order>),
    /// The same of durations.
    Duration(Option<Order>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Order {
    const NAMES: [(&'static str, Self); 4] = [
        ("GreaterThan", Self::Greater),
        ("GreaterThanOrEquals", Self::GreaterOrEqual),
        ("LessThan", Self::Less),
        ("LessThanOrEquals", Self::LessOrEqual),
    ];

    fn holds(self, ordering: Option<Ordering>) -> bool {
        ordering.is_some_and(|ordering| match self {
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
        })
    }
}

impl Operator {
    /// Finds an operator regardless of case; the ordering operators then require the exact spelling.
    pub(super) fn read(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "equal" | "equals" => Self::Equals,
            "notequal" | "notequals" => Self::NotEquals,
            "in" => Self::Member(Membership::In),
            "notin" => Self::Member(Membership::NotIn),
            "anyin" => Self::Member(Membership::AnyIn),
            "allin" => Self::Member(Membership::AllIn),
            "anynotin" => Self::Member(Membership::AnyNotIn),
            "allnotin" => Self::Member(Membership::AllNotIn),
            lower => {
                let find = |name: &str| Order::NAMES.into_iter().find(|(known, _)| *known == name);
                let known = |name: &str| Order::NAMES.iter().any(|(known, _)| known.to_lowercase() == name);
                if known(lower) {
                    Self::Order(find(name).map(|(_, order)| order))
                } else if lower.strip_prefix("duration").is_some_and(known) {
                    let exact = name.strip_prefix("Duration").and_then(find);
                    Self::Duration(exact.map(|(_, order)| order))
                } else {
                    return None;
                }
            }
        })
    }

    /// Applies the operator to a key and a value.
    pub(super) fn evaluate(self, key: &Data, value: &Data) -> Result<bool, String> {
        Ok(match self {
            Self::Equals => equals(key, value) == Some(true),
            // A key of no type that is compared differs from nothing.
            Self::NotEquals => not_equals(key, value),
            Self::Member(membership) => return membership.evaluate(key, value),
            Self::Order(order) => order.is_some_and(|order| order.holds(compare(key, value))),
            Self::Duration(order) => order.is_some_and(|order| order.holds(compare_durations(key, value))),
        })
    }
}

/// Whether key and value are equal; `None` if the key has no type that is compared.
fn equals(key: &Data, value: &Data) -> Option<bool> {
    Some(match key {
        Data::Null => return None,
        Data::Bool(_) | Data::List(_) | Data::Map(_) => key == value,
        Data::Int(key) => match value {
            Data::Int(value) => value == key,
            Data::Uint(_) | Data::Double(_) => {
                let value = as_double(value).unwrap_or(f64::NAN);
                value.trunc() == value && float::truncate(value) == *key
            }
            Data::String(text) => number::parse_int(text, 10, 64) == Ok(*key),
            _ => false,
        },
        Data::Uint(_) | Data::Double(_) => {
            let key = as_double(key).unwrap_or(f64::NAN);
            match value {
                Data::Int(value) => key.trunc() == key && float::truncate(key) == *value,
                Data::Uint(_) | Data::Double(_) => as_double(value) == Some(key),
                Data::String(text) => number::parse_float(text).is_ok_and(|value| value == key),
                _ => false,
            }
        }
        Data::String(text) => text_equals(text, value),
    })
}

fn text_equals(key: &str, value: &Data) -> bool {
    if let Some((key, value)) = durations(&Data::from(key), value) {
        return duration::seconds(key) == duration::seconds(value);
    }
    let Data::String(value) = value else { return false };
    match Quantity::parse(key) {
        Ok(key) => Quantity::parse(value).is_ok_and(|value| value == key),
        Err(_) => wildcard::matches(value, key),
    }
}

fn not_equals(key: &Data, value: &Data) -> bool {
    if let (Data::String(key), Some("")) = (key, value.as_str()) {
        // An empty string is neither a duration nor a quantity, so that it differs from both before anything else is
        // compared.
        return !key.is_empty();
    }
    equals(key, value).is_some_and(|equal| !equal)
}

/// How key and value compare as numbers, durations, quantities or versions.
fn compare(key: &Data, value: &Data) -> Option<Ordering> {
    match key {
        Data::Int(_) | Data::Uint(_) | Data::Double(_) => compare_number(as_double(key)?, key, value),
        Data::String(text) => {
            if let Some((key, value)) = durations(key, value) {
                return compare_seconds(key, value);
            }
            if let Some(value) = value.as_str()
                && let (Ok(key), Ok(value)) = (Quantity::parse(text), Quantity::parse(value))
            {
                return Some(key.cmp(&value));
            }
            if let Ok(number) = number::parse_float(text) {
                return compare_number(number, &Data::Double(number), value);
            }
            let version = semver::parse(text).ok()?;
            Some(version.compare(&semver::parse(value.as_str()?).ok()?))
        }
        _ => None,
    }
}

fn compare_number(number: f64, key: &Data, value: &Data) -> Option<Ordering> {
    if let Data::String(text) = value {
        if let Some((key, value)) = durations(key, value) {
            return compare_seconds(key, value);
        }
        return number.partial_cmp(&number::parse_float(text).ok()?);
    }
    number.partial_cmp(&as_double(value)?)
}

fn compare_seconds(key: i64, value: i64) -> Option<Ordering> {
    duration::seconds(key).partial_cmp(&duration::seconds(value))
}

/// How key and value compare as durations, for the deprecated operators.
fn compare_durations(key: &Data, value: &Data) -> Option<Ordering> {
    let read = |data: &Data| match data {
        Data::String(text) => duration::parse(text).ok(),
        _ => whole_seconds(data),
    };
    Some(read(key)?.cmp(&read(value)?))
}

/// Key and value as durations: at least one must be written as one, the other may be a number of seconds.
fn durations(key: &Data, value: &Data) -> Option<(i64, i64)> {
    let written = |data: &Data| {
        let text = data.as_str().filter(|text| *text != "0")?;
        duration::parse(text).ok()
    };
    let (key_written, value_written) = (written(key), written(value));
    if key_written.is_none() && value_written.is_none() {
        return None;
    }
    Some((
        key_written.or_else(|| whole_seconds(key))?,
        value_written.or_else(|| whole_seconds(value))?,
    ))
}

/// A number of seconds in nanoseconds; the fraction is cut off, and what is too large wraps around.
fn whole_seconds(data: &Data) -> Option<i64> {
    let seconds = match data {
        Data::Int(value) => *value,
        _ => float::truncate(as_double(data)?),
    };
    Some(seconds.wrapping_mul(1_000_000_000))
}

fn as_double(data: &Data) -> Option<f64> {
    match data {
        Data::Int(value) => Some(*value as f64),
        Data::Uint(value) => Some(*value as f64),
        Data::Double(value) => Some(*value),
        _ => None,
    }
}
