//! Mismatches of a pattern, and their effect on anchors.
//!
//! Upstream counterpart: `pkg/engine/anchor/error.go`, `PatternError` in `pkg/engine/validate/validate.go`.

use super::Kind;

/// A pattern mismatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub message: String,
    /// The path in the resource.
    pub path: String,
    class: Class,
}

/// The origin of a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// An anchor itself, or a value below it.
    Anchor(Kind),
    /// Several mismatches combined.
    Aggregate,
    /// A value.
    Plain,
}

const CONDITION: &str = "conditional anchor mismatch";
const GLOBAL: &str = "global anchor mismatch";
const NEGATION: &str = "negation anchor matched in resource";

impl Mismatch {
    /// A value that does not match.
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

    /// A key that must be absent.
    pub(super) fn negation(path: String) -> Self {
        Self {
            message: format!("{NEGATION}: {path} is not allowed"),
            path,
            class: Class::Anchor(Kind::Negation),
        }
    }

    /// Combines conditions that do not hold.
    pub(super) fn aggregate(path: &str, parts: &[Self]) -> Self {
        let texts: Vec<&str> = parts.iter().map(|part| part.message.as_str()).collect();
        Self {
            message: texts.join("; "),
            path: path.to_owned(),
            class: Class::Aggregate,
        }
    }

    /// Whether the rule does not apply to the resource. Like upstream, recognises mismatches other than an anchor's own
    /// by their message.
    pub(super) fn is_skip(&self) -> bool {
        match self.class {
            Class::Anchor(kind) => matches!(kind, Kind::Condition | Kind::Global),
            _ => self.message.contains(CONDITION) || self.message.contains(GLOBAL),
        }
    }

    /// Whether a key is present that must be absent.
    pub(super) fn is_negation(&self) -> bool {
        match self.class {
            Class::Anchor(kind) => kind == Kind::Negation,
            _ => self.message.contains(NEGATION),
        }
    }

    /// Whether it is not a combination of others.
    pub(super) fn is_direct(&self) -> bool {
        self.class != Class::Aggregate
    }
}
