//! Anchors: keys of a pattern in parentheses, with or without a sign before them.
//!
//! Upstream counterpart: `pkg/engine/anchor/anchor.go`.

/// What an anchor asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorKind {
    /// `(key)`: the rest holds only where this does.
    Condition,
    /// `<(key)`: the whole rule holds only where this does.
    Global,
    /// `X(key)`: the key must not be there.
    Negation,
    /// `+(key)`: for mutation only.
    AddIfNotPresent,
    /// `=(key)`: if the key is there, its value must fit.
    Equality,
    /// `^(key)`: of a list, at least one element must fit.
    Existence,
}

/// A key of a pattern that is an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor<'k> {
    /// What it asks.
    pub kind: AnchorKind,
    /// The key that it asks about.
    pub key: &'k str,
}

impl<'k> Anchor<'k> {
    /// Reads a key; `None` if it is an ordinary one.
    pub fn parse(text: &'k str) -> Option<Self> {
        let text = text.trim();
        let (kind, rest) = match text.as_bytes().first()? {
            b'(' => (AnchorKind::Condition, text),
            b'<' => (AnchorKind::Global, &text[1..]),
            b'X' => (AnchorKind::Negation, &text[1..]),
            b'+' => (AnchorKind::AddIfNotPresent, &text[1..]),
            b'=' => (AnchorKind::Equality, &text[1..]),
            b'^' => (AnchorKind::Existence, &text[1..]),
            _ => return None,
        };
        let key = rest.strip_prefix('(')?.strip_suffix(')')?;
        (!key.is_empty() && !key.contains('\n')).then_some(Self { kind, key })
    }

    /// The same question about another key, as a pattern writes it.
    pub fn with_key(self, key: &str) -> String {
        let sign = match self.kind {
            AnchorKind::Condition => "",
            AnchorKind::Global => "<",
            AnchorKind::Negation => "X",
            AnchorKind::AddIfNotPresent => "+",
            AnchorKind::Equality => "=",
            AnchorKind::Existence => "^",
        };
        // Upstream writes nothing at all around an empty key.
        if key.is_empty() {
            return String::new();
        }
        format!("{sign}({key})")
    }

    /// Whether it is asked before the ordinary keys of its map.
    pub fn comes_first(self) -> bool {
        matches!(
            self.kind,
            AnchorKind::Condition | AnchorKind::Existence | AnchorKind::Equality | AnchorKind::Negation
        )
    }
}
