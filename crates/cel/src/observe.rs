//! Records the results of expression parts: the branch points of an expression, and how often each outcome occurred.
//!
//! A plain run has no [`Observer`] and does no extra work: the evaluator tests one flag that it tests anyway. Records
//! are keyed by the address of the evaluated item; addresses are only looked up, never shown or sorted.
//!
//! Upstream counterpart: none; cel-go's `ExhaustiveEval` would evaluate parts that a run does not reach.

use std::{cell::RefCell, collections::BTreeMap};

use rustc_hash::FxHashMap;

use super::{
    ast::{Ast, Expr, ExprId},
    program::{Attribute, FoldKind, Node, NodeId, Program, Qualifier, Root},
    syntax::parse,
    trace::Trace,
    val::Val,
};

/// The outcome of a branch point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchOutcome {
    /// True, or present.
    True,
    /// False, or absent.
    False,
    Error,
    /// An empty list or map.
    Empty,
    /// Any other value.
    Other,
}

/// How often each outcome occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    /// True, or present.
    pub truths: u64,
    /// False, or absent.
    pub falsehoods: u64,
    pub errors: u64,
    /// Empty lists and maps.
    pub empties: u64,
    pub others: u64,
}

impl OutcomeCounts {
    /// The sum of all counts.
    pub const fn total(&self) -> u64 {
        self.truths + self.falsehoods + self.errors + self.empties + self.others
    }

    pub(crate) fn add(&mut self, way: BranchOutcome) {
        let count = match way {
            BranchOutcome::True => &mut self.truths,
            BranchOutcome::False => &mut self.falsehoods,
            BranchOutcome::Error => &mut self.errors,
            BranchOutcome::Empty => &mut self.empties,
            BranchOutcome::Other => &mut self.others,
        };
        *count += 1;
    }

    /// Adds the counts of another observer.
    pub fn join(&mut self, other: Self) {
        self.truths += other.truths;
        self.falsehoods += other.falsehoods;
        self.errors += other.errors;
        self.empties += other.empties;
        self.others += other.others;
    }
}

/// The part number of items that are not programs.
const WHOLE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct Observer {
    /// Records evaluations, if tracing is enabled.
    trace: Option<Trace>,
    seen: RefCell<FxHashMap<(usize, u32), Record>>,
}

/// All outcomes, and the last one.
type Record = (OutcomeCounts, Option<BranchOutcome>);

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

impl Observer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an observer that records a trace.
    pub fn with_trace() -> Self {
        Self {
            trace: Some(Trace::default()),
            ..Self::default()
        }
    }

    /// The trace, if enabled.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    fn record(&self, key: (usize, u32), way: BranchOutcome) {
        // No borrow is held across a call.
        if let Ok(mut seen) = self.seen.try_borrow_mut() {
            let (ways, last) = seen.entry(key).or_default();
            ways.add(way);
            *last = Some(way);
        }
    }

    fn of(&self, key: (usize, u32)) -> Record {
        let seen = self.seen.try_borrow();
        seen.ok().and_then(|seen| seen.get(&key).copied()).unwrap_or_default()
    }

    /// Records the outcome of a node of a program.
    pub(super) fn value(&self, program: &Program, id: NodeId, value: &Val<'_>) {
        let way = match value {
            Val::Bool(true) | Val::Optional(Some(_)) => BranchOutcome::True,
            Val::Bool(false) | Val::Optional(None) => BranchOutcome::False,
            Val::Error(_) => BranchOutcome::Error,
            Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) if value.is_empty() => {
                BranchOutcome::Empty
            }
            _ => BranchOutcome::Other,
        };
        let at = address(program);
        let way = match &program.nodes[id.0 as usize] {
            // For a quantifier, record first whether its range was empty.
            Node::Fold(fold)
                if is_quantifier(&fold.kind) && self.of((at, fold.range.0)).1 == Some(BranchOutcome::Empty) =>
            {
                BranchOutcome::Empty
            }
            _ => way,
        };
        self.record((at, id.0), way);
    }

    /// Records the outcome of another item, which must not move while the observer is in use.
    pub fn note<T>(&self, of: &T, way: BranchOutcome) {
        self.record((address(of), WHOLE), way);
    }

    /// The outcomes of another item.
    pub fn noted<T>(&self, of: &T) -> OutcomeCounts {
        self.of((address(of), WHOLE)).0
    }

    /// The outcomes of a program as a whole.
    pub fn whole(&self, program: &Program) -> OutcomeCounts {
        self.of((address(program), program.root.0)).0
    }

    /// The outcomes of parts of a program. The points may be those of another program with the same forks in the same
    /// order: autogen changes only paths.
    pub fn parts(&self, program: &Program, points: &[Point]) -> Vec<OutcomeCounts> {
        let forks = forks(program);
        let of = |point: &Point| {
            let mut ways = OutcomeCounts::default();
            for fork in &point.forks {
                if let Some((node, _)) = forks.get(*fork).filter(|(_, fork)| *fork == point.fork) {
                    ways.join(self.of((address(program), *node)).0);
                }
            }
            ways
        };
        points.iter().map(of).collect()
    }
}

/// The kind of a branch point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fork {
    /// An operand of `&&`.
    And,
    /// An operand of `||`.
    Or,
    /// The condition before `?`.
    Condition,
    /// `all`
    All,
    /// `exists`
    Exists,
    /// `exists_one`
    ExistsOne,
    /// The condition of `filter`, or of `map` with three arguments.
    Filter,
    /// `has`
    Has,
    /// The receiver of `or` and `orValue`.
    Optional,
}

impl Fork {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::And => "operand-of-and",
            Self::Or => "operand-of-or",
            Self::Condition => "condition",
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "exists-one",
            Self::Filter => "filter",
            Self::Has => "has",
            Self::Optional => "optional",
        }
    }

    /// Whether it iterates over a list, which may be empty.
    pub const fn is_quantifier(self) -> bool {
        matches!(self, Self::All | Self::Exists | Self::ExistsOne)
    }
}

fn is_quantifier(kind: &FoldKind) -> bool {
    matches!(kind, FoldKind::All(_) | FoldKind::Exists(_) | FoldKind::ExistsOne(_))
}

/// A part of an expression that can have different outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub fork: Fork,
    /// The start in the source text, in bytes.
    pub start: usize,
    /// The end in the source text, in bytes.
    pub end: usize,
    /// The corresponding forks of the program: several if a macro uses an argument twice.
    forks: Vec<usize>,
}

/// The nodes of a program that are forks, in program order.
fn forks(program: &Program) -> Vec<(u32, Fork)> {
    let mut forks: BTreeMap<u32, Fork> = BTreeMap::new();
    for (number, node) in program.nodes.iter().enumerate() {
        let mut mark = |id: NodeId, fork: Fork| {
            // A quantifier or `has` that is an operand is one fork, not two.
            let known = forks.entry(id.0).or_insert(fork);
            *known = (*known).max(fork);
        };
        match node {
            Node::And(terms) => terms.iter().for_each(|term| mark(*term, Fork::And)),
            Node::Or(terms) => terms.iter().for_each(|term| mark(*term, Fork::Or)),
            Node::OptionalOr(first, _) | Node::OptionalOrValue(first, _) => mark(*first, Fork::Optional),
            // Kyverno's macro turns `orValue` into a function.
            Node::Call(call) if call.function.name == "__orValueCompat__" => {
                call.args
                    .first()
                    .into_iter()
                    .for_each(|first| mark(*first, Fork::Optional));
            }
            Node::Fold(fold) => {
                let id = NodeId(number as u32);
                match &fold.kind {
                    FoldKind::All(_) => mark(id, Fork::All),
                    FoldKind::Exists(_) => mark(id, Fork::Exists),
                    FoldKind::ExistsOne(_) => mark(id, Fork::ExistsOne),
                    FoldKind::Map { filter, .. } => filter.iter().for_each(|filter| mark(*filter, Fork::Filter)),
                    FoldKind::General { .. } => {}
                }
            }
            Node::Attribute(attribute) => {
                if attribute.test_only && matches!(attribute.qualifiers.last(), Some(Qualifier::Field { .. })) {
                    mark(NodeId(number as u32), Fork::Has);
                }
                conditions(attribute, &mut |id| mark(id, Fork::Condition));
            }
            _ => {}
        }
    }
    let is_constant = |node: &u32| matches!(program.nodes.get(*node as usize), None | Some(Node::Constant(_)));
    forks.into_iter().filter(|(node, _)| !is_constant(node)).collect()
}

/// The forks of a program, in source order. Constant parts are not forks.
pub fn points(text: &str, program: &Program) -> Vec<Point> {
    let Ok(ast) = parse(text, &program.profile.syntax) else {
        return Vec::new();
    };
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut points: Vec<Point> = Vec::new();
    for (number, (node, fork)) in forks(program).into_iter().enumerate() {
        let Some(origin) = program.origins.get(node as usize).copied().flatten() else {
            continue;
        };
        let (start, end) = extent(&ast, origin, text, &chars);
        match points
            .iter_mut()
            .find(|point| (point.fork, point.start, point.end) == (fork, start, end))
        {
            Some(point) => point.forks.push(number),
            None => points.push(Point {
                fork,
                start,
                end,
                forks: vec![number],
            }),
        }
    }
    points.sort_by_key(|point| (point.start, point.end, point.fork));
    points
}

fn conditions(attribute: &Attribute, mark: &mut impl FnMut(NodeId)) {
    // Branches nest as deep as the source text.
    let mut rest = vec![attribute];
    while let Some(attribute) = rest.pop() {
        if let Root::Conditional(branches) = &attribute.root {
            mark(branches.0);
            rest.extend([&branches.1, &branches.2]);
        }
    }
}

/// The start and end of an expression in bytes: from its first part to its last, with closing brackets.
pub(super) fn extent(ast: &Ast, of: ExprId, text: &str, chars: &[(usize, char)]) -> (usize, usize) {
    let (mut first, mut last) = (u32::MAX, 0);
    let mut rest = vec![of];
    let mut known = vec![false; ast.len()];
    while let Some(id) = rest.pop() {
        if std::mem::replace(&mut known[id.index()], true) {
            continue;
        }
        first = first.min(ast.offset(id));
        last = last.max(ast.offset(id));
        match ast.expr(id) {
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select { operand, .. } => rest.push(*operand),
            Expr::Call { target, args, .. } => rest.extend(target.iter().chain(args).copied()),
            Expr::List { elements, .. } => rest.extend(elements),
            Expr::Map(entries) => rest.extend(entries.iter().flat_map(|entry| [entry.key, entry.value])),
            Expr::Struct { fields, .. } => rest.extend(fields.iter().map(|field| field.value)),
            Expr::Comprehension(parts) => rest.extend([parts.iter_range, parts.loop_step, parts.result]),
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut from = first as usize;
    // A call is located at its bracket: its name belongs to it.
    if chars.get(from).is_some_and(|(_, c)| *c == '(') {
        while from > 0 && chars.get(from - 1).is_some_and(|(_, c)| is_word(*c)) {
            from -= 1;
        }
    }
    let until = behind(chars, from, last as usize);
    let byte = |at: usize| chars.get(at).map_or(text.len(), |(byte, _)| *byte);
    (byte(from), byte(until))
}

/// The position after the token at `last`, and after the closing brackets of those open there.
fn behind(chars: &[(usize, char)], from: usize, last: usize) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let at = |place: usize| chars.get(place).map(|(_, c)| *c);
    let mut depth = 0_usize;
    let mut place = from;
    while let Some(c) = at(place) {
        let begin = place;
        match c {
            '"' | '\'' => place = behind_literal(chars, place),
            '(' | '[' | '{' => {
                depth += 1;
                place += 1;
            }
            ')' | ']' | '}' => {
                if depth == 0 {
                    return begin;
                }
                depth -= 1;
                place += 1;
            }
            c if is_word(c) => {
                while at(place).is_some_and(is_word) {
                    place += 1;
                }
                // The prefix of a quote is part of the literal: `r"…"`.
                if matches!(at(place), Some('"' | '\'')) {
                    place = behind_literal(chars, place);
                }
            }
            _ => place += 1,
        }
        // A selection is located at its dot.
        let goes_on = matches!(c, '.' | '?') || c.is_whitespace();
        if depth == 0 && place > last && !goes_on {
            return place;
        }
    }
    place
}

fn behind_literal(chars: &[(usize, char)], quote: usize) -> usize {
    let at = |place: usize| chars.get(place).map(|(_, c)| *c);
    let raw = quote > 0 && matches!(at(quote - 1), Some('r' | 'R'));
    let Some(mark) = at(quote) else { return quote };
    let triple = at(quote + 1) == Some(mark) && at(quote + 2) == Some(mark);
    let mut place = quote + if triple { 3 } else { 1 };
    while let Some(c) = at(place) {
        if c == '\\' && !raw {
            place += 2;
        } else if c != mark {
            place += 1;
        } else if !triple {
            return place + 1;
        } else if at(place + 1) == Some(mark) && at(place + 2) == Some(mark) {
            return place + 3;
        } else {
            place += 1;
        }
    }
    place.min(chars.len())
}

/// The location of an expression in a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// By index.
    MatchCondition(usize),
    /// By name.
    Variable(String),
    /// By index.
    Validation(usize),
    /// The message expression of a validation.
    Message(usize),
    /// An audit annotation.
    Annotation(usize),
}
