//! Anchors: pattern keys in parentheses, with or without a sign before them.
//!
//! Upstream counterpart: `pkg/engine/anchor/anchor.go` (Kyverno 1.19).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorKind {
    /// `(key)`: the rest applies only if this holds.
    Condition,
    /// `<(key)`: the whole rule applies only if this holds.
    Global,
    /// `X(key)`: the key must be absent.
    Negation,
    /// `+(key)`: for mutation only.
    AddIfNotPresent,
    /// `=(key)`: if the key is present, its value must match.
    Equality,
    /// `^(key)`: at least one element of a list must match.
    Existence,
}

/// A key of a pattern that is an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor<'k> {
    pub kind: AnchorKind,
    /// The key without the anchor.
    pub key: &'k str,
}

impl<'k> Anchor<'k> {
    /// Parses a key; `None` if it is not an anchor.
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

    /// Writes the same anchor around another key.
    pub fn with_key(self, key: &str) -> String {
        let sign = match self.kind {
            AnchorKind::Condition => "",
            AnchorKind::Global => "<",
            AnchorKind::Negation => "X",
            AnchorKind::AddIfNotPresent => "+",
            AnchorKind::Equality => "=",
            AnchorKind::Existence => "^",
        };
        // Upstream writes no anchor around an empty key.
        if key.is_empty() {
            return String::new();
        }
        format!("{sign}({key})")
    }

    /// Whether it is checked before the ordinary keys of its map.
    pub fn comes_first(self) -> bool {
        matches!(
            self.kind,
            AnchorKind::Condition | AnchorKind::Existence | AnchorKind::Equality | AnchorKind::Negation
        )
    }
}
