//! The tokens between [`super::scan`] and [`super::parse`].

use super::scalar::Text;

/// A position in the source with its line, counted from 0 at the start of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) at: u32,
    pub(super) line: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    StreamEnd,
    Version {
        major: u8,
        minor: u8,
    },
    TagDirective(Box<TagParts>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    /// The name is the span without its first character.
    Alias,
    /// The name is the span without its first character.
    Anchor,
    Tag(Box<TagParts>),
    Scalar {
        text: Text,
        plain: bool,
    },
}

/// A tag's handle and suffix, or a tag directive's handle and prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagParts {
    pub(super) handle: String,
    pub(super) rest: String,
}
