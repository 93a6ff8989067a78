//! JSON as Go's `encoding/json` reads it into `any` and writes it.
//!
//! Upstream counterpart: Go's `encoding/json` (`scanner.go`, `decode.go`, `encode.go`). All numbers are doubles, the last
//! of equal keys wins, lone surrogates become U+FFFD; keys are written in order, `<`, `>` and `&` escaped.

use std::fmt::Write as _;

use super::{Builder, Data, Document, Value};

/// The maximum nesting. Upstream's limit is 10,000, too deep for recursive consumers.
pub const DEPTH_LIMIT: usize = 1_000;

/// Reads JSON text.
pub fn read(text: &str) -> Result<Document, String> {
    let mut reader = Reader::new(text);
    reader.document()?;
    match reader.number_error {
        Some(error) => Err(error),
        None => Ok(reader.builder.finish()),
    }
}

/// Checks the syntax as Go's `checkValid` does: numbers of any size are valid.
pub fn check_syntax(text: &str) -> Result<(), String> {
    Reader::new(text).document()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    List,
    Map,
}

struct Reader<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
    builder: Builder,
    open: Vec<Open>,
    /// The first number that does not fit a double; reported only if the rest is valid JSON.
    number_error: Option<String>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            bytes: text.as_bytes(),
            text,
            at: 0,
            builder: Builder::new(),
            open: Vec::new(),
            number_error: None,
        }
    }

    fn document(&mut self) -> Result<(), String> {
        loop {
            // A value begins here.
            let closed = self.value()?;
            if !closed {
                continue;
            }
            // A value has ended: continue with the container that holds it.
            loop {
                let Some(&open) = self.open.last() else {
                    return match self.skip_space() {
                        None => Ok(()),
                        Some(c) => Err(invalid(c, "after top-level value")),
                    };
                };
                match (open, self.skip_space()) {
                    (_, None) => return Err(end()),
                    (_, Some(b',')) => {
                        self.at += 1;
                        if open == Open::Map {
                            self.skip_space();
                            self.key()?;
                        }
                        break;
                    }
                    (Open::List, Some(b']')) | (Open::Map, Some(b'}')) => self.close(),
                    (Open::List, Some(c)) => return Err(invalid(c, "after array element")),
                    (Open::Map, Some(c)) => return Err(invalid(c, "after object key:value pair")),
                }
            }
        }
    }

    fn close(&mut self) {
        self.at += 1;
        self.builder.end();
        self.open.pop();
    }

    fn skip_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn push(&mut self, open: Open, c: u8) -> Result<(), String> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(invalid(c, "exceeded max depth"));
        }
        self.at += 1;
        self.open.push(open);
        match open {
            Open::List => self.builder.begin_list(),
            Open::Map => self.builder.begin_map(),
        }
        Ok(())
    }

    /// Reads a scalar or an empty container, or opens a container; returns whether a value has ended.
    fn value(&mut self) -> Result<bool, String> {
        let Some(c) = self.skip_space() else { return Err(end()) };
        match c {
            b'{' => {
                self.push(Open::Map, c)?;
                if self.skip_space() == Some(b'}') {
                    self.close();
                    return Ok(true);
                }
                self.key()?;
                return Ok(false);
            }
            b'[' => {
                self.push(Open::List, c)?;
                if self.skip_space() == Some(b']') {
                    self.close();
                    return Ok(true);
                }
                return Ok(false);
            }
            b'"' => {
                let text = self.string()?;
                self.builder.string(&text);
            }
            b'-' | b'0'..=b'9' => self.number(c)?,
            b't' => {
                self.literal("true")?;
                self.builder.bool(true);
            }
            b'f' => {
                self.literal("false")?;
                self.builder.bool(false);
            }
            b'n' => {
                self.literal("null")?;
                self.builder.null();
            }
            _ => return Err(invalid(c, "looking for beginning of value")),
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), String> {
        match self.bytes.get(self.at) {
            None => return Err(end()),
            Some(b'"') => {}
            Some(&c) => return Err(invalid(c, "looking for beginning of object key string")),
        }
        let key = self.string()?;
        self.builder.key(&key);
        match self.skip_space() {
            None => Err(end()),
            Some(b':') => {
                self.at += 1;
                Ok(())
            }
            Some(c) => Err(invalid(c, "after object key")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let c = self.byte_or_space();
            if c != expected {
                let expected = char::from(expected);
                return Err(invalid(c, &format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    fn some_digits(&mut self, place: &str) -> Result<(), String> {
        if self.digits() > 0 {
            return Ok(());
        }
        Err(invalid(self.byte_or_space(), place))
    }

    /// The next byte; upstream signals the end to its scanner by a space, which shows in errors that need another byte.
    fn byte_or_space(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b' ')
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let start = self.at;
        if first == b'-' {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.some_digits("in numeric literal")?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = &self.text[start..self.at];
        let number: f64 = text.parse().unwrap_or(f64::INFINITY);
        if number.is_infinite() && self.number_error.is_none() {
            self.number_error = Some(format!(
                "json: cannot unmarshal number {text} into Go value of type float64"
            ));
        }
        self.builder.double(number);
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while self
                .bytes
                .get(self.at)
                .is_some_and(|&b| b >= 0x20 && b != b'"' && b != b'\\')
            {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.bytes.get(self.at) {
                None => return Err(end()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(&c) => return Err(invalid(c, "in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let c = self.byte_or_space();
        self.at += 1;
        Ok(match c {
            b'"' | b'\\' | b'/' => char::from(c),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex()?;
                if let 0xd800..0xdc00 = unit {
                    // The low surrogate may follow; otherwise the next escape is read on its own.
                    let after = self.at;
                    if self.bytes.get(after..after + 2) == Some(b"\\u") {
                        self.at += 2;
                        let low = self.hex()?;
                        if let 0xdc00..0xe000 = low {
                            let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        }
                        self.at = after;
                    }
                }
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(invalid(c, "in string escape code")),
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let c = self.byte_or_space();
            let Some(digit) = char::from(c).to_digit(16) else {
                return Err(invalid(c, "in \\u hexadecimal character escape"));
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

/// Upstream quotes single bytes, so the first byte of a longer character appears as the Latin-1 character with its
/// number.
fn invalid(c: u8, place: &str) -> String {
    let shown = match c {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        0..0x20 | 0x7f => format!("\\x{c:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{c:04x}"),
        _ => char::from(c).to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

/// Writes a value of a document.
pub fn write_value(out: &mut String, value: Value<'_>) -> Result<(), String> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Value::Int(i) => write_display(out, i),
        Value::Uint(u) => write_display(out, u),
        Value::Double(d) => write_double(out, d)?,
        Value::String(text) => write_string(out, text),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, item)| (key.text(), item)).collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, item)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Writes a computed value; its maps are sorted already.
pub fn write_data(out: &mut String, value: &Data) -> Result<(), String> {
    match value {
        Data::Null => out.push_str("null"),
        Data::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Data::Int(i) => write_display(out, i),
        Data::Uint(u) => write_display(out, u),
        Data::Double(d) => write_double(out, *d)?,
        Data::String(text) => write_string(out, text),
        Data::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_data(out, item)?;
            }
            out.push(']');
        }
        Data::Map(entries) => {
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_data(out, item)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

pub fn write_display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a string takes everything");
}

/// Writes a double as ECMAScript does.
pub fn write_double(out: &mut String, number: f64) -> Result<(), String> {
    if !number.is_finite() {
        let name = match number {
            n if n.is_nan() => "NaN",
            n if n > 0.0 => "+Inf",
            _ => "-Inf",
        };
        return Err(format!("json: unsupported value: {name}"));
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        // Rust writes `1e21`, Go `1e+21`; both write `1e-7`.
        let text = if text.contains("e-") {
            text
        } else {
            text.replace('e', "e+")
        };
        out.push_str(&text);
    } else if number == 0.0 && number.is_sign_negative() {
        out.push_str("-0");
    } else {
        write_display(out, number);
    }
    Ok(())
}

/// Writes a string in quotes, safe for HTML and JavaScript.
pub fn write_string(out: &mut String, text: &str) {
    write_escaped(out, text, true, true);
}

/// [`write_string`] without escapes for HTML.
pub fn write_string_plain(out: &mut String, text: &str) {
    write_escaped(out, text, false, true);
}

/// Writes a string in quotes. `html` escapes `<`, `>` and `&`; `short_controls` writes backspaces and form feeds as `\b` and
/// `\f`, which older encoders of Go write as numbers.
pub fn write_escaped(out: &mut String, text: &str, html: bool, short_controls: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' if short_controls => out.push_str("\\b"),
            '\u{c}' if short_controls => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' if !html => out.push(c),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write_display(out, format_args!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::write_escaped;

    fn written(text: &str, html: bool, short_controls: bool) -> String {
        let mut out = String::new();
        write_escaped(&mut out, text, html, short_controls);
        out
    }

    #[test]
    fn escapes_are_by_character() {
        assert_eq!(written("<\u{8}\u{2028}", true, true), r#""\u003c\b\u2028""#);
        assert_eq!(written("<\u{8}\u{2028}", false, false), r#""<\u0008\u2028""#);
        // A backslash in the text is not the start of an escape.
        assert_eq!(written(r"\u003c \b", false, false), r#""\\u003c \\b""#);
    }
}
