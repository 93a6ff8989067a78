//! Go's `strconv.Quote` (also `%q`), with which most upstream error messages quote their input.

use std::{fmt::Write, sync::OnceLock};

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind};

/// Quotes a string, with escapes for characters that are not printable.
pub fn quote(text: &str) -> String {
    quoted(text, '"', is_print)
}

/// [`quote`] of bytes that are mostly text: error messages quote fragments that may end inside a character.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut out, c, '"', c.is_ascii() || is_print(c));
        }
        for byte in chunk.invalid() {
            let _ = write!(out, r"\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// A string as Go's `encoding/json` writes it, with HTML characters escaped.
pub fn go_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    crate::value::go_json::write_string(&mut out, text);
    out
}

/// A character in single quotes (`strconv.QuoteRune`).
pub fn quote_char(c: char) -> String {
    quoted(c.encode_utf8(&mut [0; 4]), '\'', is_print)
}

/// [`quote_char`] with an escape for everything outside ASCII (`strconv.QuoteRuneToASCII`).
pub fn quote_char_ascii(c: char) -> String {
    quoted(c.encode_utf8(&mut [0; 4]), '\'', |c| c.is_ascii())
}

fn quoted(text: &str, mark: char, plain: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for c in text.chars() {
        push(&mut out, c, mark, plain(c));
    }
    out.push(mark);
    out
}

/// Appends one character; `plain` permits it unescaped unless it is a control character.
fn push(out: &mut String, c: char, mark: char, plain: bool) {
    match c {
        '\\' => out.push_str(r"\\"),
        '\x07' => out.push_str(r"\a"),
        '\x08' => out.push_str(r"\b"),
        '\x0c' => out.push_str(r"\f"),
        '\n' => out.push_str(r"\n"),
        '\r' => out.push_str(r"\r"),
        '\t' => out.push_str(r"\t"),
        '\x0b' => out.push_str(r"\v"),
        _ if c == mark => {
            out.push('\\');
            out.push(c);
        }
        _ if c.is_ascii_control() => {
            let _ = write!(out, r"\x{:02x}", c as u32);
        }
        _ if plain => out.push(c),
        _ if (c as u32) < 0x1_0000 => {
            let _ = write!(out, r"\u{:04x}", c as u32);
        }
        _ => {
            let _ = write!(out, r"\U{:08x}", c as u32);
        }
    }
}

/// Reports whether Go counts a character as printable: letters, marks, numbers, punctuation, symbols and the ASCII
/// space, by the tables of Unicode 15.0.
pub fn is_print(c: char) -> bool {
    static TABLE: OnceLock<ClassUnicode> = OnceLock::new();
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let table = TABLE.get_or_init(|| {
        // `regex-syntax` has newer tables; characters added after 15.0 are removed again.
        let class = regex_syntax::parse(r"[\p{age=15.0}--\p{C}--\p{Z}]").map(Hir::into_kind);
        match class {
            Ok(HirKind::Class(Class::Unicode(class))) => class,
            _ => ClassUnicode::empty(),
        }
    });
    let ranges = table.ranges();
    let at = ranges.partition_point(|range| range.end() < c);
    ranges.get(at).is_some_and(|range| range.start() <= c)
}
