//! YAML as Kubernetes reads it: text to located trees with Go's scalar rules, and values back to text.
//!
//! Upstream counterpart: Kyverno 1.19's document splitter, go.yaml.in/yaml/v2 2.4 and sigs.k8s.io/yaml 1.6. The stages
//! are `split` (documents) → `scan` (tokens) → `parse` (syntax) → `compose` (tree). Scanner and parser are our own: the
//! Go library accepts a dialect of YAML 1.1, and the crates that provide events read YAML 1.2.
//!
//! Known deviations, all on inputs that do not occur in Kubernetes files: see the headers of `scan` and `compose`;
//! nesting and size are limited ([`Limits`]); control characters are rejected in the whole document, not only up to
//! `...`.

mod chars;
mod compose;
mod edit;
pub mod emit;
mod error;
mod go_string;
mod graft;
mod number;
mod parse;
mod parse_collection;
mod position;
mod resolve;
mod scalar;
mod scan;
mod scan_scalar;
mod scan_tag;
mod split;
mod token;
mod tree;

use std::sync::{Arc, OnceLock};

pub use edit::Edits;
use error::Message;
pub use error::{Error, ErrorKind};
pub use go_string::{go_double, go_key, go_value};
pub use graft::{Edited, Graft};
pub use position::{LineIndex, Position, Span};
pub use scalar::Segments;
pub use tree::{Entries, Entry, Items, Kind, Node, NodeId, Number, Tree};

/// How the reader treats duplicate keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// The last one wins, as for `kubectl apply` and for Kyverno's resources.
    #[default]
    Lax,
    /// A duplicate key is an error, even if one of the two comes from a merge.
    Strict,
}

/// Size limits of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest file, in bytes; never more than 4 GiB.
    pub bytes: usize,
    /// The deepest nesting, with aliases expanded. Consumers of the tree may rely on it for recursion.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            depth: 1000,
        }
    }
}

/// A file that is split into documents, none of which has been read.
#[derive(Debug)]
pub struct Split {
    source: Arc<str>,
    spans: Vec<Span>,
    /// The offsets of invalid bytes.
    invalid: Vec<u32>,
    limits: Limits,
    error: Option<Error>,
    cut: Option<Error>,
}

#[derive(Debug)]
pub struct Stream {
    split: Split,
    documents: Vec<Document>,
    lines: OnceLock<LineIndex>,
}

#[derive(Debug)]
pub struct Document {
    span: Span,
    tree: Result<Tree, Error>,
}

impl Split {
    /// The text of the file. If the file ends without a line feed, one is added; invalid UTF-8 bytes are `?`. Offsets
    /// are those of the file.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// The reason why the whole file is unreadable: it is too large.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The line at which Kyverno silently stops reading: it starts with `---` and continues with other text. Kyverno
    /// loses the rest of the file, and the document that the line would have ended.
    pub fn cut(&self) -> Option<&Error> {
        self.cut.as_ref()
    }

    /// Reads the documents one by one, as the caller takes them: those of a large file need not be in memory at once.
    pub fn documents(&self, mode: Mode) -> impl Iterator<Item = Document> {
        self.spans.iter().map(move |span| Document {
            span: *span,
            tree: document(&self.source, *span, &self.invalid, mode, &self.limits),
        })
    }

    /// Reads all documents. An error in one document does not affect the others.
    pub fn read(self, mode: Mode) -> Stream {
        Stream {
            documents: self.documents(mode).collect(),
            split: self,
            lines: OnceLock::new(),
        }
    }
}

impl Stream {
    /// See [`Split::source`].
    pub fn source(&self) -> &Arc<str> {
        self.split.source()
    }

    /// The documents that Kyverno finds: those with more than blank lines and comments.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    pub fn into_documents(self) -> Vec<Document> {
        self.documents
    }

    /// See [`Split::error`].
    pub fn error(&self) -> Option<&Error> {
        self.split.error()
    }

    /// See [`Split::cut`].
    pub fn cut(&self) -> Option<&Error> {
        self.split.cut()
    }

    /// The first error that makes the file unusable: its own, or that of a document.
    pub fn first_error(&self) -> Option<&Error> {
        let own = self.error();
        own.or_else(|| self.documents.iter().find_map(|document| document.tree().err()))
    }

    /// The lines of the file, computed on first use.
    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(Arc::clone(self.source())))
    }
}

impl Document {
    pub fn span(&self) -> Span {
        self.span
    }

    /// The document's tree, or the error.
    pub fn tree(&self) -> Result<&Tree, &Error> {
        self.tree.as_ref()
    }

    pub fn into_tree(self) -> Result<Tree, Error> {
        self.tree
    }
}

/// Reads a file: splits it into documents and reads each one. An error in one document does not affect the others.
pub fn read(bytes: impl AsRef<[u8]>, mode: Mode, limits: &Limits) -> Stream {
    split(bytes, limits).read(mode)
}

/// Splits a file into documents.
pub fn split(bytes: impl AsRef<[u8]>, limits: &Limits) -> Split {
    let bytes = bytes.as_ref();
    if bytes.len() > limits.bytes.min(u32::MAX as usize / 2) {
        let message = format!("this file has more than {} bytes", limits.bytes);
        return Split {
            source: "".into(),
            spans: Vec::new(),
            invalid: Vec::new(),
            limits: *limits,
            error: Some(Error::new(ErrorKind::Size, Span::default(), message)),
            cut: None,
        };
    }
    let (text, invalid) = to_text(bytes);
    let source: Arc<str> = text.into();
    let (spans, cut) = split::split(source.as_bytes());
    Split {
        source,
        spans,
        invalid,
        limits: *limits,
        error: None,
        cut,
    }
}

/// Reads a text as one document like Go's `yaml.Unmarshal`: the text after the first document is ignored.
///
/// # Errors
/// If the document cannot be read.
pub fn read_first(text: &str, mode: Mode, limits: &Limits) -> Result<Tree, Error> {
    if text.len() > limits.bytes.min(u32::MAX as usize / 2) {
        let message = format!("this text has more than {} bytes", limits.bytes);
        return Err(Error::new(ErrorKind::Size, Span::default(), message));
    }
    let source: Arc<str> = text.into();
    let span = Span::of(0, source.len());
    document(&source, span, &[], mode, limits)
}

/// The file as text with a final line feed, and the offsets of replaced bytes.
fn to_text(bytes: &[u8]) -> (String, Vec<u32>) {
    let mut text = String::with_capacity(bytes.len() + 1);
    let mut invalid = Vec::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            invalid.push(text.len() as u32);
            text.push('?');
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    (text, invalid)
}

fn document(source: &Arc<str>, span: Span, invalid: &[u32], mode: Mode, limits: &Limits) -> Result<Tree, Error> {
    let next = invalid.partition_point(|at| *at < span.start);
    if let Some(&at) = invalid.get(next).filter(|at| **at < span.end) {
        let message = Message::from("this is not UTF-8").with_help("save the file as UTF-8");
        return Err(Error::new(ErrorKind::Utf8, Span::new(at, at + 1), message));
    }
    if let Some(at) = chars::forbidden(&source[span.start as usize..span.end as usize]) {
        let at = span.start as usize + at;
        let found = source[at..].chars().next().unwrap_or_default();
        let text = format!("the character U+{:04X} is not allowed", found as u32);
        let message = Message::new(text, "control characters are not allowed");
        return Err(Error::new(
            ErrorKind::Encoding,
            Span::of(at, at + found.len_utf8()),
            message,
        ));
    }
    let syntax = parse::parse(source, span, limits.depth)?;
    compose::compose(source, syntax, mode, limits, span.start)
}
