//! The parser of Go's `regexp/syntax` (1.26) with the flags that `regexp.Compile` sets; it produces `regex-syntax`'s
//! HIR directly.
//!
//! Upstream keeps one stack of tree nodes with markers for `(` and `|`; here each open group is a [`Frame`] with its
//! finished alternatives and the sequence under construction. Beside its HIR a [`Node`] carries the quantities that Go
//! limits: the size of Go's program, the height of its tree, the largest product of nested repeat counts.
//!
//! Deviation: Go factors common prefixes out of alternations before it measures size and height; here they are measured
//! unfactored, so patterns very close to those limits may be decided differently.

mod escape;

use regex_syntax::hir::{Capture, Class, Dot, Hir, Look, Repetition};

use super::{
    class::{self, Set},
    error::{Error, ErrorCode},
};

/// The tallest tree that Go accepts.
const MAX_HEIGHT: u32 = 1000;
/// The largest program that Go accepts, in instructions (128 MiB of 40 bytes each).
const MAX_SIZE: u64 = (128 << 20) / 40;
/// The highest repeat count, also as a product of nested ones.
const MAX_REPEAT: u32 = 1000;
/// The limit of ranges of all classes together. Go's limit is 16 Mi; ours is lower to bound the memory of the automata.
const MAX_RANGES: usize = 2 << 20;

/// From this many ranges on, the ranges of a class under construction are merged.
const COMPACT: usize = 1 << 16;

pub(super) struct Parsed {
    pub(super) hir: Hir,
    /// The names of the groups; the first is that of the whole match, which is unnamed.
    pub(super) names: Vec<Option<Box<str>>>,
    pub(super) height: u32,
    /// The approximate number of states of the automaton, groups included.
    pub(super) states: u64,
}

pub(super) fn parse(pattern: &str) -> Result<Parsed, Error> {
    Parser::new(pattern).run()
}

#[derive(Clone, Copy)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_all: bool,
    swap_greed: bool,
}

/// The shape of a node as far as Go's rules for merging neighbours distinguish it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A string, and whether matching ignores case.
    Literal {
        fold_case: bool,
        single: bool,
    },
    /// Exactly one character out of many.
    Class,
    Concat,
    Alternate,
    Other,
}

struct Node {
    hir: Hir,
    shape: Shape,
    /// Instructions in Go's program.
    size: u64,
    /// Approximate number of states in our automaton.
    states: u64,
    height: u32,
    /// The largest product of repeat counts on a path down from here.
    repeats: u32,
}

impl Node {
    fn leaf(hir: Hir, shape: Shape) -> Self {
        Self {
            hir,
            shape,
            size: 1,
            states: 2,
            height: 1,
            repeats: 1,
        }
    }
}

/// An open group: the alternatives before the last `|`, and the sequence after it.
struct Frame {
    alternatives: Vec<Node>,
    sequence: Vec<Node>,
    /// The flags to restore when the group closes.
    outer: Flags,
    /// The number of the group; `None` if it does not capture.
    capture: Option<u32>,
}

impl Frame {
    fn new(outer: Flags, capture: Option<u32>) -> Self {
        Self {
            alternatives: Vec::new(),
            sequence: Vec::new(),
            outer,
            capture,
        }
    }
}

/// The opening of a group.
enum Group<'n> {
    /// A group that does not capture.
    Plain,
    Numbered,
    Named(&'n str),
}

struct Parser<'p> {
    pattern: &'p str,
    /// The unread part of the pattern.
    rest: &'p str,
    flags: Flags,
    /// The open groups around the innermost one.
    outer: Vec<Frame>,
    frame: Frame,
    names: Vec<Option<Box<str>>>,
    /// Tree nodes that Go would have allocated; with the repeat product it decides when Go starts to measure sizes.
    nodes: u64,
    repeat_product: u64,
    measuring: bool,
    ranges: usize,
    /// The Unicode groups read so far, by name, folding and negation; at most a few hundred.
    named: Vec<((&'p str, bool, bool), Set)>,
}

impl<'p> Parser<'p> {
    fn new(pattern: &'p str) -> Self {
        let flags = Flags {
            fold_case: false,
            multi_line: false,
            dot_all: false,
            swap_greed: false,
        };
        Self {
            pattern,
            rest: pattern,
            flags,
            outer: Vec::new(),
            frame: Frame::new(flags, None),
            names: vec![None],
            nodes: 0,
            repeat_product: 1,
            measuring: false,
            ranges: 0,
            named: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Parsed, Error> {
        // The start of the repetition operator that was just read: a second one right after it is an error.
        let mut last_repeat: Option<&str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeat = None;
            match c {
                '(' => {
                    if before.as_bytes().get(1) == Some(&b'?') {
                        self.perl_group()?;
                    } else {
                        self.advance(1);
                        self.open(Group::Numbered);
                    }
                }
                '|' => {
                    self.advance(1);
                    self.bar()?;
                }
                ')' => {
                    self.advance(1);
                    self.close()?;
                }
                '^' => {
                    self.advance(1);
                    self.look(if self.flags.multi_line {
                        Look::StartLF
                    } else {
                        Look::Start
                    })?;
                }
                '$' => {
                    self.advance(1);
                    self.look(if self.flags.multi_line { Look::EndLF } else { Look::End })?;
                }
                '.' => {
                    self.advance(1);
                    let dot = if self.flags.dot_all {
                        Dot::AnyChar
                    } else {
                        Dot::AnyCharExceptLF
                    };
                    let mut node = Node::leaf(Hir::dot(dot), Shape::Class);
                    node.states = 12;
                    self.push(node)?;
                }
                '[' => self.bracket_class()?,
                '*' | '+' | '?' => {
                    let (min, max) = match c {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.advance(1);
                    self.repeat(min, max, false, before, last_repeat)?;
                    repeat = Some(before);
                }
                '{' => match repeat_counts(before) {
                    None => {
                        self.advance(1);
                        self.literal('{')?;
                    }
                    Some((counts, after)) => {
                        self.rest = after;
                        let (min, max) = counts
                            .filter(|(min, max)| max.is_none_or(|max| *min <= max))
                            .ok_or_else(|| self.error(ErrorCode::InvalidRepeatSize, before))?;
                        self.repeat(min, max, true, before, last_repeat)?;
                        repeat = Some(before);
                    }
                },
                '\\' => self.escape()?,
                _ => {
                    self.advance(c.len_utf8());
                    self.literal(c)?;
                }
            }
            last_repeat = repeat;
        }
        self.finish_sequence()?;
        let node = self.finish_alternatives()?;
        if !self.outer.is_empty() {
            return Err(Error::new(ErrorCode::MissingParen, self.pattern));
        }
        Ok(Parsed {
            hir: node.hir,
            names: self.names,
            height: node.height,
            states: node.states,
        })
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    /// Creates an error about the text from `start` up to the current position.
    fn error(&self, code: ErrorCode, start: &str) -> Error {
        let len = start.len().saturating_sub(self.rest.len());
        Error::new(code, start.get(..len).unwrap_or(start))
    }

    fn large(&self) -> Error {
        Error::new(ErrorCode::Large, self.pattern)
    }

    /// Adds a node to the sequence under construction.
    fn push(&mut self, node: Node) -> Result<(), Error> {
        self.check(&node)?;
        // Go has one node fewer once a third part joins two literals.
        let joins = matches!(self.frame.sequence.as_slice(), [.., a, b] if merges_in_sequence(a, b));
        if !joins {
            self.nodes += 1;
        }
        self.frame.sequence.push(node);
        Ok(())
    }

    /// Checks Go's limits on size and height.
    fn check(&mut self, node: &Node) -> Result<(), Error> {
        if !self.measuring && self.nodes >= MAX_SIZE / self.repeat_product {
            self.measuring = true;
            let frames = self.outer.iter().chain([&self.frame]);
            if frames
                .flat_map(|frame| frame.alternatives.iter().chain(&frame.sequence))
                .any(|node| node.size > MAX_SIZE)
            {
                return Err(self.large());
            }
        }
        if self.measuring && node.size > MAX_SIZE {
            return Err(self.large());
        }
        if node.height > MAX_HEIGHT {
            return Err(Error::new(ErrorCode::NestingDepth, self.pattern));
        }
        Ok(())
    }

    fn look(&mut self, look: Look) -> Result<(), Error> {
        self.push(Node::leaf(Hir::look(look), Shape::Other))
    }

    fn literal(&mut self, c: char) -> Result<(), Error> {
        let fold_case = self.flags.fold_case;
        let shape = Shape::Literal {
            fold_case,
            single: true,
        };
        let hir = if fold_case {
            Hir::class(Class::Unicode(class::fold(&class::set(&[(c, c)]))))
        } else {
            let mut bytes = [0; 4];
            Hir::literal(c.encode_utf8(&mut bytes).as_bytes())
        };
        let mut node = Node::leaf(hir, shape);
        node.states = c.len_utf8() as u64 + 1;
        self.push(node)
    }

    fn class(&mut self, set: Set) -> Result<(), Error> {
        let ranges = set.ranges().len();
        self.ranges += ranges;
        if self.ranges > MAX_RANGES {
            return Err(self.large());
        }
        let one = match set.ranges() {
            [only] if only.start() == only.end() => Some(only.start()),
            _ => None,
        };
        let shape = if one.is_some() {
            Shape::Literal {
                fold_case: false,
                single: true,
            }
        } else {
            Shape::Class
        };
        let wide = set.ranges().iter().filter(|range| !range.end().is_ascii()).count() as u64;
        let mut node = Node::leaf(Hir::class(Class::Unicode(set)), shape);
        node.states = 2 + 2 * wide;
        self.push(node)
    }

    /// Repeats the last part of the sequence; `before` starts at the operator, which has been read except for a `?`
    /// after it.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        counted: bool,
        before: &str,
        last_repeat: Option<&str>,
    ) -> Result<(), Error> {
        let mut greedy = !self.flags.swap_greed;
        if self.rest.starts_with('?') {
            self.advance(1);
            greedy = !greedy;
        }
        if let Some(last) = last_repeat {
            return Err(self.error(ErrorCode::InvalidRepeatOp, last));
        }
        let Some(sub) = self.frame.sequence.pop() else {
            return Err(self.error(ErrorCode::MissingRepeatArgument, before));
        };
        self.nodes += 1;
        let copies = max.unwrap_or(min);
        if counted && !self.measuring {
            self.repeat_product = self.repeat_product.saturating_mul(copies.max(1).into()).min(MAX_SIZE);
        }
        let (min64, copies64) = (u64::from(min), u64::from(copies));
        let size = match (counted, max) {
            (false, None) if min == 0 => 2 + sub.size,
            (false, _) => 1 + sub.size,
            (true, None) if min == 0 => 2 + sub.size,
            (true, None) => 1 + min64.saturating_mul(sub.size),
            (true, Some(_)) => copies64.saturating_mul(sub.size) + copies64.saturating_sub(min64),
        };
        let node = Node {
            shape: Shape::Other,
            size: size.max(1),
            // A count of zero drops the repeated part.
            states: if max == Some(0) {
                1
            } else {
                (sub.states + 2).saturating_mul(copies64.max(1))
            },
            height: sub.height + 1,
            // A count of zero drops the repeated part, counts of one do not multiply.
            repeats: if max == Some(0) {
                1
            } else {
                sub.repeats.saturating_mul(copies.max(1))
            },
            hir: Hir::repetition(Repetition {
                min,
                max,
                greedy,
                sub: Box::new(sub.hir),
            }),
        };
        self.check(&node)?;
        if counted && copies.max(min) >= 2 && node.repeats > MAX_REPEAT {
            return Err(self.error(ErrorCode::InvalidRepeatSize, before));
        }
        self.frame.sequence.push(node);
        Ok(())
    }

    fn open(&mut self, group: Group<'_>) {
        self.nodes += 1;
        let name = match group {
            Group::Plain => None,
            Group::Numbered => Some(None),
            Group::Named(name) => Some(Some(name.into())),
        };
        let index = name.map(|name| {
            self.names.push(name);
            (self.names.len() - 1) as u32
        });
        let frame = Frame::new(self.flags, index);
        self.outer.push(std::mem::replace(&mut self.frame, frame));
    }

    fn bar(&mut self) -> Result<(), Error> {
        if self.frame.alternatives.is_empty() {
            self.nodes += 1;
        }
        self.finish_sequence()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.finish_sequence()?;
        let mut node = self.finish_alternatives()?;
        let Some(outer) = self.outer.pop() else {
            return Err(Error::new(ErrorCode::UnexpectedParen, self.pattern));
        };
        let inner = std::mem::replace(&mut self.frame, outer);
        self.flags = inner.outer;
        if let Some(index) = inner.capture {
            node = Node {
                shape: Shape::Other,
                size: node.size + 2,
                states: node.states + 2,
                height: node.height + 1,
                repeats: node.repeats,
                // Names stay outside the HIR: Go allows the same name twice, the automata do not.
                hir: Hir::capture(Capture {
                    index,
                    name: None,
                    sub: Box::new(node.hir),
                }),
            };
        }
        self.push(node)
    }

    /// Turns the sequence into one node and adds it as an alternative.
    fn finish_sequence(&mut self) -> Result<(), Error> {
        let parts = std::mem::take(&mut self.frame.sequence);
        let node = self.combine(parts, Shape::Concat, merges_in_sequence, Hir::concat)?;
        self.frame.alternatives.push(node);
        Ok(())
    }

    /// Turns the alternatives into one node.
    fn finish_alternatives(&mut self) -> Result<Node, Error> {
        let parts = std::mem::take(&mut self.frame.alternatives);
        self.combine(parts, Shape::Alternate, merges_in_alternation, Hir::alternation)
    }

    fn combine(
        &mut self,
        mut parts: Vec<Node>,
        shape: Shape,
        merges: fn(&Node, &Node) -> bool,
        build: fn(Vec<Hir>) -> Hir,
    ) -> Result<Node, Error> {
        if parts.len() <= 1 {
            return Ok(parts.pop().unwrap_or_else(|| Node::leaf(Hir::empty(), Shape::Other)));
        }
        // Go merges neighbours and hoists the parts of a nested node of the same kind.
        let merged = parts.windows(2).filter(|pair| merges(&pair[0], &pair[1])).count();
        let single = merged + 1 == parts.len();
        let height = parts
            .iter()
            .map(|part| part.height + u32::from(part.shape != shape && !single))
            .max()
            .unwrap_or(1);
        let mut size = parts.iter().map(|part| part.size).sum::<u64>();
        if shape == Shape::Alternate {
            size = (size - merged as u64) + (parts.len() - merged - 1) as u64;
        }
        let node = Node {
            shape: match (single, shape) {
                (false, shape) => shape,
                (true, Shape::Alternate) => Shape::Class,
                (true, _) => match parts[0].shape {
                    Shape::Literal { fold_case, .. } => Shape::Literal {
                        fold_case,
                        single: false,
                    },
                    other => other,
                },
            },
            size,
            states: parts.iter().map(|part| part.states).sum::<u64>() + 2,
            height,
            repeats: parts.iter().map(|part| part.repeats).max().unwrap_or(1),
            hir: build(parts.into_iter().map(|part| part.hir).collect()),
        };
        if !single {
            self.nodes += 1;
        }
        self.check(&node)?;
        Ok(node)
    }

    /// Reads a construct that starts with `(?`: a named group, flags, or flags and a group.
    fn perl_group(&mut self) -> Result<(), Error> {
        let start = self.rest;
        let name_at = if start.len() > 4 && start.starts_with("(?P<") {
            Some(4)
        } else if start.len() > 3 && start.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(name_at) = name_at {
            let Some(end) = start.find('>') else {
                return Err(Error::new(ErrorCode::InvalidNamedCapture, start));
            };
            self.advance(end + 1);
            let name = start.get(name_at..end).unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(self.error(ErrorCode::InvalidNamedCapture, start));
            }
            self.open(Group::Named(name));
            return Ok(());
        }
        self.advance(2);
        let mut flags = self.flags;
        let mut on = true;
        let mut saw_flag = false;
        while let Some(c) = self.rest.chars().next() {
            self.advance(c.len_utf8());
            match c {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_all = on,
                'U' => flags.swap_greed = on,
                '-' if on => {
                    on = false;
                    saw_flag = false;
                    continue;
                }
                ':' | ')' if on || saw_flag => {
                    if c == ':' {
                        self.open(Group::Plain);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err(self.error(ErrorCode::InvalidPerlOp, start))
    }
}

/// Reports whether Go merges two neighbours into one string.
fn merges_in_sequence(a: &Node, b: &Node) -> bool {
    matches!(
        (a.shape, b.shape),
        (Shape::Literal { fold_case: x, .. }, Shape::Literal { fold_case: y, .. }) if x == y
    )
}

/// Reports whether Go merges two alternatives into one class.
fn merges_in_alternation(a: &Node, b: &Node) -> bool {
    let one = |node: &Node| matches!(node.shape, Shape::Class | Shape::Literal { single: true, .. });
    one(a) && one(b)
}

/// A repeat operator at the start of the text: its counts (`None` if out of bounds) and the text after it.
type Counts = Option<(u32, Option<u32>)>;

/// Reads `{n}`, `{n,}` or `{n,m}`; `None` for anything else, which makes the brace a literal.
fn repeat_counts(text: &str) -> Option<(Counts, &str)> {
    let (min, rest) = count(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min.map(|min| (min, Some(min))), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min.map(|min| (min, None)), rest));
    }
    let (max, rest) = count(rest)?;
    let rest = rest.strip_prefix('}')?;
    Some((min.zip(max).map(|(min, max)| (min, Some(max))), rest))
}

/// Reads a decimal number without leading zeros; the inner `None` is a number that is too large.
fn count(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok().filter(|n| *n <= MAX_REPEAT), rest))
}
