//! Splits an expression into tokens.
//!
//! Upstream counterpart: go-jmespath's `lexer.go`, with its error messages and its oddities: an unquoted name may end
//! in U+0080, and a single `=` is a token that the grammar never uses.

use std::sync::Arc;

use super::Error;
use kyvtest_go_compat::{
    text::quote,
    value::{Data, go_json},
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Unknown,
    Star,
    Dot,
    Filter,
    Flatten,
    Lparen,
    Rparen,
    Lbracket,
    Rbracket,
    Lbrace,
    Rbrace,
    Or,
    Pipe,
    Number(String),
    UnquotedIdentifier(Arc<str>),
    QuotedIdentifier(Arc<str>),
    Comma,
    Colon,
    Lt,
    Lte,
    Gt,
    Gte,
    Eq,
    Ne,
    JsonLiteral(String),
    StringLiteral(Arc<str>),
    Current,
    Expref,
    And,
    Not,
    Eof,
}

impl Token {
    /// Upstream's name, for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Unknown => "tUnknown",
            Self::Star => "tStar",
            Self::Dot => "tDot",
            Self::Filter => "tFilter",
            Self::Flatten => "tFlatten",
            Self::Lparen => "tLparen",
            Self::Rparen => "tRparen",
            Self::Lbracket => "tLbracket",
            Self::Rbracket => "tRbracket",
            Self::Lbrace => "tLbrace",
            Self::Rbrace => "tRbrace",
            Self::Or => "tOr",
            Self::Pipe => "tPipe",
            Self::Number(_) => "tNumber",
            Self::UnquotedIdentifier(_) => "tUnquotedIdentifier",
            Self::QuotedIdentifier(_) => "tQuotedIdentifier",
            Self::Comma => "tComma",
            Self::Colon => "tColon",
            Self::Lt => "tLT",
            Self::Lte => "tLTE",
            Self::Gt => "tGT",
            Self::Gte => "tGTE",
            Self::Eq => "tEQ",
            Self::Ne => "tNE",
            Self::JsonLiteral(_) => "tJSONLiteral",
            Self::StringLiteral(_) => "tStringLiteral",
            Self::Current => "tCurrent",
            Self::Expref => "tExpref",
            Self::And => "tAnd",
            Self::Not => "tNot",
            Self::Eof => "tEOF",
        }
    }

    /// How strongly the token binds to the expression before it.
    pub(super) fn binding_power(&self) -> u8 {
        match self {
            Self::Pipe => 1,
            Self::Or => 2,
            Self::And => 3,
            Self::Eq | Self::Lt | Self::Lte | Self::Gt | Self::Gte | Self::Ne => 5,
            Self::Flatten => 9,
            Self::Star => 20,
            Self::Filter => 21,
            Self::Dot => 40,
            Self::Not => 45,
            Self::Lbrace => 50,
            Self::Lbracket => 55,
            Self::Lparen => 60,
            _ => 0,
        }
    }
}

/// An error with upstream's prefix.
pub(super) fn syntax(message: impl std::fmt::Display) -> Error {
    Error::Syntax(format!("SyntaxError: {message}"))
}

/// Splits an expression; the last token is [`Token::Eof`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let two = |second: char, both: Token, one: Token| match after.strip_prefix(second) {
            Some(after) => (both, after),
            None => (one, after),
        };
        let (token, after) = match c {
            'a'..='z' | 'A'..='Z' | '_' => identifier(rest),
            '.' => (Token::Dot, after),
            '*' => (Token::Star, after),
            ',' => (Token::Comma, after),
            ':' => (Token::Colon, after),
            '{' => (Token::Lbrace, after),
            '}' => (Token::Rbrace, after),
            ']' => (Token::Rbracket, after),
            '(' => (Token::Lparen, after),
            ')' => (Token::Rparen, after),
            '@' => (Token::Current, after),
            '-' | '0'..='9' => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                (Token::Number(rest[..=end].to_owned()), &after[end..])
            }
            '[' => match after.chars().next() {
                Some('?') => (Token::Filter, &after[1..]),
                Some(']') => (Token::Flatten, &after[1..]),
                _ => (Token::Lbracket, after),
            },
            '"' => {
                let (value, after) = until(after, '"')?;
                let document = go_json::read(&format!("\"{value}\"")).map_err(Error::Syntax)?;
                match Data::from(document.root()) {
                    Data::String(name) => (Token::QuotedIdentifier(name), after),
                    _ => return Err(syntax("Unclosed delimiter: \"")),
                }
            }
            '\'' => raw_string(after)?,
            '`' => {
                let (value, after) = until(after, '`')?;
                (Token::JsonLiteral(value.replace("\\`", "`")), after)
            }
            '|' => two('|', Token::Or, Token::Pipe),
            '<' => two('=', Token::Lte, Token::Lt),
            '>' => two('=', Token::Gte, Token::Gt),
            '!' => two('=', Token::Ne, Token::Not),
            '=' => two('=', Token::Eq, Token::Unknown),
            '&' => two('&', Token::And, Token::Expref),
            ' ' | '\t' | '\n' | '\r' => {
                rest = after;
                continue;
            }
            c => return Err(syntax(format_args!("Unknown char: {}", quote::quote_char_ascii(c)))),
        };
        tokens.push(token);
        rest = after;
    }
    tokens.push(Token::Eof);
    Ok(tokens)
}

fn identifier(text: &str) -> (Token, &str) {
    let mut end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    if text[end..].starts_with('\u{80}') {
        end += '\u{80}'.len_utf8();
    }
    (Token::UnquotedIdentifier(text[..end].into()), &text[end..])
}

/// The text up to an unescaped delimiter, and the rest.
fn until(text: &str, end: char) -> Result<(&str, &str), Error> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == end {
            return Ok((&text[..at], &text[at + c.len_utf8()..]));
        } else if c == '\\' {
            escaped = true;
        }
    }
    Err(syntax(format_args!("Unclosed delimiter: {end}")))
}

/// A string in single quotes, in which only the quote can be escaped.
fn raw_string(text: &str) -> Result<(Token, &str), Error> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let Some(end) = rest.find(['\'', '\\']) else {
            return Err(syntax("Unclosed delimiter: '"));
        };
        value.push_str(&rest[..end]);
        rest = &rest[end..];
        if let Some(after) = rest.strip_prefix('\'') {
            return Ok((Token::StringLiteral(value.into()), after));
        }
        if let Some(after) = rest.strip_prefix("\\'") {
            value.push('\'');
            rest = after;
        } else {
            value.push('\\');
            rest = &rest[1..];
        }
    }
}
