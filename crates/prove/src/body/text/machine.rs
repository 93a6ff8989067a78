//! The automata of predicates on texts.
//!
//! A state is a set of states of an [`Nfa`], with what an automaton around it has counted in front. No upstream counterpart.

use std::collections::BTreeSet;

use kyvtest_go_compat::regex::{
    Regex,
    nfa::{Anchor, Beside, Nfa, State as Steps},
};

use super::{COUNTED, Predicate, QUANTITY};
use crate::language::Base;

/// The lower case of a character, where it is an ASCII letter; all other characters count as themselves.
fn go_lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    }
}

/// The upper case of a character, where it is an ASCII letter; all other characters count as themselves.
fn go_upper(c: char) -> char {
    match c {
        '\u{131}' => 'I',
        '\u{17f}' => 'S',
        c => c.to_ascii_uppercase(),
    }
}

/// The automaton of a predicate.
#[derive(Debug)]
pub(super) enum Machine {
    /// The flag: whether it has anchors that look at characters.
    Nfa(Nfa, bool),
    /// Some texts: the characters that go on from each beginning of one, and whether it is one itself.
    Words(Vec<(Vec<(char, u32)>, bool)>),
    Base(Base),
    Lower(Box<Machine>),
    Upper(Box<Machine>),
    GoLower(Box<Machine>),
    GoUpper(Box<Machine>),
    Between(Vec<char>, Box<Machine>, Vec<char>),
    Replaced(char, Vec<char>, Box<Machine>),
    /// Counts characters, up to the end of the slice.
    Slice(u32, Option<u32>, Box<Machine>),
    /// Counts separators, up to the end of the piece.
    Piece(char, u32, Box<Machine>),
    /// Keeps the state after the last character that is not white space beside the state after all of them.
    Trimmed(Box<Machine>),
}

/// A state within a state, with a number in front; dead if the inner one is.
fn numbered(number: u32, inner: &State) -> State {
    if inner.is_empty() {
        return State::new();
    }
    let mut state = vec![number];
    state.extend(inner);
    state
}

/// The parts of [`numbered`].
fn unnumbered(state: &State) -> Option<(u32, State)> {
    state.split_first().map(|(number, inner)| (*number, inner.to_vec()))
}

/// The states of [`Machine::Trimmed`]: after the last character that is not white space, and after all characters.
struct Trimmed {
    started: bool,
    kept: State,
    current: State,
}

impl Trimmed {
    fn of(state: &State) -> Option<Self> {
        let [started, length, rest @ ..] = state.as_slice() else {
            return None;
        };
        let (kept, current) = rest.split_at_checked(*length as usize)?;
        Some(Self {
            started: *started == 1,
            kept: kept.to_vec(),
            current: current.to_vec(),
        })
    }

    fn state(&self) -> State {
        if self.kept.is_empty() && self.current.is_empty() {
            return State::new();
        }
        let mut state = vec![u32::from(self.started), self.kept.len() as u32];
        state.extend(&self.kept);
        state.extend(&self.current);
        state
    }
}

/// White space, as Go's `unicode.IsSpace` has it: single characters and ranges.
const SPACES: [(char, char); 10] = [
    ('\t', '\r'),
    (' ', ' '),
    ('\u{85}', '\u{85}'),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
];

/// A state: sorted states of an [`Nfa`] and a mark of what is before them, if that matters; or the state of a base.
pub(super) type State = Vec<u32>;

/// The smallest mark. Automata have fewer states.
const MARKS: u32 = u32::MAX - 3;

/// What is before a state, as an anchor sees it.
fn mark(before: Beside) -> u32 {
    match before {
        Beside::Nothing => u32::MAX,
        Beside::Word => u32::MAX - 1,
        Beside::LineBreak => u32::MAX - 2,
        Beside::Other => MARKS,
    }
}

fn before(state: &State) -> Beside {
    let marks = [Beside::Nothing, Beside::Word, Beside::LineBreak];
    let last = state.last().copied();
    let known = marks.into_iter().find(|before| last == Some(mark(*before)));
    known.unwrap_or(Beside::Other)
}

/// Anchors that depend on the character before them, the text's start aside, or on the one behind.
const BESIDE: [Anchor; 4] = [Anchor::LineStart, Anchor::LineEnd, Anchor::Word, Anchor::NotWord];

impl Machine {
    fn of(nfa: Nfa) -> Self {
        let looks = nfa.has(&BESIDE);
        Self::Nfa(nfa, looks)
    }

    pub(super) fn new(predicate: &Predicate) -> Option<Self> {
        let quoted = |text: &str| kyvtest_go_compat::regex::quote_meta(text).into_owned();
        let compile = |pattern: &str| Some(Machine::of(Regex::new(pattern).ok()?.nfa()?));
        // A dot is any character, line breaks included.
        let any = "(?s:.)";
        let many = "(?s:.)*";
        match predicate {
            Predicate::Is(text) => compile(&format!("^{}$", quoted(text))),
            Predicate::StartsWith(text) => compile(&format!("^{}", quoted(text))),
            Predicate::EndsWith(text) => compile(&format!("{}$", quoted(text))),
            Predicate::Contains(text) => compile(&quoted(text)),
            Predicate::Matches(pattern) => compile(pattern),
            Predicate::Glob(glob) => {
                let mut pattern = "^".to_owned();
                for c in glob.chars() {
                    match c {
                        '*' => pattern.push_str(many),
                        '?' => pattern.push_str(any),
                        c => pattern.push_str(&quoted(&c.to_string())),
                    }
                }
                pattern.push('$');
                compile(&pattern)
            }
            Predicate::PatternOf(constant) => Some(Machine::of(patterns_of(constant))),
            Predicate::Length(length) if *length <= COUNTED => compile(&format!("^{}", any.repeat(*length))),
            Predicate::Length(_) => None,
            Predicate::In(base) => Some(Machine::Base(*base)),
            Predicate::Quantity => compile(QUANTITY),
            Predicate::Lower(inner) => Some(Machine::Lower(Box::new(Machine::new(inner)?))),
            Predicate::Upper(inner) => Some(Machine::Upper(Box::new(Machine::new(inner)?))),
            Predicate::GoLower(inner) if inner.is_ascii() => Some(Machine::GoLower(Box::new(Machine::new(inner)?))),
            Predicate::GoUpper(inner) if inner.is_ascii() => Some(Machine::GoUpper(Box::new(Machine::new(inner)?))),
            Predicate::GoLower(_) | Predicate::GoUpper(_) => None,
            Predicate::Between(before, inner, after) => Some(Machine::Between(
                before.chars().collect(),
                Box::new(Machine::new(inner)?),
                after.chars().collect(),
            )),
            Predicate::Replaced(old, new, inner) => Some(Machine::Replaced(
                *old,
                new.chars().collect(),
                Box::new(Machine::new(inner)?),
            )),
            Predicate::Slice(from, to, inner) => {
                let to = match to {
                    Some(to) => Some(u32::try_from(*to).ok()?),
                    None => None,
                };
                let from = u32::try_from(*from).ok()?;
                Some(Machine::Slice(from, to, Box::new(Machine::new(inner)?)))
            }
            Predicate::Piece(separator, position, inner) => {
                Some(Machine::Piece(*separator, *position, Box::new(Machine::new(inner)?)))
            }
            Predicate::Trimmed(inner) => Some(Machine::Trimmed(Box::new(Machine::new(inner)?))),
        }
    }

    /// The automaton of some texts.
    pub(super) fn words<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut nodes: Vec<(Vec<(char, u32)>, bool)> = vec![Default::default()];
        for text in texts {
            let mut at = 0;
            for c in text.chars() {
                let known = nodes[at].0.iter().find(|(own, _)| *own == c).map(|(_, to)| *to);
                let next = known.unwrap_or_else(|| {
                    let next = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                    nodes[at].0.push((c, next));
                    nodes.push(Default::default());
                    next
                });
                at = next as usize;
            }
            nodes[at].1 = true;
        }
        Self::Words(nodes)
    }

    pub(super) fn start(&self) -> State {
        match self {
            Self::Nfa(nfa, _) => marked(closure(nfa, &[0], Beside::Nothing, None), Beside::Nothing),
            Self::Words(_) | Self::Base(_) => vec![0],
            Self::Lower(inner)
            | Self::Upper(inner)
            | Self::GoLower(inner)
            | Self::GoUpper(inner)
            | Self::Replaced(_, _, inner) => inner.start(),
            Self::Between(before, inner, _) => before.iter().fold(inner.start(), |state, c| inner.step(&state, *c)),
            Self::Slice(_, _, inner) | Self::Piece(_, _, inner) => numbered(0, &inner.start()),
            Self::Trimmed(inner) => Trimmed {
                started: false,
                kept: inner.start(),
                current: inner.start(),
            }
            .state(),
        }
    }

    pub(super) fn step(&self, state: &State, c: char) -> State {
        match self {
            Self::Nfa(nfa, looks) => read(nfa, *looks, state, c),
            Self::Words(nodes) => {
                let next = state.first().and_then(|at| {
                    let (follows, _) = &nodes[*at as usize];
                    follows.iter().find(|(own, _)| *own == c)
                });
                next.map_or(Vec::new(), |(_, to)| vec![*to])
            }
            Self::Base(base) => match state.first() {
                Some(own) => base
                    .step_state(u8::try_from(*own).unwrap_or_default(), c)
                    .map_or(Vec::new(), |next| vec![u32::from(next)]),
                None => Vec::new(),
            },
            Self::Lower(inner) => inner.step(state, c.to_ascii_lowercase()),
            Self::Upper(inner) => inner.step(state, c.to_ascii_uppercase()),
            Self::GoLower(inner) => inner.step(state, go_lower(c)),
            Self::GoUpper(inner) => inner.step(state, go_upper(c)),
            Self::Between(_, inner, _) => inner.step(state, c),
            Self::Replaced(old, new, inner) if *old == c => {
                new.iter().fold(state.clone(), |state, c| inner.step(&state, *c))
            }
            Self::Replaced(_, _, inner) => inner.step(state, c),
            Self::Slice(from, to, inner) => {
                let Some((count, own)) = unnumbered(state) else {
                    return State::new();
                };
                let next = (count + 1).min(to.unwrap_or(*from).max(*from));
                if count < *from || to.is_some_and(|to| count >= to) {
                    numbered(next, &own)
                } else {
                    numbered(next, &inner.step(&own, c))
                }
            }
            Self::Piece(separator, position, inner) => {
                let Some((count, own)) = unnumbered(state) else {
                    return State::new();
                };
                if c == *separator {
                    numbered((count + 1).min(position + 1), &own)
                } else if count == *position {
                    numbered(count, &inner.step(&own, c))
                } else {
                    state.clone()
                }
            }
            Self::Trimmed(inner) => match Trimmed::of(state) {
                Some(before) if c.is_whitespace() => {
                    if !before.started {
                        return state.clone();
                    }
                    let current = inner.step(&before.current, c);
                    Trimmed { current, ..before }.state()
                }
                Some(before) => {
                    let current = inner.step(&before.current, c);
                    Trimmed {
                        started: true,
                        kept: current.clone(),
                        current,
                    }
                    .state()
                }
                None => State::new(),
            },
        }
    }

    pub(super) fn accepts(&self, state: &State) -> bool {
        match self {
            Self::Nfa(nfa, _) => {
                let ended = closure(nfa, own(state), before(state), Some(Beside::Nothing));
                ended.contains(&nfa.accepting)
            }
            Self::Words(nodes) => state.first().is_some_and(|at| nodes[*at as usize].1),
            Self::Base(base) => state
                .first()
                .is_some_and(|own| base.accepts_state(u8::try_from(*own).unwrap_or_default())),
            Self::Lower(inner)
            | Self::Upper(inner)
            | Self::GoLower(inner)
            | Self::GoUpper(inner)
            | Self::Replaced(_, _, inner) => inner.accepts(state),
            Self::Between(_, inner, after) => {
                let last = after.iter().fold(state.clone(), |state, c| inner.step(&state, *c));
                inner.accepts(&last)
            }
            Self::Slice(from, to, inner) => unnumbered(state)
                .is_some_and(|(count, own)| count >= to.unwrap_or(*from).max(*from) && inner.accepts(&own)),
            Self::Piece(_, position, inner) => {
                unnumbered(state).is_some_and(|(count, own)| count >= *position && inner.accepts(&own))
            }
            Self::Trimmed(inner) => Trimmed::of(state).is_some_and(|state| inner.accepts(&state.kept)),
        }
    }

    /// Adds the characters at which the automaton begins to read differently.
    fn breaks(&self, into: &mut BTreeSet<u32>) {
        match self {
            Self::Nfa(nfa, looks) => {
                for &(low, high, _) in nfa.states.iter().flat_map(|state| &state.reads) {
                    into.insert(u32::from(low));
                    into.insert(u32::from(high) + 1);
                }
                if *looks {
                    breaks_at("\n_", into);
                    breaks_at_letters(into);
                }
            }
            Self::Words(nodes) => {
                for (c, _) in nodes.iter().flat_map(|(follows, _)| follows) {
                    into.extend([u32::from(*c), u32::from(*c) + 1]);
                }
            }
            Self::Base(_) => {
                breaks_at("-./%_", into);
                breaks_at_letters(into);
            }
            Self::Lower(inner) | Self::Upper(inner) | Self::GoLower(inner) | Self::GoUpper(inner) => {
                for c in ['\u{130}', '\u{131}', '\u{17f}', '\u{212a}'] {
                    into.extend([u32::from(c), u32::from(c) + 1]);
                }
                let mut own = BTreeSet::new();
                inner.breaks(&mut own);
                for (low, high) in [('A', 'Z'), ('a', 'z')] {
                    own.extend([u32::from(low), u32::from(high) + 1]);
                }
                for at in own {
                    into.insert(at);
                    if let Some(c) = char::from_u32(at).filter(char::is_ascii) {
                        into.insert(u32::from(c.to_ascii_lowercase()));
                        into.insert(u32::from(c.to_ascii_uppercase()));
                    }
                    // The end of a range that ends in a letter.
                    if let Some(c) = char::from_u32(at.saturating_sub(1)).filter(char::is_ascii_alphabetic) {
                        into.insert(u32::from(c.to_ascii_lowercase()) + 1);
                        into.insert(u32::from(c.to_ascii_uppercase()) + 1);
                    }
                }
            }
            Self::Between(_, inner, _) => inner.breaks(into),
            Self::Replaced(old, _, inner) => {
                into.extend([u32::from(*old), u32::from(*old) + 1]);
                inner.breaks(into);
            }
            Self::Slice(_, _, inner) => inner.breaks(into),
            Self::Piece(separator, _, inner) => {
                into.extend([u32::from(*separator), u32::from(*separator) + 1]);
                inner.breaks(into);
            }
            Self::Trimmed(inner) => {
                for (low, high) in SPACES {
                    into.extend([u32::from(low), u32::from(high) + 1]);
                }
                inner.breaks(into);
            }
        }
    }
}

fn breaks_at(characters: &str, into: &mut BTreeSet<u32>) {
    into.extend(characters.chars().flat_map(|c| [u32::from(c), u32::from(c) + 1]));
}

fn breaks_at_letters(into: &mut BTreeSet<u32>) {
    for (low, high) in [('0', '9'), ('A', 'Z'), ('a', 'z')] {
        into.extend([u32::from(low), u32::from(high) + 1]);
    }
}

/// The patterns that match a constant: a state for each position in it, and `*` goes to every later one.
fn patterns_of(constant: &str) -> Nfa {
    let characters: Vec<char> = constant.chars().collect();
    let count = u32::try_from(characters.len()).unwrap_or(u32::MAX);
    let mut states: Vec<Steps> = Vec::new();
    for at in 0..=count {
        let mut reads: Vec<(char, char, u32)> = (at..=count).map(|later| ('*', '*', later)).collect();
        if let Some(&c) = characters.get(at as usize) {
            reads.push(('?', '?', at + 1));
            reads.push((c, c, at + 1));
        }
        states.push(Steps {
            reads,
            jumps: Vec::new(),
        });
    }
    Nfa {
        states,
        accepting: count,
    }
}

/// The states of a set, without its mark.
fn own(state: &State) -> &[u32] {
    match state.split_last() {
        Some((last, rest)) if *last >= MARKS => rest,
        _ => state,
    }
}

/// A set with a mark; none has one that is empty.
fn marked(mut state: State, before: Beside) -> State {
    if !state.is_empty() {
        state.push(mark(before));
    }
    state
}

fn read(nfa: &Nfa, looks: bool, state: &State, c: char) -> State {
    let after = Beside::of(c);
    let widened;
    let from = if looks {
        widened = closure(nfa, own(state), before(state), Some(after));
        &widened
    } else {
        own(state)
    };
    let mut next = Vec::new();
    for &at in from {
        for &(low, high, to) in &nfa.states[at as usize].reads {
            if (low..=high).contains(&c) {
                next.push(to);
            }
        }
    }
    if looks {
        marked(closure(nfa, &next, after, None), after)
    } else {
        closure(nfa, &next, Beside::Other, None)
    }
}

/// All states that a set reaches without reading, sorted; steps that depend on an unknown next character are not taken.
fn closure(nfa: &Nfa, from: &[u32], before: Beside, after: Option<Beside>) -> State {
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut open: Vec<u32> = from.to_vec();
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        for &(anchor, to) in &nfa.states[at as usize].jumps {
            if anchor.passes(before, after) == Some(true) {
                open.push(to);
            }
        }
    }
    seen.into_iter().collect()
}

/// One character of each class that no automaton tells apart, the most readable first.
pub(super) fn alphabet(machines: &[(Machine, bool)]) -> Vec<char> {
    let mut breaks = BTreeSet::from([0, 0xd800, 0xe000, 0x11_0000]);
    for (machine, _) in machines {
        machine.breaks(&mut breaks);
    }
    let breaks: Vec<u32> = breaks.into_iter().collect();
    let readable = "xabcdefghijklmnopqrstuvwyz0123456789XABCDEFGHIJKLMNOPQRSTUVWYZ-./_:@ ,;=+*?~#!";
    let mut all: Vec<(usize, char)> = Vec::new();
    for pair in breaks.windows(2) {
        let &[low, high] = pair else { continue };
        if (0xd800..0xe000).contains(&low) {
            continue;
        }
        let inside = |c: &char| (low..high).contains(&u32::from(*c));
        let nice = readable.chars().enumerate().find(|(_, c)| inside(c));
        all.extend(nice.or_else(|| char::from_u32(low).map(|c| (usize::MAX, c))));
    }
    all.sort_unstable();
    all.into_iter().map(|(_, c)| c).collect()
}
