//! `kyvtest merge`: the reports of several shards as one.

use std::{io::Write as _, path::PathBuf};

use super::{Exit, Failure, input, output::Output};
use crate::report::merge;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};

/// Merge the reports of several shards
///
/// Takes JSON reports or JUnit reports of `kyvtest run --shard I/N`, or JSON reports of `kyvtest cover --shard I/N`, and prints the
/// report that one run would have written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The reports, all in the same format
    #[arg(value_name = "FILE", required = true)]
    reports: Vec<PathBuf>,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let mut sources = Sources::new();
        let mut texts = Vec::new();
        for path in &self.reports {
            let file = input::read(path, &mut sources)?;
            texts.push(sources.text(file).cloned().unwrap_or_default());
        }
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let is_json = |text: &&str| text.trim_start().starts_with('{');
        let merged = if texts.first().is_some_and(is_json) {
            merge::json(&texts)
        } else {
            merge::junit(&texts)
        };
        let merged = merged.map_err(|(number, why)| {
            let path = self.reports.get(number).map(|path| path.display().to_string());
            let message = format!("cannot merge `{}`: {why}", path.unwrap_or_default());
            Diagnostic::new(Code::NotMergeable, message)
        })?;
        output.artefact().write_all(merged.as_bytes())?;
        Ok(Exit::Success)
    }
}
