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
        nfa::{Anchor, Nfa, State as Steps},
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
    /// The text has at least so many characters.
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
            Self::Lower(inner) | Self::Upper(inner) | Self::Between(_, inner, _) => inner.is_regular(),
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
    Nfa(Nfa),
    /// Some texts: the characters that go on from each beginning of one, and whether it is one itself.
    Words(Vec<(Vec<(char, u32)>, bool)>),
    Base(Base),
    Lower(Box<Machine>),
    Upper(Box<Machine>),
    GoLower(Box<Machine>),
    GoUpper(Box<Machine>),
    Between(Vec<char>, Box<Machine>, Vec<char>),
}

/// A state: sorted states of an [`Nfa`], [`START`] among them before the first character; or the state of a base.
type State = Vec<u32>;

/// Marks the state before the first character.
const START: u32 = u32::MAX;

impl Machine {
    fn new(predicate: &Predicate) -> Option<Self> {
        let quoted = |text: &str| kyvtest_go_compat::regex::quote_meta(text).into_owned();
        let compile = |pattern: &str| Regex::new(pattern).ok()?.nfa().map(Machine::Nfa);
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
            Predicate::PatternOf(constant) => Some(Machine::Nfa(patterns_of(constant))),
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
            Self::Nfa(nfa) => {
                let mut state = closure(nfa, &[0], true, false);
                state.push(START);
                state
            }
            Self::Words(_) | Self::Base(_) => vec![0],
            Self::Lower(inner) | Self::Upper(inner) | Self::GoLower(inner) | Self::GoUpper(inner) => inner.start(),
            Self::Between(before, inner, _) => before.iter().fold(inner.start(), |state, c| inner.step(&state, *c)),
        }
    }

    fn step(&self, state: &State, c: char) -> State {
        match self {
            Self::Nfa(nfa) => {
                let mut next = Vec::new();
                for &at in state.iter().filter(|at| **at != START) {
                    for &(low, high, to) in &nfa.states[at as usize].reads {
                        if (low..=high).contains(&c) {
                            next.push(to);
                        }
                    }
                }
                closure(nfa, &next, false, false)
            }
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
        }
    }

    fn accepts(&self, state: &State) -> bool {
        match self {
            Self::Nfa(nfa) => {
                let at_start = state.last() == Some(&START);
                let own: Vec<u32> = state.iter().copied().filter(|at| *at != START).collect();
                closure(nfa, &own, at_start, true).contains(&nfa.accepting)
            }
            Self::Words(nodes) => state.first().is_some_and(|at| nodes[*at as usize].1),
            Self::Base(base) => state
                .first()
                .is_some_and(|own| base.accepts_state(u8::try_from(*own).unwrap_or_default())),
            Self::Lower(inner) | Self::Upper(inner) | Self::GoLower(inner) | Self::GoUpper(inner) => {
                inner.accepts(state)
            }
            Self::Between(_, inner, after) => {
                let last = after.iter().fold(state.clone(), |state, c| inner.step(&state, *c));
                inner.accepts(&last)
            }
        }
    }

    /// Adds the characters at which the automaton begins to read differently.
    fn breaks(&self, into: &mut BTreeSet<u32>) {
        match self {
            Self::Nfa(nfa) => {
                for &(low, high, _) in nfa.states.iter().flat_map(|state| &state.reads) {
                    into.insert(u32::from(low));
                    into.insert(u32::from(high) + 1);
                }
            }
            Self::Words(nodes) => {
                for (c, _) in nodes.iter().flat_map(|(follows, _)| follows) {
                    into.extend([u32::from(*c), u32::from(*c) + 1]);
                }
            }
            Self::Base(_) => {
                for c in "-./%_".chars() {
                    into.extend([u32::from(c), u32::from(c) + 1]);
                }
                for (low, high) in [('0', '9'), ('A', 'Z'), ('a', 'z')] {
                    into.extend([u32::from(low), u32::from(high) + 1]);
                }
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
        }
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

/// All states that a set reaches without reading, sorted.
fn closure(nfa: &Nfa, from: &[u32], at_start: bool, at_end: bool) -> State {
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut open: Vec<u32> = from.to_vec();
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        for &(anchor, to) in &nfa.states[at as usize].jumps {
            let passes = match anchor {
                Anchor::None => true,
                Anchor::Start => at_start,
                Anchor::End => at_end,
            };
            if passes {
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
mod tests {
    use super::*;

    fn all_texts() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..4 {
            let until = all.len();
            for i in from..until {
                for c in ['a', 'b', 'A', '-', '*'] {
                    let next = format!("{}{c}", all[i]);
                    all.push(next);
                }
            }
            from = until;
        }
        all
    }

    /// Every pair of predicates with every pair of signs agrees with trying all short texts.
    #[test]
    fn the_product_agrees_with_trying_everything() {
        let text = |text: &str| Arc::<str>::from(text);
        let mut predicates = vec![
            Predicate::Is(text("ab")),
            Predicate::StartsWith(text("a")),
            Predicate::EndsWith(text("b-")),
            Predicate::Contains(text("-")),
            Predicate::Matches(text("^(a|b)*abb$")),
            Predicate::Matches(text("^b*a(a|ba|bba)*bb$")),
            Predicate::Matches(text("a$|^b")),
            Predicate::Matches(text("[^a]-")),
            Predicate::Matches(text("^$")),
            Predicate::Glob(text("a*b?")),
            Predicate::Glob(text("?*")),
            Predicate::PatternOf(text("ab")),
            Predicate::Length(2),
            Predicate::In(Base::DnsLabel),
            Predicate::Between(text("a"), Box::new(Predicate::Is(text("aba"))), text("a")),
        ];
        let cased = Predicate::StartsWith(text("ab"));
        predicates.push(Predicate::Lower(Box::new(cased.clone())));
        predicates.push(Predicate::Upper(Box::new(Predicate::Is(text("AB-")))));
        let texts = all_texts();
        let mut decided = Texts::default();
        for first in &predicates {
            for second in &predicates {
                for signs in [(true, true), (true, false), (false, true), (false, false)] {
                    let query = vec![(first.clone(), signs.0), (second.clone(), signs.1)];
                    let others = ["", "a", "ab", "abb", "b-"].map(|other| (Predicate::Is(text(other)), false));
                    let without = (first == second).then(|| [query.clone(), others.to_vec()].concat());
                    for query in without.into_iter().chain([query]) {
                        let brute = texts.iter().find(|text| fits(&query, text));
                        match decided.find(query.clone()) {
                            SearchResult::Yes(found) => assert!(fits(&query, &found), "{found:?} for {query:?}"),
                            SearchResult::No => assert_eq!(brute, None, "{query:?}"),
                            SearchResult::Incomplete => panic!("gave up on {query:?}"),
                        }
                    }
                }
            }
        }
    }
}
