//! The coverage of a suite's policies: rules, filters, conditions, expressions and their branches, with their outcomes.
//!
//! Only requests that a row or a case tests count: an evaluation that no expectation checks proves nothing. The native
//! counterpart has the same expressions, so only Kyverno's side is counted; rules from autogen count for the rule they
//! come from.
//!
//! Upstream counterpart: none.

mod items;
mod observe;
mod recorder;

pub(super) use observe::observe;
pub(super) use recorder::CoverageRecorder;

use super::{Key, check::Check};
use crate::suite::Suite;
use kyvtest_cel::observe::Fork;
use kyvtest_go_compat::diagnostic::{FileId, Span};

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

/// A possible outcome of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The word for it.
    pub name: &'static str,
    /// How often it occurred.
    pub count: u64,
    /// Whether a suite should exercise it. Errors may be impossible, so they are only counted.
    pub wanted: bool,
}

/// A part of a policy, and its outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: ItemKind,
    /// `None` in a policy without rules.
    pub rule: Option<String>,
    /// The path in the rule or spec: `validate.cel.expressions[0].expression`; empty for the rule itself.
    pub path: String,
    /// The source text of an expression or a part of one; otherwise empty.
    pub text: String,
    pub span: Span,
    pub outcomes: Vec<Outcome>,
}

impl Item {
    /// The required outcomes that did not occur.
    pub fn missing(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.wanted && outcome.count == 0)
    }

    /// Whether no outcome occurred.
    pub fn is_unreached(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.count == 0)
    }

    /// How many of the required outcomes occurred.
    pub fn score(&self) -> Score {
        let wanted = self.outcomes.iter().filter(|outcome| outcome.wanted);
        Score {
            seen: wanted.clone().filter(|outcome| outcome.count > 0).count() as u64,
            total: wanted.count() as u64,
        }
    }
}

/// A number out of a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    pub seen: u64,
    pub total: u64,
}

impl Score {
    /// Adds scores.
    pub fn sum(scores: impl IntoIterator<Item = Self>) -> Self {
        scores.into_iter().fold(Self::default(), |all, one| Self {
            seen: all.seen + one.seen,
            total: all.total + one.total,
        })
    }

    /// The percentage in tenths, rounded down; 100 % of an empty total.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCoverage {
    pub name: String,
    pub kind: &'static str,
    pub file: FileId,
    pub doc: usize,
    pub items: Vec<Item>,
}

impl PolicyCoverage {
    pub fn score(&self) -> Score {
        Score::sum(self.items.iter().map(Item::score))
    }
}

/// The coverage of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    pub policies: Vec<PolicyCoverage>,
    /// The resources that no row and no case tests.
    pub unreferenced: Vec<(Key, Span)>,
}

impl Coverage {
    pub fn score(&self) -> Score {
        Score::sum(self.policies.iter().map(PolicyCoverage::score))
    }
}

/// The resources of a suite that no row and no case tests.
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
