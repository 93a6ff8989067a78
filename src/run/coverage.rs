//! What a suite exercises of its policies: rules, filters, conditions, expressions and their branches, and what each came to.
//!
//! Only requests count that a row or a case asks a policy about: what is evaluated and never looked at proves nothing. The
//! native counterpart has the same expressions, so Kyverno's side is counted, once; what autogen makes of a rule counts for the rule
//! as it is written. No upstream counterpart.

mod items;
mod observe;
mod recorder;

pub(super) use observe::observe;
pub(super) use recorder::CoverageRecorder;

use super::{Key, check::Check};
use crate::suite::Suite;
use kyvtest_cel::observe::Fork;
use kyvtest_go_compat::diagnostic::{FileId, Span};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A rule, or a policy without rules.
    Rule,
    /// A filter of a match or exclude block.
    Filter,
    /// A match condition or precondition in CEL.
    MatchCondition,
    Variable,
    Validation,
    MessageExpression,
    AuditAnnotation,
    /// A condition of `preconditions` or `deny`.
    Condition,
    /// One of several patterns.
    Pattern,
    /// An entry of `foreach`.
    Loop,
    /// A part of an expression.
    Branch(Fork),
}

impl ItemKind {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Filter => "filter",
            Self::MatchCondition => "match-condition",
            Self::Variable => "variable",
            Self::Validation => "validation",
            Self::MessageExpression => "message-expression",
            Self::AuditAnnotation => "audit-annotation",
            Self::Condition => "condition",
            Self::Pattern => "pattern",
            Self::Loop => "foreach",
            Self::Branch(fork) => fork.as_str(),
        }
    }
}

/// One thing that an item can come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The word for it.
    pub name: &'static str,
    /// How often it did.
    pub count: u64,
    /// Whether a suite should try it. Errors need not be possible, so they are only counted.
    pub wanted: bool,
}

/// A part of a policy, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The rule that it belongs to; `None` in a policy without rules.
    pub rule: Option<String>,
    /// Location in the rule or spec: `validate.cel.expressions[0].expression`; empty for the rule itself.
    pub path: String,
    /// The part as it is written, where it is an expression or a part of one; else empty.
    pub text: String,
    /// Location.
    pub span: Span,
    /// What it came to.
    pub outcomes: Vec<Outcome>,
}

impl Item {
    /// What it should have come to and did not.
    pub fn missing(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.wanted && outcome.count == 0)
    }

    /// Whether it came to nothing at all.
    pub fn is_unreached(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.count == 0)
    }

    /// How many of the wanted outcomes occurred.
    pub fn score(&self) -> Score {
        let wanted = self.outcomes.iter().filter(|outcome| outcome.wanted);
        Score {
            seen: wanted.clone().filter(|outcome| outcome.count > 0).count() as u64,
            total: wanted.count() as u64,
        }
    }
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// How many were seen.
    pub seen: u64,
    pub total: u64,
}

impl Score {
    /// Puts scores together.
    pub fn sum(scores: impl IntoIterator<Item = Self>) -> Self {
        scores.into_iter().fold(Self::default(), |all, one| Self {
            seen: all.seen + one.seen,
            total: all.total + one.total,
        })
    }

    /// The percentage in tenths, rounded down; all of nothing is all.
    pub const fn permille(self) -> u64 {
        match (self.seen * 1000).checked_div(self.total) {
            Some(permille) => permille,
            None => 1000,
        }
    }

    /// `81.2`
    pub fn percent(self) -> String {
        let permille = self.permille();
        format!("{}.{}", permille / 10, permille % 10)
    }
}

/// What was tried of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCoverage {
    pub name: String,
    pub kind: &'static str,
    pub file: FileId,
    /// Its document there.
    pub doc: usize,
    /// Its parts.
    pub items: Vec<Item>,
}

impl PolicyCoverage {
    /// How much was tried.
    pub fn score(&self) -> Score {
        Score::sum(self.items.iter().map(Item::score))
    }
}

/// What a suite tries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    pub policies: Vec<PolicyCoverage>,
    /// Its resources that no row and no case is about.
    pub unreferenced: Vec<(Key, Span)>,
}

impl Coverage {
    /// How much was tried.
    pub fn score(&self) -> Score {
        Score::sum(self.policies.iter().map(PolicyCoverage::score))
    }
}

/// The resources that no row and no case of a suite is about.
fn unreferenced(suite: &Suite) -> Vec<(Key, Span)> {
    let checks: Vec<Check<'_>> = Check::all(suite).collect();
    let resources = suite.resources.iter().map(|resource| {
        let span = resource.origin.span;
        (Key::of(resource), Span::point(span.file, span.start))
    });
    resources
        .filter(|(key, _)| !checks.iter().any(|check| check.concerns(key)))
        .collect()
}
