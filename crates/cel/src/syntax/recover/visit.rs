//! Converts the parse tree to the tree.
//!
//! Upstream counterpart: the visitors of cel-go `parser/parser.go`. They also run over an incomplete parse tree and
//! report missing parts; the order of visits is the order of reports.

use std::sync::Arc;

use super::{
    super::{
        build::{Builder, NO_OFFSET, Op, Reserved, is_reserved},
        literal,
        macros::{self, Call},
        options::ParseOptions,
    },
    grammar::{Kind, Label, Rule},
    machine::{Machine, NodeId, Part},
    tokens::{Stop, Token},
};
use crate::{
    ast::{Ast, Expr, ExprId, Literal, MapEntry, Name, StructField},
    issue::Location,
};

/// Visits the parse tree.
pub(super) fn visit(machine: &mut Machine<'_, '_>, root: NodeId, options: &ParseOptions) -> Result<Ast, Stop> {
    let mut visitor = Visitor {
        machine,
        builder: Builder::new(options, 16),
        depth: 0,
        limit: options.recursion_limit,
    };
    let expr = visitor.child(root, Rule::Expr, 0);
    let root = visitor.visit(expr)?;
    Ok(visitor.builder.finish(root))
}

struct Visitor<'m, 'a, 'o, 'p> {
    machine: &'m mut Machine<'a, 'o>,
    builder: Builder<'p>,
    depth: usize,
    limit: usize,
}

type Visited = Result<ExprId, Stop>;

impl Visitor<'_, '_, '_, '_> {
    fn kind(&self, id: NodeId) -> Kind {
        self.machine.nodes[id].kind
    }

    /// The child of a rule, counted from 0.
    fn child(&self, id: NodeId, rule: Rule, index: usize) -> Option<NodeId> {
        let nodes = &self.machine.nodes;
        let mut children = nodes[id].children.iter().filter(|child| nodes[**child].rule == rule);
        children.nth(index).copied()
    }

    fn tokens(&self, id: NodeId, label: Label) -> Vec<Token> {
        let parts = self.machine.nodes[id].parts.iter();
        parts
            .filter_map(|(part_label, part)| match part {
                Part::Token(token) if *part_label == label => Some(token.clone()),
                _ => None,
            })
            .collect()
    }

    fn token(&self, id: NodeId, label: Label) -> Option<Token> {
        self.tokens(id, label).pop()
    }

    fn parts(&self, id: NodeId, label: Label) -> Vec<NodeId> {
        let parts = self.machine.nodes[id].parts.iter();
        parts
            .filter_map(|(part_label, part)| match part {
                Part::Node(node) if *part_label == label => Some(*node),
                _ => None,
            })
            .collect()
    }

    fn part(&self, id: NodeId, label: Label) -> Option<NodeId> {
        self.parts(id, label).pop()
    }

    fn text(&self, token: &Token) -> String {
        self.machine.tokens.text(token)
    }

    /// The start of a node of the parse tree.
    fn offset(&self, id: NodeId) -> i32 {
        let start = self.machine.nodes[id].start;
        self.machine.tokens.token(start).offset
    }

    fn reserve(&mut self, token: Option<&Token>) -> Reserved {
        match token {
            Some(token) => self.builder.reserve(token.offset),
            None => Builder::reserve_nowhere(),
        }
    }

    fn location(&self, offset: i32) -> Location {
        if offset == NO_OFFSET {
            return Location::NONE;
        }
        self.machine.tokens.reporter.source.location(offset)
    }

    /// Reports a problem at an offset; returns a node in place of the unreadable part.
    fn report(&mut self, offset: i32, message: &str) -> ExprId {
        let node = self.builder.add_unspecified(offset);
        let location = self.location(offset);
        self.machine.tokens.reporter.sink.report(location, message);
        node
    }

    fn enter(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > self.limit {
            let message = "max recursion depth exceeded".to_owned();
            return Err(self.machine.tokens.reporter.fatal(message));
        }
        Ok(())
    }

    /// Descends through nodes that only wrap another one.
    fn unnest(&self, id: Option<NodeId>) -> Option<NodeId> {
        let mut id = id?;
        loop {
            let node = &self.machine.nodes[id];
            let has_op = node.parts.iter().any(|(label, _)| *label == Label::Op);
            let below = match (node.rule, node.kind) {
                (Rule::Expr | Rule::ConditionalOr | Rule::ConditionalAnd, _) if !has_op => self.part(id, Label::E),
                (Rule::Relation, _) if !has_op => self.child(id, Rule::Calc, 0),
                (Rule::Calc, _) if !has_op => self.child(id, Rule::Unary, 0),
                (_, Kind::MemberExpr) => self.child(id, Rule::Member, 0),
                (_, Kind::PrimaryExpr) => self.child(id, Rule::Primary, 0),
                (_, Kind::Nested) => self.part(id, Label::E),
                (_, Kind::ConstantLiteral) => self.child(id, Rule::Literal, 0),
                _ => return Some(id),
            };
            id = below?;
        }
    }

    fn visit(&mut self, id: Option<NodeId>) -> Visited {
        let Some(id) = self.unnest(id) else {
            return Ok(self.unknown("<<nil>>"));
        };
        let counted = matches!(
            (self.machine.nodes[id].rule, self.kind(id)),
            (Rule::Expr | Rule::Relation | Rule::Calc, _) | (_, Kind::Select | Kind::MemberCall | Kind::Index)
        );
        if counted {
            self.enter()?;
        }
        let visited = self.visit_node(id)?;
        if counted {
            self.depth -= 1;
        }
        Ok(visited)
    }

    /// A part of the parse tree that no visitor handles; reported only if there is no other message.
    fn unknown(&mut self, what: &str) -> ExprId {
        if self.machine.tokens.reporter.sink.is_empty() {
            let message = format!("unknown parse element encountered: {what}");
            let node = self.builder.add_unspecified(-1);
            self.machine.tokens.reporter.sink.report(Location::NONE, message);
            return node;
        }
        self.builder.add_unspecified(-1)
    }

    fn visit_node(&mut self, id: NodeId) -> Visited {
        match (self.machine.nodes[id].rule, self.kind(id)) {
            (Rule::Expr, _) => self.conditional(id),
            (Rule::ConditionalOr, _) => self.logic(id, Op::Or),
            (Rule::ConditionalAnd, _) => self.logic(id, Op::And),
            (rule @ (Rule::Relation | Rule::Calc), _) => self.binary(id, rule),
            (_, Kind::LogicalNot) => self.unary(id, Op::Not),
            (_, Kind::Negate) => self.unary(id, Op::Negate),
            (Rule::Unary, _) => {
                let offset = self.offset(id);
                Ok(self.builder.literal(offset, Literal::String(Arc::from("<<error>>"))))
            }
            (_, Kind::Select) => self.select(id),
            (_, Kind::MemberCall) => self.member_call(id),
            (_, Kind::Index) => self.index(id),
            (_, Kind::Ident) => Ok(self.ident(id)),
            (_, Kind::GlobalCall) => self.global_call(id),
            (_, Kind::CreateList) => self.list(id),
            (_, Kind::CreateStruct) => self.map(id),
            (_, Kind::CreateMessage) => self.message(id),
            (Rule::Literal, kind) if kind != Kind::Plain => Ok(self.literal(id, kind)),
            _ => Ok(self.unknown("<<*gen.Context>>")),
        }
    }

    fn conditional(&mut self, id: NodeId) -> Visited {
        let condition = self.visit(self.part(id, Label::E))?;
        let op = self.token(id, Label::Op);
        let at = self.reserve(op.as_ref());
        let yes = self.visit(self.part(id, Label::E1))?;
        let no = self.visit(self.part(id, Label::E2))?;
        Ok(self.builder.place_call(at, Op::Conditional, vec![condition, yes, no]))
    }

    fn logic(&mut self, id: NodeId, op: Op) -> Visited {
        let mut terms = vec![self.visit(self.part(id, Label::E))?];
        let rest = self.parts(id, Label::E1);
        let mut ops = Vec::new();
        for (i, token) in self.tokens(id, Label::Op).iter().enumerate() {
            let Some(term) = rest.get(i) else {
                let wanted = if op == Op::Or { "||" } else { "&&" };
                let offset = self.offset(id);
                return Ok(self.report(offset, &format!("unexpected character, wanted '{wanted}'")));
            };
            terms.push(self.visit(Some(*term))?);
            ops.push(self.reserve(Some(token)));
        }
        Ok(self.builder.logic(op, &terms, &ops))
    }

    fn binary(&mut self, id: NodeId, rule: Rule) -> Visited {
        let token = self.token(id, Label::Op);
        let op = match token.as_ref().map(|token| self.text(token)).as_deref() {
            Some("==") => Op::Equals,
            Some("!=") => Op::NotEquals,
            Some("in") => Op::In,
            Some("<") => Op::Less,
            Some("<=") => Op::LessEquals,
            Some(">=") => Op::GreaterEquals,
            Some(">") => Op::Greater,
            Some("*") => Op::Multiply,
            Some("/") => Op::Divide,
            Some("%") => Op::Modulo,
            Some("+") => Op::Add,
            Some("-") => Op::Subtract,
            _ => {
                let offset = self.offset(id);
                return Ok(self.report(offset, "operator not found"));
            }
        };
        let left = self.visit(self.child(id, rule, 0))?;
        let at = self.reserve(token.as_ref());
        let right = self.visit(self.child(id, rule, 1))?;
        Ok(self.builder.place_call(at, op, vec![left, right]))
    }

    fn unary(&mut self, id: NodeId, op: Op) -> Visited {
        let ops = self.tokens(id, Label::Op);
        let member = self.child(id, Rule::Member, 0);
        if ops.len().is_multiple_of(2) {
            return self.visit(member);
        }
        let at = self.reserve(ops.first());
        let operand = self.visit(member)?;
        Ok(self.builder.place_call(at, op, vec![operand]))
    }

    fn field_name(&self, id: Option<NodeId>) -> Result<Name, &'static str> {
        let Some(id) = id else {
            return Err("unsupported ident kind");
        };
        let text = self.token(id, Label::Id).map(|token| self.text(&token));
        match (self.kind(id), text) {
            (Kind::SimpleIdentifier, Some(text)) => Ok(Arc::from(text)),
            (Kind::EscapedIdentifier, _) if !self.builder.options.escaped_identifiers => Err("unsupported syntax: '`'"),
            (Kind::EscapedIdentifier, Some(text)) if text.len() > 2 => Ok(Arc::from(&text[1..text.len() - 1])),
            (Kind::EscapedIdentifier, _) => Err("invalid escaped identifier: underflow"),
            _ => Err("unsupported ident kind"),
        }
    }

    fn select(&mut self, id: NodeId) -> Visited {
        let operand = self.visit(self.child(id, Rule::Member, 0))?;
        let (Some(field_node), Some(op)) = (self.part(id, Label::Id), self.token(id, Label::Op)) else {
            let offset = self.offset(id);
            return Ok(self.builder.add_unspecified(offset));
        };
        let field_offset = self.offset(field_node);
        let field = self.field_name(Some(field_node)).unwrap_or_else(|message| {
            self.report(field_offset, message);
            Arc::from("")
        });
        if self.token(id, Label::Opt).is_none() {
            let select = Expr::Select {
                operand,
                field,
                test_only: false,
            };
            return Ok(self.builder.add(op.offset, select));
        }
        if !self.builder.options.optional_syntax {
            return Ok(self.report(op.offset, "unsupported syntax '.?'"));
        }
        let name = self.builder.literal(field_offset, Literal::String(field));
        Ok(self.builder.call(op.offset, Op::OptSelect, vec![operand, name]))
    }

    fn expressions(&mut self, list: Option<NodeId>) -> Result<Vec<ExprId>, Stop> {
        let Some(list) = list else { return Ok(Vec::new()) };
        self.parts(list, Label::E)
            .into_iter()
            .map(|expr| self.visit(Some(expr)))
            .collect()
    }

    fn member_call(&mut self, id: NodeId) -> Visited {
        let target = self.visit(self.child(id, Rule::Member, 0))?;
        let Some(name) = self.token(id, Label::Id) else {
            let offset = self.offset(id);
            return Ok(self.builder.add_unspecified(offset));
        };
        let at = self.reserve(self.token(id, Label::Open).as_ref());
        let args = self.expressions(self.part(id, Label::Args))?;
        let name = self.text(&name);
        Ok(self.call(at, &name, Some(target), args))
    }

    fn global_call(&mut self, id: NodeId) -> Visited {
        let Some(token) = self.token(id, Label::Id) else {
            let offset = self.offset(id);
            return Ok(self.builder.add_unspecified(offset));
        };
        let name = self.text(&token);
        if is_reserved(&name) {
            let offset = self.offset(id);
            return Ok(self.report(offset, &format!("reserved identifier: {name}")));
        }
        let at = self.reserve(self.token(id, Label::Op).as_ref());
        let dot = if self.token(id, Label::LeadingDot).is_some() {
            "."
        } else {
            ""
        };
        let args = self.expressions(self.part(id, Label::Args))?;
        Ok(self.call(at, &format!("{dot}{name}"), None, args))
    }

    fn call(&mut self, at: Reserved, function: &str, target: Option<ExprId>, args: Vec<ExprId>) -> ExprId {
        let call = Call {
            at,
            function,
            target,
            args: &args,
        };
        match macros::expand(&mut self.builder, &call) {
            Ok(Some(expanded)) => {
                self.builder.release(at);
                expanded
            }
            Ok(None) => {
                let function = Arc::from(function);
                self.builder.place(at, Expr::Call { function, target, args })
            }
            Err(error) => {
                self.builder.release(at);
                let offset = if error.offset == NO_OFFSET { -1 } else { error.offset };
                let location = self.location(error.offset);
                let node = self.builder.add_unspecified(offset);
                self.machine.tokens.reporter.sink.report(location, error.message);
                node
            }
        }
    }

    fn index(&mut self, id: NodeId) -> Visited {
        let target = self.visit(self.child(id, Rule::Member, 0))?;
        let Some(op) = self.token(id, Label::Op) else {
            let offset = self.offset(id);
            return Ok(self.builder.add_unspecified(offset));
        };
        let at = self.reserve(Some(&op));
        let index = self.visit(self.part(id, Label::Index))?;
        if self.token(id, Label::Opt).is_none() {
            return Ok(self.builder.place_call(at, Op::Index, vec![target, index]));
        }
        if !self.builder.options.optional_syntax {
            return Ok(self.report(op.offset, "unsupported syntax '[?'"));
        }
        Ok(self.builder.place_call(at, Op::OptIndex, vec![target, index]))
    }

    fn ident(&mut self, id: NodeId) -> ExprId {
        let offset = self.offset(id);
        let Some(token) = self.token(id, Label::Id) else {
            return self.builder.add_unspecified(offset);
        };
        let name = self.text(&token);
        if is_reserved(&name) {
            return self.report(offset, &format!("reserved identifier: {name}"));
        }
        let dot = if self.token(id, Label::LeadingDot).is_some() {
            "."
        } else {
            ""
        };
        self.builder.ident(token.offset, Arc::from(format!("{dot}{name}")))
    }

    fn list(&mut self, id: NodeId) -> Visited {
        let at = self.reserve(self.token(id, Label::Op).as_ref());
        let mut elements = Vec::new();
        let mut optional = Vec::new();
        if let Some(list) = self.part(id, Label::Elems) {
            for (i, element) in self.parts(list, Label::Elems).into_iter().enumerate() {
                elements.push(self.visit(self.part(element, Label::E))?);
                if let Some(question) = self.token(element, Label::Opt) {
                    if self.builder.options.optional_syntax {
                        optional.push(i as u32);
                    } else {
                        self.report(question.offset, "unsupported syntax '?'");
                    }
                }
            }
        }
        Ok(self.builder.place(at, Expr::List { elements, optional }))
    }

    fn map(&mut self, id: NodeId) -> Visited {
        let at = self.reserve(self.token(id, Label::Op).as_ref());
        let entries = match self.part(id, Label::Entries) {
            Some(list) => self.map_entries(list)?,
            None => Vec::new(),
        };
        Ok(self.builder.place(at, Expr::Map(entries)))
    }

    fn map_entries(&mut self, list: NodeId) -> Result<Vec<MapEntry>, Stop> {
        let keys = self.parts(list, Label::Keys);
        let values = self.parts(list, Label::Values);
        let mut entries = Vec::new();
        for (i, colon) in self.tokens(list, Label::Cols).iter().enumerate() {
            let at = self.reserve(Some(colon));
            let (Some(key), Some(value)) = (keys.get(i), values.get(i)) else {
                return Ok(Vec::new());
            };
            let optional = self.token(*key, Label::Opt).is_some();
            if optional && !self.builder.options.optional_syntax {
                let offset = self.offset(*key);
                self.report(offset, "unsupported syntax '?'");
                continue;
            }
            entries.push(MapEntry {
                key: self.visit(self.part(*key, Label::E))?,
                value: self.visit(Some(*value))?,
                optional,
                offset: at.offset.max(0) as u32,
            });
        }
        Ok(entries)
    }

    fn message(&mut self, id: NodeId) -> Visited {
        let names: Vec<String> = self
            .tokens(id, Label::Id)
            .iter()
            .map(|token| self.text(token))
            .collect();
        let dot = if self.token(id, Label::LeadingDot).is_some() {
            "."
        } else {
            ""
        };
        let type_name = Arc::from(format!("{dot}{}", names.join(".")));
        let at = self.reserve(self.token(id, Label::Op).as_ref());
        let fields = match self.part(id, Label::Entries) {
            Some(list) => self.message_fields(list)?,
            None => Vec::new(),
        };
        Ok(self.builder.place(at, Expr::Struct { type_name, fields }))
    }

    fn message_fields(&mut self, list: NodeId) -> Result<Vec<StructField>, Stop> {
        let colons = self.tokens(list, Label::Cols);
        let values = self.parts(list, Label::Values);
        let mut fields = Vec::new();
        for (i, field) in self.parts(list, Label::Fields).into_iter().enumerate() {
            let (Some(colon), Some(value)) = (colons.get(i), values.get(i)) else {
                return Ok(Vec::new());
            };
            let at = self.reserve(Some(colon));
            let optional = self.token(field, Label::Opt).is_some();
            if optional && !self.builder.options.optional_syntax {
                let offset = self.offset(field);
                self.report(offset, "unsupported syntax '?'");
                continue;
            }
            match self.field_name(self.part(field, Label::Id)) {
                Ok(name) => fields.push(StructField {
                    name,
                    value: self.visit(Some(*value))?,
                    optional,
                    offset: at.offset.max(0) as u32,
                }),
                Err(message) => {
                    let offset = self.offset(list);
                    self.report(offset, message);
                }
            }
        }
        Ok(fields)
    }

    fn literal(&mut self, id: NodeId, kind: Kind) -> ExprId {
        let offset = self.offset(id);
        let text = self
            .token(id, Label::Tok)
            .map(|token| self.text(&token))
            .unwrap_or_default();
        let negative = self.token(id, Label::Sign).is_some();
        let value = match kind {
            Kind::Int => literal::int(&text, negative)
                .map(Literal::Int)
                .ok_or("invalid int literal"),
            Kind::Uint => literal::uint(&text).map(Literal::Uint).ok_or("invalid uint literal"),
            Kind::Double => literal::double(&text, negative)
                .map(Literal::Double)
                .ok_or("invalid double literal"),
            Kind::String => literal::string(&text).map(|value| Literal::String(Arc::from(&*value))),
            Kind::Bytes => {
                literal::bytes(text.get(1..).unwrap_or_default()).map(|value| Literal::Bytes(Arc::from(value)))
            }
            Kind::BoolTrue => Ok(Literal::Bool(true)),
            Kind::BoolFalse => Ok(Literal::Bool(false)),
            _ => Ok(Literal::Null),
        };
        match value {
            Ok(value) => self.builder.literal(offset, value),
            Err(message) => {
                let error = self.report(offset, message);
                // An unreadable string stays a literal, a number does not.
                match kind {
                    Kind::String => self.builder.literal(offset, Literal::String(Arc::from(text))),
                    Kind::Bytes => self
                        .builder
                        .literal(offset, Literal::Bytes(Arc::from(text.into_bytes()))),
                    _ => error,
                }
            }
        }
    }
}
