//! The values of literals: numbers, strings and bytes.
//!
//! Upstream counterpart: cel-go `parser/unescape.go` and the literal visitors of `parser/parser.go`, which use Go's
//! `strconv`. The messages are cel-go's.

use std::borrow::Cow;

/// The value of an integer token with its sign; `None` if it does not fit.
pub(super) fn int(token: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = match token.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (token, 10),
    };
    let value = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

/// The value of an unsigned token (with its final `u`), `None` if it does not fit.
pub(super) fn uint(token: &str) -> Option<u64> {
    let token = &token[..token.len().saturating_sub(1)];
    match token.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => token.parse().ok(),
    }
}

/// The value of a floating-point token with its sign, `None` if it is too large.
pub(super) fn double(token: &str, negative: bool) -> Option<f64> {
    let value: f64 = token.parse().ok().filter(|v: &f64| v.is_finite())?;
    Some(if negative { -value } else { value })
}

/// The content of a string token.
pub(super) fn string(token: &str) -> Result<Cow<'_, str>, &'static str> {
    let (content, raw) = content(token)?;
    if raw || !content.contains(['\\', '\r']) {
        return Ok(normalise(content));
    }
    let bytes = unescape(&normalise(content), false)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| UNABLE)
}

/// The content of a bytes token, without its leading `b`.
pub(super) fn bytes(token: &str) -> Result<Vec<u8>, &'static str> {
    let (content, raw) = content(token)?;
    let content = normalise(content);
    if raw || !content.contains('\\') {
        return Ok(content.into_owned().into_bytes());
    }
    unescape(&content, true)
}

const UNABLE: &str = "unable to unescape string";

/// The text between the quotes, and whether the token is raw.
fn content(token: &str) -> Result<(&str, bool), &'static str> {
    let (quoted, raw) = match token.strip_prefix(['r', 'R']) {
        Some(rest) => (rest, true),
        None => (token, false),
    };
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        if quoted.len() >= 2 * quote.len() && quoted.starts_with(quote) && quoted.ends_with(quote) {
            return Ok((&quoted[quote.len()..quoted.len() - quote.len()], raw));
        }
    }
    Err(UNABLE)
}

/// Line ends become `\n`.
fn normalise(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let [escape, tail @ ..] = rest else {
            return Err("unable to unescape string, found '\\' as last character");
        };
        rest = tail;
        let simple = match escape {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'\\' | b'\'' | b'"' | b'`' | b'?' => *escape,
            b'x' | b'X' => {
                let value = digits(&mut rest, 2, 16).ok_or(UNABLE)?;
                push_code(&mut out, value, bytes)?;
                continue;
            }
            b'u' | b'U' if bytes => return Err(UNABLE),
            b'u' | b'U' => {
                let count = if *escape == b'u' { 4 } else { 8 };
                let value = digits(&mut rest, count, 16).ok_or(UNABLE)?;
                push_code(&mut out, value, false)?;
                continue;
            }
            b'0'..=b'3' => {
                let low = digits(&mut rest, 2, 8).ok_or("unable to unescape octal sequence in string")?;
                push_code(&mut out, u32::from(escape - b'0') * 64 + low, bytes)?;
                continue;
            }
            _ => return Err(UNABLE),
        };
        out.push(simple);
    }
    Ok(out)
}

fn digits(rest: &mut &[u8], count: usize, radix: u32) -> Option<u32> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter().try_fold(0_u32, |value, b| {
        Some(value.wrapping_mul(radix) + char::from(*b).to_digit(radix)?)
    })
}

/// In bytes an escape is one byte, in a string a code point.
fn push_code(out: &mut Vec<u8>, value: u32, byte: bool) -> Result<(), &'static str> {
    if byte {
        out.push(value as u8);
        return Ok(());
    }
    let c = char::from_u32(value).ok_or("invalid unicode code point")?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}
