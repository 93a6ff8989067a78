//! `kyvtest completions`: completion scripts for shells.

use std::io::Write as _;

use clap_complete::Shell;

use super::{Exit, Failure, output::Output};

/// Print a completion script for a shell
///
/// For example, for bash: kyvtest completions bash > ~/.local/share/bash-completion/completions/kyvtest
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        // The generator panics if its writer fails, hence the detour.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "kyvtest", &mut script);
        output.artefact().write_all(&script)?;
        Ok(Exit::Success)
    }
}
