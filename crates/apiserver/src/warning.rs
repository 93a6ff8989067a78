//! The warnings of a response.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/filters/warning.go` and `NewWarningHeader` of
//! `k8s.io/apimachinery/pkg/util/net`.

/// The number of characters of all warnings above which each is cut.
const MAX_TOTAL: usize = 4 * 1024;

/// The number of characters that a warning is cut to.
const MAX_ITEM: usize = 256;

/// Collects warnings.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    recorded: Vec<String>,
    sent: Vec<String>,
    /// What no header can carry.
    lost: Vec<String>,
    written: usize,
    cuts: bool,
}

impl Warnings {
    /// Adds a warning unless it was added before.
    pub(super) fn add(&mut self, text: String) {
        if text.is_empty() || self.cuts && self.written >= MAX_TOTAL || self.recorded.contains(&text) {
            return;
        }
        self.recorded.push(text.clone());
        // A header has no line breaks or other control characters.
        if text.chars().any(char::is_control) {
            self.lost.push(text);
            return;
        }
        let length = text.chars().count();
        if self.cuts || self.written + length <= MAX_TOTAL {
            self.send(&text);
            return;
        }
        self.cuts = true;
        self.written = 0;
        self.sent.clear();
        for text in std::mem::take(&mut self.recorded) {
            // What is cut before its first control character can be sent after all.
            if !cut(&text).chars().any(char::is_control) {
                self.lost.retain(|lost| *lost != text);
                self.send(&text);
            }
            self.recorded.push(text);
        }
    }

    fn send(&mut self, text: &str) {
        let text = if self.cuts { cut(text) } else { text };
        self.written += text.chars().count();
        self.sent.push(text.to_owned());
    }

    /// What the client gets, and what it does not.
    pub(super) fn finish(self) -> (Vec<String>, Vec<String>) {
        (self.sent, self.lost)
    }
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_ITEM).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_sent_once_and_cut_where_they_are_many() {
        let mut warnings = Warnings::default();
        warnings.add("a".to_owned());
        warnings.add("a".to_owned());
        warnings.add("two\nlines".to_owned());
        let (sent, lost) = warnings.finish();
        assert_eq!((sent.len(), lost.len()), (1, 1));
        let mut warnings = Warnings::default();
        for i in 0..20 {
            warnings.add(format!("{i}{}", "ä".repeat(500)));
        }
        let (sent, lost) = warnings.finish();
        assert!(lost.is_empty() && sent.iter().all(|text| text.chars().count() == MAX_ITEM));
        assert_eq!(sent.len(), MAX_TOTAL / MAX_ITEM);
    }
}
