//! Predicates on the pieces of a text between separators of one character, as predicates on the whole text.

use std::{fmt::Write as _, sync::Arc};

use super::Predicate;

/// A text as a regular expression that matches it alone.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            quoted.push(c);
        } else {
            let _ = write!(quoted, "\\x{{{:x}}}", u32::from(c));
        }
    }
    quoted
}

/// The beginning of an expression that skips pieces.
fn skip(separator: &str, count: u32) -> String {
    let separator = quoted(separator);
    if count == 0 {
        "(?s)^".to_owned()
    } else {
        format!("(?s)^(?:[^{separator}]*{separator}){{{count}}}")
    }
}

/// The text has at least N pieces; `None` if every text has.
pub(in crate::body) fn at_least(separator: &str, count: u32) -> Option<Predicate> {
    (count > 1).then(|| Predicate::Matches(Arc::from(skip(separator, count - 1))))
}
