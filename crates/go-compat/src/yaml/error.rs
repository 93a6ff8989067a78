//! Errors of the YAML reader, with their location.

use std::{borrow::Cow, fmt};

use super::position::Span;

/// The rule that the document violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Bytes that are not UTF-8.
    Utf8,
    /// A character that YAML forbids.
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
    message: Message,
    span: Span,
    related: Option<(Span, &'static str)>,
    go_line: Option<u32>,
}

/// The text of an error: our wording, and that of the Go library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    text: Cow<'static, str>,
    /// `None` if the Go library has no such error, or its wording is not reproduced.
    go: Option<Cow<'static, str>>,
    help: Option<&'static str>,
}

impl Message {
    /// A message with its counterpart in the Go library, without the prefix `yaml: `.
    pub(super) fn new(text: impl Into<Cow<'static, str>>, go: impl Into<Cow<'static, str>>) -> Self {
        Self {
            go: Some(go.into()),
            ..Self::from(text.into())
        }
    }

    pub(super) fn with_help(mut self, help: &'static str) -> Self {
        self.help = Some(help);
        self
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Message {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            go: None,
            help: None,
        }
    }
}

impl Error {
    pub(super) fn new(kind: ErrorKind, span: Span, message: impl Into<Message>) -> Self {
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
        &self.0.message.text
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
        self.0.message.help
    }

    /// The message in the wording of the Go library, for comparison with Kyverno's output; our wording if it has none.
    ///
    /// Upstream counterpart: the messages of go.yaml.in/yaml/v2.
    pub fn go_text(&self) -> String {
        let message = &self.0.message;
        let text = message.go.as_ref().unwrap_or(&message.text);
        match (self.kind(), self.go_line()) {
            // The conversion to JSON fails, not the YAML library.
            (ErrorKind::Number, _) => text.to_string(),
            (_, Some(line)) => format!("yaml: line {line}: {text}"),
            (_, None) => format!("yaml: {text}"),
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
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

pub(super) type Result<T> = std::result::Result<T, Error>;
