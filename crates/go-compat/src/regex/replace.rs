//! Replacing matches, and Go's replacement templates (`regexp.Regexp.Expand`).

use std::borrow::Cow;

use super::{Captures, Span, class, width};

/// Iterates as Go's `ReplaceAll`: copies the text between the matches and lets `write` append each replacement.
pub(super) fn all<M>(
    text: &str,
    search: impl Fn(usize) -> Option<M>,
    whole: impl Fn(&M) -> Span,
    mut write: impl FnMut(&mut String, &M),
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut last_end = 0;
    let mut at = 0;
    let mut replaced = false;
    while at <= text.len() {
        let Some(found) = search(at) else { break };
        let span = whole(&found);
        replaced = true;
        out.push_str(text.get(last_end..span.start).unwrap_or(""));
        // An empty match right after another one is not replaced.
        if span.end > last_end || span.start == 0 {
            write(&mut out, &found);
        }
        last_end = span.end;
        at = span.end.max(at + width(text, at).max(1));
    }
    if !replaced {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(last_end..).unwrap_or(""));
    Cow::Owned(out)
}

/// Appends a template with its group references expanded.
pub(super) fn expand(out: &mut String, template: &str, names: &[Option<Box<str>>], captures: &Captures<'_>) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            let text = match number(name) {
                Some(index) => captures.get(index),
                None => names
                    .iter()
                    .enumerate()
                    .filter(|(_, known)| known.as_deref() == Some(name))
                    .find_map(|(index, _)| captures.get(index)),
            };
            out.push_str(text.unwrap_or(""));
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
}

/// The reference that follows a `$`, with or without braces, and the text after it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, text) = text.strip_prefix('{').map_or((false, text), |rest| (true, rest));
    let end = text.find(|c| !class::is_name_char(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    let rest = if braced { rest.strip_prefix('}')? } else { rest };
    Some((name, rest))
}

/// A name that is a group number: decimal, without leading zeros, below Go's bound.
fn number(name: &str) -> Option<usize> {
    if name.len() > 1 && name.starts_with('0') || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Go stops reading digits at 10^8; longer numbers are names.
    name.parse().ok().filter(|_| name.len() <= 9)
}
