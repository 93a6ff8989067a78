//! One file for each migrated policy, or the files of a directory with test files.

use std::{fs, path::Path};

use super::Outcome;
use crate::cli::{Failure, new_files};
use kyvtest_go_compat::{diagnostic::Sources, text::path::clean};

/// Writes the new policies and exceptions, all of them or none; those of a directory with test files keep its layout,
/// test files last.
pub(super) fn write(directory: &Path, force: bool, outcome: &Outcome, sources: &Sources) -> Result<(), Failure> {
    let arranged = |file: Option<&str>| {
        let name = clean(file.unwrap_or_default());
        outcome.rewritten.iter().any(|found| found.sources.contains(&name))
    };
    let mut texts: Vec<(std::path::PathBuf, String)> = Vec::new();
    let mut add = |name: &str, text: String| {
        let name = name.replace('/', "-");
        let mut path = directory.join(format!("{name}.yaml"));
        let mut number = 1;
        while texts.iter().any(|(taken, _)| *taken == path) {
            number += 1;
            path = directory.join(format!("{name}-{number}.yaml"));
        }
        if !text.is_empty() {
            texts.push((path, text));
        }
    };
    for row in outcome.rows.iter().filter(|row| !arranged(sources.name(row.file()))) {
        add(&row.key(), row.yaml());
    }
    for row in &outcome.exceptions {
        if !arranged(sources.name(row.exception.origin.file)) {
            add(&row.exception.metadata.name.value, row.yaml());
        }
    }
    let found = outcome.rewritten.iter().flat_map(|found| &found.files);
    texts.extend(found.map(|(path, text)| (directory.join(path), text.clone())));
    if force {
        for (path, _) in &texts {
            // A missing file needs no removal; other problems show when it is written.
            let _ = fs::remove_file(path);
        }
    }
    let files: Vec<_> = texts.iter().map(|(path, text)| (path.clone(), text.as_str())).collect();
    new_files::write(&files, "use `--force` to overwrite files, or another directory")
}
