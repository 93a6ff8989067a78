//! Finds variables (`{{ … }}`) and references (`$( … )`) in the strings of classic policies.
//!
//! Upstream counterpart: `pkg/engine/variables/regex/vars.go`. The patterns are compiled on first use: most policies
//! have neither.

use std::{ops::Range, sync::LazyLock};

use crate::regex::Regex;

/// A pattern of this file; all are well-formed.
type Pattern = LazyLock<Option<Regex>>;

static VARIABLE: Pattern = LazyLock::new(|| Regex::new(r"(^|[^\\])(\{\{(?:\{[^{}]*\}|[^{}])*\}\})").ok());
static INITIAL: Pattern = LazyLock::new(|| Regex::new(r"^\{\{(\{[^{}]*\}|[^{}])*\}\}").ok());
static SIMPLE: Pattern = LazyLock::new(|| Regex::new(r"\{\{[^{}]*\}\}").ok());
static REFERENCE: Pattern = LazyLock::new(|| Regex::new(r"^\$\(.[^\ ]*\)|[^\\]\$\(.[^\ ]*\)").ok());

fn pattern<'r>(pattern: &'r Pattern, text: &str, with: &str) -> Option<&'r Regex> {
    if text.contains(with) { pattern.as_ref() } else { None }
}

/// The variables that start the string or follow a character other than a backslash, including that character.
pub fn variables(text: &str) -> Vec<Range<usize>> {
    let pattern = pattern(&VARIABLE, text, "{{");
    pattern.map_or_else(Vec::new, |pattern| pattern.find_all(text, None))
}

/// Like [`variables`], without the preceding character.
pub fn bare_variables(text: &str) -> Vec<&str> {
    let found = pattern(&VARIABLE, text, "{{").map(|pattern| pattern.captures_all(text, None));
    let found = found.into_iter().flatten();
    found.filter_map(|captures| captures.get(2)).collect()
}

pub fn has_variable(text: &str) -> bool {
    pattern(&VARIABLE, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// Reports whether a string begins with a variable.
pub fn begins_with_variable(text: &str) -> bool {
    pattern(&INITIAL, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// Reports whether a string has a variable without nested braces, even after a backslash.
pub fn has_simple_variable(text: &str) -> bool {
    pattern(&SIMPLE, text, "{{").is_some_and(|pattern| pattern.is_match(text))
}

/// The references that start the string or follow a character other than a backslash, including that character.
pub fn references(text: &str) -> Vec<Range<usize>> {
    let pattern = pattern(&REFERENCE, text, "$(");
    pattern.map_or_else(Vec::new, |pattern| pattern.find_all(text, None))
}
