//! Go's `strconv` parsers with their error messages: `Atoi`, `ParseInt`, `ParseUint`, `ParseFloat`, `ParseBool`.

use thiserror::Error;

use super::quote::quote;

/// The cause of a [`NumberError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The string is not written as a number.
    #[error("invalid syntax")]
    Syntax,
    /// The number does not fit the type.
    #[error("value out of range")]
    Range,
}

/// An invalid number; prints as Go's `strconv.NumError`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("strconv.{function}: parsing {}: {reason}", quote(.text))]
pub struct NumberError {
    function: &'static str,
    text: String,
    reason: Reason,
}

impl NumberError {
    fn new(function: &'static str, text: &str, reason: Reason) -> Self {
        Self {
            function,
            text: text.to_owned(),
            reason,
        }
    }

    pub fn reason(&self) -> Reason {
        self.reason
    }
}

/// `strconv.Atoi` on a 64-bit machine.
pub fn atoi(text: &str) -> Result<i64, NumberError> {
    signed(text, 10, 64).map_err(|reason| NumberError::new("Atoi", text, reason))
}

/// `strconv.ParseInt`; base 0 takes the base from the prefix and allows underscores.
pub fn parse_int(text: &str, base: u32, bits: u32) -> Result<i64, NumberError> {
    signed(text, base, bits).map_err(|reason| NumberError::new("ParseInt", text, reason))
}

/// `strconv.ParseUint`; base 0 takes the base from the prefix and allows underscores.
pub fn parse_uint(text: &str, base: u32, bits: u32) -> Result<u64, NumberError> {
    unsigned(text, base, bits).map_err(|reason| NumberError::new("ParseUint", text, reason))
}

/// `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(NumberError::new("ParseBool", text, Reason::Syntax)),
    }
}

fn signed(text: &str, base: u32, bits: u32) -> Result<i64, Reason> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match unsigned(digits, base, bits) {
        Err(Reason::Range) => u64::MAX,
        other => other?,
    };
    let cutoff = 1u64 << (bits.clamp(1, 64) - 1);
    if negative {
        if magnitude > cutoff {
            return Err(Reason::Range);
        }
        return Ok((magnitude as i64).wrapping_neg());
    }
    if magnitude >= cutoff {
        return Err(Reason::Range);
    }
    Ok(magnitude as i64)
}

fn unsigned(text: &str, base: u32, bits: u32) -> Result<u64, Reason> {
    if text.is_empty() {
        return Err(Reason::Syntax);
    }
    let (prefixed, base, digits) = if base == 0 {
        let lower = text.as_bytes().get(1).map(u8::to_ascii_lowercase);
        match (text.starts_with('0'), lower) {
            (true, Some(b'b')) if text.len() >= 3 => (true, 2, &text[2..]),
            (true, Some(b'o')) if text.len() >= 3 => (true, 8, &text[2..]),
            (true, Some(b'x')) if text.len() >= 3 => (true, 16, &text[2..]),
            (true, _) => (true, 8, &text[1..]),
            _ => (true, 10, text),
        }
    } else {
        (false, base.clamp(2, 36), text)
    };
    let max = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let mut value: u64 = 0;
    let mut underscores = false;
    for byte in digits.bytes() {
        if byte == b'_' && prefixed {
            underscores = true;
            continue;
        }
        // A wrong digit after an overflow still counts as overflow.
        let digit = char::from(byte)
            .to_digit(36)
            .filter(|d| *d < base)
            .ok_or(Reason::Syntax)?;
        value = value
            .checked_mul(base.into())
            .and_then(|value| value.checked_add(digit.into()))
            .filter(|value| *value <= max)
            .ok_or(Reason::Range)?;
    }
    if underscores && !underscores_ok(text) {
        return Err(Reason::Syntax);
    }
    Ok(value)
}

/// Reports whether every underscore is between digits, or between a base prefix and a digit.
fn underscores_ok(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let prefix = match text {
        [b'0', b, ..] => Some(b.to_ascii_lowercase()).filter(|b| matches!(b, b'b' | b'o' | b'x')),
        _ => None,
    };
    let hex = prefix == Some(b'x');
    let mut after_digit = prefix.is_some();
    let mut open = false;
    for byte in text.iter().skip(if prefix.is_some() { 2 } else { 0 }) {
        if byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit() {
            (after_digit, open) = (true, false);
        } else if *byte == b'_' {
            if !after_digit {
                return false;
            }
            (after_digit, open) = (false, true);
        } else {
            if open {
                return false;
            }
            after_digit = false;
        }
    }
    !open
}

/// `strconv.ParseFloat` for 64 bits.
pub fn parse_float(text: &str) -> Result<f64, NumberError> {
    let parsed = float(text, 52, -1022, |decimal| decimal.parse().ok());
    finish(text, parsed)
}

fn finish(text: &str, parsed: Option<(f64, bool)>) -> Result<f64, NumberError> {
    match parsed {
        Some((value, _)) if value.is_finite() => Ok(value),
        Some((value, true)) => Ok(value),
        Some((_, false)) => Err(NumberError::new("ParseFloat", text, Reason::Range)),
        None => Err(NumberError::new("ParseFloat", text, Reason::Syntax)),
    }
}

/// Returns the value and whether it was written as a word (an infinity or not-a-number), so that it is not an overflow.
fn float(text: &str, mantissa_bits: u32, min_exp: i64, decimal: fn(&str) -> Option<f64>) -> Option<(f64, bool)> {
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some((sign * f64::INFINITY, true));
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some((f64::NAN, true));
    }
    let hex = rest.len() > 2 && rest.as_bytes()[..2].eq_ignore_ascii_case(b"0x");
    if text.contains('_') && !underscores_ok(text) {
        return None;
    }
    let clean: String;
    let digits = if rest.contains('_') {
        clean = rest.replace('_', "");
        clean.as_str()
    } else {
        rest
    };
    if hex {
        return hex_float(&digits[2..], mantissa_bits, min_exp).map(|value| (sign * value, false));
    }
    // The standard parser only receives what Go accepts as well.
    let (mantissa, exponent) = digits
        .split_once(['e', 'E'])
        .map_or((digits, None), |(m, e)| (m, Some(e)));
    let point = mantissa.bytes().filter(|b| *b == b'.').count();
    let ok = point <= 1
        && mantissa.bytes().any(|b| b.is_ascii_digit())
        && mantissa.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && exponent.is_none_or(is_exponent);
    if !ok {
        return None;
    }
    decimal(digits).map(|value| (sign * value, false))
}

fn is_exponent(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// A hexadecimal float after its prefix; the exponent is required. Rounds to nearest, ties to even.
fn hex_float(text: &str, mantissa_bits: u32, min_exp: i64) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    if !is_exponent(exponent) {
        return None;
    }
    // A long exponent only has to stay so far out of range that no mantissa can bring it back.
    let limit = 1_000_000_000;
    let exponent = exponent.parse::<i64>().map_or_else(
        |_| if exponent.starts_with('-') { -limit } else { limit },
        |e| e.clamp(-limit, limit),
    );
    let (mut value, mut shift, mut sticky, mut seen, mut point) = (0u64, exponent, false, false, false);
    for byte in mantissa.bytes() {
        if byte == b'.' && !point {
            point = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        seen = true;
        if value >> 60 == 0 {
            value = value << 4 | u64::from(digit);
            shift -= if point { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            shift += if point { 0 } else { 4 };
        }
    }
    if !seen {
        return None;
    }
    if value == 0 {
        return Some(0.0);
    }
    // Normalise to 64 bits, then cut to the mantissa of the type, fewer bits for subnormals.
    let zeros = value.leading_zeros();
    value <<= zeros;
    shift -= i64::from(zeros);
    let top = shift + 63;
    let keep = if top >= min_exp {
        i64::from(mantissa_bits) + 1
    } else {
        i64::from(mantissa_bits) + 1 - (min_exp - top)
    };
    if keep < 0 {
        return Some(0.0);
    }
    let drop = 64 - keep as u32;
    let kept = if drop == 64 { 0 } else { value >> drop };
    let half = 1u64 << (drop - 1);
    let rest = if drop == 64 { value } else { value & ((1 << drop) - 1) };
    let up = rest > half || rest == half && (sticky || kept & 1 == 1);
    let kept = kept + u64::from(up);
    // Overflow of the type is determined on the rounded value.
    let max_exp = -min_exp + 1;
    let width = 64 - i64::from(kept.leading_zeros());
    if kept == 0 {
        return Some(0.0);
    }
    let scale = shift + i64::from(drop);
    if width + scale - 1 > max_exp {
        return Some(f64::INFINITY);
    }
    // Exact: the kept bits and the power of two fit, in two steps if the power itself would not.
    let first = scale.clamp(-1000, 1000);
    Some(kept as f64 * power_of_two(first) * power_of_two(scale - first))
}

/// 2 to an exponent of at most 1000 in magnitude.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent.clamp(-1000, 1000) + 1023) as u64) << 52)
}
