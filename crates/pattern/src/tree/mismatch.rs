//! Why a pattern does not fit, and what anchors make of it.
//!
//! Upstream counterpart: `pkg/engine/anchor/error.go`, `PatternError` in `pkg/engine/validate/validate.go`.

use super::Kind;

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
