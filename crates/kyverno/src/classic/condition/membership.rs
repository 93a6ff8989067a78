//! The condition operators that test membership of a list.
//!
//! Upstream counterpart: `pkg/engine/variables/operator/{in,notin,anyin,allin,anynotin,allnotin}.go`.

use crate::classic::pattern::scalar;
use kyvtest_go_compat::{
    text::wildcard,
    value::{Data, Document},
};

/// The relation that an operator tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    /// Deprecated: all of the keys are in the list.
    In,
    /// Deprecated: one of the keys is not.
    NotIn,
    AnyIn,
    AllIn,
    AnyNotIn,
    AllNotIn,
}

impl Membership {
    pub(super) fn evaluate(self, key: &Data, value: &Data) -> Result<bool, String> {
        let deprecated = matches!(self, Self::In | Self::NotIn);
        match key {
            Data::Null | Data::Map(_) => Ok(false),
            Data::List(keys) if deprecated => {
                let keys: Option<Vec<&str>> = keys.iter().map(Data::as_str).collect();
                let Some(keys) = keys else {
                    let kind = key.as_list().into_iter().flatten().find(|key| key.as_str().is_none());
                    let kind = kind.map_or("nothing", Data::go_type);
                    return Err(format!("the key of `In` and `NotIn` is a list of texts, not of {kind}"));
                };
                Ok(self.exact(&keys, value).unwrap_or(false))
            }
            Data::List(keys) => {
                let keys: Vec<String> = keys.iter().map(Data::to_go).collect();
                Ok(self.list(&keys, value).unwrap_or(false))
            }
            _ => {
                let member = if deprecated { member_without_ranges } else { member };
                let Some(found) = member(&key.to_go(), value) else {
                    return Ok(false);
                };
                Ok(found != matches!(self, Self::NotIn | Self::AnyNotIn | Self::AllNotIn))
            }
        }
    }

    /// Keys against a list of values, wildcards on both sides.
    fn among(self, keys: &[String], values: &[String]) -> bool {
        let found = |key: &String| values.iter().any(|value| either_way(key, value));
        match self {
            Self::AnyIn => keys.iter().any(found),
            Self::AllIn | Self::In => keys.iter().all(found),
            Self::AnyNotIn | Self::NotIn => !keys.iter().all(found),
            Self::AllNotIn => !keys.iter().any(found),
        }
    }

    /// Several keys; `None` if the value is of no type that has members.
    fn list(self, keys: &[String], value: &Data) -> Option<bool> {
        let text = match value {
            Data::List(values) => {
                let values: Vec<String> = values.iter().map(Data::to_go).collect();
                return Some(self.among(keys, &values));
            }
            Data::Bool(_) | Data::Int(_) | Data::Uint(_) | Data::Double(_)
                if matches!(self, Self::AnyIn | Self::AnyNotIn) =>
            {
                return Some(self.among(keys, &[value.to_go()]));
            }
            Data::String(text) => text,
            _ => return None,
        };
        if let [key] = keys
            && key.as_str() == text.as_ref()
        {
            return Some(matches!(self, Self::AnyIn | Self::AllIn));
        }
        if is_range(text) {
            let inside = |key: &String| scalar::satisfies(&Data::from(key.as_str()), value);
            return Some(match self {
                Self::AnyIn => keys.iter().any(inside),
                Self::AllIn | Self::In => keys.iter().all(inside),
                Self::AllNotIn => !keys.iter().any(inside),
                Self::AnyNotIn | Self::NotIn => {
                    // The first hyphen may be a sign, as upstream.
                    let outside = Data::from(text.replacen('-', "!-", 1));
                    keys.iter()
                        .any(|key| scalar::satisfies(&Data::from(key.as_str()), &outside))
                }
            });
        }
        Some(self.among(keys, &json_strings_or_itself(text)?))
    }

    /// Several keys, compared as they are: the deprecated operators.
    fn exact(self, keys: &[&str], value: &Data) -> Option<bool> {
        let values: Vec<String> = match value {
            Data::List(values) => values
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
            Data::String(text) => {
                // Also for `NotIn`, as upstream.
                if let [key] = keys
                    && *key == text.as_ref()
                {
                    return Some(true);
                }
                texts(text)?
            }
            _ => return None,
        };
        let all = keys.iter().all(|key| values.iter().any(|value| value == key));
        Some(all == (self == Self::In))
    }
}

fn either_way(left: &str, right: &str) -> bool {
    wildcard::matches(left, right) || wildcard::matches(right, left)
}

fn is_range(text: &str) -> bool {
    matches!(scalar::Operator::read(text), (scalar::Operator::InRange(..), _))
}

/// Whether a list has a key, or a text describes it; `None` if the value is of neither type.
fn member(key: &str, value: &Data) -> Option<bool> {
    match value {
        Data::String(text) => Some(
            wildcard::matches(text, key)
                || if is_range(text) {
                    scalar::satisfies(&Data::from(key), value)
                } else {
                    json_strings_or_itself(text)?.iter().any(|value| value == key)
                },
        ),
        _ => member_of_list(key, value),
    }
}

/// Tests membership without ranges; a string without wildcards must be a JSON list.
fn member_without_ranges(key: &str, value: &Data) -> Option<bool> {
    match value {
        Data::String(text) => Some(wildcard::matches(text, key) || texts(text)?.iter().any(|value| value == key)),
        _ => member_of_list(key, value),
    }
}

fn member_of_list(key: &str, value: &Data) -> Option<bool> {
    let values = value.as_list()?;
    Some(values.iter().any(|value| either_way(&value.to_go(), key)))
}

/// A text that is a list of texts in JSON; `null` is the empty list, and a null in it an empty text.
fn texts(text: &str) -> Option<Vec<String>> {
    let document = Document::from_json(text).ok()?;
    match Data::from(document.root()) {
        Data::Null => Some(Vec::new()),
        Data::List(items) => items
            .iter()
            .map(|item| match item {
                Data::Null => Some(String::new()),
                Data::String(text) => Some(text.to_string()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// The strings of a JSON list, or the input itself if it is not JSON.
fn json_strings_or_itself(text: &str) -> Option<Vec<String>> {
    // Numbers that are too large for a float64 are JSON all the same.
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Some(vec![text.to_owned()]);
    }
    texts(text)
}
