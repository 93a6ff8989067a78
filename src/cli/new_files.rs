//! Writes new files: all of them, or none.

use std::{fs, path::PathBuf};

use super::{Failure, input::reason, report_file};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};

/// Writes files, none of which may exist; on an error, none is left. A test file comes after the files that it names:
/// until it exists, the others are not a suite.
pub(super) fn write(files: &[(PathBuf, &str)], help: &str) -> Result<(), Failure> {
    let taken = files.iter().filter(|(path, _)| fs::symlink_metadata(path).is_ok());
    let taken: Vec<Diagnostic> = taken
        .map(|(path, _)| {
            let message = format!("`{}` already exists", path.display());
            Diagnostic::new(Code::WouldOverwrite, message)
                .with_note("nothing was written")
                .with_help(help)
        })
        .collect();
    if !taken.is_empty() {
        return Err(Failure::Input(taken, Sources::new()));
    }
    for (number, (path, text)) in files.iter().enumerate() {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| {
            let message = format!("cannot write `{}`: {}", path.display(), reason(&error));
            Diagnostic::new(Code::OutputFailed, message)
        });
        if let Err(diagnostic) = made.and_then(|()| report_file::write(path, text)) {
            for (written, _) in files.iter().take(number) {
                let _ = fs::remove_file(written);
            }
            return Err(diagnostic.into());
        }
    }
    Ok(())
}
