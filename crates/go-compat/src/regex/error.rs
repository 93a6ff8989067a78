//! Pattern errors with the messages of Go's `regexp/syntax`.

use std::fmt;

/// The reason for rejecting a pattern; each variant has Go's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// A class range or class name that does not exist.
    InvalidCharRange,
    /// An escape sequence outside the dialect.
    InvalidEscape,
    /// A group name that is empty, unclosed or not `[A-Za-z0-9_]+`.
    InvalidNamedCapture,
    InvalidPerlOp,
    /// A repetition of a repetition, such as `a**`.
    InvalidRepeatOp,
    /// A repeat count above 1000, or with its bounds swapped.
    InvalidRepeatSize,
    /// A class without its closing bracket.
    MissingBracket,
    /// A group without its closing parenthesis.
    MissingParen,
    /// A repetition operator with nothing before it.
    MissingRepeatArgument,
    /// A backslash that ends the pattern.
    TrailingBackslash,
    /// A closing parenthesis without its group.
    UnexpectedParen,
    /// More than 1000 levels of nesting.
    NestingDepth,
    /// A pattern beyond the size limits.
    Large,
}

impl ErrorCode {
    /// Go's message for this reason.
    pub fn text(self) -> &'static str {
        match self {
            ErrorCode::InvalidCharRange => "invalid character class range",
            ErrorCode::InvalidEscape => "invalid escape sequence",
            ErrorCode::InvalidNamedCapture => "invalid named capture",
            ErrorCode::InvalidPerlOp => "invalid or unsupported Perl syntax",
            ErrorCode::InvalidRepeatOp => "invalid nested repetition operator",
            ErrorCode::InvalidRepeatSize => "invalid repeat count",
            ErrorCode::MissingBracket => "missing closing ]",
            ErrorCode::MissingParen => "missing closing )",
            ErrorCode::MissingRepeatArgument => "missing argument to repetition operator",
            ErrorCode::TrailingBackslash => "trailing backslash at end of expression",
            ErrorCode::UnexpectedParen => "unexpected )",
            ErrorCode::NestingDepth => "expression nests too deeply",
            ErrorCode::Large => "expression too large",
        }
    }
}

/// A rejected pattern: the reason and the part of the pattern that Go quotes. Prints as Go does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: ErrorCode,
    fragment: String,
}

impl Error {
    pub(crate) fn new(code: ErrorCode, fragment: &str) -> Self {
        Self {
            code,
            fragment: fragment.to_owned(),
        }
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.code.text(), self.fragment)
    }
}

impl std::error::Error for Error {}
