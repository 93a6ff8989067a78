//! Parses text with errors as cel-go does, to find its messages.
//!
//! Upstream counterpart: the parser that ANTLR 4.13 generates from cel-go's `CEL.g4`, its runtime antlr4-go 4.13.1, and
//! the visitors of cel-go `parser/parser.go`. The grammar is data ([`grammar`]); [`atn`] builds a network and a program
//! from it, [`machine`] runs the program with ANTLR's error recovery, [`predict`] chooses alternatives, [`visit`]
//! converts the parse tree to the tree and finds the remaining errors (reserved words, macros, literals).

mod atn;
mod grammar;
mod machine;
mod predict;
mod stack;
mod symbols;
mod tokens;
mod visit;

use self::{machine::Machine, tokens::Tokens};
use super::options::ParseOptions;
use crate::{ast::Ast, issue::Issues};

/// Parses `text`, valid or not.
pub(super) fn parse(text: &str, options: &ParseOptions) -> Result<Ast, Issues> {
    let tokens = match Tokens::new(text, options) {
        Ok(tokens) => tokens,
        Err((_, reporter)) => return Err(issues(reporter.sink, text)),
    };
    let mut machine = Machine::new(tokens, options);
    let tree = machine.run().and_then(|root| visit::visit(&mut machine, root, options));
    let sink = std::mem::take(&mut machine.tokens.reporter.sink);
    match tree {
        Ok(ast) if sink.is_empty() => Ok(ast),
        _ => Err(issues(sink, text)),
    }
}

fn issues(sink: crate::issue::IssueSink, text: &str) -> Issues {
    sink.into_issues(text).expect("a parse that ends early reports why")
}
