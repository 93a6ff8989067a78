//! Kyverno's JMESPath: the standard grammar and functions, Kyverno's own functions, and missing keys as errors.
//!
//! Upstream counterpart: github.com/kyverno/go-jmespath (commit 95e59c16) with the functions of Kyverno 1.19
//! `pkg/engine/jmespath`, error messages included. An expression is compiled once ([`Expression::parse`]) and evaluated
//! on any number of values ([`Expression::search`]); both are pure, the [`Context`] provides clock and randomness.
//!
//! Known deviations:
//! - If upstream panics, which ends its process, the result is [`Error::Panic`] with the panic's message.
//! - Upstream's `sort_by` sorts the list of the document itself, which later expressions see; here nothing is ever
//!   changed.
//! - Upstream's `items()` returns a list of its own Go type, which some functions reject. Here the list loses that type
//!   when it becomes part of another list or map.
//! - Strings are UTF-8: `base64_decode` replaces each invalid byte by U+FFFD.
//! - Members of maps are sorted by key; upstream's order is random (`keys`, `values`, `*`).
//! - `is_external_url` knows no names but `localhost`.
//! - Depth, size and work are bounded ([`Error::Limit`]).

pub mod ast;
mod functions;
mod interpreter;
mod item;
mod lexer;
mod parser;

use thiserror::Error;

use kyvtest_go_compat::{text::time::Timestamp, value::Data};

/// The external inputs of an evaluation.
#[derive(Clone, Copy, Default)]
pub struct Context<'a> {
    /// The clock, for `time_now`, `time_now_utc` and `time_since`.
    pub now: Option<Timestamp>,
    /// The source of random numbers, for `random`.
    pub random: Option<&'a dyn Fn() -> u64>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// An evaluation error; prints as upstream does.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A syntax error.
    #[error("{0}")]
    Syntax(String),
    /// A key that a map does not have. Many parts of an expression treat it as `null`.
    #[error("Unknown key \"{0}\" in path")]
    NotFound(String),
    /// A function returned an error.
    #[error("{0}")]
    Function(String),
    /// Upstream's code panics.
    #[error("{0}")]
    Panic(String),
    /// The evaluation would take too much time or memory. Upstream has no such limits.
    #[error("JMESPath: {0}")]
    Limit(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    node: ast::Node,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`Error::Syntax`], or [`Error::Limit`] if it nests too deeply.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self {
            node: parser::parse(text)?,
        })
    }

    /// The expression of a tree, such as a part of another one.
    pub fn of_tree(node: ast::Node) -> Self {
        Self { node }
    }

    /// The tree, for translations into other languages.
    pub fn tree(&self) -> &ast::Node {
        &self.node
    }

    /// Evaluates the expression on a value.
    ///
    /// # Errors
    /// All but [`Error::Syntax`].
    pub fn search(&self, value: &Data, context: &Context<'_>) -> Result<Data, Error> {
        interpreter::search(&self.node, value, context)
    }
}

/// Compiles an expression and evaluates it on a value.
///
/// # Errors
/// Those of [`Expression::parse`] and [`Expression::search`].
pub fn search(expression: &str, value: &Data, context: &Context<'_>) -> Result<Data, Error> {
    Expression::parse(expression)?.search(value, context)
}
