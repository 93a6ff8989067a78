//! Anchors: keys of a pattern in parentheses, with or without a sign before them.
//!
//! Upstream counterpart: `pkg/engine/anchor/{anchor,error}.go`.

/// What an anchor asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
    pub kind: Kind,
    /// The key that it asks about.
    pub key: &'k str,
}

impl<'k> Anchor<'k> {
    /// Reads a key; `None` if it is an ordinary one.
    pub fn parse(text: &'k str) -> Option<Self> {
        let text = text.trim();
        let (kind, rest) = match text.as_bytes().first()? {
            b'(' => (Kind::Condition, text),
            b'<' => (Kind::Global, &text[1..]),
            b'X' => (Kind::Negation, &text[1..]),
            b'+' => (Kind::AddIfNotPresent, &text[1..]),
            b'=' => (Kind::Equality, &text[1..]),
            b'^' => (Kind::Existence, &text[1..]),
            _ => return None,
        };
        let key = rest.strip_prefix('(')?.strip_suffix(')')?;
        (!key.is_empty() && !key.contains('\n')).then_some(Self { kind, key })
    }

    /// The same question about another key, as a pattern writes it.
    pub fn with_key(self, key: &str) -> String {
        let sign = match self.kind {
            Kind::Condition => "",
            Kind::Global => "<",
            Kind::Negation => "X",
            Kind::AddIfNotPresent => "+",
            Kind::Equality => "=",
            Kind::Existence => "^",
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
            Kind::Condition | Kind::Existence | Kind::Equality | Kind::Negation
        )
    }
}

/// Why a pattern does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The text.
    pub message: String,
    /// Where in the resource.
    pub path: String,
    class: Class,
}

/// Where a mismatch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// An anchor itself, or what is below it.
    Anchor(Kind),
    /// Several mismatches put together.
    Aggregate,
    /// A value.
    Plain,
}

const CONDITION: &str = "conditional anchor mismatch";
const GLOBAL: &str = "global anchor mismatch";
const NEGATION: &str = "negation anchor matched in resource";

impl Mismatch {
    /// A value that does not fit.
    pub(super) fn plain(path: &str, message: String) -> Self {
        Self {
            message,
            path: path.to_owned(),
            class: Class::Plain,
        }
    }

    /// A condition that does not hold.
    pub(super) fn condition(path: String, reason: &str) -> Self {
        Self {
            message: format!("{CONDITION}: {reason}"),
            path,
            class: Class::Anchor(Kind::Condition),
        }
    }

    /// A global condition that does not hold.
    pub(super) fn global(path: String, reason: &str) -> Self {
        Self {
            message: format!("{GLOBAL}: {reason}"),
            path,
            class: Class::Anchor(Kind::Global),
        }
    }

    /// A key that must not be there.
    pub(super) fn negation(path: String) -> Self {
        Self {
            message: format!("{NEGATION}: {path} is not allowed"),
            path,
            class: Class::Anchor(Kind::Negation),
        }
    }

    /// Conditions that do not hold, put together.
    pub(super) fn aggregate(path: &str, parts: &[Self]) -> Self {
        let texts: Vec<&str> = parts.iter().map(|part| part.message.as_str()).collect();
        Self {
            message: texts.join("; "),
            path: path.to_owned(),
            class: Class::Aggregate,
        }
    }

    /// Whether the rule does not concern the resource. What no anchor says itself is known by its text, as upstream.
    pub(super) fn is_skip(&self) -> bool {
        match self.class {
            Class::Anchor(kind) => matches!(kind, Kind::Condition | Kind::Global),
            _ => self.message.contains(CONDITION) || self.message.contains(GLOBAL),
        }
    }

    /// Whether a key is there that must not be.
    pub(super) fn is_negation(&self) -> bool {
        match self.class {
            Class::Anchor(kind) => kind == Kind::Negation,
            _ => self.message.contains(NEGATION),
        }
    }

    /// Whether it was not put together from others.
    pub(super) fn is_direct(&self) -> bool {
        self.class != Class::Aggregate
    }
}
