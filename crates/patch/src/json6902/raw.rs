//! Pieces of valid JSON text, parsed one level at a time.

use std::{borrow::Cow, fmt::Write as _, rc::Rc};

use kyvtest_go_compat::value::{Builder, Document, go_json};

/// A piece of a shared JSON text, without surrounding blanks.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    text: Rc<str>,
    start: u32,
    end: u32,
}

impl Raw {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        Self {
            text: text.into(),
            start: 0,
            end: u32::try_from(text.len()).expect("less than 4 GiB of JSON"),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text[self.start as usize..self.end as usize]
    }

    pub(super) fn first(&self) -> u8 {
        self.as_str().as_bytes().first().copied().unwrap_or(b'n')
    }

    pub(super) fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    fn part(&self, start: usize, end: usize) -> Option<Self> {
        let part = Self {
            text: Rc::clone(&self.text),
            start: start as u32,
            end: end as u32,
        };
        (!part.is_null()).then_some(part)
    }

    /// The members of an object; a null value is `None`. The last of equal keys counts, at the position of the first.
    pub(super) fn members(&self) -> Vec<(String, Option<Self>)> {
        let mut members: Vec<(String, Option<Self>)> = Vec::new();
        let mut scanner = self.scanner();
        while let Some(key) = scanner.member() {
            let (start, end) = scanner.value();
            let value = self.part(start, end);
            match members.iter_mut().find(|(name, _)| *name == key) {
                Some(member) => member.1 = value,
                None => members.push((key, value)),
            }
        }
        members
    }

    /// The elements of an array; a null is `None`.
    pub(super) fn elements(&self) -> Vec<Option<Self>> {
        let mut elements = Vec::new();
        let mut scanner = self.scanner();
        while scanner.element() {
            let (start, end) = scanner.value();
            elements.push(self.part(start, end));
        }
        elements
    }

    fn scanner(&self) -> Scanner<'_> {
        Scanner {
            text: &self.text[..self.end as usize],
            at: self.start as usize,
        }
    }
}

/// Reads valid JSON. Numbers are read as Kubernetes reads them: integers if they fit 64 bits, else doubles.
pub(super) fn read(text: &str) -> Document {
    let mut builder = Builder::new();
    Scanner { text, at: 0 }.build(&mut builder);
    builder.finish()
}

/// Steps through the members or elements of a container.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    fn skip_space(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(b'}')
    }

    /// Steps over `{`, `[` or `,`; false at the end of the container.
    fn element(&mut self) -> bool {
        if matches!(self.skip_space(), b'}' | b']') {
            return false;
        }
        self.at += 1;
        !matches!(self.skip_space(), b'}' | b']')
    }

    fn member(&mut self) -> Option<String> {
        if !self.element() {
            return None;
        }
        let start = self.at;
        self.skip_string();
        let key = string(&self.text[start..self.at]).into_owned();
        self.skip_space();
        self.at += 1;
        Some(key)
    }

    fn build(&mut self, builder: &mut Builder) {
        match self.skip_space() {
            b'{' => {
                builder.begin_map();
                while let Some(key) = self.member() {
                    builder.key(&key);
                    self.build(builder);
                }
                builder.end();
                self.at += 1;
            }
            b'[' => {
                builder.begin_list();
                while self.element() {
                    self.build(builder);
                }
                builder.end();
                self.at += 1;
            }
            b'"' => {
                let start = self.at;
                self.skip_string();
                builder.string(&string(&self.text[start..self.at]));
            }
            _ => {
                let (start, end) = self.value();
                scalar(builder, &self.text[start..end]);
            }
        }
    }

    /// Steps over a value.
    fn value(&mut self) -> (usize, usize) {
        self.skip_space();
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut depth = 0_u32;
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.skip_string();
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        break;
                    }
                }
                b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        (start, self.at)
    }

    fn skip_string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return,
                _ => {}
            }
        }
    }
}

fn scalar(builder: &mut Builder, text: &str) {
    match text {
        "true" => builder.bool(true),
        "false" => builder.bool(false),
        "null" => builder.null(),
        _ => match text.parse() {
            Ok(int) => builder.int(int),
            Err(_) => builder.double(text.parse().unwrap_or(f64::NAN)),
        },
    }
}

/// The text between the quotes of a JSON string.
pub(super) fn string(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let document = go_json::read(quoted).ok();
    let text = document.as_ref().and_then(|document| document.root().as_str());
    Cow::Owned(text.unwrap_or_default().to_owned())
}

/// Appends a JSON text without blanks. `escape` escapes the characters that are unsafe in HTML and JavaScript.
pub(super) fn compact(out: &mut String, text: &str, escape: bool) {
    let is_changed = |c: char| match c {
        ' ' | '\t' | '\r' | '\n' => true,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escape,
        _ => false,
    };
    if !text.contains(is_changed) {
        out.push_str(text);
        return;
    }
    let mut in_string = false;
    let mut escaped = false;
    for c in text.chars() {
        if !in_string && matches!(c, ' ' | '\t' | '\r' | '\n') {
            continue;
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = c == '\\' && !escaped;
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}
