//! A scalar of a pattern: alternatives, comparisons, ranges, durations, quantities, wildcards.
//!
//! Upstream counterpart: `pkg/engine/pattern/pattern.go`, `pkg/engine/operator/operator.go`.

use std::cmp::Ordering;

use kyvtest_go_compat::{
    text::{duration, float, number, quantity::Quantity, wildcard},
    value::Data,
};

/// The comparison of one atom of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator<'p> {
    Equal,
    NotEqual,
    More,
    MoreEqual,
    Less,
    LessEqual,
    InRange(&'p str, &'p str),
    NotInRange(&'p str, &'p str),
}

impl<'p> Operator<'p> {
    /// Splits a leading operator off, or recognises a range; returns the rest.
    pub fn read(text: &'p str) -> (Self, &'p str) {
        if text.len() < 2 {
            return (Self::Equal, text);
        }
        let signs = [
            (">=", Self::MoreEqual),
            ("<=", Self::LessEqual),
            (">", Self::More),
            ("<", Self::Less),
            ("!", Self::NotEqual),
        ];
        for (sign, operator) in signs {
            if let Some(rest) = text.strip_prefix(sign) {
                return (operator, rest);
            }
        }
        if let Some((from, to)) = range(text, "!-") {
            (Self::NotInRange(from, to), "")
        } else if let Some((from, to)) = range(text, "-") {
            (Self::InRange(from, to), "")
        } else {
            (Self::Equal, text)
        }
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::More => ordering.is_gt(),
            Self::MoreEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
            Self::InRange(..) | Self::NotInRange(..) => false,
        }
    }
}

/// The two ends of a range: numbers with an optional sign and an optional suffix of letters, which both or neither must
/// have.
fn range<'p>(text: &'p str, separator: &str) -> Option<(&'p str, &'p str)> {
    let end = endpoint(text)?;
    let to = text[end..].strip_prefix(separator)?;
    (endpoint(to)? == to.len()).then_some((&text[..end], to))
}

/// The length of a range's end at the start of a string.
fn endpoint(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let run = |mut at: usize, fits: fn(&u8) -> bool| {
        while bytes.get(at).is_some_and(fits) {
            at += 1;
        }
        at
    };
    // Upstream also accepts a bar as a sign.
    let start = usize::from(matches!(bytes.first(), Some(b'-' | b'|' | b'+')));
    let mut at = run(start, u8::is_ascii_digit);
    if at == start {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        let fraction = run(at + 1, u8::is_ascii_digit);
        if fraction > at + 1 {
            at = fraction;
        }
    }
    Some(run(at, u8::is_ascii_alphabetic))
}

/// Whether a value matches a pattern without keys.
pub fn satisfies(value: &Data, pattern: &Data) -> bool {
    match pattern {
        Data::Null => is_zero(value),
        Data::Bool(pattern) => *value == Data::Bool(*pattern),
        Data::Int(pattern) => fits_int(value, *pattern),
        Data::Uint(pattern) => fits_double(value, *pattern as f64),
        Data::Double(pattern) => fits_double(value, *pattern),
        Data::String(pattern) => fits_text(value, pattern),
        Data::Map(_) => matches!(value, Data::Map(_)),
        Data::List(_) => false,
    }
}

fn is_zero(value: &Data) -> bool {
    match value {
        Data::Null => true,
        Data::Bool(value) => !value,
        Data::Int(value) => *value == 0,
        Data::Uint(value) => *value == 0,
        Data::Double(value) => *value == 0.0,
        Data::String(text) => text.is_empty(),
        Data::List(_) | Data::Map(_) => false,
    }
}

fn fits_int(value: &Data, pattern: i64) -> bool {
    match value {
        Data::Int(value) => *value == pattern,
        Data::Uint(value) => i64::try_from(*value) == Ok(pattern),
        Data::Double(value) => value.trunc() == *value && float::truncate(*value) == pattern,
        Data::String(text) => number::parse_int(text, 10, 64) == Ok(pattern),
        _ => false,
    }
}

fn fits_double(value: &Data, pattern: f64) -> bool {
    match value {
        Data::Int(value) => pattern.trunc() == pattern && float::truncate(pattern) == *value,
        Data::Uint(value) => *value as f64 == pattern,
        Data::Double(value) => *value == pattern,
        Data::String(text) => number::parse_float(text).is_ok_and(|value| value == pattern),
        _ => false,
    }
}

/// Alternatives separated by `|`, each a conjunction separated by `&`.
fn fits_text(value: &Data, pattern: &str) -> bool {
    if value.as_str() == Some(pattern) {
        return true;
    }
    let value = Texts::new(value);
    pattern.split('|').any(|alternative| {
        let alternative = alternative.trim_matches(' ');
        alternative
            .split('&')
            .all(|atom| fits_atom(&value, atom.trim_matches(' ')))
    })
}

/// A value as a string: for numbers, and for wildcards.
struct Texts {
    number: Option<String>,
    wildcard: Option<String>,
}

impl Texts {
    fn new(value: &Data) -> Self {
        let (number, wildcard) = match value {
            Data::Null => (Some("0".to_owned()), None),
            Data::Bool(value) => (None, Some(value.to_string())),
            Data::Int(value) => (Some(value.to_string()), Some(value.to_string())),
            Data::Uint(value) => return Self::new(&Data::Double(*value as f64)),
            Data::Double(value) => (
                Some(float::format(*value, float::Layout::Fixed, Some(6))),
                Some(float::format(*value, float::Layout::UpperExponent, None)),
            ),
            Data::String(text) => (Some(text.to_string()), Some(text.to_string())),
            Data::List(_) | Data::Map(_) => (None, None),
        };
        Self { number, wildcard }
    }
}

fn fits_atom(value: &Texts, atom: &str) -> bool {
    match Operator::read(atom) {
        (Operator::InRange(from, to), _) => {
            compare(value, from, Operator::MoreEqual) && compare(value, to, Operator::LessEqual)
        }
        (Operator::NotInRange(from, to), _) => {
            compare(value, from, Operator::Less) || compare(value, to, Operator::More)
        }
        (operator, operand) => compare(value, operand.trim(), operator),
    }
}

/// Compares as durations, else as quantities, else as strings.
fn compare(value: &Texts, operand: &str, operator: Operator<'_>) -> bool {
    if let Some(value) = &value.number {
        if let (Ok(operand), Ok(value)) = (duration::parse(operand), duration::parse(value)) {
            return operator.holds(value.cmp(&operand));
        }
        if let (Ok(operand), Ok(value)) = (Quantity::parse(operand), Quantity::parse(value)) {
            return operator.holds(value.cmp(&operand));
        }
    }
    let Some(value) = &value.wildcard else { return false };
    match operator {
        Operator::Equal => wildcard::matches(operand, value),
        Operator::NotEqual => !wildcard::matches(operand, value),
        _ => false,
    }
}
