//! The abstract syntax tree of a CEL expression, macros expanded.
//!
//! Upstream counterpart: cel-go `common/ast`. Nodes live in one arena per expression and refer to each other by
//! [`ExprId`]; a macro that uses an argument twice shares the node, as cel-go shares the id.

use std::sync::Arc;

/// A name or other short text inside an expression.
pub(crate) type Name = Arc<str>;

/// A node of one [`Ast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExprId(pub u32);

impl ExprId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A parsed expression: the arena, the source offset of each node, and the root.
#[derive(Debug, Clone)]
pub struct Ast {
    exprs: Vec<Expr>,
    offsets: Vec<u32>,
    root: ExprId,
}

impl Ast {
    /// Creates a tree from its arena; `offsets[i]` is the code-point offset that cel-go reports for node `i`.
    ///
    /// # Panics
    /// If the tables differ in length or the root lies outside them.
    pub(crate) fn new(exprs: Vec<Expr>, offsets: Vec<u32>, root: ExprId) -> Self {
        assert_eq!(exprs.len(), offsets.len(), "one offset per node");
        assert!(root.index() < exprs.len(), "the root is a node");
        Self { exprs, offsets, root }
    }

    pub fn root(&self) -> ExprId {
        self.root
    }

    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()]
    }

    /// All nodes, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = &Expr> {
        self.exprs.iter()
    }

    /// The code-point offset of a node in the expression's text.
    pub fn offset(&self, id: ExprId) -> u32 {
        self.offsets[id.index()]
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.exprs.len()
    }

    /// Never true for a parsed expression.
    pub fn is_empty(&self) -> bool {
        self.exprs.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Literal(Literal),
    /// A simple name; a leading dot is kept (`.name`).
    Ident(Name),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        /// The value selected from.
        operand: ExprId,
        field: Name,
        /// Whether this is a presence test.
        test_only: bool,
    },
    /// A function, a method or an operator under cel-go's operator name (`_&&_`, `_[_]`, …).
    Call {
        function: Name,
        /// The receiver of a method.
        target: Option<ExprId>,
        args: Vec<ExprId>,
    },
    /// A list literal.
    List {
        elements: Vec<ExprId>,
        /// The indices of optional elements (`[?e]`), ascending.
        optional: Vec<u32>,
    },
    /// A map literal.
    Map(Vec<MapEntry>),
    /// A message literal.
    Struct {
        /// The message's type name.
        type_name: Name,
        fields: Vec<StructField>,
    },
    /// A fold, the expansion of a macro.
    Comprehension(Box<Comprehension>),
}

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Name),
    /// `b'a'`
    Bytes(Arc<[u8]>),
}

/// One entry of a map literal.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    pub key: ExprId,
    pub value: ExprId,
    /// Whether the entry is optional (`{?k: v}`).
    pub optional: bool,
    /// The code-point offset that cel-go reports for the entry (its colon).
    pub offset: u32,
}

/// One field of a message literal.
#[derive(Debug, Clone, PartialEq)]
pub struct StructField {
    pub name: Name,
    pub value: ExprId,
    /// Whether the field is optional (`T{?f: v}`).
    pub optional: bool,
    /// The code-point offset that cel-go reports for the field (its colon).
    pub offset: u32,
}

/// A fold over a list or map.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// The iteration variable: element of a list, key of a map; with `iter_var2`: index or key.
    pub iter_var: Name,
    /// The second iteration variable of two-variable macros: element or value.
    pub iter_var2: Option<Name>,
    /// The list or map.
    pub iter_range: ExprId,
    pub accu_var: Name,
    pub accu_init: ExprId,
    /// Evaluated before each step; false ends the loop.
    pub loop_condition: ExprId,
    /// Evaluates to the accumulator's next value.
    pub loop_step: ExprId,
    /// Evaluates to the value of the fold.
    pub result: ExprId,
}
