//! The helper of every gate: finds the reference data, counts, and compares the disagreements with
//! `fixtures/gates/<name>.known`.

#![expect(clippy::print_stdout, reason = "a gate prints its counts and its disagreements")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// A file of the project's own fixtures.
pub(crate) fn fixture(path: &str) -> PathBuf {
    root().join("fixtures").join(path)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the shared reference data; `None`, after a line that says so, if it is missing.
///
/// # Panics
/// If the data is missing although `KYVTEST_REQUIRE_SHARED=1`.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let base = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
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

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The rows of a JSON-lines file.
pub(crate) fn jsonl(path: &Path) -> Vec<Value> {
    let text = read(path);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1))
        })
        .collect()
}

/// Compares the disagreements of a gate with the known ones. The gate is not met if one is unlisted or a listed row agrees.
pub(crate) fn judge(name: &str, results: &[(String, Result<(), String>)]) -> bool {
    let known = known(&fixture(&format!("gates/{name}.known")));
    let agree = results.iter().filter(|(_, result)| result.is_ok()).count();
    println!("gate {name}: {agree}/{}", results.len());
    let mut problems = Vec::new();
    for (id, result) in results {
        match (result, known.get(id)) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => problems.push(format!("`{id}` agrees now: remove it from the known disagreements")),
            (Err(difference), Some(cause)) => println!("  {id}: known ({cause}): {difference}"),
            (Err(difference), None) => problems.push(format!("{id}: {difference}")),
        }
    }
    let is_row = |id: &String| results.iter().any(|(row, _)| row == id);
    let stale = known.keys().filter(|id| !is_row(id));
    problems.extend(stale.map(|id| format!("known disagreement `{id}` names no row")));
    for problem in &problems {
        println!("  problem: {problem}");
    }
    problems.is_empty()
}

/// The known disagreements of a gate: `row id<TAB>cause` per line, `#` starts a comment line.
fn known(path: &Path) -> BTreeMap<String, String> {
    if !path.exists() {
        return BTreeMap::new();
    }
    let text = read(path);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (id, cause) = line
                .split_once('\t')
                .unwrap_or_else(|| panic!("{}: no cause: {line}", path.display()));
            (id.to_owned(), cause.to_owned())
        })
        .collect()
}
