//! The option `-o`, which chooses the output format of a command.

use clap::ValueEnum;

/// `-o FORMAT` of commands whose default is human-readable text. Earlier spellings remain as hidden aliases.
#[derive(Debug, clap::Args)]
pub(super) struct OutputFormat<F>
where
    F: ValueEnum + Clone + Send + Sync + 'static,
{
    /// The output format
    #[arg(
        short = 'o',
        long = "output",
        aliases = ["format", "output-format"],
        value_name = "FORMAT",
        value_enum,
        default_value = "human"
    )]
    pub(super) format: F,
}

/// The formats of a command that prints a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ResultFormat {
    Human,
    Json,
}

/// The formats of a command that prints a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    Human,
    Json,
    Markdown,
}
