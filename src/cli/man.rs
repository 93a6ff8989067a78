//! `kyvtest man`: the manual pages, and the reference of the command line in Markdown (`docs/cli.md`).

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_mangen::Man;
use clap_markdown::{MarkdownOptions, help_markdown_command_custom};

use super::{Cli, Exit, Failure, output::Output};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};

/// Print a manual page in roff
///
/// Without an argument, prints the page of kyvtest itself, otherwise that of one command. To read it: kyvtest man | man
/// -l -
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Print the reference of all commands in Markdown instead
    #[arg(long, conflicts_with = "command")]
    markdown: bool,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let root = super::command();
        if self.markdown {
            // After `build`, commands have the names of their pages.
            let text = reference(&Cli::command());
            output.artefact().write_all(text.as_bytes())?;
            return Ok(Exit::Success);
        }
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

/// The whole command line in Markdown.
fn reference(root: &clap::Command) -> String {
    let options = MarkdownOptions::new()
        .title("Command line".to_owned())
        .show_footer(false)
        .show_table_of_contents(true);
    let text = help_markdown_command_custom(root, &options);
    let lines = text.lines().map(str::trim_end).collect::<Vec<_>>();
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn no_such_command(name: &str, root: &clap::Command) -> Diagnostic {
    let names: Vec<String> = root
        .get_subcommands()
        .map(|command| format!("`{}`", command.get_name()))
        .collect();
    Diagnostic::new(Code::CommandLine, format!("unknown command `{name}`"))
        .with_help(format!("commands: {}", names.join(", ")))
}
