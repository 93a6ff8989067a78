//! Edits to a file's text that preserve everything else, comments and layout included.
//!
//! Spans come from the tree. The result is text, which callers must parse again.

use super::{Entry, Kind, Node, Span, emit};

/// Non-overlapping changes to a text.
#[derive(Debug)]
pub struct Edits<'t> {
    text: &'t str,
    /// The replaced span and the new text.
    changes: Vec<(Span, String)>,
}

impl<'t> Edits<'t> {
    /// Starts editing `text`, from which the trees of all edited nodes were read.
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            changes: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.changes.push((span, text.into()));
    }

    /// Inserts text before an offset.
    pub fn insert(&mut self, offset: u32, text: impl Into<String>) {
        self.replace(Span::at(offset), text);
    }

    /// Whether a map or list is written in braces or brackets.
    pub fn is_flow(&self, node: Node<'_>) -> bool {
        self.text[node.span().start as usize..].starts_with(['{', '['])
    }

    /// The indentation with which a line starts in the same column as `offset`.
    pub fn indent(&self, offset: u32) -> String {
        let before = &self.text[..offset as usize];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        " ".repeat(before[line..].chars().count())
    }

    /// The span of a key and its value.
    pub fn entry_span(entry: Entry<'_>) -> Span {
        entry.key_span.to(entry.value.span())
    }

    /// Replaces an entry of a map by a key with a list of strings.
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

    /// Removes an entry of a map, with its line if it has one to itself.
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
                // The first entry of a list item, after its dash: the next entry takes its position.
                Some(next) if !own => Span::new(span.start, next.key_span.start),
                _ => {
                    let after = self.text[end..].find('\n').map_or(self.text.len(), |at| end + at + 1);
                    Span::of(if own { line } else { start }, after)
                }
            }
        };
        self.replace(span, "");
    }

    /// Applies the changes and returns the new text.
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
