//! Values that know where they stand.

use std::{fmt, ops::Deref, sync::Arc};

use kyvtest_go_compat::{
    diagnostic::{FileId, Span},
    value::Document,
    yaml::{Node, NodeId, Tree},
};

/// A value with its place in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    pub value: T,
    /// Location.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
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

/// A text with its place.
pub type Text = Spanned<String>;

/// A part of a document that is kept as it was read, with the places of everything in it.
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

    /// Location.
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

    /// Another text in the same place.
    pub fn with_text(&self, text: &str) -> Self {
        Self::new(text.to_owned(), self.at.clone())
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the whole expression stands, quotes included.
    pub fn span(&self) -> Span {
        self.at.span()
    }

    /// Where a part of the expression stands: bytes `start..end` of [`Expression::text`], found through quotes, folding
    /// and indentation.
    pub fn part(&self, start: usize, end: usize) -> Span {
        let segments = self.at.node().segments();
        let from = segments.source_offset(start);
        let to = if end > start {
            // The end of a part is behind its last byte: the byte after it may occur on another line.
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

/// Which document something comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The source.
    pub file: FileId,
    /// The document's number in it, from 0, blank documents not counted.
    pub document: usize,
    /// Where the document stands, or its part where a list was taken apart.
    pub span: Span,
}

pub fn place(file: FileId, span: kyvtest_go_compat::yaml::Span) -> Span {
    Span::new(file, span.start, span.end)
}
