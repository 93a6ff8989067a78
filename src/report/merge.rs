//! Merges the reports of shards into the report that the whole run would have written.
//!
//! Every shard must be present once. A repeated shard is an error; a missing one is reported separately, because the
//! results of the others are still useful.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use quick_junit::{NonSuccessKind, Report, TestCaseStatus, TestSuite};
use serde_json::{Value, json};

use super::{
    coverage::{self, Union},
    junit::{self, Dialect},
};
use crate::run::Shard;

/// Returns the strongest of several exit codes.
pub type Strongest<'f> = &'f dyn Fn(&[u8]) -> u8;

/// Several reports as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The report.
    pub text: String,
    /// The exit code of the whole run, ignoring missing shards.
    pub exit: u8,
    pub missing: Vec<Shard>,
}

/// The shards of the reports.
#[derive(Default)]
struct Parts {
    seen: Vec<Shard>,
}

impl Parts {
    /// Adds the shard of a report; an error if it is repeated, or belongs to a run with another number of shards.
    fn add(&mut self, shard: Shard) -> Result<(), String> {
        if let Some(other) = self.seen.iter().find(|other| other.of != shard.of) {
            return Err(format!("it is shard {shard}, but another report is shard {other}"));
        }
        if self.seen.contains(&shard) {
            return Err(format!("shard {shard} is given twice"));
        }
        self.seen.push(shard);
        Ok(())
    }

    /// Adds the shard of a JSON report, if it has one.
    fn add_json(&mut self, report: &Value) -> Result<(), String> {
        let shard = &report["shard"];
        match (shard["part"].as_u64(), shard["of"].as_u64()) {
            (Some(part), Some(of)) => self.add(Shard { part, of }),
            _ => Ok(()),
        }
    }

    fn missing(&self) -> Vec<Shard> {
        let of = self.seen.first().map_or(0, |shard| shard.of);
        let all = (1..=of).map(|part| Shard { part, of });
        all.filter(|shard| !self.seen.contains(shard)).collect()
    }
}

/// The earlier of a time and that of a report.
fn earlier(now: Option<String>, report: &Value) -> Option<String> {
    match (now, report["now"].as_str()) {
        (Some(a), Some(b)) if b < a.as_str() => Some(b.to_owned()),
        (None, b) => b.map(str::to_owned),
        (a, _) => a,
    }
}

/// The exit code of a whole run. Shards without tests do not count if others have some.
fn whole(mut exits: Vec<u8>, any_case: bool, strongest: Strongest<'_>) -> u8 {
    const NO_TESTS: u8 = 4;
    exits.retain(|exit| !(any_case && *exit == NO_TESTS));
    strongest(&exits)
}

/// The order of suites in every report.
fn order(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

/// Merges JSON reports.
///
/// # Errors
/// The index of the report that cannot be merged, and the reason.
pub fn json(reports: &[&str], strongest: Strongest<'_>) -> Result<Merged, (usize, String)> {
    let mut suites = Vec::new();
    let mut parts = Parts::default();
    let mut exits = Vec::new();
    let mut now: Option<String> = None;
    let mut ids: HashSet<String> = HashSet::new();
    let mut summary: BTreeMap<String, u64> = BTreeMap::new();
    let mut divergences: BTreeMap<String, u64> = BTreeMap::new();
    let count = |counts: &mut BTreeMap<String, u64>, key: &str, value: &Value| {
        *counts.entry(key.to_owned()).or_default() += value.as_u64().unwrap_or_default();
    };
    let mut stopped = Value::Null;
    for (number, text) in reports.iter().enumerate() {
        let mut report: Value = serde_json::from_str(text).map_err(|error| (number, error.to_string()))?;
        if report["kind"] == coverage::KIND {
            return coverage_reports(reports);
        }
        if report["version"] != 1 {
            return Err((number, "not a kyvtest report of version 1".to_owned()));
        }
        parts.add_json(&report).map_err(|why| (number, why))?;
        exits.push(exit_of(&report));
        now = earlier(now, &report);
        let (Value::Array(found), Value::Object(counts)) = (report["suites"].take(), &report["summary"]) else {
            return Err((number, "incomplete report: no suites or no summary".to_owned()));
        };
        let own: HashSet<String> = found.iter().flat_map(case_ids).collect();
        if let Some(suite) = found.iter().find(|suite| case_ids(suite).any(|id| ids.contains(&id))) {
            let path = suite["path"].as_str().unwrap_or_default();
            return Err((number, format!("cases of `{path}` are in an earlier report")));
        }
        ids.extend(own);
        suites.extend(found);
        if stopped.is_null() {
            stopped = report["stopped"].clone();
        }
        for (key, value) in counts {
            match value.as_object() {
                Some(classes) => {
                    for (class, value) in classes {
                        count(&mut divergences, class, value);
                    }
                }
                None => count(&mut summary, key, value),
            }
        }
    }
    sort(&mut suites);
    let total = |key: &str| summary.get(key).copied().unwrap_or_default();
    let exit = whole(exits, total("cases") > 0, strongest);
    let merged = json!({
        "version": 1,
        "now": now.unwrap_or_default(),
        "shard": null,
        "stopped": stopped,
        "exit": exit,
        "summary": {
            "suites": total("suites"),
            "cases": total("cases"),
            "pass": total("pass"),
            "fail": total("fail"),
            "error": total("error"),
            "needsRegistry": total("needsRegistry"),
            "unsupported": total("unsupported"),
            "unmatched": total("unmatched"),
            "skipped": total("skipped"),
            "diverging": total("diverging"),
            "accepted": total("accepted"),
            "divergences": divergences,
        },
        "suites": suites,
    });
    Ok(Merged {
        text: format!("{merged}\n"),
        exit,
        missing: parts.missing(),
    })
}

/// The identities of a suite's cases. Equal rows have equal ones, so they are counted.
fn case_ids(suite: &Value) -> impl Iterator<Item = String> {
    let path = suite["path"].as_str().unwrap_or_default();
    let cases = suite["cases"].as_array().map_or(&[][..], Vec::as_slice);
    cases
        .iter()
        .filter_map(|case| case["id"].as_str())
        .map(move |id| format!("{path} {id}"))
}

/// The exit code of a report; derived from the counts for a report of an older release.
fn exit_of(report: &Value) -> u8 {
    if let Some(exit) = report["exit"].as_u64().and_then(|exit| u8::try_from(exit).ok()) {
        return exit;
    }
    let count = |key: &str| report["summary"][key].as_u64().unwrap_or_default();
    if count("fail") + count("error") + count("unmatched") > 0 {
        1
    } else if count("cases") == 0 {
        4
    } else {
        0
    }
}

/// Merges coverage reports: a part of a policy is covered if any suite exercises it.
fn coverage_reports(reports: &[&str]) -> Result<Merged, (usize, String)> {
    let mut suites = Vec::new();
    let mut parts = Parts::default();
    let mut now = None;
    let mut known: HashSet<(String, Option<u64>)> = HashSet::new();
    for (number, text) in reports.iter().enumerate() {
        let mut report: Value = serde_json::from_str(text).map_err(|error| (number, error.to_string()))?;
        if report["kind"] != coverage::KIND || report["version"] != 1 {
            return Err((number, "not a kyvtest coverage report of version 1".to_owned()));
        }
        parts.add_json(&report).map_err(|why| (number, why))?;
        now = earlier(now, &report);
        let Value::Array(found) = report["suites"].take() else {
            return Err((number, "incomplete report: no suites".to_owned()));
        };
        for suite in &found {
            let path = suite["path"].as_str().unwrap_or_default();
            if !known.insert((path.to_owned(), suite["doc"].as_u64())) {
                return Err((number, format!("`{path}` is in an earlier report")));
            }
        }
        suites.extend(found);
    }
    sort(&mut suites);
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut union = Union::default();
    for policy in suites.iter().flat_map(|suite| list(suite, "policies")) {
        let file = policy["file"].as_str().unwrap_or_default();
        let doc = policy["doc"].as_u64().unwrap_or_default();
        for (item, found) in list(&policy, "items").iter().enumerate() {
            for (place, outcome) in list(found, "outcomes").iter().enumerate() {
                if outcome["wanted"] == true {
                    let seen = outcome["count"].as_u64().unwrap_or_default() > 0;
                    union.add((file.to_owned(), doc, item, place), seen);
                }
            }
        }
    }
    let merged = json!({
        "version": 1,
        "kind": coverage::KIND,
        "now": now.unwrap_or_default(),
        "shard": null,
        "summary": coverage::score(union.score()),
        "suites": suites,
    });
    Ok(Merged {
        text: format!("{merged}\n"),
        exit: 0,
        missing: parts.missing(),
    })
}

fn sort(suites: &mut [Value]) {
    suites.sort_by_cached_key(|suite| {
        let path = suite["path"].as_str().unwrap_or_default();
        (order(path), suite["doc"].as_u64())
    });
}

/// Merges JUnit reports. The time is the sum, the start the earliest.
///
/// # Errors
/// The index of the report that cannot be merged, and the reason.
pub fn junit(reports: &[&str], strongest: Strongest<'_>) -> Result<Merged, (usize, String)> {
    let mut merged = Report::new(junit::NAME);
    let mut parts = Parts::default();
    let mut exits = Vec::new();
    let mut names: HashSet<(String, String)> = HashSet::new();
    let mut suites: Vec<TestSuite> = Vec::new();
    for (number, text) in reports.iter().enumerate() {
        let report = Report::deserialize_from_str(text).map_err(|error| (number, error.to_string()))?;
        if let Some(shard) = report.name.as_ref().and_then(|name| shard(name.as_str())) {
            parts.add(shard).map_err(|why| (number, why))?;
        }
        let cases = || {
            let suites = report.test_suites.iter();
            suites.flat_map(|suite| suite.test_cases.iter().map(move |case| (suite, case)))
        };
        exits.extend(cases().map(|(_, case)| junit_exit(&case.status)));
        let own: Vec<(String, String)> = cases()
            .map(|(suite, case)| (suite.name.as_str().to_owned(), case.name.as_str().to_owned()))
            .collect();
        if let Some((suite, _)) = own.iter().find(|name| names.contains(*name)) {
            return Err((number, format!("cases of `{suite}` are in an earlier report")));
        }
        names.extend(own);
        merged.timestamp = match (merged.timestamp, report.timestamp) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        merged.time = match (merged.time, report.time) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(Duration::ZERO) + b.unwrap_or(Duration::ZERO)),
        };
        suites.extend(report.test_suites);
    }
    suites.sort_by_cached_key(|suite| order(suite.name.as_str()));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for suite in &mut suites {
        for case in &mut suite.test_cases {
            // Each shard has numbered its repeated names separately.
            let name = without_number(case.name.as_str()).to_owned();
            let number = seen.entry(name.clone()).or_default();
            *number += 1;
            case.name = match number {
                1 => name.into(),
                number => format!("{name} #{number}").into(),
            };
        }
    }
    merged.add_test_suites(suites);
    // Only the annotated dialect has a start time.
    let dialect = if merged.timestamp.is_some() {
        Dialect::Annotated
    } else {
        Dialect::Strict
    };
    if exits.is_empty() {
        exits.push(4);
    }
    Ok(Merged {
        text: junit::written(merged, dialect),
        exit: strongest(&exits),
        missing: parts.missing(),
    })
}

/// The shard in the name of a report: `kyvtest shard 1/3`.
fn shard(name: &str) -> Option<Shard> {
    let (part, of) = name.rsplit_once(" shard ")?.1.split_once('/')?;
    Some(Shard {
        part: part.parse().ok()?,
        of: of.parse().ok()?,
    })
}

/// The exit code of a test case: its type names the problem.
fn junit_exit(status: &TestCaseStatus) -> u8 {
    let TestCaseStatus::NonSuccess { kind, ty, .. } = status else {
        return 0;
    };
    let ty = ty.as_ref().map_or("", |ty| ty.as_str());
    match kind {
        NonSuccessKind::Failure if ty.starts_with("divergence.") => 3,
        NonSuccessKind::Error if ty.starts_with("KT") => 2,
        NonSuccessKind::Failure | NonSuccessKind::Error => 1,
    }
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once(" #") {
        Some((before, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => name,
    }
}
