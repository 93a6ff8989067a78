//! The classification of a case in reports: its outcome, and whether the engines differ.

use crate::run::{Case, Key, Outcome};

/// The status of a case in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseStatus {
    /// The result is as expected, and the engines do not diverge.
    Pass,
    /// The result differs from the expected one.
    Fail,
    /// The policy could not be evaluated.
    Error,
    /// No policy or rule produced a result for the row.
    Unmatched,
    /// The result is as expected, but the engines diverge.
    Diverge,
    /// Only an image registry can decide, and no mock states its answer.
    NeedsRegistry,
    /// No release of Kyverno's command line evaluates the rule, or there is no policy for the chosen engine.
    Unsupported,
    /// `kyverno test` skips the row, or prints nothing for it.
    Skip,
}

impl CaseStatus {
    /// All of them, problems first.
    pub const ALL: [Self; 8] = [
        Self::Fail,
        Self::Error,
        Self::Unmatched,
        Self::Diverge,
        Self::NeedsRegistry,
        Self::Unsupported,
        Self::Skip,
        Self::Pass,
    ];

    pub fn of(case: &Case) -> Self {
        match case.outcome {
            Outcome::Pass if case.diverges() => Self::Diverge,
            Outcome::Pass => Self::Pass,
            Outcome::Fail => Self::Fail,
            Outcome::Error => Self::Error,
            Outcome::Unmatched => Self::Unmatched,
            Outcome::NeedsRegistry => Self::NeedsRegistry,
            Outcome::Unsupported => Self::Unsupported,
            Outcome::Skip | Outcome::Silent => Self::Skip,
        }
    }

    /// The order in which reports show cases: failures, divergences, everything else.
    pub fn rank(self) -> u8 {
        match self {
            Self::Fail | Self::Error | Self::Unmatched => 0,
            Self::Diverge => 1,
            Self::Pass | Self::NeedsRegistry | Self::Unsupported | Self::Skip => 2,
        }
    }

    /// Whether such a case fails a run.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Fail | Self::Error | Self::Unmatched | Self::Diverge)
    }

    /// The name in columns; `kyverno test` has fewer.
    pub fn column(self, compat: bool) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Fail => "Fail",
            Self::Error | Self::Unmatched if compat => "Fail",
            Self::Error => "Error",
            Self::Unmatched => "Unmatched",
            Self::Diverge => "Diverge",
            Self::NeedsRegistry => "Needs registry",
            Self::Unsupported => "Unsupported",
            Self::Skip => "Skip",
        }
    }

    /// The kind of problem, as JUnit and TAP name it: `expectation.mismatch`, `divergence.weaker`.
    pub fn problem(self, case: &Case) -> String {
        match self {
            Self::Unmatched => "expectation.unmatched".to_owned(),
            Self::Error => "policy.refused".to_owned(),
            Self::Diverge => {
                let class = case.divergence.as_ref().map_or("", |found| found.class.as_str());
                format!("divergence.{class}")
            }
            Self::Pass | Self::Fail | Self::NeedsRegistry | Self::Unsupported | Self::Skip => {
                "expectation.mismatch".to_owned()
            }
        }
    }
}

/// The reason for the outcome, in one line.
pub(super) fn reason(case: &Case) -> String {
    match &case.divergence {
        Some(found) if CaseStatus::of(case) == CaseStatus::Diverge => {
            super::one_line(&format!("{}: {}", found.class.as_str(), found.cause))
        }
        _ => super::one_line(&case.reason),
    }
}

/// `apiVersion/Kind/namespace/name`, as `kyverno test` prints resources; `/name` for payloads.
pub(super) fn resource(key: &Key) -> String {
    if key.kind.is_empty() {
        let prefix = if key.name.contains('/') { "" } else { "/" };
        return format!("{prefix}{}", key.name);
    }
    format!("{}/{}/{}/{}", key.api_version, key.kind, key.namespace, key.name)
}

/// The cells of a case: POLICY, RULE, RESOURCE, RESULT, REASON and, on request, MESSAGE.
pub(super) fn cells(case: &Case, compat: bool, detailed: bool) -> Vec<String> {
    let mut cells = vec![
        case.policy.clone(),
        case.rule.clone().unwrap_or_default(),
        resource(&case.resource),
        match CaseStatus::of(case).column(compat) {
            column if case.mocked => format!("{column} (mocked)"),
            column => column.to_owned(),
        },
        reason(case),
    ];
    if detailed {
        let message = case.kyverno.as_ref().map_or(&case.reason, |answer| &answer.message);
        cells.push(message.clone());
    }
    for cell in &mut cells {
        *cell = super::one_line(cell);
    }
    cells
}

/// The columns of [`cells`].
pub(super) fn columns(detailed: bool) -> &'static [&'static str] {
    let all = &["POLICY", "RULE", "RESOURCE", "RESULT", "REASON", "MESSAGE"];
    if detailed { all } else { &all[..5] }
}
