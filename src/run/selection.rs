//! The selection of cases: filters, Kyverno's selector, shards, and limits.
//!
//! A selection is applied as early as possible: to a test file, to a suite, to the rows of a suite and their resources
//! before anything is evaluated, and to the cases.

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::{Case, Key, SuiteRun, check::Check, filter::Filter, selector::Selector, source_map};
use crate::suite::Suite;
use kyvtest_go_compat::text::path::clean;

/// One of several parts of a run: `--shard 1/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// From 1.
    pub part: u64,
    /// The number of shards.
    pub of: u64,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// The selection of cases. The default selects all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// A case must match one of these, if there are any.
    pub filters: Vec<Filter>,
    /// Kyverno's selector.
    pub selector: Option<Selector>,
    /// The line of a case must contain one of these, if there are any.
    pub texts: Vec<String>,
    /// The part of the test files to run.
    pub shard: Option<Shard>,
    /// The number of problems after which to stop.
    pub max_fail: Option<usize>,
    /// Apply the selector to rows, as `kyverno test` does.
    pub compat: bool,
}

impl Selection {
    /// Whether a test file may have selected cases, and belongs to this shard.
    pub fn file(&self, path: &str) -> bool {
        let is_here = self
            .shard
            .is_none_or(|shard| source_map::fingerprint(&[&from_here(path)]) % shard.of == shard.part - 1);
        is_here && self.may_select(|filter| filter.file(path))
    }

    /// Whether a suite may have selected cases.
    pub fn suite(&self, path: &str, name: &str, tags: &[String]) -> bool {
        self.may_select(|filter| filter.suite(path, name, tags))
    }

    fn may_select(&self, decide: impl Fn(&Filter) -> Option<bool>) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| decide(filter) != Some(false))
    }

    /// The resources of selected cases; `None` if nothing is selected by resource. `kyverno test` evaluates all.
    pub(super) fn resources(&self, suite: &Suite, tags: &[String]) -> Option<BTreeSet<Key>> {
        if self.filters.is_empty() || self.compat {
            return None;
        }
        let policies: BTreeSet<&str> = Check::all(suite).map(|check| check.policy_name()).collect();
        let may_be_selected = |key: &Key| {
            let mut policies = policies.iter();
            policies.any(|policy| self.may_select(|filter| filter.row(suite, tags, policy, key)))
        };
        let keys = suite.resources.iter().map(Key::of);
        Some(keys.filter(may_be_selected).collect())
    }

    /// Keeps the selected cases, and returns whether the suite is still relevant.
    pub fn narrow(&self, run: &mut SuiteRun) -> bool {
        // In Kyverno's lens the selector has already been applied to the rows.
        let selector = self.selector.as_ref().filter(|_| !self.compat);
        if self.filters.is_empty() && self.texts.is_empty() && selector.is_none() {
            return true;
        }
        let mut cases = std::mem::take(&mut run.cases);
        cases.retain(|case| {
            let is_filtered = self.filters.is_empty() || self.filters.iter().any(|filter| filter.case(run, case));
            is_filtered && self.has_text(run, case) && selector.is_none_or(|selector| selector.selects(case))
        });
        let any = !cases.is_empty();
        let broken = run.is_broken();
        run.cases = cases;
        any || broken
    }

    fn has_text(&self, run: &SuiteRun, case: &Case) -> bool {
        if self.texts.is_empty() {
            return true;
        }
        let line = format!("{} :: {}", run.path, case.title());
        self.texts.iter().any(|text| line.contains(text.as_str()))
    }
}

/// A path independent of its spelling: from the working directory, links resolved.
fn from_here(path: &str) -> String {
    let (Ok(full), Some(here)) = (fs::canonicalize(path), here()) else {
        return clean(path);
    };
    let mut common = here.components().zip(full.components());
    let shared = common.by_ref().take_while(|(a, b)| a == b).count();
    let up = here.components().skip(shared).map(|_| "..".to_owned());
    let down = full.components().skip(shared);
    let down = down.map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// The working directory, links resolved.
fn here() -> Option<&'static Path> {
    static HERE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let here = HERE.get_or_init(|| env::current_dir().and_then(fs::canonicalize).ok());
    here.as_deref()
}
