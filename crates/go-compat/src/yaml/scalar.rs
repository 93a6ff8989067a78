//! The text of scalars, and the source bytes that each part of it comes from.
//!
//! The scanner finds the end of a scalar; this module turns the extent into text. One routine serves both the reader
//! (which appends to a buffer) and the caret finder (which looks up the source of a decoded offset), so they cannot
//! disagree, and only the extent has to be stored.

use super::chars::{break_len, byte, is_blank, is_break_or_end, is_feed};

/// The text of a scalar or key: a slice of the source if possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// Unchanged source bytes.
    Source { start: u32, end: u32 },
    /// A slice of the buffer of decoded text, with the index of the shape it comes from.
    Decoded { start: u32, end: u32, shape: u32 },
    /// A slice of the buffer, without counterpart in the source.
    Made { start: u32, end: u32 },
    /// A slice of the buffer, with the index of the table that leads to the source.
    Edited { start: u32, end: u32, table: u32 },
}

/// The extent and style of a scalar whose text is not a slice of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) style: Style,
    /// The first byte of the content: after the quote, or the first line after a block scalar's header.
    pub(super) start: u32,
    /// The byte after the content: the closing quote, or where the scanner left a block scalar.
    pub(super) end: u32,
}

/// The notation of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Block { literal: bool, indent: u32, chomp: Chomp },
}

/// The treatment of line breaks at the end of a block scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chomp {
    Strip,
    Clip,
    Keep,
}

/// Receives a scalar's text piece by piece.
pub(super) trait Sink {
    /// The source bytes `start..end`.
    fn copy(&mut self, start: usize, end: usize);
    /// Text that replaces the source at `at`.
    fn make(&mut self, text: &str, at: usize);
}

/// Appends to a buffer.
pub(super) struct Append<'a> {
    pub(super) source: &'a str,
    pub(super) out: &'a mut String,
}

impl Sink for Append<'_> {
    fn copy(&mut self, start: usize, end: usize) {
        self.out.push_str(&self.source[start..end]);
    }

    fn make(&mut self, text: &str, _at: usize) {
        self.out.push_str(text);
    }
}

/// The source of each part of a scalar's text; see [`super::Node::segments`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    parts: Vec<Segment>,
    end: u32,
}

/// One part of a scalar's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    decoded: u32,
    source: u32,
    /// Whether the part maps byte for byte; otherwise all of it maps to one offset.
    exact: bool,
}

impl Segments {
    pub(super) fn slice(start: u32, end: u32) -> Self {
        let part = Segment {
            decoded: 0,
            source: start,
            exact: true,
        };
        Self { parts: vec![part], end }
    }

    /// Builds the table of a scalar that ends at `end` at the latest: text after the last line of a block is not part
    /// of it.
    pub(super) fn of(source: &str, shape: &Shape, end: u32) -> Self {
        let mut record = Record {
            parts: Vec::new(),
            len: 0,
        };
        decode(source.as_bytes(), shape, &mut record);
        Self {
            parts: record.parts,
            end: shape.end.min(end),
        }
    }

    /// Builds the table of a text derived from this one: `origins` has, for each of its bytes, the index of the byte
    /// here.
    pub(super) fn edited(&self, origins: &[u32]) -> Self {
        let mut parts: Vec<Segment> = Vec::new();
        for (decoded, origin) in (0u32..).zip(origins) {
            let source = self.source_offset(*origin as usize);
            match parts.last_mut() {
                Some(last) if last.exact && source == last.source + (decoded - last.decoded) => {}
                Some(last) if !last.exact && source == last.source => {}
                Some(last) if decoded == last.decoded + 1 && source == last.source => last.exact = false,
                _ => parts.push(Segment {
                    decoded,
                    source,
                    exact: true,
                }),
            }
        }
        Self { parts, end: self.end }
    }

    /// The source byte that the byte at `offset` of the decoded text comes from.
    pub fn source_offset(&self, offset: usize) -> u32 {
        let offset = offset as u32;
        let next = self.parts.partition_point(|part| part.decoded <= offset);
        let Some(part) = next.checked_sub(1).map(|at| self.parts[at]) else {
            return self.end;
        };
        let ahead = if part.exact { offset - part.decoded } else { 0 };
        part.source.saturating_add(ahead).min(self.end)
    }
}

struct Record {
    parts: Vec<Segment>,
    len: u32,
}

impl Sink for Record {
    fn copy(&mut self, start: usize, end: usize) {
        if start < end {
            self.parts.push(Segment {
                decoded: self.len,
                source: start as u32,
                exact: true,
            });
            self.len += (end - start) as u32;
        }
    }

    fn make(&mut self, text: &str, at: usize) {
        self.parts.push(Segment {
            decoded: self.len,
            source: at as u32,
            exact: false,
        });
        self.len += text.len() as u32;
    }
}

/// Sends the text of a scalar to `sink`.
pub(super) fn decode(source: &[u8], shape: &Shape, sink: &mut impl Sink) {
    let (start, end) = (shape.start as usize, shape.end as usize);
    match shape.style {
        Style::Plain => folded_lines(source, start, end, sink, |_, _, _| None),
        Style::Single => folded_lines(source, start, end, sink, single_quote),
        Style::Double => folded_lines(source, start, end, sink, escape),
        Style::Block { literal, indent, chomp } => {
            block(source, start, end, indent as usize, literal, chomp, sink);
        }
    }
}

/// The meaning of a special character in a quoted scalar.
enum Special {
    /// Text, and how many source bytes it replaces.
    Char(char, usize),
    /// A line break that joins its lines without a space, with the number of bytes up to the next line.
    Joint(usize),
}

fn single_quote(source: &[u8], at: usize, _end: usize) -> Option<Special> {
    (byte(source, at) == b'\'').then_some(Special::Char('\'', 2))
}

fn escape(source: &[u8], at: usize, _end: usize) -> Option<Special> {
    if byte(source, at) != b'\\' {
        return None;
    }
    let len = break_len(source, at + 1);
    if len > 0 {
        return Some(Special::Joint(1 + len));
    }
    // INVARIANT: the scanner rejected every escape that `escaped` does not know.
    let (character, len) = escaped(source, at).unwrap_or(('\\', 1));
    Some(Special::Char(character, len))
}

/// The character and the length of the escape at `at`, including `\`. `None` for an unknown one; the caller must
/// distinguish malformed hexadecimal escapes from those that do not denote a character.
pub(super) fn escaped(source: &[u8], at: usize) -> Option<(char, usize)> {
    let digits = match byte(source, at + 1) {
        b'0' => return Some(('\0', 2)),
        b'a' => return Some(('\x07', 2)),
        b'b' => return Some(('\x08', 2)),
        b't' | b'\t' => return Some(('\t', 2)),
        b'n' => return Some(('\n', 2)),
        b'v' => return Some(('\x0B', 2)),
        b'f' => return Some(('\x0C', 2)),
        b'r' => return Some(('\r', 2)),
        b'e' => return Some(('\x1B', 2)),
        b' ' => return Some((' ', 2)),
        b'"' => return Some(('"', 2)),
        b'\'' => return Some(('\'', 2)),
        b'\\' => return Some(('\\', 2)),
        b'N' => return Some(('\u{85}', 2)),
        b'_' => return Some(('\u{A0}', 2)),
        b'L' => return Some(('\u{2028}', 2)),
        b'P' => return Some(('\u{2029}', 2)),
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let mut value = 0u32;
    for n in 0..digits {
        let digit = char::from(byte(source, at + 2 + n)).to_digit(16)?;
        value = value.checked_mul(16)?.checked_add(digit)?;
    }
    Some((char::from_u32(value)?, 2 + digits))
}

/// Plain and quoted scalars: blanks around a line break are dropped, one break becomes a space, further ones stay.
fn folded_lines<S: Sink>(
    source: &[u8],
    start: usize,
    end: usize,
    sink: &mut S,
    special: impl Fn(&[u8], usize, usize) -> Option<Special>,
) {
    let mut at = start;
    let mut run = start;
    while at < end {
        if let Some(found) = special(source, at, end) {
            sink.copy(run, at);
            match found {
                Special::Char(character, len) => {
                    sink.make(character.encode_utf8(&mut [0; 4]), at);
                    at += len;
                }
                Special::Joint(len) => {
                    at += len;
                    at = blank_lines(source, at, end, |from| make_break(source, from, sink));
                }
            }
            run = at;
            continue;
        }
        if is_blank(source[at]) {
            let blank = at;
            while at < end && is_blank(source[at]) {
                at += 1;
            }
            if at < end && break_len(source, at) > 0 {
                sink.copy(run, blank);
                run = at;
            }
            continue;
        }
        let len = break_len(source, at);
        if len == 0 {
            at += 1;
            continue;
        }
        sink.copy(run, at);
        let first = at;
        let feed = is_feed(source, first);
        if !feed {
            make_break(source, first, sink);
        }
        let mut further = false;
        at = blank_lines(source, at + len, end, |from| {
            further = true;
            make_break(source, from, sink);
        });
        if feed && !further {
            sink.make(" ", first);
        }
        run = at;
    }
    sink.copy(run, end);
}

/// Skips blanks and line breaks, reporting each break; returns the offset of the next character.
fn blank_lines(source: &[u8], mut at: usize, end: usize, mut each: impl FnMut(usize)) -> usize {
    while at < end {
        if is_blank(source[at]) {
            at += 1;
            continue;
        }
        let len = break_len(source, at);
        if len == 0 {
            break;
        }
        each(at);
        at += len;
    }
    at
}

fn make_break(source: &[u8], at: usize, sink: &mut impl Sink) {
    if is_feed(source, at) {
        sink.make("\n", at);
    } else {
        sink.copy(at, at + break_len(source, at));
    }
}

fn block(source: &[u8], start: usize, end: usize, indent: usize, literal: bool, chomp: Chomp, sink: &mut impl Sink) {
    let mut at = start;
    let mut pending: Option<usize> = None;
    let mut empty = Vec::new();
    let mut after_blank = false;
    at = indentation(source, at, end, indent, &mut empty);
    while at < end {
        let blank = is_blank(source[at]);
        match pending.take() {
            // Lines of text fold into one; an empty line between them becomes the only break.
            Some(first) if !literal && !after_blank && !blank && is_feed(source, first) && empty.is_empty() => {
                sink.make(" ", first);
            }
            Some(first) if !literal && !after_blank && !blank && is_feed(source, first) => {}
            Some(first) => make_break(source, first, sink),
            None => {}
        }
        for at in empty.drain(..) {
            make_break(source, at, sink);
        }
        after_blank = blank;
        let line = at;
        while !is_break_or_end(source, at) {
            at += 1;
        }
        sink.copy(line, at);
        let len = break_len(source, at);
        if len > 0 {
            pending = Some(at);
        }
        at = indentation(source, at + len, end, indent, &mut empty);
    }
    if chomp == Chomp::Strip {
        return;
    }
    if let Some(first) = pending {
        make_break(source, first, sink);
    }
    if chomp == Chomp::Keep {
        for at in empty {
            make_break(source, at, sink);
        }
    }
}

/// Skips empty lines and the indentation of the next line with content.
fn indentation(source: &[u8], mut at: usize, end: usize, indent: usize, empty: &mut Vec<usize>) -> usize {
    loop {
        let line = at;
        while at < end && at - line < indent && source[at] == b' ' {
            at += 1;
        }
        if at >= end {
            return end;
        }
        let len = break_len(source, at);
        if len == 0 {
            return at;
        }
        empty.push(at);
        at += len;
    }
}
