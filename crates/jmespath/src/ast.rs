//! The tree of an expression.
//!
//! Upstream counterpart: `ASTNode` of go-jmespath's `parser.go`. Type error messages contain the numbers of the node
//! kinds.

use std::{fmt::Write as _, sync::Arc};

use kyvtest_go_compat::value::Data;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparator {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Comparator {
    /// The number of upstream's token.
    fn number(self) -> u8 {
        match self {
            Self::Less => 18,
            Self::LessOrEqual => 19,
            Self::Greater => 20,
            Self::GreaterOrEqual => 21,
            Self::Equal => 22,
            Self::NotEqual => 23,
        }
    }
}

/// One node. Its operands are in source order.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// An index that could not be parsed; an error when evaluated.
    Empty,
    /// `a == b` and the other comparisons.
    Comparator(Comparator, Box<(Node, Node)>),
    /// `@`
    Current,
    /// `&a`, an argument that a function evaluates itself.
    Expref(Box<Node>),
    /// A call; without a name if something other than a name is before the parenthesis.
    Function(Option<Arc<str>>, Vec<Node>),
    /// A key of the current map.
    Field(Arc<str>),
    /// `a[?c].b`: the filtered list, the projection of its elements, the condition.
    FilterProjection(Box<(Node, Node, Node)>),
    /// `a[]`, before its elements are projected.
    Flatten(Box<Node>),
    /// The current value, if the grammar needs an operand and the expression has none.
    Identity,
    /// `[n]` of the current list.
    Index(i64),
    /// A list, and an index or a slice of it.
    IndexExpression(Box<(Node, Node)>),
    /// A raw string or a JSON literal.
    Literal(Data),
    /// `{a: b}`
    MultiSelectHash(Vec<(Arc<str>, Node)>),
    /// `[a, b]`
    MultiSelectList(Vec<Node>),
    /// `a || b`
    Or(Box<(Node, Node)>),
    /// `a && b`
    And(Box<(Node, Node)>),
    /// `!a`
    Not(Box<Node>),
    /// `a | b`
    Pipe(Box<(Node, Node)>),
    /// `a[*].b` and `a[].b`: the list, and the projection of its elements.
    Projection(Box<(Node, Node)>),
    /// `a.b`
    Subexpression(Box<(Node, Node)>),
    /// `[start:stop:step]`
    Slice([Option<i64>; 3]),
    /// `a.*.b`: the map, and the projection of its values.
    ValueProjection(Box<(Node, Node)>),
}

impl Node {
    /// The function name if this node precedes a parenthesis: upstream accepts any node whose value is a string.
    pub(super) fn callee(&self) -> Option<Arc<str>> {
        match self {
            Self::Field(name) => Some(name.clone()),
            Self::Function(name, _) => name.clone(),
            Self::Literal(Data::String(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Writes the node as Go's `%v` prints upstream's: number of the kind, value, children. Slices print addresses
    /// upstream, here their numbers.
    pub(super) fn write_go(&self, out: &mut String) {
        let (number, value, children): (u8, String, Vec<&Node>) = match self {
            Self::Empty => (0, nil(), vec![]),
            Self::Comparator(comparator, sides) => (1, comparator.number().to_string(), vec![&sides.0, &sides.1]),
            Self::Current => (2, nil(), vec![]),
            Self::Expref(node) => (3, nil(), vec![node]),
            Self::Function(name, args) => (
                4,
                name.as_deref().map_or_else(nil, str::to_owned),
                args.iter().collect(),
            ),
            Self::Field(name) => (5, name.to_string(), vec![]),
            Self::FilterProjection(parts) => (6, nil(), vec![&parts.0, &parts.1, &parts.2]),
            Self::Flatten(node) => (7, nil(), vec![node]),
            Self::Identity => (8, nil(), vec![]),
            Self::Index(index) => (9, index.to_string(), vec![]),
            Self::IndexExpression(sides) => (10, nil(), vec![&sides.0, &sides.1]),
            Self::Literal(data) => (12, data.to_go(), vec![]),
            Self::MultiSelectHash(entries) => {
                out.push_str("{13 <nil> [");
                for (i, (key, node)) in entries.iter().enumerate() {
                    let gap = if i > 0 { " " } else { "" };
                    let _ = write!(out, "{gap}{{11 {key} [");
                    node.write_go(out);
                    out.push_str("]}");
                }
                out.push_str("]}");
                return;
            }
            Self::MultiSelectList(nodes) => (14, nil(), nodes.iter().collect()),
            Self::Or(sides) => (15, nil(), vec![&sides.0, &sides.1]),
            Self::And(sides) => (16, nil(), vec![&sides.0, &sides.1]),
            Self::Not(node) => (17, nil(), vec![node]),
            Self::Pipe(sides) => (18, nil(), vec![&sides.0, &sides.1]),
            Self::Projection(sides) => (19, nil(), vec![&sides.0, &sides.1]),
            Self::Subexpression(sides) => (20, nil(), vec![&sides.0, &sides.1]),
            Self::Slice(parts) => {
                let parts = parts.map(|part| part.map_or_else(nil, |part| part.to_string()));
                (21, format!("[{}]", parts.join(" ")), vec![])
            }
            Self::ValueProjection(sides) => (22, nil(), vec![&sides.0, &sides.1]),
        };
        let _ = write!(out, "{{{number} {value} [");
        for (i, child) in children.into_iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            child.write_go(out);
        }
        out.push_str("]}");
    }
}

fn nil() -> String {
    "<nil>".to_owned()
}
