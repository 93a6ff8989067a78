//! Report levels: each includes the cases of the one before it.

use super::CaseStatus;
use crate::run::{Case, Outcome};

/// The cases to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// No case at all.
    None,
    /// Cases that fail.
    Fail,
    /// Also cases on which the engines diverge.
    #[default]
    Diverge,
    /// Also undecided and skipped cases.
    Skip,
    /// Also passing cases.
    Pass,
    /// Also cases for which `kyverno test` prints nothing.
    All,
}

impl Level {
    /// In ascending order.
    pub const ALL: [Self; 6] = [Self::None, Self::Fail, Self::Diverge, Self::Skip, Self::Pass, Self::All];

    /// The name on the command line.
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

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The lowest level that shows a case.
    fn of(case: &Case) -> Self {
        match CaseStatus::of(case) {
            CaseStatus::Fail | CaseStatus::Error | CaseStatus::Unmatched => Self::Fail,
            CaseStatus::Diverge => Self::Diverge,
            CaseStatus::Skip if case.outcome == Outcome::Silent => Self::All,
            CaseStatus::NeedsRegistry | CaseStatus::Unsupported | CaseStatus::Skip => Self::Skip,
            CaseStatus::Pass => Self::Pass,
        }
    }

    pub fn shows(self, case: &Case) -> bool {
        self >= Self::of(case)
    }
}
