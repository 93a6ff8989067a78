//! `kyvtest show-config`: prints the settings from the configuration and the environment, with their origin.

use std::{fmt::Write as _, io::Write as _};

use clap::{Arg, ArgAction};

use super::{
    Exit, Failure, command,
    config::{Config, Source, settings, takes_value},
    output::Output,
};

/// Print the options that the configuration and the environment set
///
/// Prints TOML. Options on the command line take precedence over all of them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,

    /// Print a configuration file with every option and its default instead, all commented out
    #[arg(long)]
    default: bool,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let whole = command();
        let Some(run) = whole.find_subcommand("run") else {
            return Ok(Exit::Internal);
        };
        if self.default {
            output.artefact().write_all(default_file(run).as_bytes())?;
            return Ok(Exit::Success);
        }
        let config = Config::read(&self.source, run)?;
        for remark in &config.remarks {
            output.diagnostic(remark, &config.sources);
        }
        output.artefact().write_all(config.shown().as_bytes())?;
        Ok(Exit::Success)
    }
}

/// A `kyvtest.toml` without effect: every option with its default or an example, commented out.
fn default_file(run: &clap::Command) -> String {
    let mut text = String::from(
        "# Options of `kyvtest run` and `kyvtest list`. Remove the `#` before a key to set it.\n# Other profiles \
         are chosen with `-P NAME`; they inherit from `default`.\n#:schema kyvtest-config.json\n# (that file is \
         what `kyvtest schema config` prints)\n\n[profile.default]\n",
    );
    for arg in settings(run) {
        let Some(name) = arg.get_long() else { continue };
        text.push('\n');
        for line in arg.get_help().map(ToString::to_string).unwrap_or_default().lines() {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "# {name} = {}", example(arg));
    }
    text.push_str(
        "\n# Settings for the cases that a filter selects; the first entry with a value counts.\n# \
         [[profile.default.overrides]]\n# filter = \"policy(scan-*) & tag(slow)\"\n# timeout = \"5s\"\n# \
         accept-divergence = [\"message\", \"H27\"]\n# reason = \"controllers have a separate policy\"\n",
    );
    text
}

/// A valid value of an option: its default, if it has one.
fn example(arg: &Arg) -> String {
    let quoted = |word: &str| match word.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => toml_edit::Value::from(word).to_string().trim().to_owned(),
    };
    if !takes_value(arg) {
        return "false".to_owned();
    }
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy());
    let names = arg.get_value_names().and_then(|names| names.first());
    let word = default.map_or_else(|| names.map_or_else(String::new, ToString::to_string), Into::into);
    if matches!(arg.get_action(), ArgAction::Append) {
        format!("[{}]", quoted(&word))
    } else {
        quoted(&word)
    }
}
