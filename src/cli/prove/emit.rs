//! Counterexamples as suites in a directory: `prove --emit-cases DIR`.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::super::{Failure, new_files};
use crate::{author::counterexample::suite_of, run::Settings};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};
use kyvtest_model::policy::Policy;
use kyvtest_prove::Region;

/// Writes the suites of a policy's regions into a directory; returns the regions that could not be written.
///
/// # Errors
/// If a file already exists, or cannot be written.
pub(super) fn emit(
    directory: &Path,
    original: &Policy,
    exceptions: &[Json],
    regions: &[Region],
    settings: &Settings,
) -> Result<Vec<Diagnostic>, Failure> {
    let mut left_out = Vec::new();
    for (number, region) in regions.iter().enumerate() {
        let name = format!("{}-{}", original.name(), number + 1);
        match suite_of(&name, original, exceptions, region, settings) {
            Ok(files) => {
                let files = files.iter();
                let files: Vec<(PathBuf, &str)> = files
                    .map(|file| (directory.join(&name).join(file.name), file.text.as_str()))
                    .collect();
                new_files::write(&files, "choose another directory, or remove this one")?;
            }
            Err(why) => {
                let message = format!(
                    "counterexample {} of `{}` was not written: {why}",
                    number + 1,
                    original.name()
                );
                left_out.push(Diagnostic::new(Code::NotASuite, message));
            }
        }
    }
    Ok(left_out)
}
