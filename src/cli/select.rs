//! Which cases are run: filters, Kyverno's selector, shards, and when to stop.

use std::{
    env, fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::OnceLock,
};

use super::Failure;
use crate::{
    report::{Shard, human},
    run::{Case, SuiteRun, filter::Filter, places, selector::Selector},
};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, Severity, Sources},
    text::path::clean,
};

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Run only cases that match EXPRESSION, such as `policy(=disallow-*)` (may be repeated)
    #[arg(short = 'E', long = "filter", value_name = "EXPRESSION")]
    filters: Vec<String>,

    /// Kyverno's selector: `policy=NAME,rule=NAME,resource=NAME`, with wildcards
    #[arg(short = 't', long, value_name = "SELECTOR")]
    test_case_selector: Option<String>,

    /// Run only cases whose line contains one of these strings
    #[arg(last = true, value_name = "TEXT")]
    texts: Vec<String>,

    /// Run only part I of N of the test files, such as `1/3`
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(super) shard: Option<Shard>,

    /// Stop after the first problem
    #[arg(long, conflicts_with = "max_fail")]
    fail_fast: bool,

    /// Run everything (the default)
    #[arg(long, overrides_with_all = ["fail_fast", "max_fail"])]
    no_fail_fast: bool,

    /// Stop after N problems [default: all]
    #[arg(long, value_name = "N")]
    max_fail: Option<MaxFail>,
}

fn shard(text: &str) -> Result<Shard, String> {
    let numbers = text.split_once('/').map(|(part, of)| (part.parse(), of.parse()));
    match numbers {
        Some((Ok(part), Ok(of))) if 1 <= part && part <= of => Ok(Shard { part, of }),
        _ => Err("write I/N with I from 1 to N, such as `1/3`".to_owned()),
    }
}

/// A path that does not depend on how it is spelt: from the working directory, links resolved.
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

/// After how many problems a run stops.
#[derive(Debug, Clone, Copy)]
struct MaxFail(Option<usize>);

impl FromStr for MaxFail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Nothing is interrupted in the middle here, so that `immediate` changes nothing.
        let number = text.strip_suffix(":immediate").unwrap_or(text);
        match number.parse() {
            _ if text == "all" => Ok(Self(None)),
            Ok(number) if number > 0 => Ok(Self(Some(number))),
            _ => Err("use a number from 1, or `all`".to_owned()),
        }
    }
}

/// What the options mean.
#[derive(Debug)]
pub(super) struct Selected {
    filters: Vec<Filter>,
    /// Kyverno's selector.
    pub(super) selector: Option<Selector>,
    /// What was wrong with it and did not stop the run, as in `kyverno test`.
    pub(super) remarks: Vec<Diagnostic>,
    /// The texts that these refer to.
    pub(super) sources: Sources,
    texts: Vec<String>,
    shard: Option<Shard>,
    /// After how many problems to stop.
    pub(super) max_fail: Option<usize>,
    compat: bool,
}

impl Selection {
    /// Reads the expressions.
    pub(super) fn read(&self, compat: bool) -> Result<Selected, Failure> {
        let mut sources = Sources::new();
        let mut problems = Vec::new();
        let mut filters = Vec::new();
        for text in &self.filters {
            let file = sources.add("-E", text.as_str());
            match Filter::parse(text, file) {
                Ok(filter) => filters.push(filter),
                Err(problem) => problems.push(problem),
            }
        }
        let mut remarks = Vec::new();
        let selector = self.test_case_selector.as_deref().map(|text| {
            let file = sources.add("-t", text);
            let (selector, wrong) = Selector::parse(text, file);
            if compat {
                let weak = |found: Diagnostic| found.with_severity(Severity::Warning);
                remarks.extend(wrong.into_iter().map(weak));
            } else {
                problems.extend(wrong);
            }
            selector
        });
        if !problems.is_empty() {
            return Err(Failure::Input(problems, sources));
        }
        let max_fail = self.max_fail.and_then(|max| max.0);
        Ok(Selected {
            filters,
            selector,
            remarks,
            sources,
            texts: self.texts.clone(),
            shard: self.shard,
            max_fail: max_fail.or(self.fail_fast.then_some(1)),
            compat,
        })
    }
}

impl Selected {
    /// Whether a test file may have selected cases, and belongs to this part.
    pub(super) fn file(&self, path: &str) -> bool {
        let here = self
            .shard
            .is_none_or(|shard| places::fingerprint(&[&from_here(path)]) % shard.of == shard.part - 1);
        here && self.can(|filter| filter.file(path))
    }

    /// Whether a suite may have selected cases.
    pub(super) fn suite(&self, path: &str, name: &str, tags: &[String]) -> bool {
        self.can(|filter| filter.suite(path, name, tags))
    }

    fn can(&self, ask: impl Fn(&Filter) -> Option<bool>) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| ask(filter) != Some(false))
    }

    /// Leaves the selected cases, and says whether the suite is still of interest.
    pub(super) fn narrow(&self, run: &mut SuiteRun) -> bool {
        // In Kyverno's lens the selector has been at the rows already.
        let selector = self.selector.as_ref().filter(|_| !self.compat);
        if self.filters.is_empty() && self.texts.is_empty() && selector.is_none() {
            return true;
        }
        let mut cases = std::mem::take(&mut run.cases);
        cases.retain(|case| {
            let filtered = self.filters.is_empty() || self.filters.iter().any(|filter| filter.case(run, case));
            filtered && self.has_text(run, case) && selector.is_none_or(|selector| selector.selects(case))
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
        let line = format!("{} :: {}", run.path, human::title(case));
        self.texts.iter().any(|text| line.contains(text.as_str()))
    }
}
