//! The scanner: turns characters into tokens, with explicit indentation.
//!
//! Upstream counterpart: `scannerc.go` of go.yaml.in/yaml/v2 2.4. The scanner follows it in what a token is, what ends
//! it and which token may come where, in order to accept and reject the same files; YAML 1.2 parsers differ in dozens
//! of details (flow indicators inside plain scalars, tabs, directives, one-line keys).
//!
//! Deviations: a byte order mark inside a document is an ordinary character, and UTF-16 is rejected.

use std::collections::VecDeque;

use super::{
    chars::{break_len, byte, is_break_or_end, is_document_marker, is_gap},
    error::{Error, ErrorKind, Message, Result},
    position::Span,
    scalar::Shape,
    token::{Mark, Token, TokenKind},
};

/// The maximum distance, in characters, of the `:` from the start of its one-line key.
const KEY_LENGTH: usize = 1024;

/// A position where a key without `?` may have begun.
#[derive(Debug, Clone, Copy)]
struct SimpleKey {
    possible: bool,
    /// Only a key is valid here.
    required: bool,
    /// Whether the head of the queue waits for this key; a flow collection that closes without its own candidate takes
    /// this from the key that it is itself.
    awaited: bool,
    /// The number of the token that the key begins with.
    token: usize,
    mark: Mark,
    column: usize,
}

/// Turns one document into tokens.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    /// The bytes of the source up to the end of the document.
    pub(super) source: &'a [u8],
    pub(super) at: usize,
    pub(super) line: u32,
    line_start: usize,
    pub(super) indent: isize,
    indents: Vec<isize>,
    pub(super) flow_level: usize,
    keys: Vec<SimpleKey>,
    pub(super) key_allowed: bool,
    tokens: VecDeque<Token>,
    parsed: usize,
    ended: bool,
    depth: usize,
    pub(super) decoded: String,
    pub(super) shapes: Vec<Shape>,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner for the document `span` of `text`, with a nesting limit.
    pub(super) fn new(text: &'a str, span: Span, depth: usize) -> Self {
        let text = &text[..span.end as usize];
        let mut at = span.start as usize;
        if text[at..].starts_with('\u{FEFF}') {
            at += '\u{FEFF}'.len_utf8();
        }
        Self {
            text,
            source: text.as_bytes(),
            at,
            line: 0,
            line_start: at,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            keys: vec![SimpleKey {
                possible: false,
                required: false,
                awaited: false,
                token: 0,
                mark: Mark::default(),
                column: 0,
            }],
            key_allowed: true,
            tokens: VecDeque::with_capacity(16),
            parsed: 0,
            ended: false,
            depth,
            decoded: String::new(),
            shapes: Vec::new(),
        }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Result<&Token> {
        self.fill()?;
        Ok(&self.tokens[0])
    }

    /// Consumes the next token. The end of the stream is never consumed.
    pub(super) fn next(&mut self) -> Result<Token> {
        self.fill()?;
        if self.tokens[0].kind == TokenKind::StreamEnd {
            return Ok(self.tokens[0].clone());
        }
        self.parsed += 1;
        Ok(self.tokens.pop_front().expect("filled"))
    }

    /// Makes the head of the queue definite: reads on as long as it may turn out to be the start of a key.
    fn fill(&mut self) -> Result<()> {
        while self.tokens.is_empty() || self.head_may_be_key()? && !self.ended {
            self.fetch()?;
        }
        Ok(())
    }

    fn head_may_be_key(&mut self) -> Result<bool> {
        let head = self.parsed;
        // INVARIANT: the token numbers grow with the level, at most two neighbours are equal.
        let first = self.keys.partition_point(|key| key.token < head);
        let found = (first..self.keys.len())
            .take(2)
            .find(|level| self.keys[*level].token == head && self.keys[*level].awaited);
        match found {
            Some(level) => self.key_is_valid(level),
            None => Ok(false),
        }
    }

    fn fetch(&mut self) -> Result<()> {
        self.skip_to_token();
        self.unroll(self.column() as isize);
        let column = self.column();
        let here = byte(self.source, self.at);
        let gap_follows = is_gap(self.source, self.at + 1);
        if self.at >= self.source.len() {
            return self.stream_end();
        }
        if column == 0 && here == b'%' {
            return self.directive();
        }
        if column == 0 && is_document_marker(self.source, self.at) {
            let kind = if here == b'-' {
                TokenKind::DocumentStart
            } else {
                TokenKind::DocumentEnd
            };
            self.unroll(-1);
            self.remove_key()?;
            self.key_allowed = false;
            self.push_indicator(kind, 3);
            return Ok(());
        }
        let flow = self.flow_level > 0;
        match here {
            b'[' => self.flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.flow_start(TokenKind::FlowMappingStart),
            b']' => self.flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.flow_end(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.push_indicator(TokenKind::FlowEntry, 1);
                Ok(())
            }
            b'-' if gap_follows => self.block_entry(),
            b'?' if flow || gap_follows => self.key(),
            b':' if flow || gap_follows => self.value(),
            b'*' => self.anchor(TokenKind::Alias),
            b'&' => self.anchor(TokenKind::Anchor),
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if !flow => {
                self.remove_key()?;
                self.key_allowed = true;
                self.block_scalar(here == b'|')
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                self.quoted_scalar(here)
            }
            b'\t' => Err(self.error(
                Message::new(
                    "a tab cannot indent or start a value",
                    "found character that cannot start any token",
                )
                .with_help("indent with spaces"),
                None,
            )),
            b'|' | b'>' | b'#' | b'%' | b'@' | b'`' => {
                let text = format!("`{}` cannot start a value", char::from(here));
                Err(self.error(Message::new(text, "found character that cannot start any token"), None))
            }
            _ => {
                self.save_key()?;
                self.key_allowed = false;
                self.plain_scalar()
            }
        }
    }

    // ── positions ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// The column in bytes. Wherever columns matter, only ASCII can precede.
    #[inline]
    pub(super) fn column(&self) -> usize {
        self.at - self.line_start
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark {
            at: self.at as u32,
            line: self.line,
        }
    }

    /// Skips the line break here, which has `len` bytes.
    #[inline]
    pub(super) fn skip_break(&mut self, len: usize) {
        self.at += len;
        self.line += 1;
        self.line_start = self.at;
    }

    pub(super) fn push(&mut self, kind: TokenKind, start: Mark) {
        let end = self.mark();
        self.tokens.push_back(Token { kind, start, end });
    }

    /// Corrects the end of the token that was pushed last.
    pub(super) fn set_last_end(&mut self, end: Mark) {
        if let Some(token) = self.tokens.back_mut() {
            token.end = end;
        }
    }

    fn push_indicator(&mut self, kind: TokenKind, len: usize) {
        let start = self.mark();
        self.at += len;
        self.push(kind, start);
    }

    /// Inserts a token without extent before the one with this number, or at the end if that one is gone.
    fn insert(&mut self, number: Option<usize>, kind: TokenKind, mark: Mark) {
        let token = Token {
            kind,
            start: mark,
            end: mark,
        };
        match number.and_then(|number| number.checked_sub(self.parsed)) {
            Some(place) if place <= self.tokens.len() => self.tokens.insert(place, token),
            _ => self.tokens.push_back(token),
        }
    }

    /// An error at the current character; `context` is the start of the open construct.
    pub(super) fn error(&self, message: impl Into<Message>, context: Option<(Mark, &'static str)>) -> Error {
        let width = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        let width = if is_break_or_end(self.source, self.at) {
            0
        } else {
            width
        };
        let error = Error::new(ErrorKind::Token, Span::of(self.at, self.at + width), message);
        let go_line = if self.line > 0 { Some(self.line + 1) } else { None };
        let error = error.with_go_line(go_line);
        match context {
            Some((mark, label)) => error.with_related(Span::at(mark.at), label),
            None => error,
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            while match byte(self.source, self.at) {
                b' ' => true,
                b'\t' => self.flow_level > 0 || !self.key_allowed,
                _ => false,
            } {
                self.at += 1;
            }
            if byte(self.source, self.at) == b'#' {
                self.skip_comment();
            }
            let len = break_len(self.source, self.at);
            if len == 0 {
                return;
            }
            self.skip_break(len);
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    pub(super) fn skip_comment(&mut self) {
        while !is_break_or_end(self.source, self.at) {
            self.at += 1;
        }
    }

    // ── keys without `?` ────────────────────────────────────────────────────────────────────────────────────────────

    fn key_is_valid(&mut self, level: usize) -> Result<bool> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        let start = key.mark.at as usize;
        let long = self.at - start > KEY_LENGTH && self.text[start..self.at].chars().count() > KEY_LENGTH;
        if key.mark.line < self.line || long {
            if key.required {
                return Err(self.missing_colon(&key));
            }
            self.keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn save_key(&mut self) -> Result<()> {
        if self.key_allowed {
            let required = self.flow_level == 0 && self.indent == self.column() as isize;
            self.remove_key()?;
            let key = SimpleKey {
                possible: true,
                required,
                awaited: true,
                token: self.parsed + self.tokens.len(),
                mark: self.mark(),
                column: self.column(),
            };
            *self.top_key() = key;
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Result<()> {
        let key = *self.top_key();
        if key.possible {
            if key.required {
                return Err(self.missing_colon(&key));
            }
            self.top_key().possible = false;
            self.top_key().awaited = false;
        }
        Ok(())
    }

    fn missing_colon(&self, key: &SimpleKey) -> Error {
        let end = self.source[key.mark.at as usize..]
            .iter()
            .position(|byte| matches!(byte, b'\n' | b'\r'))
            .map_or(self.source.len(), |n| key.mark.at as usize + n);
        let start = key.mark.at as usize;
        let end = start + self.text[start..end].trim_end().len();
        let go_line = (self.line > 0).then_some(self.line + 1);
        Error::new(
            ErrorKind::Token,
            Span::of(start, end),
            Message::new("this line needs a `:` after its key", "could not find expected ':'"),
        )
        .with_go_line(go_line)
    }

    fn top_key(&mut self) -> &mut SimpleKey {
        self.keys.last_mut().expect("the block level is never left")
    }

    // ── indentation ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Opens a block collection at a column that is deeper than the current one.
    fn roll(&mut self, column: usize, number: Option<usize>, kind: TokenKind, mark: Mark) -> Result<()> {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > self.depth {
            return Err(self.too_deep());
        }
        self.insert(number, kind, mark);
        Ok(())
    }

    /// Closes the block collections that are deeper than a column.
    fn unroll(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            let mark = self.mark();
            self.insert(None, TokenKind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn too_deep(&self) -> Error {
        Error::new(
            ErrorKind::Depth,
            Span::of(self.at, self.at),
            format!("more than {} levels of nesting", self.depth),
        )
    }

    // ── indicators ──────────────────────────────────────────────────────────────────────────────────────────────────

    fn stream_end(&mut self) -> Result<()> {
        if self.column() != 0 {
            self.skip_break(0);
        }
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push_indicator(TokenKind::StreamEnd, 0);
        self.ended = true;
        Ok(())
    }

    fn directive(&mut self) -> Result<()> {
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.scan_directive()
    }

    fn flow_start(&mut self, kind: TokenKind) -> Result<()> {
        self.save_key()?;
        let level = SimpleKey {
            possible: false,
            required: false,
            awaited: false,
            token: self.parsed + self.tokens.len(),
            mark: self.mark(),
            column: self.column(),
        };
        self.keys.push(level);
        self.flow_level += 1;
        if self.flow_level > self.depth {
            return Err(self.too_deep());
        }
        self.key_allowed = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn flow_end(&mut self, kind: TokenKind) -> Result<()> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let closed = self.keys.pop();
            // The collection had no candidate of its own: the reference scanner forgets the outer one here, and reads
            // `[]: x` as the list alone.
            if let Some(closed) = closed {
                let outer = self.top_key();
                if outer.token == closed.token {
                    outer.awaited = false;
                }
            }
        }
        self.key_allowed = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.error(
                    Message::new(
                        "a list entry cannot start here",
                        "block sequence entries are not allowed in this context",
                    ),
                    None,
                ));
            }
            self.roll(self.column(), None, TokenKind::BlockSequenceStart, self.mark())?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    fn key(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.error(
                    Message::new(
                        "a key cannot start here",
                        "mapping keys are not allowed in this context",
                    ),
                    None,
                ));
            }
            self.roll(self.column(), None, TokenKind::BlockMappingStart, self.mark())?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push_indicator(TokenKind::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<()> {
        let level = self.keys.len() - 1;
        if self.key_is_valid(level)? {
            let key = self.keys[level];
            self.insert(Some(key.token), TokenKind::Key, key.mark);
            self.roll(key.column, Some(key.token), TokenKind::BlockMappingStart, key.mark)?;
            self.keys[level].possible = false;
            self.keys[level].awaited = false;
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(self.error(
                        Message::new(
                            "unexpected `: `; quote a value that contains it",
                            "mapping values are not allowed in this context",
                        ),
                        None,
                    ));
                }
                self.roll(self.column(), None, TokenKind::BlockMappingStart, self.mark())?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push_indicator(TokenKind::Value, 1);
        Ok(())
    }
}
