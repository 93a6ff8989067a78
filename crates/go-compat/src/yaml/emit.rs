//! Writes values as YAML that every reader understands in the same way.
//!
//! The layout is that of Kubernetes tools: two spaces, list entries at the column of their key, keys in the order
//! given, block literals for multi-line strings. A string is quoted whenever the Go library, YAML 1.1 or YAML 1.2 would
//! read it as something else. The emitter is driven by calls, so that any value type can use it.

use std::fmt::Write;

use super::{
    chars,
    resolve::{Scalar, resolve_plain},
    tree::{Kind, Node},
};

/// The longest key written without `?`; readers only look for the `:` within 1024 characters.
const LONGEST_KEY: usize = 512;

/// Writes one or more documents.
///
/// Each value is one call of a scalar method, or `begin_map` / `begin_seq`, the content, and `end`. Inside of a map every
/// value comes after its `key`.
///
/// ```
/// use kyvtest_go_compat::yaml::emit::Emitter;
/// let mut emitter = Emitter::new();
/// emitter.begin_map();
/// emitter.key("on");
/// emitter.begin_seq();
/// emitter.int(1);
/// emitter.str("0777");
/// emitter.end();
/// emitter.end();
/// assert_eq!(emitter.finish(), "\"on\":\n- 1\n- \"0777\"\n");
/// ```
#[derive(Debug, Default)]
pub struct Emitter {
    out: String,
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    map: bool,
    /// The column of the entries.
    indent: usize,
    empty: bool,
    /// What precedes the first entry.
    before: Before,
}

/// What was written right before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Key,
    Dash,
}

impl Emitter {
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a further document; the first one needs no call.
    pub fn document(&mut self) {
        if !self.out.is_empty() {
            self.out.push_str("---\n");
        }
    }

    pub fn finish(self) -> String {
        self.out
    }

    /// Starts a map.
    pub fn begin_map(&mut self) {
        self.begin(true);
    }

    /// Starts a list.
    pub fn begin_seq(&mut self) {
        self.begin(false);
    }

    fn begin(&mut self, map: bool) {
        let before = self.before_value();
        let outer = self.levels.last().map_or(0, |level| level.indent);
        let indent = match before {
            Before::Nothing => 0,
            Before::Key if !map => outer,
            Before::Key | Before::Dash => outer + 2,
        };
        self.levels.push(Level {
            map,
            indent,
            empty: true,
            before,
        });
    }

    /// Ends the innermost map or list.
    pub fn end(&mut self) {
        if let Some(level) = self.levels.pop()
            && level.empty
        {
            let text = if level.map { "{}" } else { "[]" };
            self.inline(level.before, text);
        }
    }

    /// Starts an entry of the innermost map.
    pub fn key(&mut self, key: &str) {
        self.entry();
        let text = quote(key);
        if text.chars().count() > LONGEST_KEY {
            let indent = self.levels.last().map_or(0, |level| level.indent);
            self.out.push_str("? ");
            self.out.push_str(&text);
            self.out.push('\n');
            self.spaces(indent);
        } else {
            self.out.push_str(&text);
        }
        self.out.push(':');
    }

    pub fn null(&mut self) {
        self.scalar("null");
    }

    /// A boolean.
    pub fn bool(&mut self, bool: bool) {
        self.scalar(if bool { "true" } else { "false" });
    }

    /// An integer.
    pub fn int(&mut self, int: i64) {
        self.scalar(&int.to_string());
    }

    /// An integer without sign.
    pub(crate) fn uint(&mut self, uint: u64) {
        self.scalar(&uint.to_string());
    }

    /// A float; one without a fraction gets a `.0`, so that it stays a float.
    pub fn float(&mut self, float: f64) {
        let text = if float.is_nan() {
            ".nan".to_owned()
        } else if float.is_infinite() {
            if float > 0.0 { ".inf" } else { "-.inf" }.to_owned()
        } else {
            let text = format!("{float:?}");
            match text.split_once('e') {
                // YAML 1.1 requires the point and the sign.
                Some((digits, exponent)) => {
                    let point = if digits.contains('.') { "" } else { ".0" };
                    let sign = if exponent.starts_with('-') { "" } else { "+" };
                    format!("{digits}{point}e{sign}{exponent}")
                }
                None => text,
            }
        };
        self.scalar(&text);
    }

    /// A string.
    pub fn str(&mut self, text: &str) {
        if is_literal(text) {
            self.literal(text);
        } else {
            let text = quote(text);
            self.scalar(&text);
        }
    }

    /// A node of a tree with its content.
    pub(crate) fn node(&mut self, node: Node<'_>) {
        match node.kind() {
            Kind::Null => self.null(),
            Kind::Bool(bool) => self.bool(bool),
            Kind::Int(int) => self.int(int),
            Kind::Uint(uint) => self.uint(uint),
            Kind::Float(float) => self.float(float),
            Kind::Str(text) => self.str(text),
            Kind::Seq(items) => {
                self.begin_seq();
                items.iter().for_each(|item| self.node(item));
                self.end();
            }
            Kind::Map(entries) => {
                self.begin_map();
                for entry in entries.iter() {
                    self.key(entry.key);
                    self.node(entry.value);
                }
                self.end();
            }
        }
    }

    fn scalar(&mut self, text: &str) {
        let before = self.before_value();
        self.inline(before, text);
    }

    fn inline(&mut self, before: Before, text: &str) {
        if before == Before::Key {
            self.out.push(' ');
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn literal(&mut self, text: &str) {
        let before = self.before_value();
        let body = text.trim_end_matches('\n');
        let chomp = match text.len() - body.len() {
            0 => "|-",
            1 => "|",
            _ => "|+",
        };
        self.inline(before, chomp);
        let indent = match before {
            Before::Nothing => 2,
            Before::Key | Before::Dash => self.levels.last().map_or(0, |level| level.indent) + 2,
        };
        for line in body.split('\n') {
            if !line.is_empty() {
                self.spaces(indent);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
        for _ in 1..text.len() - body.len() {
            self.out.push('\n');
        }
    }

    /// Writes the list indicator before a value; in a map the key is already written.
    fn before_value(&mut self) -> Before {
        match self.levels.last() {
            None => Before::Nothing,
            Some(level) if level.map => Before::Key,
            Some(_) => {
                self.entry();
                self.out.push_str("- ");
                Before::Dash
            }
        }
    }

    /// Moves to the start of an entry of the innermost level.
    fn entry(&mut self) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        let first = std::mem::replace(&mut level.empty, false);
        let (indent, before) = (level.indent, level.before);
        match (first, before) {
            // The first entry shares the line of the dash.
            (true, Before::Dash) => return,
            (true, Before::Key) => self.out.push('\n'),
            (true, Before::Nothing) | (false, _) => {}
        }
        self.spaces(indent);
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }
}

/// Writes a node as its own document.
pub fn to_string(node: Node<'_>) -> String {
    let mut emitter = Emitter::new();
    emitter.node(node);
    emitter.finish()
}

/// A string as a scalar on one line, quoted if necessary.
pub fn quote(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    if !text.chars().all(is_printable) {
        return double_quoted(text);
    }
    if text.contains(['"', '\\']) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    format!("\"{text}\"")
}

fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = character as u32;
                let _ = match code {
                    0..=0xFF => write!(out, "\\x{code:02X}"),
                    0x100..=0xFFFF => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Characters that may occur unescaped in a file, and that no reader takes for white space or a line break.
fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' => false,
        _ => character >= '\u{A0}' && !character.is_whitespace() && (character as u32) & 0xFFFE != 0xFFFE,
    }
}

/// Reports whether a string is written as a block literal. Not if a first line that starts with white space would need
/// an indentation indicator, nor if an editor might strip white space at the end of a line.
fn is_literal(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    if !text.contains('\n') || body.is_empty() || body.trim_start_matches('\n').starts_with([' ', '\t']) {
        return false;
    }
    body.split('\n').all(|line| {
        !line.ends_with([' ', '\t'])
            && !line.starts_with('\t')
            && line
                .chars()
                .all(|character| character == '\t' || is_printable(character))
    })
}

/// Reports whether a string needs no quotes.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    if last == b' ' || last == b':' || b" ?:,[]{}#&*!|>'\"%@`=<~".contains(&first) {
        return false;
    }
    // A dash starts text such as a flag, but neither an entry nor a document marker.
    if first == b'-'
        && !text
            .trim_start_matches('-')
            .starts_with(|c: char| c.is_ascii_alphabetic())
    {
        return false;
    }
    if chars::is_document_marker(bytes, 0) || text.starts_with("---") || text.starts_with("...") {
        return false;
    }
    text.chars().all(is_printable)
        && !text.contains(": ")
        && !text.contains(" #")
        && !is_word(text)
        && !looks_numeric(text)
        && resolve_plain(text) == Scalar::Str
}

/// Words that some reader takes for null, a boolean or a number, in any case.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity", "none", "nil",
    ];
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let text = text.strip_prefix('.').unwrap_or(text);
    text.len() <= 8 && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Text that could be a number or a time in any dialect.
fn looks_numeric(text: &str) -> bool {
    let numeric = |byte: u8| byte.is_ascii_hexdigit() || b"xXoO_.:+-,tTzZ ".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) && text.bytes().all(numeric)
}
