//! `kyvtest man`: the manual pages.

use clap_mangen::Man;

use super::{Exit, Failure, output::Output};
use crate::diagnostic::{Code, Diagnostic};

/// Print a manual page in roff
///
/// Without an argument this is the page of kyvtest itself, otherwise that of one command. To read it: kyvtest man | man -l -
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The command whose page is wanted
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let root = super::command();
        let page = match &self.command {
            None => root,
            Some(name) => match root.find_subcommand(name) {
                Some(command) => command.clone(),
                None => return Err(no_such_command(name, &root).into()),
            },
        };
        Man::new(page).render(output.artefact())?;
        Ok(Exit::Success)
    }
}

fn no_such_command(name: &str, root: &clap::Command) -> Diagnostic {
    let names: Vec<String> = root
        .get_subcommands()
        .map(|command| format!("`{}`", command.get_name()))
        .collect();
    Diagnostic::new(Code::CommandLine, format!("there is no command `{name}`"))
        .with_help(format!("commands: {}", names.join(", ")))
}
