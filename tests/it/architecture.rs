//! Checks the rules of ARCHITECTURE.md: the permitted dependencies, and the forbidden contents of source files.
//!
//! `source` finds the `crate::` paths in Rust files, `edges` reads the tables and compares. The same check runs over
//! the small trees in `fixtures/architecture/`, which show that it can fail.

mod edges;
mod source;
mod tidy;

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a directory, in a fixed order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    entries
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
