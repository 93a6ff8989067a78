//! `kyvtest fix`: migrates test files of older releases to the current schema.

use std::path::Path;

use super::{Exit, Failure, color::LITERAL, output::Output, report_file};
use crate::suite::{self, Disk, Fixed, Options, discover, fix};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_line_diff::unified;

/// Migrate test files of older releases to the current schema
///
/// Shows what would change in kyverno-test.yaml files and in the values and user info files that they name, as a diff
/// for `patch`; comments and layout are preserved. Files are changed only with `--write`. Fields without a replacement
/// are reported.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Test files, or directories with them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Change the files
    #[arg(long)]
    write: bool,

    /// Exit with code 1 if a file needs changes
    #[arg(long, conflicts_with = "write")]
    check: bool,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let options = Options {
            file_name: &self.file_name,
            ..Options::default()
        };
        let mut exit = Exit::Success;
        let mut files: Vec<Fixed> = Vec::new();
        let mut suites = 0;
        for path in &self.paths {
            for path in discover(&Disk, path, &options)? {
                suites += 1;
                match fix(&Disk, &path) {
                    Ok(fixed) => {
                        for fixed in fixed {
                            // Suites share values files.
                            if files.iter().all(|other| other.path != fixed.path) {
                                files.push(fixed);
                            }
                        }
                    }
                    Err(refusal) => {
                        output.diagnostic(&refusal.0, &refusal.1);
                        exit = exit.combine(Exit::Input);
                    }
                }
            }
        }
        if suites == 0 {
            let message = format!("no `{}` to fix", self.file_name);
            return Err(Diagnostic::new(Code::NoTests, message).into());
        }
        let mut changed = 0;
        for file in &files {
            for diagnostic in &file.remaining {
                output.diagnostic(diagnostic, &file.sources);
                if diagnostic.severity == Severity::Error {
                    exit = exit.combine(Exit::Input);
                }
            }
            if file.after == file.before {
                continue;
            }
            changed += 1;
            if self.write {
                if let Err(diagnostic) = report_file::write(Path::new(&file.path), &file.after) {
                    output.diagnostic(&diagnostic, &Sources::new());
                    exit = exit.combine(Exit::Input);
                    continue;
                }
            } else {
                output.styled(&difference(file))?;
            }
            for suite::Change { line, text } in &file.changes {
                output.remark(&format!("{LITERAL}{}{LITERAL:#}:{line}: {text}\n", file.path));
            }
        }
        let files = if changed == 1 {
            "1 file".to_owned()
        } else {
            format!("{changed} files")
        };
        output.remark(&match (changed, self.write) {
            (0, _) => "nothing to fix\n".to_owned(),
            (_, true) => format!("{files} changed\n"),
            (_, false) => format!("{files} to change; use `--write` to change them\n"),
        });
        if self.check && changed > 0 {
            exit = exit.combine(Exit::Mismatch);
        }
        Ok(exit)
    }
}

/// The change of a file as `diff -u` shows it.
fn difference(file: &Fixed) -> String {
    unified(&file.before, &file.after, [&file.path; 2], 3)
}
