//! Test support of all gates: finds the reference data, runs rows in parallel, counts, and compares the disagreements
//! with `fixtures/gates/<name>.known`.
//!
//! Upstream counterpart: none. Only tests use this crate.

#![expect(clippy::print_stdout, reason = "a gate prints its counts and its disagreements")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The directory of the workspace.
///
/// # Panics
/// Never: this crate is two directories below it.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).expect("the workspace of this crate")
}

/// A file of the project's own fixtures.
pub fn fixture(path: &str) -> PathBuf {
    root().join("fixtures").join(path)
}

/// A file or directory of the shared reference data; `None`, after a line that says so, if it is missing.
///
/// # Panics
/// If the data is missing although `KYVTEST_REQUIRE_SHARED=1`.
pub fn shared(path: &str) -> Option<PathBuf> {
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
pub fn print_count(line: &str) {
    println!("{line}");
}

/// The whole text of a file.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The rows of a JSON-lines file.
pub fn jsonl<R: DeserializeOwned>(path: &Path) -> Vec<R> {
    let text = read(path);
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1))
        })
        .collect()
}

/// A string of a row; empty if absent.
pub fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list in a row; none if absent.
pub fn items<'v>(row: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    row.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The `id` of a row.
pub fn id(row: &Value) -> String {
    text(row, "id").to_owned()
}

/// Compares what we decide with what was recorded.
///
/// # Errors
/// Both, if they differ.
pub fn same<T: PartialEq + Debug + ?Sized>(ours: &T, expected: &T) -> Result<(), String> {
    if ours == expected {
        return Ok(());
    }
    Err(format!("ours {ours:?}, expected {expected:?}"))
}

/// The result of each row, by its id: `Err` is the difference.
pub type Results = [(String, Result<(), String>)];

/// A gate with a list of known disagreements, and the number of rows that it must see.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// The name, also that of the file of known disagreements.
    pub name: &'a str,
    /// The minimum number of rows; fewer means that the data shrank.
    pub rows: usize,
}

impl<'a> Gate<'a> {
    pub const fn new(name: &'a str, rows: usize) -> Self {
        Self { name, rows }
    }

    /// [`Gate::run`] with the rows of one of the project's own fixtures.
    pub fn fixture<R, I, C>(&self, path: &str, id: I, check: C)
    where
        R: DeserializeOwned + Sync,
        I: Fn(&R) -> String + Sync,
        C: Fn(&R) -> Result<(), String> + Sync,
    {
        self.run(&jsonl(&fixture(path)), id, check);
    }

    /// [`Gate::run`] with the rows of a file of the shared reference data, if it is there.
    pub fn shared<R, I, C>(&self, path: &str, id: I, check: C)
    where
        R: DeserializeOwned + Sync,
        I: Fn(&R) -> String + Sync,
        C: Fn(&R) -> Result<(), String> + Sync,
    {
        if let Some(path) = shared(path) {
            self.run(&jsonl(&path), id, check);
        }
    }

    /// Runs every row through `check`, which returns `Err` with the difference on a disagreement, and compares the
    /// result with the known disagreements: an unlisted one fails the test, and so does a listed row that agrees.
    ///
    /// # Panics
    /// If the gate is not met.
    pub fn run<R, I, C>(&self, rows: &[R], id: I, check: C)
    where
        R: Sync,
        I: Fn(&R) -> String + Sync,
        C: Fn(&R) -> Result<(), String> + Sync,
    {
        let results: Vec<_> = rows.par_iter().map(|row| (id(row), check(row))).collect();
        let problems = self.judge(&results);
        assert!(problems.is_empty(), "gate {}:\n{}", self.name, problems.join("\n"));
    }

    /// Compares results with the known disagreements, prints the figures and returns the problems. The gate is met if
    /// there are none.
    pub fn judge(&self, results: &Results) -> Vec<String> {
        let known = known(&fixture(&format!("gates/{}.known", self.name)));
        let agree = results.iter().filter(|(_, result)| result.is_ok()).count();
        println!("gate {}: {agree}/{}", self.name, results.len());
        for (id, result) in results {
            match (result, known.get(id)) {
                (Ok(()), _) => {}
                (Err(difference), Some(cause)) => println!("  {id}: known ({cause}): {difference}"),
                (Err(difference), None) => println!("  {id}: {difference}"),
            }
        }
        self.problems(results, &known)
    }

    fn problems(&self, results: &Results, known: &BTreeMap<String, String>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for (id, result) in results {
            if !seen.insert(id.as_str()) {
                problems.push(format!("row id `{id}` occurs twice"));
            }
            match (result, known.get(id)) {
                (Ok(()), None) | (Err(_), Some(_)) => {}
                (Ok(()), Some(_)) => {
                    problems.push(format!("`{id}` agrees now: remove it from the known disagreements"));
                }
                (Err(difference), None) => problems.push(format!("{id}: {difference}")),
            }
        }
        let stale = known.keys().filter(|id| !seen.contains(id.as_str()));
        problems.extend(stale.map(|id| format!("known disagreement `{id}` names no row")));
        if results.len() < self.rows {
            problems.push(format!("{} rows, the gate has {}", results.len(), self.rows));
        }
        problems
    }
}

/// Prints the figures of a gate without a list.
///
/// # Panics
/// If fewer than `least` rows agree.
pub fn at_least(name: &str, total: usize, disagreements: &[String], least: usize) {
    let agree = total - disagreements.len();
    for line in disagreements {
        println!("  {line}");
    }
    println!("gate {name}: {agree}/{total}");
    assert!(
        agree >= least,
        "gate {name}: {agree} of {total} rows agree, {least} are required"
    );
}

/// A gate without a list, and the number of rows that must agree.
#[derive(Debug, Clone, Copy)]
pub struct Minimum<'a> {
    pub name: &'a str,
    pub agree: usize,
}

impl Minimum<'_> {
    /// Runs every row through `check`, which returns `Err` with the difference on a disagreement.
    ///
    /// # Panics
    /// If fewer rows agree than required.
    pub fn run<R>(&self, rows: &[R], id: impl Fn(&R) -> &str, check: impl Fn(&R) -> Result<(), String>) {
        let disagreements = rows
            .iter()
            .filter_map(|row| Some(format!("{}: {}", id(row), check(row).err()?)));
        at_least(self.name, rows.len(), &disagreements.collect::<Vec<_>>(), self.agree);
    }
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
        let results: Vec<_> = rows.iter().map(|row| (id(row), check(row))).collect();
        gate.problems(&results, &known)
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
