//! Go's `regexp` on linear-time automata.
//!
//! Our own parser reads the dialect of Go's `regexp/syntax` (`parser`, with Go's error messages) and lowers it to
//! `regex-syntax`'s HIR, which `regex-automata` runs; its leftmost-first matches are Go's. The methods behave like
//! their namesakes of Go's `regexp.Regexp` on valid UTF-8.
//!
//! Deviation: a pattern that Go accepts but whose byte automaton would need more than about 64 MiB (a large Unicode
//! class repeated hundreds of times, thousands of groups) is rejected with Go's `expression too large`.

mod class;
mod error;
pub mod generate;
pub mod nfa;
mod parser;
mod replace;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use regex_automata::{Input, meta, nfa::thompson::WhichCaptures};
use regex_syntax::hir::Hir;

pub use error::{Error, ErrorCode};

/// The memory limit of one pattern's automaton, in bytes.
const AUTOMATON_LIMIT: usize = 64 << 20;
/// The limit of states, by a rough count in advance that avoids building an automaton that would be rejected anyway.
const STATE_LIMIT: u64 = 1 << 19;
/// States times group slots: the scratch memory of a search that reports groups, in words.
const SLOT_LIMIT: u64 = 16 << 20;
/// Larger automata get no literal prefilter: in a large pattern, extracting the literals takes longer than the
/// searches.
const PREFILTER_LIMIT: u64 = 4_096;
/// From this height on the recursive compiler runs on its own stack.
const TALL: u32 = 100;
const TALL_STACK: usize = 64 << 20;

/// A compiled pattern. Clones share the automaton and its scratch memory.
#[derive(Clone)]
pub struct Regex(Arc<Inner>);

struct Inner {
    pattern: Box<str>,
    names: Vec<Option<Box<str>>>,
    height: u32,
    states: u64,
    hir: Hir,
    /// Finds matches without their groups.
    plain: meta::Regex,
    /// Finds groups as well; built on first use, since most patterns are only ever matched.
    full: OnceLock<meta::Regex>,
}

/// The byte range of a match.
pub type Span = std::ops::Range<usize>;

/// The byte ranges of a match and its groups; `None` for a group that took no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captures<'t> {
    text: &'t str,
    spans: Vec<Option<Span>>,
}

impl<'t> Captures<'t> {
    /// The range of group `index`; 0 is the whole match.
    pub fn span(&self, index: usize) -> Option<Span> {
        self.spans.get(index).cloned().flatten()
    }

    /// The text of group `index`; 0 is the whole match.
    pub fn get(&self, index: usize) -> Option<&'t str> {
        self.text.get(self.span(index)?)
    }

    /// The ranges of all groups, the whole match first.
    pub fn spans(&self) -> &[Option<Span>] {
        &self.spans
    }
}

impl Regex {
    /// Compiles a pattern, as Go's `regexp.Compile`.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::new_within(pattern, |_| true)
    }

    /// Checks the syntax of a pattern, regardless of its size.
    pub fn check(pattern: &str) -> Result<(), Error> {
        parser::parse(pattern).map(|_| ())
    }

    /// Compiles a pattern if `allow` accepts the approximate number of states of its automaton.
    pub fn new_within(pattern: &str, allow: impl FnOnce(u64) -> bool) -> Result<Self, Error> {
        let parsed = parser::parse(pattern)?;
        let large = || Error::new(ErrorCode::Large, pattern);
        if !allow(parsed.states) {
            return Err(large());
        }
        let slots = 2 * parsed.names.len() as u64;
        if parsed.states > STATE_LIMIT || parsed.names.len() > 1 && parsed.states.saturating_mul(slots) > SLOT_LIMIT {
            return Err(large());
        }
        let shape = (&parsed.hir, parsed.height, parsed.states);
        let plain = build(shape, WhichCaptures::Implicit, Some(AUTOMATON_LIMIT)).ok_or_else(large)?;
        Ok(Self(Arc::new(Inner {
            pattern: pattern.into(),
            names: parsed.names,
            height: parsed.height,
            states: parsed.states,
            hir: parsed.hir,
            plain,
            full: OnceLock::new(),
        })))
    }

    /// The pattern's structure, for callers that generate matching text.
    pub(crate) fn hir(&self) -> &Hir {
        &self.0.hir
    }

    /// The approximate number of states of the automaton.
    pub fn states(&self) -> u64 {
        self.0.states
    }

    pub fn as_str(&self) -> &str {
        &self.0.pattern
    }

    /// The number of groups, not counting the whole match.
    pub fn group_count(&self) -> usize {
        self.0.names.len() - 1
    }

    /// The names of the groups by number; the first entry is the whole match.
    pub fn group_names(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.0.names.iter().map(Option::as_deref)
    }

    /// Reports whether the pattern matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.plain.is_match(text)
    }

    pub fn find(&self, text: &str) -> Option<Span> {
        self.find_at(text, 0)
    }

    /// All non-overlapping matches, at most `limit` of them. An empty match right after another match does not count.
    pub fn find_all(&self, text: &str, limit: Option<usize>) -> Vec<Span> {
        self.find_all_within(text, limit, |_| true)
    }

    /// Like [`Regex::find_all`], as long as `allow` accepts the number of bytes that the next search may read: searches
    /// that always read to the end make the whole quadratic.
    pub fn find_all_within(&self, text: &str, limit: Option<usize>, allow: impl Fn(usize) -> bool) -> Vec<Span> {
        let mut found = Vec::new();
        each(
            text,
            limit,
            |at| self.find_at(text, at).filter(|_| allow(text.len() - at)),
            Span::clone,
            |span| {
                found.push(span);
            },
        );
        found
    }

    /// The leftmost match and its groups.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.captures_at(text, 0)
    }

    /// All non-overlapping matches with their groups, by the rule of [`Regex::find_all`].
    pub fn captures_all<'t>(&self, text: &'t str, limit: Option<usize>) -> Vec<Captures<'t>> {
        self.captures_all_within(text, limit, |_| true)
    }

    /// Like [`Regex::captures_all`], as long as `allow` accepts the number of bytes that the next search may read.
    pub fn captures_all_within<'t>(
        &self,
        text: &'t str,
        limit: Option<usize>,
        allow: impl Fn(usize) -> bool,
    ) -> Vec<Captures<'t>> {
        let mut found = Vec::new();
        let whole = |captures: &Captures<'t>| captures.span(0).unwrap_or(0..0);
        each(
            text,
            limit,
            |at| self.captures_at(text, at).filter(|_| allow(text.len() - at)),
            whole,
            |captures| {
                found.push(captures);
            },
        );
        found
    }

    /// Replaces all matches by a template, in which `$1`, `$name` and `${name}` refer to groups and `$$` is a dollar
    /// sign.
    pub fn replace_all<'t>(&self, text: &'t str, template: &str) -> Cow<'t, str> {
        if !template.contains('$') {
            return self.replace_all_literal(text, template);
        }
        let captures = |at| self.captures_at(text, at);
        let whole = |captures: &Captures<'t>| captures.span(0).unwrap_or(0..0);
        replace::all(text, captures, whole, |out, captures| {
            replace::expand(out, template, &self.0.names, captures);
        })
    }

    /// Replaces all matches by a literal string.
    pub fn replace_all_literal<'t>(&self, text: &'t str, replacement: &str) -> Cow<'t, str> {
        self.replace_all_func(text, |_, out| out.push_str(replacement))
    }

    /// Replaces all matches; `replace` appends the replacement of the matched text to the string that it receives.
    pub(crate) fn replace_all_func<'t>(
        &self,
        text: &'t str,
        mut replace: impl FnMut(&'t str, &mut String),
    ) -> Cow<'t, str> {
        replace::all(
            text,
            |at| self.find_at(text, at),
            Span::clone,
            |out, span| replace(text.get(span.clone()).unwrap_or(""), out),
        )
    }

    /// Splits the text at the matches into at most `limit` pieces; the last one holds the rest.
    pub fn split<'t>(&self, text: &'t str, limit: Option<usize>) -> Vec<&'t str> {
        if limit == Some(0) {
            return Vec::new();
        }
        if !self.0.pattern.is_empty() && text.is_empty() {
            return vec![""];
        }
        let mut pieces = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for span in self.find_all(text, limit) {
            if limit.is_some_and(|limit| pieces.len() + 1 >= limit) {
                break;
            }
            end = span.start;
            if span.end != 0 {
                pieces.push(text.get(begin..end).unwrap_or(""));
            }
            begin = span.end;
        }
        if end != text.len() {
            pieces.push(text.get(begin..).unwrap_or(""));
        }
        pieces
    }

    fn find_at(&self, text: &str, at: usize) -> Option<Span> {
        let input = Input::new(text).span(at..text.len());
        self.0.plain.search(&input).map(|found| found.range())
    }

    fn captures_at<'t>(&self, text: &'t str, at: usize) -> Option<Captures<'t>> {
        let inner = &*self.0;
        let groups = inner.names.len();
        if groups == 1 {
            let span = self.find_at(text, at)?;
            return Some(Captures {
                text,
                spans: vec![Some(span)],
            });
        }
        let full = inner.full.get_or_init(|| {
            // The size was checked with the plain automaton; groups at most double it.
            build((&inner.hir, inner.height, inner.states), WhichCaptures::All, None)
                .unwrap_or_else(|| inner.plain.clone())
        });
        let mut slots = vec![None; 2 * groups];
        let input = Input::new(text).span(at..text.len());
        full.search_slots(&input, &mut slots)?;
        let spans = slots
            .chunks_exact(2)
            .map(|pair| Some(pair[0]?.get()..pair[1]?.get()))
            .collect();
        Some(Captures { text, spans })
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Regex").field(&self.0.pattern).finish()
    }
}

impl fmt::Display for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.pattern)
    }
}

/// Escapes the metacharacters of a pattern.
pub fn quote_meta(text: &str) -> Cow<'_, str> {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if special(c) {
            out.push('\\');
        }
        out.push(c);
    }
    Cow::Owned(out)
}

/// Runs every method on a pattern and a text, for fuzzing: none may panic or hang. Returns whether the pattern
/// compiles.
pub fn exercise(pattern: &str, text: &str) -> bool {
    let Ok(regex) = Regex::new(pattern) else { return false };
    let found = regex.find(text);
    assert_eq!(found.is_some(), regex.is_match(text), "find and is_match differ");
    let captures = regex.captures(text);
    assert_eq!(found, captures.and_then(|c| c.span(0)), "find and captures differ");
    regex.replace_all(text, "<$0:$1>");
    regex.split(text, None);
    true
}

/// Iterates over all matches as Go does.
fn each<M>(
    text: &str,
    limit: Option<usize>,
    search: impl Fn(usize) -> Option<M>,
    whole: impl Fn(&M) -> Span,
    mut deliver: impl FnMut(M),
) {
    let mut at = 0;
    let mut delivered = 0;
    let mut previous_end = None;
    while limit.is_none_or(|limit| delivered < limit) && at <= text.len() {
        let Some(found) = search(at) else { break };
        let span = whole(&found);
        let mut accept = true;
        if span.end == at {
            accept = previous_end != Some(span.start);
            at += width(text, at).max(1);
        } else {
            at = span.end;
        }
        previous_end = Some(span.end);
        if accept {
            deliver(found);
            delivered += 1;
        }
    }
}

/// The width of the character at a byte position, 0 at the end.
fn width(text: &str, at: usize) -> usize {
    text.get(at..)
        .and_then(|rest| rest.chars().next())
        .map_or(0, char::len_utf8)
}

/// Builds an automaton; `None` if it would be too large.
fn build(parsed: (&Hir, u32, u64), captures: WhichCaptures, limit: Option<usize>) -> Option<meta::Regex> {
    let (hir, height, states) = parsed;
    let config = meta::Config::new()
        .which_captures(captures)
        .nfa_size_limit(limit)
        .auto_prefilter(states <= PREFILTER_LIMIT);
    let build = || meta::Builder::new().configure(config).build_from_hir(hir).ok();
    if height < TALL {
        return build();
    }
    // The compiler is recursive, and 1000 levels do not fit into the stack of a worker thread.
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(TALL_STACK);
        worker.spawn_scoped(scope, build).ok()?.join().ok()?
    })
}
