//! The option `-o`, which chooses the output format of a command.

use clap::ValueEnum;

/// `-o FORMAT`. Earlier spellings remain as hidden aliases.
#[derive(Debug, clap::Args)]
pub(super) struct OutputFormat<F>
where
    F: ValueEnum + Clone + Default + Send + Sync + 'static,
{
    /// The output format
    #[arg(
        short = 'o',
        long = "output",
        aliases = ["format", "output-format"],
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    pub(super) format: F,
}

/// The formats of a command that prints a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum ResultFormat {
    #[default]
    Human,
    Json,
}

/// The formats of a command that prints a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum ReportFormat {
    #[default]
    Human,
    Json,
    Markdown,
}
