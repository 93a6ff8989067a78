//! The fast parser: recursive descent over valid text.
//!
//! Upstream counterpart: the grammar `parser/gen/CEL.g4` and the visitors of `parser/parser.go` of cel-go. It returns
//! `None` for anything wrong or unusual (a syntax error, a reserved word, a macro error, nesting near the limit);
//! [`super::recover`] then decides and finds the message. So this parser need not know any message, but must never
//! accept what cel-go rejects.

use std::sync::Arc;

use super::{
    build::{Builder, Op, Reserved, is_reserved},
    lexer::{Scan, Tok, scan},
    literal,
    macros::{self, Call},
    options::ParseOptions,
};
use crate::ast::{Ast, Expr, ExprId, Literal, MapEntry, Name, StructField};

/// How deep expressions may nest here. One level uses at most three of a grammar rule's recursions, of which cel-go
/// allows 250.
const MAX_NESTING: u32 = 80;

/// A node and the number of recursions of cel-go's visitor.
type Node = (ExprId, u32);

/// Parses `text`; `None` if there is anything wrong or unusual.
pub(super) fn parse(text: &str, options: &ParseOptions) -> Option<Ast> {
    let mut parser = Parser {
        text,
        tok: Tok::Eof,
        start: 0,
        end: 0,
        offsets: Offsets::new(text),
        nesting: 0,
        max_nesting: MAX_NESTING.min(options.recursion_limit as u32 / 3),
        builder: Builder::new(options, text.len() / 4 + 8),
    };
    parser.advance()?;
    let (root, height) = parser.expr()?;
    (parser.tok == Tok::Eof && height as usize <= options.recursion_limit).then(|| parser.builder.finish(root))
}

/// Code-point offsets of byte positions.
struct Offsets(Option<Vec<u32>>);

impl Offsets {
    fn new(text: &str) -> Self {
        if text.is_ascii() {
            return Self(None);
        }
        let mut count = 0;
        let mut table: Vec<u32> = text
            .bytes()
            .map(|b| {
                // Continuation bytes do not count.
                count += u32::from(b & 0xc0 != 0x80);
                count - 1
            })
            .collect();
        table.push(count);
        Self(Some(table))
    }

    fn at(&self, byte: usize) -> i32 {
        match &self.0 {
            None => byte as i32,
            Some(table) => table[byte] as i32,
        }
    }
}

struct Parser<'a, 'o> {
    text: &'a str,
    tok: Tok,
    start: usize,
    end: usize,
    offsets: Offsets,
    nesting: u32,
    max_nesting: u32,
    builder: Builder<'o>,
}

impl<'a> Parser<'a, '_> {
    fn advance(&mut self) -> Option<()> {
        let mut at = self.end;
        loop {
            match scan(self.text.as_bytes(), at) {
                Scan::Token(Tok::Whitespace | Tok::Comment, end) => at = end,
                Scan::Token(tok, end) => {
                    (self.tok, self.start, self.end) = (tok, at, end);
                    return Some(());
                }
                Scan::Error(_) => return None,
            }
        }
    }

    fn token_text(&self) -> &'a str {
        &self.text[self.start..self.end]
    }

    fn offset(&self) -> i32 {
        self.offsets.at(self.start)
    }

    /// Consumes a token of this kind, if it is next.
    fn eat(&mut self, tok: Tok) -> Option<bool> {
        if self.tok != tok {
            return Some(false);
        }
        self.advance()?;
        Some(true)
    }

    fn expect(&mut self, tok: Tok) -> Option<()> {
        if self.tok == tok { self.advance() } else { None }
    }

    fn reserve(&mut self) -> Reserved {
        let offset = self.offset();
        self.builder.reserve(offset)
    }

    fn expr(&mut self) -> Option<Node> {
        if self.nesting == self.max_nesting {
            return None;
        }
        self.nesting += 1;
        let (condition, mut height) = self.or()?;
        let mut result = condition;
        if self.tok == Tok::Question {
            let at = self.reserve();
            self.advance()?;
            let (yes, yes_height) = self.or()?;
            self.expect(Tok::Colon)?;
            let (no, no_height) = self.expr()?;
            result = self.builder.place_call(at, Op::Conditional, vec![condition, yes, no]);
            height = 1 + height.max(yes_height).max(no_height);
        }
        self.nesting -= 1;
        Some((result, height))
    }

    fn or(&mut self) -> Option<Node> {
        self.chain(Tok::Or, Op::Or, |parser| {
            parser.chain(Tok::And, Op::And, Self::relation)
        })
    }

    fn chain(&mut self, tok: Tok, op: Op, operand: impl Fn(&mut Self) -> Option<Node>) -> Option<Node> {
        let (first, mut height) = operand(self)?;
        if self.tok != tok {
            return Some((first, height));
        }
        let mut terms = vec![first];
        let mut ops = Vec::new();
        while self.tok == tok {
            let offset = self.offset();
            self.advance()?;
            let (term, term_height) = operand(self)?;
            terms.push(term);
            ops.push(self.builder.reserve(offset));
            height = height.max(term_height);
        }
        Some((self.builder.logic(op, &terms, &ops), height))
    }

    fn relation(&mut self) -> Option<Node> {
        let mut left = self.sum()?;
        loop {
            let op = match self.tok {
                Tok::Equals => Op::Equals,
                Tok::NotEquals => Op::NotEquals,
                Tok::In => Op::In,
                Tok::Less => Op::Less,
                Tok::LessEquals => Op::LessEquals,
                Tok::GreaterEquals => Op::GreaterEquals,
                Tok::Greater => Op::Greater,
                _ => return Some(left),
            };
            left = self.binary(op, left, Self::sum)?;
        }
    }

    fn sum(&mut self) -> Option<Node> {
        let mut left = self.product()?;
        loop {
            let op = match self.tok {
                Tok::Plus => Op::Add,
                Tok::Minus => Op::Subtract,
                _ => return Some(left),
            };
            left = self.binary(op, left, Self::product)?;
        }
    }

    fn product(&mut self) -> Option<Node> {
        let mut left = self.unary()?;
        loop {
            let op = match self.tok {
                Tok::Star => Op::Multiply,
                Tok::Slash => Op::Divide,
                Tok::Percent => Op::Modulo,
                _ => return Some(left),
            };
            left = self.binary(op, left, Self::unary)?;
        }
    }

    fn binary(&mut self, op: Op, left: Node, right: impl Fn(&mut Self) -> Option<Node>) -> Option<Node> {
        let at = self.reserve();
        self.advance()?;
        let right = right(self)?;
        let call = self.builder.place_call(at, op, vec![left.0, right.0]);
        Some((call, 1 + left.1.max(right.1)))
    }

    fn unary(&mut self) -> Option<Node> {
        let op = match self.tok {
            Tok::Exclam => Op::Not,
            Tok::Minus => Op::Negate,
            _ => return self.member(),
        };
        let tok = self.tok;
        let offset = self.offset();
        self.advance()?;
        if op == Op::Negate && matches!(self.tok, Tok::Int | Tok::Float) {
            // A single minus belongs to the number.
            let number = self.number(offset, true)?;
            return self.members(number, None);
        }
        let mut odd = true;
        while self.eat(tok)? {
            odd = !odd;
        }
        if !odd {
            return self.member();
        }
        let at = self.builder.reserve(offset);
        let (operand, height) = self.member()?;
        Some((self.builder.place_call(at, op, vec![operand]), height))
    }

    fn number(&mut self, offset: i32, negative: bool) -> Option<Node> {
        let text = self.token_text();
        let value = if self.tok == Tok::Int {
            Literal::Int(literal::int(text, negative)?)
        } else {
            Literal::Double(literal::double(text, negative)?)
        };
        self.advance()?;
        Some((self.builder.literal(offset, value), 0))
    }

    fn member(&mut self) -> Option<Node> {
        let offset = self.offset();
        let value = match self.tok {
            Tok::Ident | Tok::Dot => return self.name(),
            Tok::Int | Tok::Float => {
                let number = self.number(offset, false)?;
                return self.members(number, None);
            }
            Tok::LParen => {
                self.advance()?;
                let nested = self.expr()?;
                self.expect(Tok::RParen)?;
                return self.members(nested, None);
            }
            Tok::LBracket => {
                let list = self.list()?;
                return self.members(list, None);
            }
            Tok::LBrace => {
                let map = self.map()?;
                return self.members(map, None);
            }
            Tok::String => Literal::String(Arc::from(&*literal::string(self.token_text()).ok()?)),
            Tok::Bytes => Literal::Bytes(Arc::from(literal::bytes(&self.token_text()[1..]).ok()?)),
            Tok::Uint => Literal::Uint(literal::uint(self.token_text())?),
            Tok::True => Literal::Bool(true),
            Tok::False => Literal::Bool(false),
            Tok::Null => Literal::Null,
            _ => return None,
        };
        self.advance()?;
        let literal = self.builder.literal(offset, value);
        self.members((literal, 0), None)
    }

    /// A name, a call of a global function, or a message; the tokens after a plain name may make it a message's name.
    fn name(&mut self) -> Option<Node> {
        let start = self.start;
        self.eat(Tok::Dot)?;
        if self.tok != Tok::Ident || is_reserved(self.token_text()) {
            return None;
        }
        let offset = self.offset();
        let text = self.token_text();
        let name: Name = if self.start == start {
            Arc::from(text)
        } else {
            Arc::from(format!(".{text}"))
        };
        self.advance()?;
        if self.tok == Tok::LParen {
            let at = self.reserve();
            let (args, height) = self.arguments()?;
            let call = self.call(at, name, None, args)?;
            return self.members((call, height), None);
        }
        let ident = self.builder.ident(offset, name);
        self.members((ident, 0), Some(ident))
    }

    /// Selections, indices and methods. `pure` is the first node of a chain that has only names so far.
    fn members(&mut self, first: Node, pure: Option<ExprId>) -> Option<Node> {
        let (mut operand, mut height) = first;
        let mut pure = pure;
        loop {
            match self.tok {
                Tok::Dot => {
                    let at = self.offset();
                    self.advance()?;
                    let optional = self.eat(Tok::Question)?;
                    if optional && !self.builder.options.optional_syntax {
                        return None;
                    }
                    let id_offset = self.offset();
                    let text = self.token_text();
                    let field: Name = match self.tok {
                        Tok::Ident => Arc::from(text),
                        Tok::EscIdent if self.builder.options.escaped_identifiers => {
                            pure = None;
                            Arc::from(&text[1..text.len() - 1])
                        }
                        _ => return None,
                    };
                    let escaped = self.tok == Tok::EscIdent;
                    self.advance()?;
                    height += 1;
                    if optional {
                        pure = None;
                        let literal = self.builder.literal(id_offset, Literal::String(field));
                        operand = self.builder.call(at, Op::OptSelect, vec![operand, literal]);
                    } else if self.tok == Tok::LParen && !escaped {
                        pure = None;
                        let open = self.reserve();
                        let (args, args_height) = self.arguments()?;
                        height = height.max(1 + args_height);
                        operand = self.call(open, field, Some(operand), args)?;
                    } else {
                        let select = Expr::Select {
                            operand,
                            field,
                            test_only: false,
                        };
                        operand = self.builder.add(at, select);
                    }
                }
                Tok::LBracket => {
                    pure = None;
                    let at = self.reserve();
                    self.advance()?;
                    let optional = self.eat(Tok::Question)?;
                    if optional && !self.builder.options.optional_syntax {
                        return None;
                    }
                    let (index, index_height) = self.expr()?;
                    self.expect(Tok::RBracket)?;
                    let op = if optional { Op::OptIndex } else { Op::Index };
                    operand = self.builder.place_call(at, op, vec![operand, index]);
                    height = 1 + height.max(index_height);
                }
                Tok::LBrace => {
                    (operand, height) = self.message(pure?, operand)?;
                    pure = None;
                }
                _ => return Some((operand, height)),
            }
        }
    }

    fn call(&mut self, at: Reserved, name: Name, target: Option<ExprId>, args: Vec<ExprId>) -> Option<ExprId> {
        let call = Call {
            at,
            function: &name,
            target,
            args: &args,
        };
        match macros::expand(&mut self.builder, &call).ok()? {
            Some(expanded) => {
                self.builder.release(at);
                Some(expanded)
            }
            None => Some(self.builder.place(
                at,
                Expr::Call {
                    function: name,
                    target,
                    args,
                },
            )),
        }
    }

    /// Arguments with their parentheses.
    fn arguments(&mut self) -> Option<(Vec<ExprId>, u32)> {
        self.advance()?;
        let mut args = Vec::new();
        let mut height = 0;
        if !self.eat(Tok::RParen)? {
            loop {
                let (arg, arg_height) = self.expr()?;
                args.push(arg);
                height = height.max(arg_height);
                if !self.eat(Tok::Comma)? {
                    break;
                }
            }
            self.expect(Tok::RParen)?;
        }
        Some((args, height))
    }

    /// Entries separated by commas, with an optional comma at the end, up to and including `close`.
    fn entries(&mut self, close: Tok, mut entry: impl FnMut(&mut Self, bool) -> Option<()>) -> Option<()> {
        self.advance()?;
        if self.eat(Tok::Comma)? {
            return self.expect(close);
        }
        while self.tok != close {
            let optional = self.eat(Tok::Question)?;
            if optional && !self.builder.options.optional_syntax {
                return None;
            }
            entry(self, optional)?;
            if !self.eat(Tok::Comma)? {
                break;
            }
        }
        self.expect(close)
    }

    fn list(&mut self) -> Option<Node> {
        let at = self.reserve();
        let mut elements = Vec::new();
        let mut optional = Vec::new();
        let mut height = 0;
        self.entries(Tok::RBracket, |parser, is_optional| {
            let (element, element_height) = parser.expr()?;
            if is_optional {
                optional.push(elements.len() as u32);
            }
            elements.push(element);
            height = height.max(element_height);
            Some(())
        })?;
        Some((self.builder.place(at, Expr::List { elements, optional }), height))
    }

    fn map(&mut self) -> Option<Node> {
        let at = self.reserve();
        let mut entries = Vec::new();
        let mut height = 0;
        self.entries(Tok::RBrace, |parser, optional| {
            let (key, key_height) = parser.expr()?;
            let (value, value_height, offset) = parser.entry_value()?;
            entries.push(MapEntry {
                key,
                value,
                optional,
                offset,
            });
            height = height.max(key_height).max(value_height);
            Some(())
        })?;
        Some((self.builder.place(at, Expr::Map(entries)), height))
    }

    fn entry_value(&mut self) -> Option<(ExprId, u32, u32)> {
        let colon = self.reserve();
        self.expect(Tok::Colon)?;
        let (value, height) = self.expr()?;
        Some((value, height, colon.offset as u32))
    }

    /// A message whose name is the chain from `first` to `last`.
    fn message(&mut self, first: ExprId, last: ExprId) -> Option<Node> {
        let mut parts = Vec::new();
        let mut id = last;
        while let Expr::Select { operand, field, .. } = self.builder.expr(id) {
            parts.push(field.clone());
            id = *operand;
        }
        let Expr::Ident(name) = self.builder.expr(id) else {
            return None;
        };
        let mut type_name = name.to_string();
        for part in parts.iter().rev() {
            type_name.push('.');
            type_name.push_str(part);
        }
        self.builder.truncate(first);
        let at = self.reserve();
        let mut fields = Vec::new();
        let mut height = 0;
        self.entries(Tok::RBrace, |parser, optional| {
            let text = parser.token_text();
            let name: Name = match parser.tok {
                Tok::Ident => Arc::from(text),
                Tok::EscIdent if parser.builder.options.escaped_identifiers => Arc::from(&text[1..text.len() - 1]),
                _ => return None,
            };
            parser.advance()?;
            let (value, value_height, offset) = parser.entry_value()?;
            fields.push(StructField {
                name,
                value,
                optional,
                offset,
            });
            height = height.max(value_height);
            Some(())
        })?;
        let type_name = Arc::from(type_name);
        Some((self.builder.place(at, Expr::Struct { type_name, fields }), height))
    }
}
