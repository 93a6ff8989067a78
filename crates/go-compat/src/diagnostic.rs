//! What we tell a user about an input: code, severity, message, place, labels, notes, help.
//!
//! Every output format is a renderer over this one model; nothing prints here. The public codes and their explanations
//! are in [`Code`], the texts that places refer to in [`Sources`], and [`render`] makes an excerpt with carets (on top
//! of `annotate-snippets`) or a single line.
//!
//! Texts follow one rule: lower case, no final period, the user's own words in backticks, help apart from the message.

mod code;
mod near;
pub mod render;
mod source;
mod yaml;

pub use code::{Code, Group, UnknownCode};
pub use near::nearest;
pub use source::{FileId, Position, Sources, Span};

/// How serious a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing needs to be done.
    Note,
    /// Probably not what the author meant; the work goes on.
    Warning,
    /// The input cannot be used as it is.
    Error,
}

impl Severity {
    /// The word that a user sees.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A remark on a part of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The part.
    pub span: Span,
    /// The remark; may be empty, then the part is only underlined.
    pub message: String,
}

/// One thing that a user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The public code.
    pub code: Code,
    /// How serious it is; the code's own severity unless it was changed.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// Where, if it is about a source.
    pub primary: Option<Span>,
    /// Remarks on parts of sources. One with the span of `primary` becomes the text beside its carets.
    pub labels: Vec<Label>,
    /// Why it is wrong, or what else is known.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A diagnostic that is about no source in particular.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: message.into(),
            primary: None,
            labels: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A diagnostic about a part of a source.
    pub fn at(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            primary: Some(span),
            ..Self::new(code, message)
        }
    }

    /// The same with another severity.
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same with one more remark on a part of a source.
    pub fn with_label(mut self, span: Span, message: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            message: message.into(),
        });
        self
    }

    /// The same with one more note.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same with one more way out.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}
