//! Shared by all gates: finds the reference data, runs rows in parallel, counts, and compares the disagreements with
//! `fixtures/gates/<name>.known`.

#![expect(clippy::print_stdout, reason = "a gate prints its counts and its disagreements")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::de::DeserializeOwned;

/// The project's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the project's own fixtures.
pub(crate) fn fixture(path: &str) -> PathBuf {
    root().join("fixtures").join(path)
}

/// A file or directory of the shared reference data; `None`, after a line that says so, if it is missing.
///
/// # Panics
/// If the data is missing although `KYVTEST_REQUIRE_SHARED=1`.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let base = std::env::var_os("KYVTEST_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let base = if base.is_absolute() { base } else { root().join(base) };
    let full = base.join(path);
    if full.exists() {
        return Some(full);
    }
    assert!(
        std::env::var_os("KYVTEST_REQUIRE_SHARED").is_none_or(|v| v != "1"),
        "KYVTEST_REQUIRE_SHARED=1, but there is no {}",
        full.display()
    );
    println!("skipped: no shared data ({path})");
    None
}

/// Prints a count that decides nothing.
pub(crate) fn print_count(line: &str) {
    println!("{line}");
}

/// The whole text of a file.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The rows of a JSON-lines file.
pub(crate) fn jsonl<R: DeserializeOwned>(path: &Path) -> Vec<R> {
    let text = read(path);
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1))
        })
        .collect()
}

/// One gate: a name and the number of rows that it must see.
pub(crate) struct Gate<'a> {
    /// The name, also that of the file of known disagreements.
    pub(crate) name: &'a str,
    /// The minimum number of rows; fewer means that the data shrank.
    pub(crate) rows: usize,
}

impl Gate<'_> {
    /// Runs every row through `check`, which returns `Err` with the difference on a disagreement, and compares the
    /// result with the known disagreements: an unlisted one fails the test, and so does a listed row that agrees.
    ///
    /// # Panics
    /// If the gate is not met.
    pub(crate) fn run<R, I, C>(&self, rows: &[R], id: I, check: C)
    where
        R: Sync,
        I: Fn(&R) -> String + Sync,
        C: Fn(&R) -> Result<(), String> + Sync,
    {
        let known = known(&fixture(&format!("gates/{}.known", self.name)));
        let report = judge(self, rows, &id, &check, &known);
        println!("gate {}: {}/{}", self.name, report.agree, report.total);
        for line in &report.disagreements {
            println!("  {line}");
        }
        assert!(
            report.problems.is_empty(),
            "gate {}:\n{}",
            self.name,
            report.problems.join("\n")
        );
    }
}

struct Report {
    agree: usize,
    total: usize,
    disagreements: Vec<String>,
    problems: Vec<String>,
}

fn judge<R: Sync>(
    gate: &Gate<'_>,
    rows: &[R],
    id: &(impl Fn(&R) -> String + Sync),
    check: &(impl Fn(&R) -> Result<(), String> + Sync),
    known: &BTreeMap<String, String>,
) -> Report {
    let results: Vec<(String, Result<(), String>)> = rows.par_iter().map(|row| (id(row), check(row))).collect();
    let mut report = Report {
        agree: 0,
        total: rows.len(),
        disagreements: Vec::new(),
        problems: Vec::new(),
    };
    let mut seen = BTreeMap::new();
    for (id, result) in &results {
        if seen.insert(id.as_str(), result.is_ok()).is_some() {
            report.problems.push(format!("row id `{id}` occurs twice"));
        }
        match (result, known.get(id)) {
            (Ok(()), None) => report.agree += 1,
            (Ok(()), Some(_)) => {
                report.agree += 1;
                report
                    .problems
                    .push(format!("`{id}` agrees now: remove it from the known disagreements"));
            }
            (Err(difference), Some(cause)) => report
                .disagreements
                .push(format!("{id}: known ({cause}): {difference}")),
            (Err(difference), None) => {
                report.disagreements.push(format!("{id}: {difference}"));
                report.problems.push(format!("{id}: {difference}"));
            }
        }
    }
    for id in known.keys().filter(|id| !seen.contains_key(id.as_str())) {
        report.problems.push(format!("known disagreement `{id}` names no row"));
    }
    if report.total < gate.rows {
        report
            .problems
            .push(format!("{} rows, the gate has {}", report.total, gate.rows));
    }
    report
}

/// The known disagreements of a gate: `row id<TAB>cause` per line, `#` starts a comment line.
fn known(path: &Path) -> BTreeMap<String, String> {
    if !path.exists() {
        return BTreeMap::new();
    }
    read(path)
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, cause) = line
                .split_once('\t')
                .unwrap_or_else(|| panic!("{}: no cause: {line}", path.display()));
            assert!(!cause.trim().is_empty(), "{}: no cause: {line}", path.display());
            (id.to_owned(), cause.to_owned())
        })
        .collect()
}

#[test]
fn a_gate_can_fail() {
    let gate = Gate { name: "self", rows: 3 };
    let rows = ["a", "b", "c"];
    let check = |row: &&str| if *row == "b" { Err("differs".to_owned()) } else { Ok(()) };
    let id = |row: &&str| (*row).to_owned();
    let problems = |known: &[(&str, &str)], rows: &[&str]| {
        let known = known.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        judge(&gate, rows, &id, &check, &known).problems
    };
    assert_eq!(problems(&[("b", "cause")], &rows), Vec::<String>::new());
    assert_eq!(problems(&[], &rows), ["b: differs"]);
    assert_eq!(
        problems(&[("b", "x"), ("c", "x")], &rows),
        ["`c` agrees now: remove it from the known disagreements"]
    );
    assert_eq!(
        problems(&[("b", "x"), ("z", "x")], &rows),
        ["known disagreement `z` names no row"]
    );
    assert_eq!(problems(&[("b", "x")], &rows[..2]), ["2 rows, the gate has 3"]);
    assert_eq!(problems(&[("b", "x")], &["a", "b", "b"]), ["row id `b` occurs twice"]);
}
