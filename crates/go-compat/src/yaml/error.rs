//! Errors of the YAML reader, with their location.

use std::{borrow::Cow, fmt};

use super::{parse_collection::AFTER_QUOTE, position::Span};

/// The message about bytes that are not UTF-8.
pub const NOT_UTF8: &str = "this is not UTF-8";

/// The rule that the document violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Bytes that cannot occur in YAML: invalid UTF-8, control characters.
    Encoding,
    /// A line that looks like a document separator but is not one.
    Separator,
    /// A character that is not allowed at its position.
    Token,
    /// A construct that is unfinished or misplaced.
    Structure,
    /// An alias without anchor, an anchor that contains itself, or too much aliasing.
    Alias,
    /// A value that its tag does not permit.
    Tag,
    /// A merge of something that is not a map.
    Merge,
    /// A map key that has no counterpart in JSON.
    Key,
    /// A key that is set twice; only in strict mode.
    Duplicate,
    /// A number that JSON cannot express: infinity or not-a-number.
    Number,
    /// Deeper than the reader's limit.
    Depth,
    /// Larger than the reader's limit.
    Size,
}

/// An error with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Refusal>);

/// Boxed, so that the success path of the scanner stays small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    kind: ErrorKind,
    message: Cow<'static, str>,
    span: Span,
    related: Option<(Span, &'static str)>,
    go_line: Option<u32>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, span: Span, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Refusal {
            kind,
            message: message.into(),
            span,
            related: None,
            go_line: None,
        }))
    }

    pub(super) fn with_related(mut self, span: Span, label: &'static str) -> Self {
        self.0.related = Some((span, label));
        self
    }

    pub(super) fn with_go_line(mut self, line: Option<u32>) -> Self {
        self.0.go_line = line;
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The location, in bytes of the whole source.
    pub fn span(&self) -> Span {
        self.0.span
    }

    /// A second span that explains the first, with its label: the start of the open construct, or the first of two
    /// equal keys.
    pub fn related(&self) -> Option<(Span, &'static str)> {
        self.0.related
    }

    /// A suggested fix, unless the message makes it obvious.
    pub fn help(&self) -> Option<&'static str> {
        match self.message() {
            AFTER_QUOTE => Some("put quotes around all of it: `\"'a' in b\"`"),
            NOT_UTF8 => Some("save the file as UTF-8"),
            "a tab cannot indent or start a value" => Some("indent with spaces"),
            _ => None,
        }
    }

    /// The line number in the Go library's message, if it has one. It counts from the start of the document, and for
    /// some errors the library is off by one; use [`Error::span`] for positions shown to users.
    pub fn go_line(&self) -> Option<u32> {
        self.0.go_line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

pub(super) type Result<T> = std::result::Result<T, Error>;
