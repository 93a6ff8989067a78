//! Kyverno's functions on text.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/functions.go`.

use std::borrow::Cow;

use super::{Call, data, failed, panic, refused};
use crate::{Error, interpreter::ItemResult, item::Item};
use kyvtest_go_compat::{
    regex::Regex,
    text::{
        case,
        float::{self, Layout},
        path, semver,
        semver_range::Range,
        wildcard,
    },
    value::Data,
};

pub(super) fn compare<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let order = call.text(0)?.cmp(call.text(1)?);
    // An integer is not a number to JMESPath.
    data(i64::from(order as i8))
}

pub(super) fn equal_fold<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(case::equal_fold(call.text(0)?, call.text(1)?))
}

/// Replaces up to `count` occurrences; all if negative. An empty string occurs before each character and at the end.
fn replaced<'e>(call: &Call<'_, 'e>, count: i64) -> ItemResult<'e> {
    let (text, old, new) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let occurrences = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    let occurrences = occurrences.min(limit);
    call.interpreter
        .charge_text(text.len().saturating_add(occurrences.saturating_mul(new.len())))?;
    data(text.replacen(old, new, occurrences))
}

pub(super) fn replace<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    replaced(call, float::truncate(call.number(3)?))
}

pub(super) fn replace_all<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    replaced(call, -1)
}

pub(super) fn to_upper<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(case::upper(call.text(0)?))
}

pub(super) fn to_lower<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    data(case::lower(call.text(0)?))
}

pub(super) fn trim<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let (text, cutset) = (call.text(0)?, call.text(1)?);
    call.interpreter.charge_text(text.len().saturating_mul(cutset.len()))?;
    data(text.trim_matches(|c| cutset.contains(c)))
}

pub(super) fn trim_prefix<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let (text, prefix) = (call.text(0)?, call.text(1)?);
    data(text.strip_prefix(prefix).unwrap_or(text))
}

pub(super) fn split<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let (text, separator) = (call.text(0)?, call.text(1)?);
    call.interpreter.charge(text.len())?;
    let pieces = if separator.is_empty() {
        text.chars().map(|c| Data::from(c.to_string())).collect()
    } else {
        text.split(separator).map(Data::from).collect()
    };
    Ok(Item::Data(pieces))
}

pub(super) fn path_canonicalize<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match call.text(0)? {
        "" => data(""),
        text => data(path::clean(text)),
    }
}

pub(super) fn truncate<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let text = call.text(0)?;
    let length = call.number(1)?;
    let length = float::truncate(if length < 0.0 { 0.0 } else { length });
    let length = usize::try_from(length).unwrap_or(0);
    let end = text.char_indices().nth(length).map_or(text.len(), |(at, _)| at);
    data(text.get(..end).unwrap_or(text))
}

pub(super) fn to_boolean<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let text = call.text(0)?;
    match case::lower(text).as_str() {
        "true" => data(true),
        "false" => data(false),
        _ => failed(
            "to_boolean",
            format_args!("lowercase argument must be 'true' or 'false' (provided: '{text}')"),
        ),
    }
}

pub(super) fn semver_compare<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    // An invalid version counts as the lowest one.
    let version = semver::parse(call.text(0)?).or_else(|_| semver::parse("0.0.0"));
    let range = Range::parse(call.text(1)?);
    match (version, range) {
        (Ok(version), Ok(range)) => match range.contains(&version) {
            Some(result) => data(result),
            None => panic("runtime error: invalid memory address or nil pointer dereference"),
        },
        (Err(error), _) | (_, Err(error)) => refused(error),
    }
}

/// A scalar as text; numbers go through 32 bits.
pub(super) fn text_of(value: &Data) -> Option<Cow<'_, str>> {
    Some(match value {
        Data::String(text) => Cow::Borrowed(text),
        Data::Int(number) => Cow::Owned(number.to_string()),
        Data::Double(number) => Cow::Owned(float::format32(*number as f32, Layout::Fixed, None)),
        Data::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        _ => return None,
    })
}

/// The text of an argument that was checked to be a string or a number; charges for it.
fn text_or_number<'c>(call: &'c Call<'_, '_>, index: usize, function: &str) -> Result<Cow<'c, str>, Error> {
    let text = match call.arg(index) {
        Item::Data(value) => text_of(value),
        _ => None,
    };
    let Some(text) = text else {
        return failed(
            function,
            format_args!("argument #{} is not of type String or Real", index + 1),
        );
    };
    call.interpreter.charge_text(text.len())?;
    Ok(text)
}

/// Compiles a pattern, and charges for that and for one search.
fn compile(call: &Call<'_, '_>, pattern: &str, text: &str) -> Result<Result<Regex, String>, Error> {
    let regex = match Regex::new_within(pattern, |states| call.interpreter.charge(states as usize).is_ok()) {
        Ok(regex) => regex,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let states = usize::try_from(regex.states()).unwrap_or(usize::MAX);
    call.interpreter
        .charge(states.saturating_mul(text.len() / 64).saturating_add(text.len()))?;
    Ok(Ok(regex))
}

pub(super) fn regex_match<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let text = text_or_number(call, 1, "regex_match")?;
    match compile(call, call.text(0)?, &text)? {
        Ok(regex) => data(regex.is_match(&text)),
        Err(error) => refused(error),
    }
}

fn regex_replaced<'e>(call: &Call<'_, 'e>, function: &str, literal: bool) -> ItemResult<'e> {
    let pattern = call.text(0)?;
    let text = text_or_number(call, 1, function)?;
    let replacement = text_or_number(call, 2, function)?;
    let regex = match compile(call, pattern, &text)? {
        Ok(regex) => regex,
        Err(error) => return failed(function, error),
    };
    // Searches that always read to the end make the whole quadratic: count and charge the matches first.
    let spent = std::cell::Cell::new(Ok(()));
    let matches = regex.find_all_within(&text, None, |bytes| {
        let paid = call.interpreter.charge(1 + bytes / 64);
        let going_on = paid.is_ok();
        spent.set(paid);
        going_on
    });
    spent.into_inner()?;
    let groups = if literal { 0 } else { replacement.matches('$').count() };
    let length = matches.len().saturating_mul(replacement.len());
    call.interpreter
        .charge_text(length.saturating_add(groups.saturating_mul(text.len())))?;
    let replaced = if literal {
        regex.replace_all_literal(&text, &replacement)
    } else {
        regex.replace_all(&text, &replacement)
    };
    call.returns(&*replaced)
}

pub(super) fn regex_replace_all<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    regex_replaced(call, "regex_replace_all", false)
}

pub(super) fn regex_replace_all_literal<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    regex_replaced(call, "regex_replace_all_literal", true)
}

pub(super) fn pattern_match<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let pattern = call.text(0)?;
    let text = text_or_number(call, 1, "regex_match")?;
    call.interpreter.charge_text(pattern.len().saturating_mul(text.len()))?;
    data(wildcard::matches(pattern, &text))
}
