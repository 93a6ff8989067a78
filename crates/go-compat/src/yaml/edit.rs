//! Changes to a file's text that leave everything else as it is, comments and layout included.
//!
//! Places come from the tree; the result is text again, to be read anew by whoever wants to rely on it.

use super::{Entry, Kind, Node, Span, emit};

/// Changes to a text, none of which may overlap another.
#[derive(Debug)]
pub struct Edits<'t> {
    text: &'t str,
    /// Where, and what stands there instead.
    changes: Vec<(Span, String)>,
}

impl<'t> Edits<'t> {
    /// No changes to a text, which is that of the trees whose nodes are changed.
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            changes: Vec::new(),
        }
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Puts a text in the place of another.
    pub fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.changes.push((span, text.into()));
    }

    /// Puts a text before a place.
    pub fn insert(&mut self, offset: u32, text: impl Into<String>) {
        self.replace(Span::at(offset), text);
    }

    /// Whether a map or list is written in braces or brackets.
    pub fn is_flow(&self, node: Node<'_>) -> bool {
        self.text[node.span().start as usize..].starts_with(['{', '['])
    }

    /// The blanks that put a line below a place, so that it begins in the same column.
    pub fn indent(&self, offset: u32) -> String {
        let before = &self.text[..offset as usize];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        " ".repeat(before[line..].chars().count())
    }

    /// A key with its value.
    pub fn entry_span(entry: Entry<'_>) -> Span {
        entry.key_span.to(entry.value.span())
    }

    /// Replaces an entry of a map by a key with a list of texts.
    pub fn replace_by_list(&mut self, map: Node<'_>, entry: Entry<'_>, key: &str, items: &[String]) {
        let text = if self.is_flow(map) || items.is_empty() {
            let items: Vec<String> = items.iter().map(|item| emit::quote(item)).collect();
            format!("{key}: [{}]", items.join(", "))
        } else {
            let indent = self.indent(entry.key_span.start);
            let items = items.iter().map(|item| format!("\n{indent}- {}", emit::quote(item)));
            format!("{key}:{}", items.collect::<String>())
        };
        self.replace(Self::entry_span(entry), text);
    }

    /// Removes an entry of a map, with its line where it has one for itself.
    pub fn remove(&mut self, map: Node<'_>, entry: Entry<'_>) {
        let span = Self::entry_span(entry);
        let Kind::Map(entries) = map.kind() else { return };
        let place = entries.iter().position(|other| other.key_span == entry.key_span);
        let next = place.and_then(|place| entries.at(place + 1));
        let previous = place.and_then(|place| entries.at(place.checked_sub(1)?));
        let span = if self.is_flow(map) {
            match (previous, next) {
                (_, Some(next)) => Span::new(span.start, next.key_span.start),
                (Some(previous), None) => Span::new(previous.value.span().end, span.end),
                (None, None) => span,
            }
        } else {
            let (start, end) = (span.start as usize, span.end as usize);
            let line = self.text[..start].rfind('\n').map_or(0, |end| end + 1);
            let own = self.text[line..start].chars().all(char::is_whitespace);
            match next {
                // The first of an item, behind its dash: the next one takes its place.
                Some(next) if !own => Span::new(span.start, next.key_span.start),
                _ => {
                    let after = self.text[end..].find('\n').map_or(self.text.len(), |at| end + at + 1);
                    Span::of(if own { line } else { start }, after)
                }
            }
        };
        self.replace(span, "");
    }

    /// The text with the changes.
    pub fn finish(mut self) -> String {
        self.changes.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut done = 0;
        for (span, text) in &self.changes {
            let start = (span.start as usize).max(done);
            out.push_str(&self.text[done..start]);
            out.push_str(text);
            done = (span.end as usize).max(start);
        }
        out.push_str(&self.text[done..]);
        out
    }
}
