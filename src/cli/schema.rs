//! `kyvtest schema`: JSON Schemas of the files that people write and of the report that programs read.

use std::io::Write as _;

use clap::ValueEnum;

use super::{Exit, Failure, output::Output};

/// Print a JSON Schema (draft 2020-12)
///
/// Editors check and complete YAML files by them. With the YAML language server, write into the first line of a file:
/// `# yaml-language-server: $schema=suite.json`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Of what: a kyverno-test.yaml, its sidecar kyvtest.yaml, or the report of `kyvtest run -o json`
    #[arg(value_enum, default_value_t)]
    of: Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Schema {
    #[default]
    Suite,
    Sidecar,
    Report,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let text = match self.of {
            Schema::Suite => include_str!("schemas/suite.json"),
            Schema::Sidecar => include_str!("schemas/sidecar.json"),
            Schema::Report => include_str!("schemas/report.json"),
        };
        output.artefact().write_all(text.as_bytes())?;
        Ok(Exit::Success)
    }
}
