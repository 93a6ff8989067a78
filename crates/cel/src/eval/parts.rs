//! Re-evaluates the parts of an expression to build its trace.
//!
//! Upstream counterpart: none.

use super::Machine;
use crate::{
    ast::{Ast, Expr, ExprId},
    observe,
    program::{Attribute, Fold, FoldKind, Node, NodeId, Qualifier, Root},
    syntax,
    trace::{Evaluation, Trace, shown},
    val::Val,
};

/// The maximum number of parts in a trace.
const PARTS: usize = 40;
/// The maximum nesting of parts.
const DEPTH: usize = 32;

struct TraceBuilder<'t> {
    text: &'t str,
    chars: Vec<(usize, char)>,
    ast: Ast,
    parts: Vec<(String, String)>,
}

impl TraceBuilder<'_> {
    /// The source text of a part, on one line.
    fn text(&self, id: ExprId) -> Option<String> {
        let (start, end) = observe::extent(&self.ast, id, self.text, &self.chars);
        let text = self.text.get(start..end)?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The name of the variable of a comprehension.
    fn variable(&self, id: ExprId) -> Option<String> {
        match self.ast.expr(id) {
            Expr::Comprehension(parts) => {
                let name = parts.iter_var2.as_ref().unwrap_or(&parts.iter_var);
                Some(name.to_string())
            }
            _ => None,
        }
    }

    fn add(&mut self, part: (String, String)) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }
}

impl<'a> Machine<'a> {
    /// Records the value of the program and of its parts.
    pub(super) fn record_parts(&mut self, trace: &Trace, value: Val<'a>) {
        let program = self.program;
        let mut parts = Vec::new();
        // Calling a random function again would return another value, and so would the calls after it.
        let chance = |node: &Node| matches!(node, Node::Call(call) if call.function.name.contains("random"));
        if let Ok(ast) = syntax::parse(&program.source, &program.profile.syntax)
            && !program.nodes.iter().any(chance)
        {
            self.slots.fill(None);
            self.observer = None;
            self.detour = false;
            self.trace = None;
            self.cost = 0;
            self.cancelled = false;
            let mut builder = TraceBuilder {
                text: &program.source,
                chars: program.source.char_indices().collect(),
                ast,
                parts: Vec::new(),
            };
            self.parts_of(program.root, value, &mut builder, 0);
            parts = builder.parts;
        }
        trace.record(Evaluation {
            text: program.source.split_whitespace().collect::<Vec<_>>().join(" "),
            value: shown(value),
            parts,
        });
    }

    /// Records a part and its parts. Returns the value, unless the limit of parts is reached.
    fn part(&mut self, id: NodeId, builder: &mut TraceBuilder<'_>, depth: usize) -> Option<Val<'a>> {
        if builder.parts.len() >= PARTS || depth > DEPTH || self.cancelled {
            return None;
        }
        let node = self.program.nodes.get(id.0 as usize)?;
        let value = self.eval(id);
        if self.cancelled {
            return None;
        }
        let origin = self.program.origins.get(id.0 as usize).copied().flatten();
        let text = origin.and_then(|origin| builder.text(origin));
        if let (Some(text), false) = (text, matches!(node, Node::Constant(_))) {
            builder.add((text, shown(value)));
        }
        self.parts_of(id, value, builder, depth + 1);
        Some(value)
    }

    fn parts_of(&mut self, id: NodeId, value: Val<'a>, builder: &mut TraceBuilder<'_>, depth: usize) {
        let program = self.program;
        let Some(node) = program.nodes.get(id.0 as usize) else {
            return;
        };
        match node {
            Node::Constant(_) | Node::Unbound(_) => {}
            Node::Attribute(attribute) => self.attribute_parts(attribute, builder, depth),
            Node::And(terms) | Node::Or(terms) => {
                let decides = Val::Bool(matches!(node, Node::Or(_)));
                for term in terms {
                    // Terms after the deciding one were not evaluated.
                    match self.part(*term, builder, depth) {
                        Some(value) if value.equals(&decides) != Some(true) => {}
                        _ => break,
                    }
                }
            }
            Node::Equal(a, b)
            | Node::NotEqual(a, b)
            | Node::Binary(_, a, b, _)
            | Node::OptionalOr(a, b)
            | Node::OptionalOrValue(a, b) => {
                self.part(*a, builder, depth);
                self.part(*b, builder, depth);
            }
            Node::Not(a) | Node::NotStrictlyFalse(a) | Node::Negate(a) | Node::Member(a, _) => {
                self.part(*a, builder, depth);
            }
            Node::Call(call) => {
                for arg in &call.args {
                    self.part(*arg, builder, depth);
                }
            }
            Node::UnknownCall { args, .. } => {
                for arg in args {
                    self.part(*arg, builder, depth);
                }
            }
            Node::List { elements, .. } => {
                for element in elements {
                    self.part(*element, builder, depth);
                }
            }
            Node::Map { entries } => {
                for (key, value, _) in entries {
                    self.part(*key, builder, depth);
                    self.part(*value, builder, depth);
                }
            }
            Node::Struct { fields, .. } => {
                for (_, value, _) in fields {
                    self.part(*value, builder, depth);
                }
            }
            Node::Bind { body, .. } => {
                self.part(*body, builder, depth);
            }
            Node::Fold(fold) => self.fold_parts(id, fold, value, builder, depth),
        }
    }

    fn attribute_parts(&mut self, attribute: &'a Attribute, builder: &mut TraceBuilder<'_>, depth: usize) {
        let mut attribute = attribute;
        // Branches nest as deep as the source text.
        loop {
            for qualifier in &attribute.qualifiers {
                if let Qualifier::Computed { index, .. } = qualifier {
                    self.part(*index, builder, depth);
                }
            }
            match &attribute.root {
                Root::Value(value) => {
                    self.part(*value, builder, depth);
                    return;
                }
                Root::Conditional(branches) => {
                    let condition = self.part(branches.0, builder, depth);
                    attribute = match condition {
                        Some(Val::Bool(true)) => &branches.1,
                        Some(Val::Bool(false)) => &branches.2,
                        _ => return,
                    };
                }
                Root::Slot(_) | Root::LazySlot(..) | Root::Variable(_) => return,
            }
        }
    }

    /// Records the range and the deciding element.
    fn fold_parts(&mut self, id: NodeId, fold: &'a Fold, value: Val<'a>, builder: &mut TraceBuilder<'_>, depth: usize) {
        let Some(range) = self.part(fold.range, builder, depth) else {
            return;
        };
        let (body, decides) = match &fold.kind {
            FoldKind::All(body) => (*body, value.is_error() || matches!(value, Val::Bool(false))),
            FoldKind::Exists(body) => (*body, value.is_error() || matches!(value, Val::Bool(true))),
            FoldKind::Map { transform, .. } => (*transform, value.is_error()),
            FoldKind::ExistsOne(_) | FoldKind::General { .. } => return,
        };
        if !decides || !(range.is_list() || range.is_map()) {
            return;
        }
        let outer = (self.slot(fold.variable), fold.second.map(|slot| self.slot(slot)));
        for round in 0..range.len() {
            self.set(fold, range, round);
            let found = self.eval(body);
            if self.cancelled {
                break;
            }
            let same = match value {
                Val::Error(_) => found.is_error(),
                _ => found.equals(&value) == Some(true),
            };
            if !same {
                continue;
            }
            let origin = self.program.origins.get(id.0 as usize).copied().flatten();
            let element = self.slot(fold.second.unwrap_or(fold.variable));
            if let (Some(name), Some(element)) = (origin.and_then(|origin| builder.variable(origin)), element) {
                builder.add((name, shown(element)));
            }
            self.part(body, builder, depth);
            break;
        }
        self.set_slot(fold.variable, outer.0);
        if let (Some(slot), Some(value)) = (fold.second, outer.1) {
            self.set_slot(slot, value);
        }
    }
}
