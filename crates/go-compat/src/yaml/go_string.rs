//! Strings as version 3 of Go's YAML library writes them: Kyverno's policy errors are such documents.
//!
//! Upstream counterpart: `go.yaml.in/yaml/v3` (`encode.go` `stringv`, `emitterc.go`), configured as in Kyverno:
//! unescaped Unicode, lines of any length, two spaces.

use std::fmt::Write as _;

use super::{
    number::is_timestamp,
    resolve::{Scalar, resolve_plain},
};

/// The styles that a string rules out.
#[derive(Default)]
struct Analysis {
    no_plain: bool,
    no_single: bool,
    no_block: bool,
}

/// The string as a key: always on one line.
pub fn go_key(text: &str) -> String {
    let analysis = analyse(text);
    if text.contains('\n') || !text.is_empty() && is_other(text) {
        return double(text);
    }
    if text.is_empty() || analysis.no_plain {
        return if analysis.no_single { double(text) } else { single(text) };
    }
    text.to_owned()
}

/// The string as a value; `column` is the indentation of its lines if it has several.
pub fn go_value(text: &str, column: usize) -> String {
    let analysis = analyse(text);
    if text.contains('\n') {
        return if analysis.no_block {
            double(text)
        } else {
            literal(text, column)
        };
    }
    if is_other(text) {
        return double(text);
    }
    if analysis.no_plain {
        return if analysis.no_single { double(text) } else { single(text) };
    }
    text.to_owned()
}

/// Reports whether the unquoted text would be something other than a string, to this or an older reader.
fn is_other(text: &str) -> bool {
    const OLD: [&str; 16] = [
        "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF",
    ];
    OLD.contains(&text)
        || text == "<<"
        || resolve_plain(text) != Scalar::Str
        || is_timestamp(text)
        || is_octal(text)
        || is_base_60(text)
}

fn is_octal(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).strip_prefix("0o");
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7' | b'_')))
}

fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !digits(first) {
        return false;
    }
    let mut rest = parts.peekable();
    if rest.peek().is_none() {
        return false;
    }
    while let Some(part) = rest.next() {
        let number = match (rest.peek(), part.split_once('.')) {
            (None, Some((number, fraction))) if digits(fraction) => number,
            _ => part,
        };
        let fits = match number.as_bytes() {
            [one] => one.is_ascii_digit(),
            [ten, one] => matches!(ten, b'0'..=b'5') && one.is_ascii_digit(),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}

fn analyse(text: &str) -> Analysis {
    let mut analysis = Analysis::default();
    if text.is_empty() {
        analysis.no_block = true;
        return analysis;
    }
    let letters: Vec<char> = text.chars().collect();
    let blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t') || is_break(*c));
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut breaks, mut tabs, mut special) = (false, false, false);
    let (mut space_break, mut break_space) = (false, false);
    let last = letters.len() - 1;
    for (i, &c) in letters.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| letters.get(i));
        let followed = blank(letters.get(i + 1));
        indicators |= match c {
            '#' => blank(before),
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => i == 0,
            '?' | '-' => i == 0 && followed,
            ':' => followed,
            _ => false,
        };
        if c == '\t' {
            tabs = true;
        } else if !is_printable(c) {
            special = true;
        }
        if c == ' ' {
            break_space |= before.is_some_and(|c| is_break(*c));
        } else if is_break(c) {
            breaks = true;
            space_break |= before == Some(&' ');
        }
    }
    let edge = |c: char| c == ' ' || is_break(c);
    let trailing_space = letters[last] == ' ';
    analysis.no_plain = edge(letters[0]) || edge(letters[last]) || break_space || breaks || indicators;
    analysis.no_plain |= space_break || tabs || special;
    analysis.no_single = break_space || space_break || tabs || special;
    analysis.no_block = trailing_space || space_break || special;
    analysis
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters beyond the first plane are not printable to the library.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}

fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The string in double quotes.
pub fn go_double(text: &str) -> String {
    double(text)
}

fn double(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
    out
}

fn literal(text: &str, column: usize) -> String {
    let mut out = String::from("|");
    if text.starts_with(edge_of_block) {
        out.push('2');
    }
    let body = text.trim_end_matches('\n');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 if !body.is_empty() => {}
        _ => out.push('+'),
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', column));
            out.push_str(line);
        }
    }
    for _ in 1..text.len() - body.len() {
        out.push('\n');
    }
    out
}

fn edge_of_block(c: char) -> bool {
    c == ' ' || is_break(c)
}
