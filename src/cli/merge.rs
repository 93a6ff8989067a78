//! `kyvtest merge`: merges the reports of several shards.

use std::{io::Write as _, path::PathBuf};

use super::{Exit, Failure, input, output::Output};
use crate::report::merge;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};

/// Merge the reports of several shards
///
/// Reads JSON or JUnit reports of `kyvtest run --shard I/N`, or JSON reports of `kyvtest cover --shard I/N`, prints the report that
/// one run would have written, and exits with the code that it would have exited with. A shard that is given twice is an error; if
/// one is missing, the others are merged and the exit code is 2.
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
        let strongest = |codes: &[u8]| codes.iter().copied().map(Exit::from_code).collect::<Exit>().code();
        let is_report = |text: &&str| is_json(text) || text.trim_start().starts_with('<');
        if let Some(number) = texts.iter().position(|text| !is_report(text)) {
            let path = self.reports.get(number).map(|path| path.display().to_string());
            let message = format!(
                "cannot merge `{}`: not a JSON or JUnit report",
                path.unwrap_or_default()
            );
            return Err(Diagnostic::new(Code::NotMergeable, message).into());
        }
        let merged = if texts.first().is_some_and(is_json) {
            merge::json(&texts, &strongest)
        } else {
            merge::junit(&texts, &strongest)
        };
        let merged = merged.map_err(|(number, why)| {
            let path = self.reports.get(number).map(|path| path.display().to_string());
            let message = format!("cannot merge `{}`: {why}", path.unwrap_or_default());
            Diagnostic::new(Code::NotMergeable, message)
        })?;
        output.artefact().write_all(merged.text.as_bytes())?;
        let mut exit = Exit::from_code(merged.exit);
        if !merged.missing.is_empty() {
            let missing: Vec<String> = merged.missing.iter().map(ToString::to_string).collect();
            let plural = if missing.len() == 1 { "" } else { "s" };
            let message = format!("missing shard{plural} {}", missing.join(", "));
            output.diagnostic(&Diagnostic::new(Code::NotMergeable, message), &Sources::new());
            exit = exit.combine(Exit::Input);
        }
        Ok(exit)
    }
}
