//! Predicates on texts and their languages: is there a text that has some of them and lacks others?
//!
//! Every predicate is an automaton over characters. The product of all of them is searched breadth first, so that the text
//! found is a shortest one and an exhausted search proves that there is none. A search that is cut off says so. No
//! upstream counterpart.

pub(super) mod pieces;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use kyvtest_go_compat::{
    regex::{
        Regex,
        nfa::{Anchor, Beside, Nfa, State as Steps},
    },
    text::{case, quantity::Quantity, wildcard},
};
use rustc_hash::FxHashMap;

use crate::language::{Base, SearchResult};

/// How many states of a product may be visited.
const LIMIT: usize = 30_000;

/// The longest text whose length is counted.
const COUNTED: usize = 1_000;

/// A predicate on a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Predicate {
    Is(Arc<str>),
    StartsWith(Arc<str>),
    EndsWith(Arc<str>),
    Contains(Arc<str>),
    /// An unanchored regular expression of Go's.
    Matches(Arc<str>),
    /// Kyverno's wildcards.
    Glob(Arc<str>),
    /// The text, read as a pattern with Kyverno's wildcards, matches the constant.
    PatternOf(Arc<str>),
    /// The text has at least N characters.
    Length(usize),
    /// One of the languages that the API server accepts.
    In(Base),
    /// The text is a quantity.
    Quantity,
    /// The text in lower-case ASCII letters has the predicate.
    Lower(Box<Predicate>),
    /// The text in upper-case ASCII letters has the predicate.
    Upper(Box<Predicate>),
    /// The text in lower case, as Go has it, has the predicate.
    GoLower(Box<Predicate>),
    /// The text in upper case, as Go has it, has the predicate.
    GoUpper(Box<Predicate>),
    /// The text between two constants has the predicate.
    Between(Arc<str>, Box<Predicate>, Arc<str>),
    /// The text with another text in place of each occurrence of a character has the predicate.
    Replaced(char, Arc<str>, Box<Predicate>),
}

/// The syntax of quantities (`resource.ParseQuantity`), its limits on magnitude aside.
const QUANTITY: &str = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)$";

impl Predicate {
    /// Whether a text has the predicate.
    pub(super) fn holds(&self, text: &str) -> bool {
        match self {
            Self::Is(own) => &**own == text,
            Self::StartsWith(own) => text.starts_with(&**own),
            Self::EndsWith(own) => text.ends_with(&**own),
            Self::Contains(own) => text.contains(&**own),
            Self::Matches(pattern) => Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)),
            Self::Glob(glob) => wildcard::matches(glob, text),
            Self::PatternOf(constant) => wildcard::matches(text, constant),
            Self::Length(length) => text.chars().count() >= *length,
            Self::In(base) => base.contains(text),
            Self::Quantity => Quantity::parse(text).is_ok(),
            Self::Lower(inner) => inner.holds(&text.to_ascii_lowercase()),
            Self::Upper(inner) => inner.holds(&text.to_ascii_uppercase()),
            Self::GoLower(inner) => inner.holds(&case::lower(text)),
            Self::GoUpper(inner) => inner.holds(&case::upper(text)),
            Self::Between(before, inner, after) => inner.holds(&format!("{before}{text}{after}")),
            Self::Replaced(old, new, inner) => inner.holds(&text.replace(*old, new)),
        }
    }

    /// The texts that are named in the predicate, for witnesses.
    fn constants(&self, into: &mut Vec<String>) {
        match self {
            Self::Is(text)
            | Self::StartsWith(text)
            | Self::EndsWith(text)
            | Self::Contains(text)
            | Self::PatternOf(text) => {
                into.push(text.to_string());
            }
            Self::Glob(glob) => into.push(glob.replace('*', "").replace('?', "x")),
            Self::Lower(inner)
            | Self::Upper(inner)
            | Self::GoLower(inner)
            | Self::GoUpper(inner)
            | Self::Replaced(_, _, inner)
            | Self::Between(_, inner, _) => inner.constants(into),
            Self::Quantity => into.extend(["1", "0"].map(str::to_owned)),
            Self::Matches(_) | Self::Length(_) | Self::In(_) => {}
        }
    }

    /// Whether the predicate has an automaton: what has none is not decided here.
    pub(super) fn is_regular(&self) -> bool {
        match self {
            Self::In(_) | Self::PatternOf(_) | Self::Quantity => true,
            Self::Length(length) => *length <= COUNTED,
            Self::Lower(inner) | Self::Upper(inner) | Self::Between(_, inner, _) | Self::Replaced(_, _, inner) => {
                inner.is_regular()
            }
            Self::GoLower(inner) | Self::GoUpper(inner) => inner.is_ascii() && inner.is_regular(),
            Self::Is(_)
            | Self::StartsWith(_)
            | Self::EndsWith(_)
            | Self::Contains(_)
            | Self::Matches(_)
            | Self::Glob(_) => Machine::new(self).is_some(),
        }
    }
}

impl Predicate {
    /// Whether all characters beyond ASCII are the same to the predicate.
    fn is_ascii(&self) -> bool {
        match self {
            Self::Is(text)
            | Self::StartsWith(text)
            | Self::EndsWith(text)
            | Self::Contains(text)
            | Self::Glob(text)
            | Self::PatternOf(text) => text.is_ascii(),
            Self::Length(_) | Self::In(_) | Self::Quantity => true,
            Self::Between(before, inner, after) => before.is_ascii() && after.is_ascii() && inner.is_ascii(),
            Self::Replaced(old, new, inner) => old.is_ascii() && new.is_ascii() && inner.is_ascii(),
            Self::Lower(inner) | Self::Upper(inner) => inner.is_ascii(),
            Self::Matches(_) | Self::GoLower(_) | Self::GoUpper(_) => false,
        }
    }
}

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
enum Machine {
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
}

/// A state: sorted states of an [`Nfa`] and a mark of what is before them, if that matters; or the state of a base.
type State = Vec<u32>;

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

    fn new(predicate: &Predicate) -> Option<Self> {
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
        }
    }

    /// The automaton of some texts.
    fn words<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
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

    fn start(&self) -> State {
        match self {
            Self::Nfa(nfa, _) => marked(closure(nfa, &[0], Beside::Nothing, None), Beside::Nothing),
            Self::Words(_) | Self::Base(_) => vec![0],
            Self::Lower(inner)
            | Self::Upper(inner)
            | Self::GoLower(inner)
            | Self::GoUpper(inner)
            | Self::Replaced(_, _, inner) => inner.start(),
            Self::Between(before, inner, _) => before.iter().fold(inner.start(), |state, c| inner.step(&state, *c)),
        }
    }

    fn step(&self, state: &State, c: char) -> State {
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
        }
    }

    fn accepts(&self, state: &State) -> bool {
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
fn alphabet(machines: &[(Machine, bool)]) -> Vec<char> {
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

/// A set of predicates with their signs.
type Query = Vec<(Predicate, bool)>;

/// Decides sets of predicates; remembers what was decided.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: FxHashMap<Query, SearchResult>,
}

impl Texts {
    /// A text that has the predicates marked true and lacks the others.
    pub(super) fn find(&mut self, mut query: Query) -> SearchResult {
        query.sort();
        query.dedup();
        if let Some(found) = self.known.get(&query) {
            return found.clone();
        }
        let found = find(&query);
        self.known.insert(query, found.clone());
        found
    }
}

fn fits(query: &Query, text: &str) -> bool {
    query.iter().all(|(predicate, wanted)| predicate.holds(text) == *wanted)
}

fn find(query: &Query) -> SearchResult {
    let exact = query.iter().find_map(|(predicate, wanted)| match predicate {
        Predicate::Is(text) if *wanted => Some(text),
        _ => None,
    });
    if let Some(text) = exact {
        return if fits(query, text) {
            SearchResult::Yes(text.to_string())
        } else {
            SearchResult::No
        };
    }
    let mut tries: Vec<String> = ["x", "", "a", "sample", "1"].map(str::to_owned).to_vec();
    for (predicate, _) in query {
        predicate.constants(&mut tries);
    }
    if let Some(text) = tries.into_iter().find(|text| fits(query, text)) {
        return SearchResult::Yes(text);
    }
    // Texts that are not meant are one automaton together.
    let mut others: Vec<&str> = Vec::new();
    let mut machines: Vec<(Machine, bool)> = Vec::new();
    for (predicate, wanted) in query {
        if let (Predicate::Is(text), false) = (predicate, *wanted) {
            others.push(text);
        } else if let Some(machine) = Machine::new(predicate) {
            machines.push((machine, *wanted));
        } else {
            return SearchResult::Incomplete;
        }
    }
    if !others.is_empty() {
        machines.push((Machine::words(others), false));
    }
    product(&machines)
}

/// A state of the product, and from where and by which character it was reached.
type Reached = (Vec<State>, Option<(usize, char)>);

fn product(machines: &[(Machine, bool)]) -> SearchResult {
    let alphabet = alphabet(machines);
    let start: Vec<State> = machines.iter().map(|(machine, _)| machine.start()).collect();
    let mut numbers: FxHashMap<Vec<State>, usize> = FxHashMap::default();
    let mut nodes: Vec<Reached> = vec![(start.clone(), None)];
    numbers.insert(start, 0);
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let states = nodes[at].0.clone();
        let accepted = machines
            .iter()
            .zip(&states)
            .all(|((machine, wanted), state)| machine.accepts(state) == *wanted);
        if accepted {
            let mut text = Vec::new();
            let mut place = at;
            while let Some((from, c)) = nodes[place].1 {
                text.push(c);
                place = from;
            }
            return SearchResult::Yes(text.iter().rev().collect());
        }
        for &c in &alphabet {
            let next: Vec<State> = machines
                .iter()
                .zip(&states)
                .map(|((machine, _), state)| machine.step(state, c))
                .collect();
            let dead = machines
                .iter()
                .zip(&next)
                .any(|((_, wanted), state)| *wanted && state.is_empty());
            if dead || numbers.contains_key(&next) {
                continue;
            }
            if nodes.len() >= LIMIT {
                return SearchResult::Incomplete;
            }
            numbers.insert(next.clone(), nodes.len());
            queue.push_back(nodes.len());
            nodes.push((next, Some((at, c))));
        }
    }
    SearchResult::No
}

#[cfg(test)]
mod tests;
