//! `kyvtest show-config`: what is in force besides the command line, and where it comes from.

use std::io::Write as _;

use super::{
    Exit, Failure, command,
    config::{Config, Source},
    output::Output,
};

/// Print the options that the configuration and the environment set
///
/// The result is TOML. Options of the command line win over all of them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let whole = command();
        let Some(run) = whole.find_subcommand("run") else {
            return Ok(Exit::Internal);
        };
        let config = Config::read(&self.source, run)?;
        for remark in &config.remarks {
            output.diagnostic(remark, &config.sources);
        }
        output.artefact().write_all(config.shown().as_bytes())?;
        Ok(Exit::Success)
    }
}
