//! The options that select cases: filters, Kyverno's selector, shards, and limits.

use std::str::FromStr;

use super::Failure;
use crate::run::{Selection, Shard, filter::Filter, selector::Selector};
use kyvtest_go_compat::diagnostic::{Diagnostic, Severity, Sources};

/// Diagnostics with their sources.
pub(super) type Remarks = (Vec<Diagnostic>, Sources);

#[derive(Debug, clap::Args)]
pub(super) struct SelectionArgs {
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

/// The number of problems after which a run stops.
#[derive(Debug, Clone, Copy)]
struct MaxFail(Option<usize>);

impl FromStr for MaxFail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Running cases are never interrupted, so `immediate` makes no difference.
        let number = text.strip_suffix(":immediate").unwrap_or(text);
        match number.parse() {
            _ if text == "all" => Ok(Self(None)),
            Ok(number) if number > 0 => Ok(Self(Some(number))),
            _ => Err("use a number from 1, or `all`".to_owned()),
        }
    }
}

impl SelectionArgs {
    /// Parses the expressions; also returns problems that do not stop the run, as in `kyverno test`.
    pub(super) fn read(&self, compat: bool) -> Result<(Selection, Remarks), Failure> {
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
        let selection = Selection {
            filters,
            selector,
            texts: self.texts.clone(),
            shard: self.shard,
            max_fail: max_fail.or(self.fail_fast.then_some(1)),
            compat,
        };
        Ok((selection, (remarks, sources)))
    }
}
