//! A Pratt parser for expressions.
//!
//! Upstream counterpart: go-jmespath's `parser.go`, with its error messages and its leniency: commas between arguments
//! and between members of a hash may be missing, and an invalid index at the start of an expression is an empty node
//! instead of an error.
//!
//! Deviation: the nesting of an expression is bounded.

use super::{
    Error,
    ast::{Comparator, Node},
    lexer::{Token, syntax, tokens},
};
use kyvtest_go_compat::{
    text::number,
    value::{Data, go_json},
};

/// The maximum depth of the tree, which bounds the recursion of evaluation.
const DEPTH_LIMIT: usize = 400;
/// The maximum recursion of the parser.
const NESTING_LIMIT: usize = 200;

const TOO_DEEP: Error = Error::Limit("the expression nests too deeply");

pub(super) fn parse(text: &str) -> Result<Node, Error> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        nesting: 0,
    };
    let tree = parser.expression(0)?;
    match parser.current() {
        Token::Eof => Ok(tree.node),
        token => Err(syntax(format_args!(
            "Unexpected token at the end of the expression: {}",
            token.name()
        ))),
    }
}

/// A node and the depth below it.
struct Tree {
    node: Node,
    depth: usize,
}

impl Tree {
    fn leaf(node: Node) -> Self {
        Self { node, depth: 1 }
    }

    fn above(self, make: impl FnOnce(Box<Node>) -> Node) -> Result<Self, Error> {
        Self::new(make(Box::new(self.node)), self.depth)
    }

    fn pair(self, right: Self, make: impl FnOnce(Box<(Node, Node)>) -> Node) -> Result<Self, Error> {
        let depth = self.depth.max(right.depth);
        Self::new(make(Box::new((self.node, right.node))), depth)
    }

    fn new(node: Node, depth_below: usize) -> Result<Self, Error> {
        if depth_below >= DEPTH_LIMIT {
            return Err(TOO_DEEP);
        }
        Ok(Self {
            node,
            depth: depth_below + 1,
        })
    }
}

/// Separates nodes from their depths.
fn split(trees: Vec<Tree>) -> (Vec<Node>, usize) {
    let depth = trees.iter().map(|tree| tree.depth).max().unwrap_or(0);
    (trees.into_iter().map(|tree| tree.node).collect(), depth)
}

type Parsed = Result<Tree, Error>;

const DOT: u8 = 40;
const STAR: u8 = 20;
const FLATTEN: u8 = 9;
const FILTER: u8 = 21;
const NOT: u8 = 45;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    nesting: usize,
}

impl Parser {
    fn lookahead(&self, count: usize) -> &Token {
        self.tokens.get(self.at + count).unwrap_or(&Token::Eof)
    }

    fn current(&self) -> &Token {
        self.lookahead(0)
    }

    fn next(&mut self) -> Token {
        let token = self.current().clone();
        self.at += 1;
        token
    }

    fn expect(&mut self, wanted: &Token) -> Result<(), Error> {
        if self.current() == wanted {
            self.at += 1;
            return Ok(());
        }
        Err(syntax(format_args!(
            "Expected {}, received: {}",
            wanted.name(),
            self.current().name()
        )))
    }

    fn expression(&mut self, binding_power: u8) -> Parsed {
        if self.nesting >= NESTING_LIMIT {
            return Err(TOO_DEEP);
        }
        self.nesting += 1;
        let token = self.next();
        let mut left = self.prefix(token)?;
        while binding_power < self.current().binding_power() {
            let token = self.next();
            left = self.infix(token, left)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// Parses a token at the start of an expression.
    fn prefix(&mut self, token: Token) -> Parsed {
        match token {
            Token::JsonLiteral(text) => {
                let document = go_json::read(&text).map_err(Error::Syntax)?;
                Ok(Tree::leaf(Node::Literal(Data::from(document.root()))))
            }
            Token::StringLiteral(text) => Ok(Tree::leaf(Node::Literal(Data::String(text)))),
            Token::UnquotedIdentifier(name) => Ok(Tree::leaf(Node::Field(name))),
            Token::QuotedIdentifier(name) => {
                if *self.current() == Token::Lparen {
                    return Err(syntax("Can't have quoted identifier as function Name."));
                }
                Ok(Tree::leaf(Node::Field(name)))
            }
            Token::Star => {
                let right = if *self.current() == Token::Rbracket {
                    Tree::leaf(Node::Identity)
                } else {
                    self.projection_right(STAR)?
                };
                Tree::leaf(Node::Identity).pair(right, Node::ValueProjection)
            }
            Token::Filter => self.filter(Tree::leaf(Node::Identity)),
            Token::Lbrace => self.multi_select_hash(),
            Token::Flatten => {
                let left = Tree::leaf(Node::Identity).above(Node::Flatten)?;
                let right = self.projection_right(FLATTEN)?;
                left.pair(right, Node::Projection)
            }
            Token::Lbracket => match self.current() {
                Token::Number(_) | Token::Colon => match self.index() {
                    Ok(right) => self.project_if_slice(Tree::leaf(Node::Identity), right),
                    // Upstream drops the error here.
                    Err(_) => Ok(Tree::leaf(Node::Empty)),
                },
                Token::Star if *self.lookahead(1) == Token::Rbracket => {
                    self.at += 2;
                    let right = self.projection_right(STAR)?;
                    Tree::leaf(Node::Identity).pair(right, Node::Projection)
                }
                _ => self.multi_select_list(),
            },
            Token::Current => Ok(Tree::leaf(Node::Current)),
            Token::Expref => self.expression(0)?.above(Node::Expref),
            Token::Not => self.expression(NOT)?.above(Node::Not),
            Token::Lparen => {
                let inner = self.expression(0)?;
                self.expect(&Token::Rparen)?;
                Ok(inner)
            }
            Token::Eof => Err(syntax("Incomplete expression")),
            token => Err(syntax(format_args!("Invalid token: {}", token.name()))),
        }
    }

    /// Parses a token after an expression.
    fn infix(&mut self, token: Token, left: Tree) -> Parsed {
        let power = token.binding_power();
        let comparator = match token {
            Token::Dot => {
                if *self.current() == Token::Star {
                    self.at += 1;
                    let right = self.projection_right(DOT)?;
                    return left.pair(right, Node::ValueProjection);
                }
                let right = self.dot_right(DOT)?;
                return left.pair(right, Node::Subexpression);
            }
            Token::Pipe => return left.pair(self.expression(power)?, Node::Pipe),
            Token::Or => return left.pair(self.expression(power)?, Node::Or),
            Token::And => return left.pair(self.expression(power)?, Node::And),
            Token::Lparen => return self.call(&left),
            Token::Filter => return self.filter(left),
            Token::Flatten => {
                let left = left.above(Node::Flatten)?;
                let right = self.projection_right(FLATTEN)?;
                return left.pair(right, Node::Projection);
            }
            Token::Lbracket => {
                if let Token::Number(_) | Token::Colon = self.current() {
                    let right = self.index()?;
                    return self.project_if_slice(left, right);
                }
                self.expect(&Token::Star)?;
                self.expect(&Token::Rbracket)?;
                let right = self.projection_right(STAR)?;
                return left.pair(right, Node::Projection);
            }
            Token::Eq => Comparator::Equal,
            Token::Ne => Comparator::NotEqual,
            Token::Gt => Comparator::Greater,
            Token::Gte => Comparator::GreaterOrEqual,
            Token::Lt => Comparator::Less,
            Token::Lte => Comparator::LessOrEqual,
            token => return Err(syntax(format_args!("Unexpected token: {}", token.name()))),
        };
        let right = self.expression(power)?;
        left.pair(right, |sides| Node::Comparator(comparator, sides))
    }

    fn call(&mut self, callee: &Tree) -> Parsed {
        let name = callee.node.callee();
        let mut args = Vec::new();
        while *self.current() != Token::Rparen {
            args.push(self.expression(0)?);
            if *self.current() == Token::Comma {
                self.at += 1;
            }
        }
        self.at += 1;
        let (args, depth) = split(args);
        Tree::new(Node::Function(name, args), depth)
    }

    fn index(&mut self) -> Parsed {
        if *self.current() == Token::Colon || *self.lookahead(1) == Token::Colon {
            return self.slice();
        }
        let index = self.integer()?;
        self.at += 1;
        self.expect(&Token::Rbracket)?;
        Ok(Tree::leaf(Node::Index(index)))
    }

    fn integer(&self) -> Result<i64, Error> {
        let text = match self.current() {
            Token::Number(text) => text.as_str(),
            _ => "",
        };
        number::atoi(text).map_err(|error| Error::Syntax(error.to_string()))
    }

    fn slice(&mut self) -> Parsed {
        let mut parts = [None; 3];
        let mut at = 0;
        while *self.current() != Token::Rbracket && at < 3 {
            match self.current() {
                Token::Colon => at += 1,
                Token::Number(_) => parts[at] = Some(self.integer()?),
                token => {
                    return Err(syntax(format_args!(
                        "Expected tColon or tNumber, received: {}",
                        token.name()
                    )));
                }
            }
            self.at += 1;
        }
        self.expect(&Token::Rbracket)?;
        Ok(Tree::leaf(Node::Slice(parts)))
    }

    fn project_if_slice(&mut self, left: Tree, right: Tree) -> Parsed {
        let is_slice = matches!(right.node, Node::Slice(_));
        let indexed = left.pair(right, Node::IndexExpression)?;
        if !is_slice {
            return Ok(indexed);
        }
        let right = self.projection_right(STAR)?;
        indexed.pair(right, Node::Projection)
    }

    fn filter(&mut self, left: Tree) -> Parsed {
        let condition = self.expression(0)?;
        self.expect(&Token::Rbracket)?;
        let right = if *self.current() == Token::Flatten {
            Tree::leaf(Node::Identity)
        } else {
            self.projection_right(FILTER)?
        };
        let depth = left.depth.max(right.depth).max(condition.depth);
        Tree::new(
            Node::FilterProjection(Box::new((left.node, right.node, condition.node))),
            depth,
        )
    }

    fn dot_right(&mut self, binding_power: u8) -> Parsed {
        match self.current() {
            Token::QuotedIdentifier(_) | Token::UnquotedIdentifier(_) | Token::Star => self.expression(binding_power),
            Token::Lbracket => {
                self.at += 1;
                self.multi_select_list()
            }
            Token::Lbrace => {
                self.at += 1;
                self.multi_select_hash()
            }
            _ => Err(syntax("Expected identifier, lbracket, or lbrace")),
        }
    }

    fn projection_right(&mut self, binding_power: u8) -> Parsed {
        match self.current() {
            token if token.binding_power() < 10 => Ok(Tree::leaf(Node::Identity)),
            Token::Lbracket | Token::Filter => self.expression(binding_power),
            Token::Dot => {
                self.at += 1;
                self.dot_right(binding_power)
            }
            _ => Err(syntax("Error")),
        }
    }

    fn multi_select_list(&mut self) -> Parsed {
        let mut trees = Vec::new();
        loop {
            trees.push(self.expression(0)?);
            if *self.current() == Token::Rbracket {
                self.at += 1;
                break;
            }
            self.expect(&Token::Comma)?;
        }
        let (nodes, depth) = split(trees);
        Tree::new(Node::MultiSelectList(nodes), depth)
    }

    fn multi_select_hash(&mut self) -> Parsed {
        let mut keys = Vec::new();
        let mut trees = Vec::new();
        loop {
            let (Token::UnquotedIdentifier(key) | Token::QuotedIdentifier(key)) = self.current().clone() else {
                return Err(syntax("Expected tQuotedIdentifier or tUnquotedIdentifier"));
            };
            self.at += 1;
            self.expect(&Token::Colon)?;
            keys.push(key);
            trees.push(self.expression(0)?);
            match self.current() {
                Token::Comma => self.at += 1,
                Token::Rbrace => {
                    self.at += 1;
                    break;
                }
                _ => {}
            }
        }
        let (nodes, depth) = split(trees);
        Tree::new(Node::MultiSelectHash(keys.into_iter().zip(nodes).collect()), depth)
    }
}
