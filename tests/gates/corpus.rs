//! The whole corpus through `kyvtest run --compat`: exit code and counts of `kyverno test`, suite by suite.
//!
//! Counts have a range where Go's random order of maps decides how many lines a row prints: those lines are marked `unstable` in
//! the recorded checks.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gate, jsonl, shared};

/// The result of `kyverno test` for a test file; without counts, it ended before it printed any.
#[derive(Debug, Deserialize)]
struct Recorded {
    suite: String,
    exit: i32,
    passed: Option<usize>,
    failed: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Check {
    suite: String,
    #[serde(default)]
    unstable: bool,
}

/// Runs the directory of a test file: the exit code, and how many lines of the test file pass and fail.
fn run(corpus: &Path, suite: &str) -> Result<(i32, usize, usize), String> {
    let file = corpus.join(suite);
    let folder = file.parent().ok_or("a test file is in a folder")?;
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["run", "--compat", "-o", "json", "--now", "2026-11-16T00:00:00Z"])
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let exit = output.status.code().ok_or("ended by a signal")?;
    // Directories below have their own suites, which were recorded separately.
    let suites = report["suites"].as_array().into_iter().flatten();
    let own = suites.filter(|suite| suite["path"].as_str().is_some_and(|path| Path::new(path) == file));
    let cases: Vec<&Value> = own
        .flat_map(|suite| suite["cases"].as_array().into_iter().flatten())
        .collect();
    let count = |words: &[&str]| {
        let outcomes = cases.iter().filter_map(|case| case["outcome"].as_str());
        outcomes.filter(|outcome| words.contains(outcome)).count()
    };
    Ok((exit, count(&["Pass", "Skip"]), count(&["Fail"])))
}

#[test]
fn suites() {
    let (Some(corpus), Some(path), Some(checks)) = (
        shared("corpus"),
        shared("golden/kyverno-cli/suites.jsonl"),
        shared("golden/kyverno-cli/checks.jsonl"),
    ) else {
        return;
    };
    let corpus = corpus.canonicalize().expect("the corpus is there");
    let rows: Vec<Recorded> = jsonl(&path);
    let mut unstable: BTreeMap<String, usize> = BTreeMap::new();
    for check in jsonl::<Check>(&checks) {
        *unstable.entry(check.suite).or_default() += usize::from(check.unstable);
    }
    let check = |row: &Recorded| {
        let (exit, passed, failed) = run(&corpus, &row.suite)?;
        let loose = unstable.get(&row.suite).copied().unwrap_or_default();
        let recorded = row.passed.unwrap_or_default();
        let is_close = recorded.abs_diff(passed) <= loose;
        if exit == row.exit && is_close && failed == row.failed.unwrap_or_default() {
            return Ok(());
        }
        Err(format!(
            "exit {exit}, {passed} passed, {failed} failed instead of exit {}, {recorded} passed, {} failed",
            row.exit,
            row.failed.unwrap_or_default()
        ))
    };
    Gate::new("kyverno-cli-suites", 512).run(&rows, |row| row.suite.clone(), check);
}
