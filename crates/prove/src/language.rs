//! Languages of texts: what a text of a request may be at all, cut with patterns, and the shortest text that is left.
//!
//! A pattern is a chain of tokens, its state the set of places that a reading may have reached. The product with the
//! language of the text itself is searched breadth first, so the first member found is a shortest one, and an exhausted
//! search is a proof that there is none. A search that is cut off says so.
//!
//! Counterpart of the base languages: `k8s.io/apimachinery/pkg/api/validate/content` and `pkg/api/validation/path`. Too wide a
//! base costs an odd witness, too narrow a base would cost soundness: label keys do not limit the two parts by themselves.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use kyvtest_model::kube::Pattern;

/// What a string may be before any pattern counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// A DNS label: namespaces.
    DnsLabel,
    /// A DNS subdomain: most names.
    Subdomain,
    /// A segment of a path: names of RBAC objects, and of every kind whose rule is not known here.
    Segment,
    LabelValue,
    LabelKey,
    /// Anything but the empty text.
    NonEmpty,
    /// Anything.
    Any,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// There is no member.
    No,
    /// A shortest member.
    Yes(String),
    /// The search was cut off.
    Incomplete,
}

/// How many states a search may visit.
const LIMIT: usize = 60_000;

/// States of the keys of labels before the slash: what the name has seen, and what a prefix has.
const AFTER_SLASH: u8 = 20;
const NO_PREFIX: u8 = 4;

impl Base {
    const fn longest(self) -> usize {
        match self {
            Self::DnsLabel | Self::LabelValue => 63,
            Self::Subdomain => 253,
            Self::LabelKey => 253 + 1 + 63,
            Self::Segment | Self::NonEmpty | Self::Any => usize::MAX,
        }
    }

    fn step(self, state: u8, c: char) -> Option<u8> {
        let lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        match self {
            Self::DnsLabel | Self::Subdomain => match (state, c) {
                (_, _) if lower => Some(1),
                (1 | 2, '-') => Some(2),
                (1, '.') if self == Self::Subdomain => Some(3),
                _ => None,
            },
            Self::Segment => match (state, c) {
                (_, '/' | '%') => None,
                (0, '.') => Some(1),
                (1, '.') => Some(2),
                _ => Some(3),
            },
            Self::LabelValue => name_step(state, c),
            Self::LabelKey if state >= AFTER_SLASH => name_step(state - AFTER_SLASH, c).map(|next| AFTER_SLASH + next),
            Self::LabelKey => {
                let (name, prefix) = (state % 3, state / 3);
                if c == '/' {
                    return (prefix == 1).then_some(AFTER_SLASH);
                }
                let prefix = match (prefix, c) {
                    (0..=3, _) if lower => 1,
                    (1 | 2, '-') => 2,
                    (1, '.') => 3,
                    _ => NO_PREFIX,
                };
                name_step(name, c).map(|name| name + 3 * prefix)
            }
            Self::NonEmpty => Some(1),
            Self::Any => Some(0),
        }
    }

    const fn accepts(self, state: u8) -> bool {
        match self {
            Self::DnsLabel | Self::Subdomain | Self::NonEmpty => state == 1,
            Self::Segment => state == 3,
            Self::LabelValue => state < 2,
            Self::LabelKey => state == AFTER_SLASH + 1 || state < AFTER_SLASH && state % 3 == 1,
            Self::Any => true,
        }
    }

    /// The state after a character; its lengths aside.
    pub(crate) fn step_state(self, state: u8, c: char) -> Option<u8> {
        self.step(state, c)
    }

    /// Whether a text may end in a state.
    pub(crate) const fn accepts_state(self, state: u8) -> bool {
        self.accepts(state)
    }

    /// Whether a text is in the language.
    pub(crate) fn contains(self, text: &str) -> bool {
        let mut state = Some(0);
        let mut length = 0;
        for c in text.chars() {
            state = state.and_then(|state| self.step(state, c));
            length += 1;
        }
        length <= self.longest() && state.is_some_and(|state| self.accepts(state))
    }
}

/// The name of a label: 0 at the start, 1 after a letter or digit, 2 after punctuation.
fn name_step(state: u8, c: char) -> Option<u8> {
    match c {
        _ if c.is_ascii_alphanumeric() => Some(1),
        '-' | '_' | '.' if state > 0 => Some(2),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
}

/// A pattern as a chain of tokens.
struct Chain {
    tokens: Vec<Token>,
    wanted: bool,
}

impl Chain {
    fn new(pattern: Pattern<'_>, wanted: bool) -> Self {
        let tokens = match pattern {
            Pattern::Exact(text) => text.chars().map(Token::Char).collect(),
            Pattern::Prefix(text) => text.chars().map(Token::Char).chain([Token::Many]).collect(),
            Pattern::Glob(text) => text
                .chars()
                .map(|c| match c {
                    '*' => Token::Many,
                    '?' => Token::One,
                    c => Token::Char(c),
                })
                .collect(),
        };
        Self { tokens, wanted }
    }

    fn words(&self) -> usize {
        self.tokens.len() / 64 + 1
    }

    /// Adds a place, and those behind it that need no character.
    fn add(&self, set: &mut [u64], mut place: usize) {
        loop {
            if let Some(word) = set.get_mut(place / 64) {
                *word |= 1 << (place % 64);
            }
            if self.tokens.get(place) != Some(&Token::Many) {
                return;
            }
            place += 1;
        }
    }

    fn step(&self, set: &[u64], c: char, next: &mut [u64]) {
        for (place, token) in self.tokens.iter().enumerate() {
            if !has(set, place) {
                continue;
            }
            match *token {
                Token::Many => self.add(next, place),
                Token::One => self.add(next, place + 1),
                Token::Char(own) if own == c => self.add(next, place + 1),
                Token::Char(_) => {}
            }
        }
    }

    fn accepts(&self, set: &[u64]) -> bool {
        has(set, self.tokens.len()) == self.wanted
    }
}

fn has(set: &[u64], place: usize) -> bool {
    set.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
}

/// The characters that tell texts apart: those of the patterns, and of each class that a base knows one that is in none.
fn alphabet(chains: &[Chain]) -> Vec<char> {
    let mut own: Vec<char> = chains
        .iter()
        .flat_map(|chain| &chain.tokens)
        .filter_map(|token| match token {
            Token::Char(c) => Some(*c),
            Token::One | Token::Many => None,
        })
        .collect();
    own.sort_unstable();
    own.dedup();
    let lower = "xyzwabcdefghijklmnopqrstuv0123456789";
    let classes = [
        lower,
        "XYZWABCDEFGHIJKLMNOPQRSTUV",
        "-",
        ".",
        "_",
        "/",
        "%",
        "~@#!$^&()+=|;<>, ",
    ];
    let fresh = classes
        .iter()
        .filter_map(|class| class.chars().find(|c| own.binary_search(c).is_err()));
    let mut all: Vec<char> = fresh.collect();
    all.extend(&own);
    all
}

/// A shortest text of a base that has all patterns of `positive` and none of `negative`.
pub(crate) fn shortest(base: Base, positive: &[Pattern<'_>], negative: &[Pattern<'_>]) -> SearchResult {
    let exact = positive.iter().find_map(|pattern| match pattern {
        Pattern::Exact(text) => Some(*text),
        _ => None,
    });
    if let Some(text) = exact {
        let fits = base.contains(text)
            && positive.iter().all(|pattern| pattern.matches(text))
            && !negative.iter().any(|pattern| pattern.matches(text));
        return if fits {
            SearchResult::Yes(text.to_owned())
        } else {
            SearchResult::No
        };
    }
    let positive = positive.iter().map(|&pattern| Chain::new(pattern, true));
    let chains: Vec<Chain> = positive
        .chain(negative.iter().map(|&pattern| Chain::new(pattern, false)))
        .collect();
    search(base, &chains)
}

/// One state of the product and how it was reached.
struct Node {
    base: u8,
    sets: Vec<u64>,
    from: Option<(usize, char)>,
    length: usize,
}

fn search(base: Base, chains: &[Chain]) -> SearchResult {
    let alphabet = alphabet(chains);
    let mut starts = Vec::new();
    let mut sets = Vec::new();
    for chain in chains {
        let at = sets.len();
        starts.push(at);
        sets.resize(at + chain.words(), 0);
        chain.add(&mut sets[at..], 0);
    }
    let part = |sets: &[u64], i: usize| -> Vec<u64> {
        let start = starts.get(i).copied().unwrap_or_default();
        let words = chains.get(i).map_or(0, Chain::words);
        sets.iter().skip(start).take(words).copied().collect()
    };
    let accepts = |node: &Node| {
        base.accepts(node.base)
            && chains
                .iter()
                .enumerate()
                .all(|(i, chain)| chain.accepts(&part(&node.sets, i)))
    };
    let mut visited: FxHashSet<(u8, Vec<u64>)> = FxHashSet::default();
    visited.insert((0, sets.clone()));
    let mut nodes = vec![Node {
        base: 0,
        sets,
        from: None,
        length: 0,
    }];
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let Some(node) = nodes.get(at) else { continue };
        if accepts(node) {
            return SearchResult::Yes(spell(&nodes, at));
        }
        if node.length >= base.longest() {
            continue;
        }
        let mut next = Vec::new();
        for &c in &alphabet {
            let Some(state) = base.step(node.base, c) else { continue };
            let mut sets = vec![0; node.sets.len()];
            let mut alive = true;
            for (i, chain) in chains.iter().enumerate() {
                let from = part(&node.sets, i);
                let start = starts.get(i).copied().unwrap_or_default();
                let Some(to) = sets.get_mut(start..start + chain.words()) else {
                    continue;
                };
                chain.step(&from, c, to);
                alive &= !chain.wanted || to.iter().any(|word| *word != 0);
            }
            if alive && visited.insert((state, sets.clone())) {
                next.push(Node {
                    base: state,
                    sets,
                    from: Some((at, c)),
                    length: node.length + 1,
                });
            }
        }
        for node in next {
            if nodes.len() >= LIMIT {
                return SearchResult::Incomplete;
            }
            queue.push_back(nodes.len());
            nodes.push(node);
        }
    }
    SearchResult::No
}

fn spell(nodes: &[Node], mut at: usize) -> String {
    let mut text = Vec::new();
    while let Some((from, c)) = nodes.get(at).and_then(|node| node.from) {
        text.push(c);
        at = from;
    }
    text.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of up to four characters of four.
    fn texts() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..4 {
            let until = all.len();
            for i in from..until {
                for c in ['a', 'b', '-', '.'] {
                    all.push(format!("{}{c}", all[i]));
                }
            }
            from = until;
        }
        all
    }

    /// A small generator of numbers; its seed is in the test.
    fn next(seed: &mut u64) -> usize {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize
    }

    #[test]
    fn the_product_agrees_with_trying_everything() {
        let texts = texts();
        let mut seed = 7;
        for round in 0..1500 {
            let mut globs = Vec::new();
            for _ in 0..=(next(&mut seed) % 4) {
                let length = next(&mut seed) % 4;
                let glob: String = (0..length)
                    .map(|_| ['a', 'b', '*', '?', '-', '*'][next(&mut seed) % 6])
                    .collect();
                globs.push((glob, next(&mut seed).is_multiple_of(2)));
            }
            let of = |wanted: bool| -> Vec<Pattern<'_>> {
                let globs = globs.iter().filter(|(_, positive)| *positive == wanted);
                globs.map(|(glob, _)| Pattern::Glob(glob)).collect()
            };
            let (positive, negative) = (of(true), of(false));
            let bases = [
                Base::Any,
                Base::DnsLabel,
                Base::Subdomain,
                Base::LabelValue,
                Base::LabelKey,
            ];
            let base = bases[round % bases.len()];
            let fits = |text: &&String| {
                base.contains(text)
                    && positive.iter().all(|pattern| pattern.matches(text))
                    && !negative.iter().any(|pattern| pattern.matches(text))
            };
            let brute = texts.iter().find(fits);
            match shortest(base, &positive, &negative) {
                SearchResult::Yes(text) => {
                    assert!(fits(&&text), "{text} for {globs:?} in {base:?}");
                    assert!(
                        brute.is_none_or(|brute| brute.len() >= text.len()),
                        "{text} for {globs:?}"
                    );
                }
                SearchResult::No => assert_eq!(brute, None, "{globs:?} in {base:?}"),
                SearchResult::Incomplete => panic!("gave up on {globs:?}"),
            }
        }
    }

    #[test]
    fn bases_know_their_members() {
        for (base, yes, no) in [
            (Base::DnsLabel, "a-1", "a."),
            (Base::Subdomain, "a.b-c", "a..b"),
            (Base::Segment, "system:a", "a/b"),
            (Base::Segment, "...", ".."),
            (Base::LabelValue, "", "-"),
            (Base::LabelKey, "a.b/C_d", "A/b"),
            (Base::LabelKey, "A.b", "/b"),
            (Base::NonEmpty, "%", ""),
        ] {
            assert!(base.contains(yes), "{yes} in {base:?}");
            assert!(!base.contains(no), "{no} not in {base:?}");
        }
    }
}
