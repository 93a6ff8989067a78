//! Which cases people are shown: each level has what the one before it has, and more.

use super::CaseStatus;
use crate::run::{Case, Outcome};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// No case at all.
    None,
    /// Cases that are differently from expected.
    Fail,
    /// And those on which the engines differ.
    #[default]
    Diverge,
    /// And those that are not decided or skipped.
    Skip,
    /// And those that are as expected.
    Pass,
    /// And those for which `kyverno test` prints nothing.
    All,
}

impl Level {
    /// All of them, the least first.
    pub const ALL: [Self; 6] = [Self::None, Self::Fail, Self::Diverge, Self::Skip, Self::Pass, Self::All];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fail => "fail",
            Self::Diverge => "diverge",
            Self::Skip => "skip",
            Self::Pass => "pass",
            Self::All => "all",
        }
    }

    /// The level of a word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The least level that shows a case.
    fn of(case: &Case) -> Self {
        match CaseStatus::of(case) {
            CaseStatus::Fail | CaseStatus::Error | CaseStatus::Unmatched => Self::Fail,
            CaseStatus::Diverge => Self::Diverge,
            CaseStatus::Skip if case.outcome == Outcome::Silent => Self::All,
            CaseStatus::Unsupported | CaseStatus::Skip => Self::Skip,
            CaseStatus::Pass => Self::Pass,
        }
    }

    pub fn shows(self, case: &Case) -> bool {
        self >= Self::of(case)
    }
}
