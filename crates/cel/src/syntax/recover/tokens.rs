//! The token stream of the recovering parser: scanned on demand, reporting errors.
//!
//! Upstream counterpart: antlr4-go `lexer.go` and `common_token_stream.go`, cel-go's `SyntaxError` listener.

use super::{
    super::{
        lexer::{Scan, Tok, scan},
        options::ParseOptions,
    },
    symbols::symbol,
};
use crate::issue::{IssueSink, Location, Source};

/// Parsing ended before the end of the text; all problems have been reported.
#[derive(Debug)]
pub(super) struct Stop;

pub(super) struct Reporter<'a> {
    pub(super) source: Source<'a>,
    pub(super) sink: IssueSink,
    syntax_errors: usize,
    error_limit: usize,
}

impl<'a> Reporter<'a> {
    fn new(text: &'a str, options: &ParseOptions) -> Self {
        Self {
            source: Source::new(text),
            sink: IssueSink::default(),
            syntax_errors: 0,
            error_limit: options.error_limit,
        }
    }

    /// Reports a syntax error; too many of them end the parse.
    pub(super) fn syntax(&mut self, offset: i32, message: &str) -> Result<(), Stop> {
        let location = self.source.location(offset);
        if self.syntax_errors >= self.error_limit {
            let message = format!("Syntax error: More than {} syntax errors", self.error_limit);
            self.sink.report(location, message);
            return Err(Stop);
        }
        self.syntax_errors += 1;
        self.sink
            .report(location, format!("Syntax error: {}", reserved_words(message)));
        Ok(())
    }

    /// Reports a problem without location and ends the parse.
    pub(super) fn fatal(&mut self, message: String) -> Stop {
        self.sink.report(Location::NONE, message);
        Stop
    }
}

/// cel-go words the use of `true`, `false` or `null` as a field as a mismatch.
fn reserved_words(message: &str) -> String {
    let rewritten = || {
        let input = message.strip_prefix("no viable alternative at input '")?;
        let mut chars = input.chars();
        if chars.next()? == '\n' {
            return None;
        }
        ["true", "false", "null"].iter().find_map(|word| {
            let rest = chars.as_str().strip_prefix(word)?.strip_prefix('\'')?;
            Some(format!("mismatched input '{word}' expecting IDENTIFIER{rest}"))
        })
    };
    rewritten().unwrap_or_else(|| message.to_owned())
}

/// A token of the text, or one inserted in place of a missing one.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) tok: Tok,
    /// In bytes of the text.
    start: usize,
    end: usize,
    /// The code-point offset.
    pub(super) offset: i32,
    /// The text of an inserted token.
    made_up: Option<String>,
}

/// The index of a token in the stream.
pub(super) type TokenId = usize;

/// The tokens that were scanned so far.
pub(super) struct Tokens<'a> {
    text: &'a str,
    scanned: Vec<Token>,
    /// The next token; never white space or a comment.
    index: TokenId,
    /// The current scan position: byte and code point.
    position: (usize, i32),
    pub(super) reporter: Reporter<'a>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str, options: &ParseOptions) -> Result<Self, (Stop, Reporter<'a>)> {
        let mut tokens = Self {
            text,
            scanned: Vec::new(),
            index: 0,
            // In an empty text cel-go finds no location for an offset.
            position: (0, if text.is_empty() { -1 } else { 0 }),
            reporter: Reporter::new(text, options),
        };
        match tokens.visible_from(0) {
            Ok(first) => {
                tokens.index = first;
                Ok(tokens)
            }
            Err(stop) => Err((stop, tokens.reporter)),
        }
    }

    /// The first token from `id` on that the parser sees.
    fn visible_from(&mut self, mut id: TokenId) -> Result<TokenId, Stop> {
        loop {
            while self.scanned.len() <= id {
                if let Some(last) = self.scanned.last()
                    && last.tok == Tok::Eof
                {
                    return Ok(self.scanned.len() - 1);
                }
                self.fetch()?;
            }
            if !matches!(self.scanned[id].tok, Tok::Whitespace | Tok::Comment) {
                return Ok(id);
            }
            id += 1;
        }
    }

    fn fetch(&mut self) -> Result<(), Stop> {
        loop {
            let (start, offset) = self.position;
            match scan(self.text.as_bytes(), start) {
                Scan::Token(tok, end) => {
                    self.move_to(end);
                    self.scanned.push(Token {
                        tok,
                        start,
                        end,
                        offset,
                        made_up: None,
                    });
                    return Ok(());
                }
                Scan::Error(at) => {
                    let end = at + self.text[at..].chars().next().map_or(0, char::len_utf8);
                    self.move_to(end);
                    let message = format!("token recognition error at: '{}'", &self.text[start..end]);
                    self.reporter.syntax(offset, &message)?;
                }
            }
        }
    }

    fn move_to(&mut self, end: usize) {
        let (start, offset) = self.position;
        self.position = (end, offset + self.text[start..end].chars().count() as i32);
    }

    pub(super) fn index(&self) -> TokenId {
        self.index
    }

    pub(super) fn token(&self, id: TokenId) -> &Token {
        &self.scanned[id]
    }

    /// The kind of a token, as a member of sets.
    pub(super) fn symbol(&self, id: TokenId) -> i16 {
        symbol(self.scanned[id].tok)
    }

    /// The kind of the next token.
    pub(super) fn next(&self) -> i16 {
        self.symbol(self.index)
    }

    /// The token after `id`; the end of the text is the last.
    pub(super) fn after(&mut self, id: TokenId) -> Result<TokenId, Stop> {
        if self.scanned[id].tok == Tok::Eof {
            return Ok(id);
        }
        self.visible_from(id + 1)
    }

    /// The token before the next one.
    pub(super) fn before(&self) -> Option<TokenId> {
        (0..self.index)
            .rev()
            .find(|id| !matches!(self.scanned[*id].tok, Tok::Whitespace | Tok::Comment))
    }

    /// Consumes the next token, unless it is the end.
    pub(super) fn consume(&mut self) -> Result<(), Stop> {
        self.index = self.after(self.index)?;
        Ok(())
    }

    pub(super) fn text(&self, token: &Token) -> String {
        match (&token.made_up, token.tok) {
            (Some(text), _) => text.clone(),
            (None, Tok::Eof) => "<EOF>".to_owned(),
            (None, _) => self.text[token.start..token.end].to_owned(),
        }
    }

    /// The text of all tokens from one to another, white space included.
    pub(super) fn text_between(&self, from: TokenId, to: TokenId) -> String {
        self.scanned
            .get(from..=to)
            .unwrap_or_default()
            .iter()
            .take_while(|token| token.tok != Tok::Eof)
            .map(|token| &self.text[token.start..token.end])
            .collect()
    }

    /// Creates a missing token: it is located at the next one, or before the end of the text.
    pub(super) fn make_up(&self, tok: Tok, text: String) -> Token {
        let mut at = self.index;
        if self.scanned[at].tok == Tok::Eof {
            at = self.before().unwrap_or(at);
        }
        Token {
            tok,
            start: 0,
            end: 0,
            offset: self.scanned[at].offset,
            made_up: Some(text),
        }
    }
}
