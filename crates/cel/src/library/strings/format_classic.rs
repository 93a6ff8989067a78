//! The formatter of strings versions 1 to 3: numbers as the locale en_US writes them.
//!
//! Upstream counterpart: cel-go `ext/formatting.go` with `golang.org/x/text/message`.

use std::fmt::Write as _;

use super::format::Verb;
use crate::{time, val::Val};
use kyvtest_go_compat::text::{
    float::{self, Layout},
    number,
    quote::quote,
};

/// Digits after the point if the clause has no precision.
const DEFAULT_PRECISION: i64 = 6;
/// Padding is cut at this width: upstream would create a string of any size.
const MAX_WIDTH: i64 = 1 << 20;

/// Formats one value for one clause.
pub(super) fn clause(verb: Verb, precision: Option<i64>, arg: Val<'_>) -> Result<String, String> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    match verb {
        Verb::String => string(arg),
        Verb::Decimal => match arg {
            Val::Int(_) | Val::Uint(_) => Ok(integer(arg)),
            _ => refuse("decimal clause can only be used on integers", arg),
        },
        Verb::Fixed => match as_double(arg) {
            Some(d) => Ok(fixed(d, precision)),
            None => refuse("fixed-point clause can only be used on doubles", arg),
        },
        Verb::Scientific => match as_double(arg) {
            Some(d) => Ok(scientific(d, precision)),
            None => refuse("scientific clause can only be used on doubles", arg),
        },
        Verb::Binary => {
            binary(arg).map_or_else(|| refuse("only integers and bools can be formatted as binary", arg), Ok)
        }
        Verb::Hex { upper } => hex(arg, upper).map_or_else(
            || refuse("only integers, byte buffers, and strings can be formatted as hex", arg),
            Ok,
        ),
        Verb::Octal => octal(arg).map_or_else(|| refuse("octal clause can only be used on integers", arg), Ok),
    }
}

/// The error for a value that a clause does not accept.
pub(super) fn refuse<T>(what: &str, arg: Val<'_>) -> Result<T, String> {
    Err(format!("{what}, was given {}", arg.type_name()))
}

/// The error message of `%s`, the same in both formatters.
pub(super) const STRING_CLAUSE: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                                        lists, types, durations, and timestamps";

fn integer(arg: Val<'_>) -> String {
    match arg {
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        _ => String::new(),
    }
}

pub(super) fn binary(arg: Val<'_>) -> Option<String> {
    match arg {
        Val::Bool(b) => Some(if b { "1" } else { "0" }.to_owned()),
        Val::Int(i) => Some(format!("{}{:b}", sign(i), i.unsigned_abs())),
        Val::Uint(u) => Some(format!("{u:b}")),
        _ => None,
    }
}

pub(super) fn octal(arg: Val<'_>) -> Option<String> {
    match arg {
        Val::Int(i) => Some(format!("{}{:o}", sign(i), i.unsigned_abs())),
        Val::Uint(u) => Some(format!("{u:o}")),
        _ => None,
    }
}

pub(super) fn hex(arg: Val<'_>, upper: bool) -> Option<String> {
    let bytes = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
                // Writing into memory cannot fail.
                let _ = write!(out, "{byte:02x}");
                out
            })
    };
    let text = match arg {
        Val::Int(i) => format!("{}{:x}", sign(i), i.unsigned_abs()),
        Val::Uint(u) => format!("{u:x}"),
        Val::String(s) => bytes(s.as_bytes()),
        Val::Bytes(b) => bytes(b),
        _ => return None,
    };
    Some(if upper { text.to_ascii_uppercase() } else { text })
}

fn sign(i: i64) -> &'static str {
    if i < 0 { "-" } else { "" }
}

/// Doubles, and the three strings that represent doubles without a literal.
fn as_double(arg: Val<'_>) -> Option<f64> {
    match arg {
        Val::Double(d) => Some(d),
        Val::String(s @ ("NaN" | "Infinity" | "-Infinity")) => number::parse_float(s).ok(),
        _ => None,
    }
}

/// `%f` in the locale en_US: groups of three digits.
fn fixed(d: f64, precision: i64) -> String {
    if let Some(text) = special(d) {
        return text.to_owned();
    }
    // The library behind upstream keeps the largest number of digits in 16 bits and the smallest in 8.
    let (most, least) = (precision as i16, usize::from(precision as u8));
    let digits = match usize::try_from(most) {
        Ok(most) => float::format(d.abs(), Layout::Fixed, Some(most)),
        Err(_) => float::format(d.abs(), Layout::Fixed, None),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = String::from(if d < 0.0 { "-" } else { "" });
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let significant = fraction.trim_end_matches('0').len();
    let kept = significant.max(least.min(fraction.len()));
    if kept.max(least) > 0 {
        out.push('.');
        out.push_str(&fraction[..kept]);
        out.extend(std::iter::repeat_n('0', least.saturating_sub(kept)));
    }
    out
}

/// `%e` in the locale en_US: always six digits, a power of ten in superscript; the precision is a width.
fn scientific(d: f64, width: i64) -> String {
    let text = match special(d) {
        Some(text) => text.to_owned(),
        None => {
            let plain = float::format(d.abs(), Layout::Exponent, Some(DEFAULT_PRECISION as usize));
            let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "+00"));
            let mut out = format!("{}{mantissa}×10", if d < 0.0 { "-" } else { "" });
            out.extend(exponent.chars().filter_map(superscript));
            out
        }
    };
    let padding = width.min(MAX_WIDTH).saturating_sub(text.chars().count() as i64);
    " ".repeat(usize::try_from(padding).unwrap_or(0)) + &text
}

fn special(d: f64) -> Option<&'static str> {
    if d.is_nan() {
        Some("NaN")
    } else if d == f64::INFINITY {
        Some("∞")
    } else if d == f64::NEG_INFINITY {
        Some("-∞")
    } else {
        None
    }
}

fn superscript(c: char) -> Option<char> {
    match c {
        '-' => Some('⁻'),
        '1' => Some('¹'),
        '2' => Some('²'),
        '3' => Some('³'),
        '0' | '4'..='9' => char::from_u32('⁰' as u32 + (c as u32 - '0' as u32)),
        _ => None,
    }
}

/// `%s`
fn string(arg: Val<'_>) -> Result<String, String> {
    Ok(match arg {
        Val::String(s) => s.to_owned(),
        Val::Bool(b) => b.to_string(),
        Val::Int(_) | Val::Uint(_) => integer(arg),
        Val::Double(d) => float::display(d),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(
                    "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string"
                        .to_owned(),
                );
            }
        },
        Val::Timestamp(t) => t.to_string(),
        Val::Duration(d) => time::duration_text(d),
        Val::Type(name) => name.to_owned(),
        Val::Null => "null".to_owned(),
        Val::List(_) | Val::DocumentList(_) => list(arg)?,
        Val::Map(_) | Val::DocumentMap(_) => map(arg)?,
        _ => return refuse(STRING_CLAUSE, arg),
    })
}

/// A value inside a list or map: close to a CEL literal.
fn element(arg: Val<'_>) -> Result<String, String> {
    Ok(match arg {
        Val::String(s) => quote(s),
        Val::Bytes(_) => format!("b{}", quote(&string(arg)?)),
        Val::Double(d) => {
            let text = float::format(d, Layout::Fixed, Some(DEFAULT_PRECISION as usize));
            if d.is_finite() { text } else { quote(&text) }
        }
        Val::Timestamp(_) => format!("timestamp({})", quote(&string(arg)?)),
        Val::Duration(_) => format!("duration({})", quote(&string(arg)?)),
        Val::Optional(_) | Val::Opaque(_) | Val::Variables | Val::Error(_) => {
            return Err(format!("no formatting function for {}", arg.type_name()));
        }
        _ => string(arg)?,
    })
}

fn list(arg: Val<'_>) -> Result<String, String> {
    let items: Vec<String> = arg.list_iter().map(element).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", items.join(", ")))
}

fn map(arg: Val<'_>) -> Result<String, String> {
    let mut entries = Vec::with_capacity(arg.len());
    for (key, value) in arg.map_iter() {
        let key = match key {
            Val::String(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => element(key)?,
            _ => {
                return Err(format!(
                    "no formatting function for map key of type {}",
                    key.type_name()
                ));
            }
        };
        entries.push((key, element(value)?));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
