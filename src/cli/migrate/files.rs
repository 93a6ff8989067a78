//! One file for each migrated policy.

use std::{fs, path::Path};

use super::Row;
use crate::cli::{Failure, new_files};

/// Writes the new policies, all of them or none; policies without a migrated rule have no file.
pub(super) fn write(directory: &Path, force: bool, rows: &[Row]) -> Result<(), Failure> {
    let mut texts: Vec<(std::path::PathBuf, String)> = Vec::new();
    for row in rows.iter().filter(|row| !row.objects.is_empty()) {
        let name = row.policy.key().replace('/', "-");
        let mut path = directory.join(format!("{name}.yaml"));
        let mut number = 1;
        while texts.iter().any(|(taken, _)| *taken == path) {
            number += 1;
            path = directory.join(format!("{name}-{number}.yaml"));
        }
        texts.push((path, row.yaml()));
    }
    if force {
        for (path, _) in &texts {
            // A file that is not there needs no removal; any other problem shows when it is written.
            let _ = fs::remove_file(path);
        }
    }
    let files: Vec<_> = texts.iter().map(|(path, text)| (path.clone(), text.as_str())).collect();
    new_files::write(&files, "use `--force` to overwrite files, or another directory")
}
