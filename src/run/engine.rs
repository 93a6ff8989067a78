//! The engine that decides rows.

use super::{Case, DivergenceClass, Outcome};
use kyvtest_model::verdict::Status;

/// The engines that evaluate the policies of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Kyverno decides the rows, and its verdicts are compared with those of the native policies.
    #[default]
    Both,
    /// Kyverno decides the rows, without comparison.
    Kyverno,
    /// The native policies that Kyverno would generate decide the rows, without comparison.
    Native,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Both, Self::Kyverno, Self::Native];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Kyverno => "kyverno",
            Self::Native => "native",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

/// Judges cases by the verdict of the native policy instead of Kyverno's. Cases of native policies are unchanged.
pub(super) fn judge_native(cases: &mut [Case]) {
    for case in cases {
        let missing = case
            .divergence
            .take()
            .filter(|found| found.class == DivergenceClass::NotConvertible);
        if let Some(missing) = missing {
            case.findings.clear();
            case.outcome = Outcome::Unsupported;
            case.reason = format!("no native policy: {}", missing.cause);
            case.kyverno = None;
            continue;
        }
        let Some(native) = case.vap.take() else { continue };
        let status = native.answer.status;
        let met = status.as_str() == case.expected || status == Status::NoMatch && case.expected == "skip";
        case.findings.clear();
        (case.outcome, case.reason) = if met || case.expected.is_empty() {
            (Outcome::Pass, String::new())
        } else if status == Status::NoMatch {
            let reason = "the native policy does not match the resource";
            (Outcome::Unmatched, reason.to_owned())
        } else {
            let reason = format!("expected {}, got {status} from the native policy", case.expected);
            (Outcome::Fail, reason)
        };
        case.kyverno = None;
        case.vap = Some(native);
    }
}
