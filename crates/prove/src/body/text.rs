//! Predicates on texts and their languages: is there a text that has some of them and lacks others?
//!
//! Every predicate is an automaton over characters. The product of all of them is searched breadth first, so that the text
//! found is a shortest one and an exhausted search proves that there is none. A search that is cut off says so. No
//! upstream counterpart.

mod machine;
pub(super) mod pieces;

use std::{collections::VecDeque, sync::Arc};

use kyvtest_go_compat::{
    regex::Regex,
    text::{case, quantity::Quantity, wildcard},
};
use rustc_hash::FxHashMap;

use self::machine::{Machine, State, alphabet};
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
    /// The text is long enough, and its characters from one position up to another, or to its end, have the predicate.
    Slice(usize, Option<usize>, Box<Predicate>),
    /// The text has so many pieces between separators, and the one at the position has the predicate.
    Piece(char, u32, Box<Predicate>),
    /// The text without white space at its ends has the predicate.
    Trimmed(Box<Predicate>),
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
            Self::Slice(from, to, inner) => slice(text, *from, *to).is_some_and(|part| inner.holds(&part)),
            Self::Piece(separator, position, inner) => {
                let piece = text.split(*separator).nth(*position as usize);
                piece.is_some_and(|piece| inner.holds(piece))
            }
            Self::Trimmed(inner) => inner.holds(text.trim()),
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
            | Self::Between(_, inner, _)
            | Self::Slice(_, _, inner)
            | Self::Piece(_, _, inner)
            | Self::Trimmed(inner) => inner.constants(into),
            Self::Quantity => into.extend(["1", "0"].map(str::to_owned)),
            Self::Matches(_) | Self::Length(_) | Self::In(_) => {}
        }
    }

    /// Whether the predicate has an automaton: what has none is not decided here.
    pub(super) fn is_regular(&self) -> bool {
        match self {
            Self::In(_) | Self::PatternOf(_) | Self::Quantity => true,
            Self::Length(length) => *length <= COUNTED,
            Self::Slice(from, to, inner) => to.unwrap_or(*from) <= COUNTED && inner.is_regular(),
            Self::Lower(inner)
            | Self::Upper(inner)
            | Self::Between(_, inner, _)
            | Self::Replaced(_, _, inner)
            | Self::Piece(_, _, inner)
            | Self::Trimmed(inner) => inner.is_regular(),
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
            Self::Lower(inner) | Self::Upper(inner) | Self::Slice(_, _, inner) => inner.is_ascii(),
            Self::Piece(separator, _, inner) => separator.is_ascii() && inner.is_ascii(),
            // White space beyond ASCII is white space to it.
            Self::Trimmed(_) => false,
            Self::Matches(_) | Self::GoLower(_) | Self::GoUpper(_) => false,
        }
    }
}

/// Part of a text by positions of characters; `None` if the text is too short.
pub(super) fn slice(text: &str, from: usize, to: Option<usize>) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    let part = characters.get(from..to.unwrap_or(characters.len()))?;
    Some(part.iter().collect())
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
