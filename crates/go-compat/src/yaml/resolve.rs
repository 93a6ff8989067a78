//! The meaning of a scalar's text.
//!
//! Upstream counterpart: `resolve.go` of go.yaml.in/yaml/v2 2.4: YAML 1.1 booleans and nulls, Go's integer prefixes,
//! underscores, no base 60; a timestamp stays a string.

use super::number::{go_float, go_int, go_uint, is_timestamp, is_yaml_float};

/// The types of scalars, as JSON and Go distinguish them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// The text itself.
    Str,
    /// The text is base64.
    Binary,
}

const STANDARD: &str = "tag:yaml.org,2002:";

/// Resolves text under a tag; if the tag does not permit it, `Err` names the text's actual type.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Scalar, &'static str> {
    let Some(name) = tag.strip_prefix(STANDARD) else {
        return Ok(Scalar::Str);
    };
    let plain = |text| resolve_plain(text);
    let found = match name {
        "str" => return Ok(Scalar::Str),
        "binary" => return Ok(Scalar::Binary),
        "timestamp" if is_timestamp(text) => return Ok(Scalar::Str),
        "bool" | "int" | "float" | "null" | "timestamp" => plain(text),
        _ => return Ok(Scalar::Str),
    };
    match (name, found) {
        ("bool", Scalar::Bool(_))
        | ("int", Scalar::Int(_) | Scalar::Uint(_))
        | ("float", Scalar::Float(_))
        | ("null", Scalar::Null) => Ok(found),
        ("float", Scalar::Int(int)) => Ok(Scalar::Float(int as f64)),
        (_, Scalar::Null) => Err("null"),
        (_, Scalar::Bool(_)) => Err("a boolean"),
        (_, Scalar::Int(_) | Scalar::Uint(_)) => Err("an integer"),
        (_, Scalar::Float(_)) => Err("a float"),
        (_, Scalar::Str | Scalar::Binary) => Err("a string"),
    }
}

/// Resolves plain text without a tag.
#[inline]
pub(super) fn resolve_plain(text: &str) -> Scalar {
    let Some(&first) = text.as_bytes().first() else {
        return Scalar::Null;
    };
    match first {
        b'0'..=b'9' | b'+' | b'-' => word(text).unwrap_or_else(|| number(text)),
        b'.' => word(text).unwrap_or_else(|| fraction(text)),
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text).unwrap_or(Scalar::Str),
        _ => Scalar::Str,
    }
}

fn word(text: &str) -> Option<Scalar> {
    if text.len() > 5 {
        return None;
    }
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// A number that starts with its point: underscores may only occur between digits.
fn fraction(text: &str) -> Scalar {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let placed = |at: usize| at > 0 && digit(at - 1) && digit(at + 1);
    if !(0..bytes.len()).all(|at| bytes[at] != b'_' || placed(at)) {
        return Scalar::Str;
    }
    go_float(&text.replace('_', "")).map_or(Scalar::Str, Scalar::Float)
}

fn number(text: &str) -> Scalar {
    let bare: String;
    let text = if text.contains('_') {
        bare = text.replace('_', "");
        bare.as_str()
    } else {
        text
    };
    // Numbers contain no other characters; most text that starts like one is a date, an address or a version.
    let numeric = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'X' | b'o' | b'O' | b'.' | b'+' | b'-');
    if !text.bytes().all(numeric) {
        return Scalar::Str;
    }
    if let Some(int) = go_int(text, 0) {
        return Scalar::Int(int);
    }
    if let Some(uint) = go_uint(text, 0) {
        return Scalar::Uint(uint);
    }
    if is_yaml_float(text)
        && let Some(float) = go_float(text)
    {
        return Scalar::Float(float);
    }
    // A sign after the prefix is an accident of the Go library that files may rely on.
    if let Some(digits) = text.strip_prefix("0b") {
        if let Some(int) = go_int(digits, 2) {
            return Scalar::Int(int);
        }
        if let Some(uint) = go_uint(digits, 2) {
            return Scalar::Uint(uint);
        }
    } else if let Some(digits) = text.strip_prefix("-0b")
        && let Some(int) = go_int(&format!("-{digits}"), 2)
    {
        return Scalar::Int(int);
    }
    Scalar::Str
}
