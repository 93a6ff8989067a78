//! `kyvtest run`: suites, and what Kyverno decides on them.

use std::{io::Write as _, path::PathBuf};

use clap::ValueEnum;
use rayon::prelude::*;

use super::{Exit, Failure, input, output::Output};
use crate::{
    diagnostic::Sources,
    report::{human, json},
    run::{self, Settings, SuiteRun},
    suite::{self, BuiltInScopes, Disk, Options, Suite},
};

/// Run kyverno-test.yaml suites
///
/// Decides every row as Kyverno 1.19 would on a cluster, and checks the answer against the result that the row expects. A row
/// that no rule answers fails; `--compat` gives the verdicts that `kyverno test` prints instead, with a warning for those
/// that pass although nothing answered.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folders with suites, searched with everything below them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Judge rows as `kyverno test` does
    #[arg(long)]
    compat: bool,

    /// How to print the result
    #[arg(short = 'o', long = "output-format", value_enum, default_value_t)]
    format: Format,

    /// Also list every answer of every policy, asked for by a row or not (JSON)
    #[arg(long)]
    all_responses: bool,

    /// Print passing cases too
    #[arg(long)]
    detailed_results: bool,

    /// CustomResourceDefinitions that the cluster has
    #[arg(long, value_name = "FILE")]
    crds: Vec<PathBuf>,

    /// What the cluster serves, instead of the table of Kubernetes 1.36
    #[arg(long, value_name = "FILE")]
    discovery: Option<PathBuf>,

    /// The time that expressions see, in RFC 3339
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// Accepted for the sake of scripts; output to a pipe has no colours
    #[arg(long, hide = true)]
    remove_color: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let settings = self.settings()?;
        let options = Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            scopes: &BuiltInScopes,
            own_crds: !self.compat,
            sidecar: true,
        };
        let mut exit = Exit::Success;
        let mut files = Vec::new();
        for path in &self.paths {
            match suite::discover(&Disk, path, &options) {
                Ok(found) => files.extend(found),
                Err(diagnostic) => {
                    exit = exit.combine(Exit::Input);
                    output.diagnostic(&diagnostic, &Sources::new());
                }
            }
        }
        let runs: Vec<(SuiteRun, Suite)> = files
            .par_iter()
            .flat_map_iter(|file| suite::load(&Disk, file, &options))
            .map(|suite| (run::run(&suite, &settings), suite))
            .collect();
        for (run, suite) in &runs {
            for diagnostic in &run.diagnostics {
                output.diagnostic(diagnostic, &suite.sources);
            }
            let failed = run.cases.iter().any(|case| case.outcome.fails());
            exit = exit.combine(if run.is_broken() { Exit::Input } else { Exit::Success });
            exit = exit.combine(if failed { Exit::Mismatch } else { Exit::Success });
        }
        if runs.iter().all(|(run, _)| run.cases.is_empty()) {
            exit = exit.combine(Exit::NoTests);
        }
        let summary = human::summary(&runs.iter().map(|(run, _)| run).collect::<Vec<_>>());
        match self.format {
            Format::Human => {
                for (run, _) in &runs {
                    let text = human::suite(run, self.detailed_results);
                    output.artefact().write_all(text.as_bytes())?;
                }
                output.artefact().write_all(summary.as_bytes())?;
            }
            Format::Json => {
                let runs: Vec<json::Run<'_>> = runs.iter().map(|(run, suite)| (run, &suite.sources)).collect();
                let report = json::render(&runs, self.compat, self.all_responses);
                writeln!(output.artefact(), "{report}")?;
                output.remark(&summary);
            }
        }
        Ok(if self.compat { compat_exit(exit) } else { exit })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let discovery = input::cluster(self.discovery.as_deref(), &self.crds)?;
        Ok(Settings {
            compat: self.compat,
            discovery,
            now: self.now.as_deref().map(input::time).transpose()?,
        })
    }
}

/// `kyverno test` knows two codes only.
fn compat_exit(exit: Exit) -> Exit {
    match exit {
        Exit::Mismatch | Exit::Input | Exit::Divergence | Exit::BelowThreshold => Exit::Mismatch,
        Exit::NoTests => Exit::Success,
        Exit::Success | Exit::Interrupted | Exit::Internal => exit,
    }
}
