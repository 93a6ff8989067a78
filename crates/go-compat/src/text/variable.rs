//! Variables (`{{ … }}`) and references (`$( … )`) in the texts of classic policies: where they stand.
//!
//! Upstream counterpart: `pkg/engine/variables/regex/vars.go`. The patterns are compiled when a text first has what they look for:
//! most policies have neither.

use std::{ops::Range, sync::LazyLock};

use crate::regex::Regex;

/// A pattern of this file; each is well-formed.
type Pattern = LazyLock<Option<Regex>>;

static VARIABLE: Pattern = LazyLock::new(|| Regex::new(r"(^|[^\\])(\{\{(?:\{[^{}]*\}|[^{}])*\}\})").ok());
static INITIAL: Pattern = LazyLock::new(|| Regex::new(r"^\{\{(\{[^{}]*\}|[^{}])*\}\}").ok());
static SIMPLE: Pattern = LazyLock::new(|| Regex::new(r"\{\{[^{}]*\}\}").ok());
static REFERENCE: Pattern = LazyLock::new(|| Regex::new(r"^\$\(.[^\ ]*\)|[^\\]\$\(.[^\ ]*\)").ok());

fn pattern<'r>(pattern: &'r Pattern, text: &str, with: &str) -> Option<&'r Regex> {
    if text.contains(with) { pattern.as_ref() } else { None }
}

/// The variables of a text that are at its beginning or behind anything but a backslash, with what they are behind.
pub fn variables(text: &str) -> Vec<Range<usize>> {
    let pattern = pattern(&VARIABLE, text, "{{");
    pattern.map_or_else(Vec::new, |pattern| pattern.find_all(text, None))
}

/// The same, without what they are behind.
pub fn bare_variables(text: &str) -> Vec<&str> {
    let found = pattern(&VARIABLE, text, "{{").map(|pattern| pattern.captures_all(text, None));
    let found = found.into_iter().flatten();
    found.filter_map(|captures| captures.get(2)).collect()
}

/// Whether a text has variables.
pub fn has_variable(text: &str) -> bool {
    pattern(&VARIABLE, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// Whether a text begins with a variable.
pub fn begins_with_variable(text: &str) -> bool {
    pattern(&INITIAL, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// Whether a text has a variable without braces in it, be it behind a backslash.
pub fn has_simple_variable(text: &str) -> bool {
    pattern(&SIMPLE, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// The references of a text that are at its beginning or behind anything but a backslash, with what they are behind.
pub fn references(text: &str) -> Vec<Range<usize>> {
    let pattern = pattern(&REFERENCE, text, "$(");
    pattern.map_or_else(Vec::new, |pattern| pattern.find_all(text, None))
}
