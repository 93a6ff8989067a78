//! Go's `time.Duration`: `ParseDuration`, `String`, `Seconds`.

use std::fmt::Write;

use thiserror::Error;

/// An invalid duration; prints as Go does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("time: {reason} {}", quote(.text))]
pub struct DurationError {
    reason: String,
    text: String,
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// One more than the longest duration; a negative one may be that long.
const LIMIT: u64 = 1 << 63;

/// Parses a duration such as `1h30m` or `-1.5s` into nanoseconds.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let error = |reason: &str| DurationError {
        reason: reason.to_owned(),
        text: text.to_owned(),
    };
    let invalid = || error("invalid duration");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = digits(rest);
        let (whole, after) = rest.split_at(digits);
        let mut value = leading_int(whole).ok_or_else(invalid)?;
        let mut fraction = (0, 1.0);
        let mut any = digits > 0;
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = self::digits(after);
            let (text, after) = after.split_at(digits);
            fraction = leading_fraction(text);
            any |= digits > 0;
            rest = after;
        }
        if !any {
            return Err(invalid());
        }
        let end = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(error("missing unit in duration"));
        }
        let (name, after) = rest.split_at(end);
        rest = after;
        let Some((_, unit)) = UNITS.iter().find(|(known, _)| *known == name) else {
            return Err(error(&format!("unknown unit {} in duration", quote(name))));
        };
        if value > LIMIT / unit {
            return Err(invalid());
        }
        value *= unit;
        let (digits, scale) = fraction;
        if digits > 0 {
            value += (digits as f64 * (*unit as f64 / scale)) as u64;
        }
        // Both are at most 2^63 here, so the sum may wrap to zero and no further, as upstream.
        total = total.wrapping_add(value);
        if value > LIMIT || total > LIMIT {
            return Err(invalid());
        }
    }
    if negative {
        return Ok((total as i64).wrapping_neg());
    }
    i64::try_from(total).map_err(|_| invalid())
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn leading_int(digits: &str) -> Option<u64> {
    let mut value: u64 = 0;
    for byte in digits.bytes() {
        if value > LIMIT / 10 {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
        if value > LIMIT {
            return None;
        }
    }
    Some(value)
}

/// The digits after the point as a number and its divisor; digits that do not fit are dropped.
fn leading_fraction(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0u64, 1.0);
    for byte in digits.bytes() {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(byte - b'0');
        if next > LIMIT {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale)
}

/// Quotes as package `time` does: bytes in hexadecimal unless they are printable ASCII (DEL counts as printable).
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(byte.into());
            }
            b' '..=0x7f => out.push(byte.into()),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

/// Prints a duration given in nanoseconds, such as `1h30m0s` or `1.5ms`.
pub fn format(nanoseconds: i64) -> String {
    let mut out = String::new();
    if nanoseconds < 0 {
        out.push('-');
    }
    let n = nanoseconds.unsigned_abs();
    match n {
        0 => out.push_str("0s"),
        1..1_000 => {
            let _ = write!(out, "{n}ns");
        }
        1_000..1_000_000 => fraction(&mut out, n, 1_000, 3, "\u{b5}s"),
        1_000_000..1_000_000_000 => fraction(&mut out, n, 1_000_000, 6, "ms"),
        _ => {
            let minutes = n / 60_000_000_000;
            if minutes >= 60 {
                let _ = write!(out, "{}h", minutes / 60);
            }
            if minutes > 0 {
                let _ = write!(out, "{}m", minutes % 60);
            }
            fraction(&mut out, n % 60_000_000_000, 1_000_000_000, 9, "s");
        }
    }
    out
}

/// Appends `n / unit` without the trailing zeros of the fraction.
fn fraction(out: &mut String, n: u64, unit: u64, width: usize, suffix: &str) {
    let _ = write!(out, "{}", n / unit);
    let rest = n % unit;
    if rest > 0 {
        let digits = format!("{rest:0width$}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    out.push_str(suffix);
}

/// Converts nanoseconds to seconds, rounded as Go does.
pub fn seconds(nanoseconds: i64) -> f64 {
    (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1e9
}
