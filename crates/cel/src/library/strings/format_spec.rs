//! The formatter of strings version 4, as the CEL specification describes it.
//!
//! Upstream counterpart: cel-go `ext/formatting_v2.go`.
//!
//! Deviation: invalid UTF-8 in bytes is printed as U+FFFD, upstream copies it.

use super::{
    format::Verb,
    format_classic::{STRING_CLAUSE, binary, hex, octal, refuse},
};
use crate::{time, val::Val};
use kyvtest_go_compat::text::float::{self, Layout};

/// Digits are cut at this precision: upstream would create a string of any size.
const MAX_PRECISION: usize = 1 << 20;

/// Formats one value for one clause.
pub(super) fn clause(verb: Verb, precision: Option<i64>, arg: Val<'_>) -> Result<String, String> {
    let precision = usize::try_from(precision.unwrap_or(6)).unwrap_or(0).min(MAX_PRECISION);
    let number = |layout| match arg {
        Val::Int(i) => Some(float::format(i as f64, layout, Some(precision))),
        Val::Uint(u) => Some(float::format(u as f64, layout, Some(precision))),
        Val::Double(d) => Some(special(d).map_or_else(|| float::format(d, layout, Some(precision)), str::to_owned)),
        _ => None,
    };
    let (text, otherwise) = match verb {
        Verb::String => return string(arg),
        Verb::Decimal => (
            match arg {
                Val::Int(_) | Val::Uint(_) | Val::Double(_) => Some(string(arg)?),
                _ => None,
            },
            "decimal clause can only be used on ints, uints, and doubles",
        ),
        Verb::Fixed => (
            number(Layout::Fixed),
            "fixed-point clause can only be used on ints, uints, and doubles",
        ),
        Verb::Scientific => (
            number(Layout::Exponent),
            "scientific clause can only be used on ints, uints, and doubles",
        ),
        Verb::Binary => (binary(arg), "only ints, uints, and bools can be formatted as binary"),
        Verb::Hex { upper } => (
            hex(arg, upper),
            "only ints, uints, bytes, and strings can be formatted as hex",
        ),
        Verb::Octal => (octal(arg), "octal clause can only be used on ints and uints"),
    };
    text.map_or_else(|| refuse(otherwise, arg), Ok)
}

fn special(d: f64) -> Option<&'static str> {
    if d.is_nan() {
        Some("NaN")
    } else if d == f64::INFINITY {
        Some("Infinity")
    } else if d == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}

fn string(arg: Val<'_>) -> Result<String, String> {
    Ok(match arg {
        Val::Bool(b) => b.to_string(),
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        Val::Double(d) => special(d).map_or_else(|| float::format(d, Layout::Fixed, None), str::to_owned),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::String(s) => s.to_owned(),
        Val::Duration(d) => time::duration_text(d),
        Val::Timestamp(t) => t.to_utc().to_string(),
        Val::Null => "null".to_owned(),
        Val::Type(name) => name.to_owned(),
        Val::List(_) | Val::DocumentList(_) => {
            let items: Vec<String> = arg.list_iter().map(string).collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            let mut entries: Vec<(String, String)> = arg
                .map_iter()
                .map(|(key, value)| Ok((string(key)?, string(value)?)))
                .collect::<Result<_, String>>()?;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => return refuse(STRING_CLAUSE, arg),
    })
}
