//! Settings for the cases that a filter selects: time limits, and divergences that are accepted.
//!
//! Of several entries that select a case, the first one that says something counts.

use std::time::Duration;

use super::{SuiteRun, filter::Filter};

/// The settings for the cases of one filter.
#[derive(Debug, Clone)]
pub struct Override {
    /// The filter as it is written.
    pub text: String,
    pub filter: Filter,
    /// How long a case may take.
    pub timeout: Option<Duration>,
    /// The divergences that are accepted: classes or codes of hazards.
    pub accept: Vec<String>,
    /// Why they are.
    pub reason: String,
}

/// All entries, and the time limit of cases without one of their own.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The entries, the most important one first.
    pub entries: Vec<Override>,
    /// How long other cases may take.
    pub timeout: Option<Duration>,
}

impl Overrides {
    /// Whether anything depends on how long cases take.
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
