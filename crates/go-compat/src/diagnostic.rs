//! Diagnostics: what kyvtest reports about an input, with code, severity, message, location, labels, notes and help.
//!
//! Every output format is a renderer over this one model; nothing prints here. [`Code`] lists the public codes and
//! their explanations, [`Sources`] holds the source text that spans refer to, and [`render`] draws an excerpt with
//! carets (on top of `annotate-snippets`) or a single line.
//!
//! Messages follow one rule: lower case, no full stop, the user's own text in backticks, help separate from the
//! message.
//!
//! Upstream counterpart: none.

mod code;
mod near;
pub mod render;
mod source;
mod yaml;

pub use code::{Code, Group, UnknownCode};
pub use near::nearest;
pub use source::{FileId, Position, Sources, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; no action needed.
    Note,
    /// Probably not what the author meant; processing continues.
    Warning,
    /// The input cannot be used.
    Error,
}

impl Severity {
    /// The word shown to users.
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
    pub span: Span,
    /// May be empty: then the span is only underlined.
    pub message: String,
}

/// One problem or remark reported to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    /// The code's default severity unless overridden.
    pub severity: Severity,
    /// The problem in one line.
    pub message: String,
    /// The location; `None` if the diagnostic is not about a source.
    pub primary: Option<Span>,
    /// Remarks on parts of sources. A label with the same span as `primary` becomes the text beside its carets.
    pub labels: Vec<Label>,
    /// Reasons and further facts.
    pub notes: Vec<String>,
    /// Suggested actions.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// Creates a diagnostic without a location.
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

    /// Creates a diagnostic about a part of a source.
    pub fn at(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            primary: Some(span),
            ..Self::new(code, message)
        }
    }

    /// Overrides the severity.
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Adds a remark on a part of a source.
    pub fn with_label(mut self, span: Span, message: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            message: message.into(),
        });
        self
    }

    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a suggested action.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}
