//! Settings for the cases that a filter selects: time limits, and accepted divergences.
//!
//! If several entries select a case, the first one with the setting counts.

use std::time::Duration;

use super::{SuiteRun, filter::Filter};

/// The settings for the cases of one filter.
#[derive(Debug, Clone)]
pub struct Override {
    /// The filter as written.
    pub text: String,
    pub filter: Filter,
    /// The time limit of a case.
    pub timeout: Option<Duration>,
    /// The accepted divergences: classes or hazard codes.
    pub accept: Vec<String>,
    /// The reason for accepting them.
    pub reason: String,
}

/// All entries, and the default time limit.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// In descending precedence.
    pub entries: Vec<Override>,
    /// The time limit of other cases.
    pub timeout: Option<Duration>,
}

impl Overrides {
    /// Whether anything depends on the duration of cases.
    pub fn needs_watch(&self) -> bool {
        self.timeout.is_some() || self.entries.iter().any(|entry| entry.timeout.is_some())
    }

    /// Applies the settings to the cases of a suite.
    pub fn apply(&self, run: &mut SuiteRun) {
        if self.entries.is_empty() && self.timeout.is_none() {
            return;
        }
        let mut cases = std::mem::take(&mut run.cases);
        for case in &mut cases {
            let entries: Vec<&Override> = self
                .entries
                .iter()
                .filter(|entry| entry.filter.case(run, case))
                .collect();
            let timeout = entries.iter().find_map(|entry| entry.timeout).or(self.timeout);
            if let Some(accepting) = entries.iter().find(|entry| !entry.accept.is_empty()) {
                case.accept(&accepting.accept, &accepting.reason);
            }
            if let Some(timeout) = timeout {
                case.limit(timeout);
            }
        }
        run.cases = cases;
    }
}
