//! Shared by all gates: finds the reference data, counts, and prints each disagreement.

#![expect(clippy::print_stdout, reason = "a gate prints its counts and its disagreements")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

/// The directory of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the project's own fixtures.
pub(crate) fn fixture(path: &str) -> PathBuf {
    root().join("fixtures/patch").join(path)
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

/// A gate and the number of rows that must agree.
pub(crate) struct Gate<'a> {
    pub(crate) name: &'a str,
    pub(crate) agree: usize,
}

impl Gate<'_> {
    /// Runs every row through `check`, which returns `Err` with the difference on a disagreement.
    ///
    /// # Panics
    /// If fewer rows agree than recorded.
    pub(crate) fn run<R>(&self, rows: &[R], id: impl Fn(&R) -> &str, check: impl Fn(&R) -> Result<(), String>) {
        let mut agree = 0;
        for row in rows {
            match check(row) {
                Ok(()) => agree += 1,
                Err(difference) => println!("  {}: {difference}", id(row)),
            }
        }
        println!("gate {}: {agree}/{}", self.name, rows.len());
        assert!(
            agree >= self.agree,
            "gate {}: {agree} rows agree, {} did before",
            self.name,
            self.agree
        );
    }
}
