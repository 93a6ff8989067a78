//! Kyverno's JMESPath: the standard grammar and functions, Kyverno's own functions, and a missing key that is an error.
//!
//! Upstream counterpart: github.com/kyverno/go-jmespath (commit 95e59c16) with the functions of Kyverno 1.19
//! `pkg/engine/jmespath`, error messages included. An expression is compiled once ([`Expression::parse`]) and searches
//! any number of values ([`Expression::search`]); both are pure, clock and randomness come with the [`Context`].
//!
//! Known deviations:
//! - Where upstream panics, which ends its process, the answer is [`Error::Panic`] with the text of the panic.
//! - Upstream's `sort_by` sorts the list of the document itself, so that later looks at it see the new order; here
//!   nothing
//!   is ever changed.
//! - The list of `items()` is of a type of its own upstream, which some functions refuse. Here it is that only as long
//!   as
//!   it is not part of another list or map.
//! - Text is UTF-8: what `base64_decode` makes of other bytes has U+FFFD in place of each of them.
//! - Members of maps come in order of their keys where upstream's order is random (`keys`, `values`, `*`).
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

/// What an expression may ask of the world around it.
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

/// Why there is no answer; prints as upstream does.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The text is no expression.
    #[error("{0}")]
    Syntax(String),
    /// A key that a map does not have. Many places of an expression take it for `null`.
    #[error("Unknown key \"{0}\" in path")]
    NotFound(String),
    /// A function refused.
    #[error("{0}")]
    Function(String),
    /// Upstream's code panics.
    #[error("{0}")]
    Panic(String),
    /// The evaluation would take too much time or memory. Upstream has no such limits.
    #[error("JMESPath: {0}")]
    Limit(&'static str),
}

/// A compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    node: ast::Node,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`Error::Syntax`], or [`Error::Limit`] where it nests too deeply.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self {
            node: parser::parse(text)?,
        })
    }

    /// The tree, for translations into other languages.
    pub fn tree(&self) -> &ast::Node {
        &self.node
    }

    /// The answer for a value.
    ///
    /// # Errors
    /// All but [`Error::Syntax`].
    pub fn search(&self, value: &Data, context: &Context<'_>) -> Result<Data, Error> {
        interpreter::search(&self.node, value, context)
    }
}

/// Compiles an expression and searches a value.
///
/// # Errors
/// All that [`Expression::parse`] and [`Expression::search`] have.
pub fn search(expression: &str, value: &Data, context: &Context<'_>) -> Result<Data, Error> {
    Expression::parse(expression)?.search(value, context)
}
