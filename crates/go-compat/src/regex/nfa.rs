//! Patterns as nondeterministic automata over characters, for proofs about all strings instead of a search in one.
//!
//! Upstream counterpart: none; the language is that of `regexp.MatchString`, an unanchored search.
//!
//! Known limit: patterns with more than `STATES` states have no automaton.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::Regex;

/// The maximum number of states of an automaton.
const STATES: usize = 4_000;

/// A condition on an empty step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    None,
    /// Only before the first character.
    Start,
    /// Only after the last character.
    End,
    /// Only before the first character of a line.
    LineStart,
    /// Only after the last character of a line.
    LineEnd,
    /// Only between a word and what is not part of it, in ASCII.
    Word,
    /// Everywhere else.
    NotWord,
}

/// What is next to a place between characters, as far as anchors distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Beside {
    /// The text starts or ends.
    Nothing,
    /// An ASCII letter, a digit or `_`.
    Word,
    LineBreak,
    Other,
}

impl Beside {
    pub fn of(c: char) -> Self {
        match c {
            '\n' => Self::LineBreak,
            '_' => Self::Word,
            c if c.is_ascii_alphanumeric() => Self::Word,
            _ => Self::Other,
        }
    }
}

impl Anchor {
    /// Whether a step can be taken between two characters; `None` if that depends on the next one, which is not known.
    pub fn passes(self, before: Beside, after: Option<Beside>) -> Option<bool> {
        Some(match self {
            Self::None => true,
            Self::Start => before == Beside::Nothing,
            Self::LineStart => matches!(before, Beside::Nothing | Beside::LineBreak),
            Self::End => after? == Beside::Nothing,
            Self::LineEnd => matches!(after?, Beside::Nothing | Beside::LineBreak),
            Self::Word => (before == Beside::Word) != (after? == Beside::Word),
            Self::NotWord => (before == Beside::Word) == (after? == Beside::Word),
        })
    }
}

/// The steps out of one state.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Transitions that read a character of an inclusive range.
    pub reads: Vec<(char, char, u32)>,
    /// Transitions that read nothing.
    pub jumps: Vec<(Anchor, u32)>,
}

/// An automaton that accepts the strings in which a pattern matches somewhere.
#[derive(Debug, Clone)]
pub struct Nfa {
    /// All states; the first is the start.
    pub states: Vec<State>,
    pub accepting: u32,
}

impl Nfa {
    /// Whether a step may depend on an anchor.
    pub fn has(&self, anchors: &[Anchor]) -> bool {
        let mut jumps = self.states.iter().flat_map(|state| &state.jumps);
        jumps.any(|(anchor, _)| anchors.contains(anchor))
    }

    fn add(&mut self) -> Option<u32> {
        if self.states.len() >= STATES {
            return None;
        }
        self.states.push(State::default());
        u32::try_from(self.states.len() - 1).ok()
    }

    fn jump(&mut self, from: u32, anchor: Anchor, to: u32) {
        self.states[from as usize].jumps.push((anchor, to));
    }

    fn read(&mut self, from: u32, range: (char, char), to: u32) {
        self.states[from as usize].reads.push((range.0, range.1, to));
    }

    /// Appends a pattern after a state and returns the state behind it.
    fn append(&mut self, hir: &Hir, from: u32) -> Option<u32> {
        match hir.kind() {
            HirKind::Empty => Some(from),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                let mut at = from;
                for c in text.chars() {
                    let next = self.add()?;
                    self.read(at, (c, c), next);
                    at = next;
                }
                Some(at)
            }
            HirKind::Class(Class::Unicode(class)) => {
                let next = self.add()?;
                for range in class.ranges() {
                    self.read(from, (range.start(), range.end()), next);
                }
                Some(next)
            }
            HirKind::Class(Class::Bytes(class)) => {
                let next = self.add()?;
                for range in class.ranges() {
                    if range.end() > 127 {
                        return None;
                    }
                    self.read(from, (char::from(range.start()), char::from(range.end())), next);
                }
                Some(next)
            }
            HirKind::Look(look) => {
                let anchor = match look {
                    Look::Start => Anchor::Start,
                    Look::End => Anchor::End,
                    Look::StartLF => Anchor::LineStart,
                    Look::EndLF => Anchor::LineEnd,
                    Look::WordAscii => Anchor::Word,
                    Look::WordAsciiNegate => Anchor::NotWord,
                    _ => return None,
                };
                let next = self.add()?;
                self.jump(from, anchor, next);
                Some(next)
            }
            HirKind::Capture(capture) => self.append(&capture.sub, from),
            HirKind::Concat(parts) => parts.iter().try_fold(from, |at, part| self.append(part, at)),
            HirKind::Alternation(parts) => {
                let end = self.add()?;
                for part in parts {
                    let start = self.add()?;
                    self.jump(from, Anchor::None, start);
                    let last = self.append(part, start)?;
                    self.jump(last, Anchor::None, end);
                }
                Some(end)
            }
            HirKind::Repetition(repetition) => {
                let mut at = from;
                for _ in 0..repetition.min {
                    at = self.append(&repetition.sub, at)?;
                }
                let end = self.add()?;
                match repetition.max {
                    None => {
                        let start = self.add()?;
                        self.jump(at, Anchor::None, start);
                        self.jump(start, Anchor::None, end);
                        let last = self.append(&repetition.sub, start)?;
                        self.jump(last, Anchor::None, start);
                    }
                    Some(max) => {
                        self.jump(at, Anchor::None, end);
                        for _ in repetition.min..max {
                            let start = self.add()?;
                            self.jump(at, Anchor::None, start);
                            at = self.append(&repetition.sub, start)?;
                            self.jump(at, Anchor::None, end);
                        }
                    }
                }
                Some(end)
            }
        }
    }
}

impl Regex {
    /// Builds the automaton of all strings in which the pattern matches; `None` if it exceeds the limits.
    pub fn nfa(&self) -> Option<Nfa> {
        let mut nfa = Nfa {
            states: vec![State::default()],
            accepting: 0,
        };
        let any = ('\0', char::MAX);
        nfa.read(0, any, 0);
        let start = nfa.add()?;
        nfa.jump(0, Anchor::None, start);
        let end = nfa.append(self.hir(), start)?;
        let last = nfa.add()?;
        nfa.jump(end, Anchor::None, last);
        nfa.read(last, any, last);
        nfa.accepting = last;
        Some(nfa)
    }
}
