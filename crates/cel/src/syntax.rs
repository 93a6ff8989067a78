//! From an expression's text to its tree.
//!
//! Upstream counterpart: cel-go `parser` (0.26.0, 0.29.2 and 0.30.0; the differences are fields of [`ParseOptions`]).
//! Accepted text is parsed by a fast recursive-descent parser. Text that it does not accept goes through a second one,
//! which behaves like the parser that ANTLR generates from cel-go's grammar, error recovery included, because cel-go's
//! messages are that parser's behaviour; what the second one says counts.
//!
//! Known deviation: before 0.30.0 cel-go lets nested `optMap` calls grow without bound; here
//! [`ParseOptions::node_limit`] ends that.

mod build;
mod lexer;
mod literal;
mod macros;
mod options;
mod parser;
mod print;
mod recover;
#[cfg(test)]
mod tests;

pub use options::{Macros, ParseOptions};
pub use print::{print, print_with_offsets};

use super::{
    ast::Ast,
    issue::{IssueSink, Issues, Location},
};

/// Parses an expression.
pub fn parse(text: &str, options: &ParseOptions) -> Result<Ast, Issues> {
    if text.len() > options.code_point_limit {
        let size = text.chars().count();
        if size > options.code_point_limit {
            let mut sink = IssueSink::default();
            sink.report(
                Location::NONE,
                format!(
                    "expression code point size exceeds limit: size: {size}, limit {}",
                    options.code_point_limit
                ),
            );
            return Err(sink.into_issues("").expect("one issue was reported"));
        }
    }
    match parser::parse(text, options) {
        Some(ast) => Ok(ast),
        None => recover::parse(text, options),
    }
}
