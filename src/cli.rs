//! Arguments, configuration and exit codes; the only module that prints or exits.
//!
//! A subcommand is one file in this directory, with its arguments and a `run`, and one variant of `Command`. Commands
//! write through the one `Output` handle and return an [`Exit`] or a `Failure`.

mod cel;
mod cluster;
mod color;
mod completions;
mod config;
mod convert;
mod cover;
mod crash;
mod data;
mod diff;
mod eval;
mod exit;
mod explain;
mod fill;
mod fix;
mod format;
mod github;
mod init;
pub mod input;
mod interrupt;
mod list;
mod man;
mod merge;
mod migrate;
mod new_files;
mod normalise;
mod output;
mod overrides;
mod progress;
mod prove;
mod report_file;
mod run;
mod schema;
mod select;
mod show_config;
mod suites;
mod unreferenced;
mod update;
mod watch;

use std::{ffi::OsString, io, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};

pub use crash::guarded;
pub use exit::Exit;

use color::ColorChoice;
use output::Output;

/// Kyverno-compatible policy test harness
///
/// kyvtest evaluates each admission request twice: as Kyverno decides it, and as the Kubernetes API server decides it with the
/// ValidatingAdmissionPolicy that Kyverno would generate. It never talks to a cluster or to the network.
///
/// Results go to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "kyvtest",
    bin_name = "kyvtest",
    version,
    max_term_width = 100,
    styles = color::HELP,
    after_long_help = exit::help(),
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Cli {
    /// When to use colour
    ///
    /// With `auto`, only terminals get colour; NO_COLOR and TERM=dumb turn it off, CLICOLOR_FORCE turns it on.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        display_order = 1000
    )]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Watch(watch::Args),
    List(list::Args),
    Cover(cover::Args),
    Init(init::Args),
    Fill(fill::Args),
    Merge(merge::Args),
    Fix(fix::Args),
    Convert(convert::Args),
    Migrate(migrate::Args),
    Prove(prove::Args),
    Diff(diff::Args),
    Eval(eval::Args),
    Cel(cel::Args),
    Normalise(normalise::Args),
    Explain(explain::Args),
    Schema(schema::Args),
    ShowConfig(show_config::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Run(args) => args.run(output),
            Self::Watch(args) => args.run(output),
            Self::List(args) => args.run(output),
            Self::Cover(args) => args.run(output),
            Self::Init(args) => args.run(output),
            Self::Fill(args) => args.run(output),
            Self::Merge(args) => args.run(output),
            Self::Fix(args) => args.run(output),
            Self::Convert(args) => args.run(output),
            Self::Migrate(args) => args.run(output),
            Self::Prove(args) => args.run(output),
            Self::Diff(args) => args.run(output),
            Self::Eval(args) => args.run(output),
            Self::Cel(args) => args.run(output),
            Self::Normalise(args) => args.run(output),
            Self::Explain(args) => args.run(output),
            Self::Schema(args) => args.run(output),
            Self::ShowConfig(args) => args.run(output),
            Self::Completions(args) => args.run(output),
            Self::Man(args) => args.run(output),
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
enum Failure {
    /// Unusable input; the diagnostics say why.
    Input(Vec<Diagnostic>, Sources),
    /// Writing to standard output failed.
    Output(io::Error),
}

impl From<Diagnostic> for Failure {
    /// For diagnostics without a source.
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Input(vec![diagnostic], Sources::new())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Runs the command line (the program's name first) and returns the exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    guarded(&args, &mut io::stderr(), || run(&args)).into()
}

fn run(args: &[OsString]) -> Exit {
    let mut output = Output::new(color::requested(args));
    let result = match config::complete(args, &command()) {
        Ok((args, config)) => {
            for remark in &config.remarks {
                output.diagnostic(remark, &config.sources);
            }
            match Cli::try_parse_from(args) {
                Ok(mut cli) => {
                    match &mut cli.command {
                        Command::Run(args) => args.set_overrides(config.overrides),
                        Command::Watch(args) => args.set_config(config.path, config.overrides),
                        Command::List(args) => args.set_overrides(config.overrides),
                        _ => {}
                    }
                    cli.command.run(&mut output)
                }
                Err(error) => answer(&error, &mut output),
            }
        }
        Err(failure) => Err(failure),
    };
    let exit = finish(result, &mut output);
    // The command does not see errors in the command line or its files.
    if is_compat(args) { exit.compat() } else { exit }
}

/// Whether the command is `run --compat`, as far as the command line can be parsed.
fn is_compat(args: &[OsString]) -> bool {
    if !args.iter().any(|word| word == "--compat") {
        return false;
    }
    let lenient = command().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(args) else {
        return false;
    };
    let run = matches.subcommand_matches("run");
    run.is_some_and(|run| run.get_flag("compat"))
}

/// Reports the result of a command and turns it into an exit code.
fn finish(result: Result<Exit, Failure>, output: &mut Output) -> Exit {
    let result = result.and_then(|exit| {
        output.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit,
        Err(Failure::Input(diagnostics, sources)) => {
            for (i, diagnostic) in diagnostics.iter().enumerate() {
                if i > 0 {
                    output.remark("\n");
                }
                output.diagnostic(diagnostic, &sources);
            }
            Exit::Input
        }
        Err(Failure::Output(error)) => {
            let message = format!("cannot write to standard output: {}", input::reason(&error));
            output.diagnostic(&Diagnostic::new(Code::OutputFailed, message), &Sources::new());
            Exit::Input
        }
    }
}

/// Prints the argument parser's output: requested help and version, or an error.
fn answer(error: &clap::Error, output: &mut Output) -> Result<Exit, Failure> {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        let code = format!("error[{}]:", Code::CommandLine);
        output.remark(&text.replacen("error:", &code, 1));
        Ok(Exit::Input)
    } else {
        output.styled(&text)?;
        Ok(Exit::Success)
    }
}

/// The whole command line, for completions and the manual page.
fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
