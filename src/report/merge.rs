//! Reports of the parts of a run, put together: the result is the report that the whole run would have written.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use quick_junit::{Report, TestSuite};
use serde_json::{Value, json};

use super::coverage::{self, Union};

/// The order of suites in every report.
fn order(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

/// Merges JSON reports.
///
/// # Errors
/// Which of them is none, by its number, and why.
pub fn json(reports: &[&str]) -> Result<String, (usize, String)> {
    let mut suites = Vec::new();
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
            return Err((number, "it is no report of version 1".to_owned()));
        }
        let (Value::Array(found), Value::Object(counts)) = (report["suites"].take(), &report["summary"]) else {
            return Err((number, "it has no suites or no summary".to_owned()));
        };
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
    let merged = json!({
        "version": 1,
        "stopped": stopped,
        "summary": {
            "suites": total("suites"),
            "cases": total("cases"),
            "pass": total("pass"),
            "fail": total("fail"),
            "error": total("error"),
            "unsupported": total("unsupported"),
            "unmatched": total("unmatched"),
            "divergences": divergences,
        },
        "suites": suites,
    });
    Ok(format!("{merged}\n"))
}

/// Merges reports of coverage: what any of the suites tries of a policy is tried.
fn coverage_reports(reports: &[&str]) -> Result<String, (usize, String)> {
    let mut suites = Vec::new();
    for (number, text) in reports.iter().enumerate() {
        let mut report: Value = serde_json::from_str(text).map_err(|error| (number, error.to_string()))?;
        match (
            report["kind"] == coverage::KIND && report["version"] == 1,
            report["suites"].take(),
        ) {
            (true, Value::Array(found)) => suites.extend(found),
            _ => return Err((number, "it is no report of coverage of version 1".to_owned())),
        }
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
        "summary": coverage::score(union.score()),
        "suites": suites,
    });
    Ok(format!("{merged}\n"))
}

fn sort(suites: &mut [Value]) {
    suites.sort_by_cached_key(|suite| {
        let path = suite["path"].as_str().unwrap_or_default();
        (order(path), suite["doc"].as_u64())
    });
}

/// Merges JUnit reports. The time is the sum of all, the begin the earliest.
///
/// # Errors
/// Which of them is none, by its number, and why.
pub fn junit(reports: &[&str]) -> Result<String, (usize, String)> {
    let mut merged = Report::new("kyvtest");
    let mut suites: Vec<TestSuite> = Vec::new();
    for (number, text) in reports.iter().enumerate() {
        let report = Report::deserialize_from_str(text).map_err(|error| (number, error.to_string()))?;
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
            // Each part has counted for itself which names occur again.
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
    // Writing into memory does not fail.
    Ok(merged.to_string().unwrap_or_default())
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once(" #") {
        Some((before, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => name,
    }
}
