//! Values with their source locations.

use std::{fmt, ops::Deref, sync::Arc};

use kyvtest_go_compat::{
    diagnostic::{FileId, Span},
    value::Document,
    yaml::{Node, NodeId, Tree},
};

/// A value with its source location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

impl<T> Spanned<T> {
    pub const fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A string with its location.
pub type Text = Spanned<String>;

/// A part of a document that is kept as read, with all locations.
#[derive(Clone)]
pub struct Subtree {
    tree: Arc<Tree>,
    node: NodeId,
    file: FileId,
}

impl Subtree {
    pub fn new(tree: &Arc<Tree>, node: Node<'_>, file: FileId) -> Self {
        Self {
            tree: Arc::clone(tree),
            node: node.id(),
            file,
        }
    }

    /// The part's root.
    pub fn node(&self) -> Node<'_> {
        self.tree.node(self.node)
    }

    /// The source it comes from.
    pub fn file(&self) -> FileId {
        self.file
    }

    pub fn span(&self) -> Span {
        place(self.file, self.node().span())
    }

    /// The part as a value.
    pub fn document(&self) -> Document {
        Document::from(self.node())
    }
}

impl fmt::Debug for Subtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document().fmt(f)
    }
}

/// A CEL expression as a policy writes it.
#[derive(Clone)]
pub struct Expression {
    text: String,
    at: Subtree,
}

impl Expression {
    pub fn new(text: String, at: Subtree) -> Self {
        Self { text, at }
    }

    /// Replaces the text, keeping the location.
    pub fn with_text(&self, text: &str) -> Self {
        Self::new(text.to_owned(), self.at.clone())
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn span(&self) -> Span {
        self.at.span()
    }

    /// The location of a part of the expression: bytes `start..end` of [`Expression::text`], mapped through quotes,
    /// folding and indentation.
    pub fn part(&self, start: usize, end: usize) -> Span {
        let segments = self.at.node().segments();
        let from = segments.source_offset(start);
        let to = if end > start {
            // The end of a part is after its last byte: the next byte may be on another line.
            segments.source_offset(end - 1) + 1
        } else {
            from
        };
        Span::new(self.at.file(), from, to.max(from))
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// The document that something comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    pub file: FileId,
    /// The document's index in it, not counting blank documents.
    pub document: usize,
    /// The location of the document, or of the item if a list was split.
    pub span: Span,
}

pub fn place(file: FileId, span: kyvtest_go_compat::yaml::Span) -> Span {
    Span::new(file, span.start, span.end)
}
