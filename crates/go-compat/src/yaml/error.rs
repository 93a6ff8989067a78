//! Why a document cannot be read, and where.

use std::{borrow::Cow, fmt};

use super::{parse_collection::AFTER_QUOTE, position::Span};

/// The message about bytes that are not UTF-8.
pub const NOT_UTF8: &str = "this is not UTF-8";

/// Which step of the reader refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Bytes that no YAML text has: invalid UTF-8, control characters.
    Encoding,
    /// A line that looks like a document separator and is none.
    Separator,
    /// A character that may not stand where it stands.
    Token,
    /// A construct that is left unfinished or that does not belong there.
    Structure,
    /// An alias without anchor, an anchor that contains itself, or too much of both.
    Alias,
    /// A value that its tag does not admit.
    Tag,
    /// A merge of something that is not a map.
    Merge,
    /// A map key that has no counterpart in JSON.
    Key,
    /// A key that is set twice; only in strict mode.
    Duplicate,
    /// A number that JSON cannot say: infinity or not-a-number.
    Number,
    /// Deeper than the reader's limit.
    Depth,
    /// Larger than the reader's limit.
    Size,
}

/// A refusal with its place.
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

    /// Which step refused.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where it is wrong, in bytes of the whole source.
    pub fn span(&self) -> Span {
        self.0.span
    }

    /// A second place that explains the first, with a label for it: where the open construct began, the first of two
    /// equal keys.
    pub fn related(&self) -> Option<(Span, &'static str)> {
        self.0.related
    }

    /// What to do about it, where that is not plain from the message.
    pub fn help(&self) -> Option<&'static str> {
        match self.message() {
            AFTER_QUOTE => Some("put quotes around all of it: `\"'a' in b\"`"),
            NOT_UTF8 => Some("save the file as UTF-8"),
            "a tab cannot indent or start a value" => Some("indent with spaces"),
            _ => None,
        }
    }

    /// The line number in the message of the Go library, where it has one. It counts from the start of the document,
    /// and for some errors the library is off by one; positions for people come from [`Error::span`].
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
