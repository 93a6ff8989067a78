//! YAML reader errors as diagnostics.

use super::{Code, Diagnostic, FileId, Span};
use crate::yaml::{Error, ErrorKind};

impl Diagnostic {
    /// Converts an error of the YAML reader about a file.
    pub fn from_yaml(file: FileId, error: &Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Utf8 => Code::NotUtf8,
            ErrorKind::Encoding
            | ErrorKind::Separator
            | ErrorKind::Token
            | ErrorKind::Structure
            | ErrorKind::Tag
            | ErrorKind::Merge => Code::YamlSyntax,
            ErrorKind::Alias => Code::YamlAliases,
            ErrorKind::Key | ErrorKind::Number => Code::NotJson,
            ErrorKind::Duplicate => Code::DuplicateKey,
            ErrorKind::Depth => Code::YamlTooDeep,
            ErrorKind::Size => Code::YamlTooLarge,
        };
        let span = |span: crate::yaml::Span| Span::new(file, span.start, span.end);
        let mut diagnostic = Self::at(code, span(error.span()), error.message());
        if let Some((place, label)) = error.related() {
            diagnostic = diagnostic.with_label(span(place), label);
        }
        match error.help() {
            Some(help) => diagnostic.with_help(help),
            None => diagnostic,
        }
    }
}
