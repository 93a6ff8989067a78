//! Parses an expression to its tree.
//!
//! Upstream counterpart: cel-go `parser` (0.26.0, 0.29.2 and 0.30.0; the differences are fields of [`ParseOptions`]). A
//! fast recursive-descent parser handles valid text. Text that it does not accept goes through a second parser, which
//! behaves like the one that ANTLR generates from cel-go's grammar, error recovery included, because cel-go's messages
//! are that parser's behaviour; the result of the second parser counts.
//!
//! Known deviation: before 0.30.0 cel-go lets nested `optMap` calls grow without bound; here
//! [`ParseOptions::node_limit`] stops that.

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

pub use build::is_reserved;
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
