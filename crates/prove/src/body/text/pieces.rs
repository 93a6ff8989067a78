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

/// What no text is.
fn never() -> Predicate {
    Predicate::Lower(Box::new(Predicate::Is(Arc::from("A"))))
}

/// That a text has a piece at a position with a predicate; `None` if that is not modelled.
pub(in crate::body) fn predicate(separator: &str, position: u32, inner: &Predicate) -> Option<Predicate> {
    let start = skip(separator, position);
    let sep = quoted(separator);
    let other = format!("[^{sep}]*");
    let end = format!("(?:{sep}.*)?$");
    let pattern = match inner {
        Predicate::Is(text) | Predicate::StartsWith(text) | Predicate::EndsWith(text) | Predicate::Contains(text)
            if text.contains(separator) =>
        {
            return Some(never());
        }
        Predicate::Is(text) => format!("{start}{}{end}", quoted(text)),
        Predicate::StartsWith(text) => format!("{start}{}", quoted(text)),
        Predicate::Contains(text) => format!("{start}{other}{}", quoted(text)),
        Predicate::EndsWith(text) => format!("{start}{other}{}{end}", quoted(text)),
        Predicate::Length(length) => format!("{start}[^{sep}]{{{length}}}"),
        _ => return None,
    };
    Some(Predicate::Matches(Arc::from(pattern)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every predicate on every piece of every short text, against the pieces themselves.
    #[test]
    fn pieces_have_their_predicates() {
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            let longer: Vec<String> = texts
                .iter()
                .flat_map(|text| ["a", "-", "\n"].map(|c| format!("{text}{c}")))
                .collect();
            texts.extend(longer);
        }
        let inner: [fn(Arc<str>) -> Predicate; 4] = [
            Predicate::Is,
            Predicate::StartsWith,
            Predicate::EndsWith,
            Predicate::Contains,
        ];
        for text in &texts {
            let parts: Vec<&str> = text.split('-').collect();
            for count in 1..5u32 {
                let holds = at_least("-", count).is_none_or(|predicate| predicate.holds(text));
                assert_eq!(holds, parts.len() >= count as usize, "{text:?} {count}");
            }
            for position in 0..3u32 {
                let part = parts.get(position as usize);
                for make in inner {
                    for constant in ["", "a", "aa", "-", "\n"] {
                        let own = make(Arc::from(constant));
                        let Some(whole) = predicate("-", position, &own) else {
                            continue;
                        };
                        let expected = part.is_some_and(|part| own.holds(part));
                        assert_eq!(whole.holds(text), expected, "{text:?} {position} {own:?}");
                    }
                }
            }
        }
    }
}
