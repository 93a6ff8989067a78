//! Numbers and times in Go's notation, as far as YAML scalars need them.
//!
//! Upstream counterpart: `strconv` and `time` of Go 1.26.

use std::fmt::Write;

/// `strconv.ParseInt(text, base, 64)`, base 0 (by prefix) or 2.
pub(super) fn go_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = go_uint(digits, base)?;
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// `strconv.ParseUint(text, base, 64)`, base 0 (by prefix) or 2, without underscores.
pub(super) fn go_uint(text: &str, base: u32) -> Option<u64> {
    let bytes = text.as_bytes();
    let (base, digits) = match (base, bytes) {
        (0, [b'0', b'x' | b'X', _, ..]) => (16, &text[2..]),
        (0, [b'0', b'o' | b'O', _, ..]) => (8, &text[2..]),
        (0, [b'0', b'b' | b'B', _, ..]) => (2, &text[2..]),
        (0, [b'0', _, ..]) => (8, &text[1..]),
        (0, _) => (10, text),
        _ => (base, text),
    };
    // Rust's parser would accept a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Whether the text has the form of a decimal float of YAML 1.1: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
pub(super) fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if whole == 0 && count == 0 {
            return false;
        }
        rest = &fraction[count..];
    } else if whole == 0 {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else {
        return false;
    };
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    !exponent.is_empty() && digits(exponent) == exponent.len()
}

/// `strconv.ParseFloat(text, 64)` for decimal text; a number out of range is not a number.
pub(super) fn go_float(text: &str) -> Option<f64> {
    if !is_yaml_float(text) {
        return None;
    }
    text.parse::<f64>().ok().filter(|float| float.is_finite())
}

/// `strconv.FormatFloat(float, 'g', -1, 32)`, with YAML's names for numbers that are not finite.
pub(super) fn format_float(float: f64) -> String {
    let float = float as f32;
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let shortest = format!("{float:e}");
    let places = shortest
        .find('e')
        .unwrap_or(1)
        .saturating_sub(if float < 0.0 { 3 } else { 2 });
    // Of two equally close forms Go takes the one with the even last digit.
    let even = format!("{float:.places$e}");
    let scientific = if even.parse() == Ok(float) { even } else { shortest };
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let mut out = digits.to_owned();
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
        return out;
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
        return format!("{sign}0.{zeros}{}", digits.replace('.', ""));
    }
    let decimals = (places as i32 - exponent).max(0) as usize;
    format!("{float:.decimals$}")
}

/// Whether the text has one of the four timestamp forms of the Go library.
pub(super) fn is_timestamp(text: &str) -> bool {
    let Some(rest) = date(text) else {
        return false;
    };
    match rest.as_bytes().first() {
        None => true,
        Some(b'T' | b't') => clock(&rest[1..]).is_some_and(is_zone),
        Some(b' ') => clock(&rest[1..]).is_some_and(str::is_empty),
        Some(_) => false,
    }
}

/// Reads `YYYY-M-D`, if that day exists; returns the rest.
fn date(text: &str) -> Option<&str> {
    let digits = |year: &&str| year.bytes().all(|byte| byte.is_ascii_digit());
    let year: u32 = text.get(..4).filter(digits)?.parse().ok()?;
    let (month, rest) = short(text[4..].strip_prefix('-')?)?;
    let (day, rest) = short(rest.strip_prefix('-')?)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day).then_some(rest)
}

/// One or two digits.
fn short(text: &str) -> Option<(u32, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    Some((digits.parse().ok()?, rest))
}

/// Reads `h:m:s` with an optional fraction; returns the rest.
fn clock(text: &str) -> Option<&str> {
    let (hour, rest) = short(text)?;
    let (minute, rest) = short(rest.strip_prefix(':')?)?;
    let (second, rest) = short(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let Some(fraction) = rest.strip_prefix(['.', ',']) else {
        return Some(rest);
    };
    match fraction.bytes().take_while(u8::is_ascii_digit).count() {
        0 => Some(rest),
        count => Some(&fraction[count..]),
    }
}

/// `Z` or `±hh:mm`.
fn is_zone(text: &str) -> bool {
    let bytes = text.as_bytes();
    let pair = |at: usize| -> Option<u32> {
        let pair = text.get(at..at + 2)?;
        pair.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| pair.parse().ok())?
    };
    match bytes {
        [b'Z'] => true,
        [b'+' | b'-', _, _, b':', _, _] => {
            pair(1).is_some_and(|hours| hours <= 24) && pair(4).is_some_and(|minutes| minutes <= 60)
        }
        _ => false,
    }
}

/// Standard base64 with padding; line breaks are ignored.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0u32;
    let mut count = 0;
    let mut padding = 0;
    for byte in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        if byte == b'=' {
            padding += 1;
            if count < 2 || count + padding > 4 {
                return None;
            }
            continue;
        }
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&group.to_be_bytes()[1..]);
            group = 0;
            count = 0;
        }
    }
    match (count, padding) {
        (0, 0) => {}
        (2, 2) => out.push((group >> 4) as u8),
        (3, 1) => out.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(out)
}

/// Decodes bytes, with one replacement character for each byte of invalid UTF-8, as Go's JSON encoder writes it.
pub(super) fn lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_strings() {
        for (float, text) in [
            (0.5, "0.5"),
            (1.0, "1"),
            (-0.0, "-0"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.1, "0.1"),
            (123456.789, "123456.79"),
            (156_789.123, "156789.12"),
            (-0.012, "-0.012"),
            (1e40, ".inf"),
            (1e21, "1e+21"),
        ] {
            assert_eq!(format_float(float), text, "{float}");
        }
    }

    #[test]
    fn timestamps() {
        for text in [
            "2001-1-2",
            "2001-01-02T3:4:5Z",
            "2001-01-02t03:04:05.5+01:00",
            "2001-01-02 3:4:5.123",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2001-1",
            "2001-13-1",
            "2001-2-29",
            "2001-1-2T3:4:5",
            "2001-1-2 3:4:5Z",
            "2001-1-2 24:0:0",
            "",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
