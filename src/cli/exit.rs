//! Exit codes: the only table of their numbers and their precedence.

use std::{fmt::Write as _, process::ExitCode};

/// The outcome of the process. If several apply, the greatest value wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// Every expectation was met, and there is no unaccepted divergence.
    Success,
    /// No tests were selected.
    NoTests,
    /// Coverage, a budget or a proof label is below the required threshold.
    BelowThreshold,
    /// The expectations were met, but the engines diverge.
    Divergence,
    /// An expectation was not met, or a policy could not be converted.
    Mismatch,
    /// The usage, the configuration, a filter or an input is wrong.
    Input,
    /// The user interrupted the run.
    Interrupted,
    /// A bug in kyvtest.
    Internal,
}

impl Exit {
    /// In ascending order of precedence.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::NoTests,
        Self::BelowThreshold,
        Self::Divergence,
        Self::Mismatch,
        Self::Input,
        Self::Interrupted,
        Self::Internal,
    ];

    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Mismatch => 1,
            Self::Input => 2,
            Self::Divergence => 3,
            Self::NoTests => 4,
            Self::BelowThreshold => 5,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }

    /// The variant of an exit code; an unknown code is an input error.
    pub fn from_code(code: u8) -> Self {
        let known = Self::ALL.into_iter().find(|exit| exit.code() == code);
        known.unwrap_or(Self::Input)
    }

    /// What the number means, in one line.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "every expectation met, no failing divergence",
            Self::Mismatch => "an expectation was not met; `convert`: a policy was rejected",
            Self::Input => "error in usage, configuration, filter or input",
            Self::Divergence => "expectations met, but the engines diverge",
            Self::NoTests => "no tests selected",
            Self::BelowThreshold => "coverage or budget threshold missed; `prove`, `migrate`: label too weak",
            Self::Internal => "internal error: a bug in kyvtest",
            Self::Interrupted => "interrupted",
        }
    }

    /// Maps to the codes of `kyverno test`, which has only two.
    pub fn compat(self) -> Self {
        match self {
            Self::Mismatch | Self::Input | Self::Divergence | Self::BelowThreshold => Self::Mismatch,
            Self::NoTests => Self::Success,
            Self::Success | Self::Interrupted | Self::Internal => self,
        }
    }

    /// The stronger of two.
    pub fn combine(self, other: Self) -> Self {
        self.max(other)
    }
}

impl FromIterator<Exit> for Exit {
    /// The strongest of all; success if there is none.
    fn from_iter<I: IntoIterator<Item = Self>>(exits: I) -> Self {
        exits.into_iter().fold(Self::Success, Self::combine)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The section on exit codes of the long help and the manual page.
pub(super) fn help() -> String {
    let mut by_code = Exit::ALL;
    by_code.sort_by_key(|exit| exit.code());
    let mut text = String::from("Exit codes:\n");
    for exit in by_code {
        let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
    }
    let order: Vec<String> = Exit::ALL.iter().rev().map(|exit| exit.code().to_string()).collect();
    let _ = write!(
        text,
        "\nIf several apply, the first of these counts: {}.",
        order.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_order_decides() {
        let order: Vec<u8> = Exit::ALL.iter().rev().map(|exit| exit.code()).collect();
        assert_eq!(order, [70, 130, 2, 1, 3, 5, 4, 0]);
        assert!(Exit::ALL.is_sorted());
        assert_eq!(Exit::Mismatch.combine(Exit::Divergence), Exit::Mismatch);
        assert_eq!(
            Exit::from_iter([Exit::NoTests, Exit::Input, Exit::Success]),
            Exit::Input
        );
        assert_eq!(Exit::from_iter([]), Exit::Success);
    }

    #[test]
    fn the_readme_has_the_same_table() {
        let readme = include_str!("../../README.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(readme.contains(&row), "README has no row `{row}`");
        }
    }
}
