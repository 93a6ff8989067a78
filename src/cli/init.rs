//! `kyvtest init`: writes a suite for policies that have none.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{Exit, Failure, cluster::Cluster, config::Source, data::DataLens, input, new_files, output::Output};
use crate::{
    author::{fill::Frame, skeleton},
    run::Settings,
    suite::{self, Disk, Memory, Options, Overlay, SIDECAR},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources},
    text::path::{join, relative},
    value::Document,
};

/// Write a suite for policies that have none
///
/// Creates a directory with a kyverno-test.yaml and one passing and one failing resource for each rule. The resources
/// are found by solving the match block and searching the patterns, conditions and expressions; each is run before it
/// is written, so the new suite passes. Resources that were not found are listed in a comment and on standard error.
/// Read the rows before you rely on them: they record what the policies do, not what they should do.
///
/// Existing files are never overwritten: if one of the files exists, nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files or directories with policies
    #[arg(value_name = "POLICY", required = true)]
    policies: Vec<String>,

    /// The directory of the suite [default: `.kyverno-test` beside the first policy]
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,

    /// A file with exceptions (may be repeated)
    #[arg(long = "exception", value_name = "FILE")]
    exceptions: Vec<String>,

    #[command(flatten)]
    config: Source,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    data: DataLens,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let directory = self.directory();
        let frame = self.frame(&directory)?;
        let settings = Settings {
            discovery: self.cluster.discovery()?,
            now: self.cluster.clock()?,
            data: self.data.of_run(false),
            ..Settings::new(false)
        };
        let mut over = Memory::default();
        let probe = serde_json::json!({
            "apiVersion": "cli.kyverno.io/v1alpha1",
            "kind": "Test",
            "metadata": {"name": frame.name},
            "policies": frame.policies,
            "exceptions": frame.exceptions,
            "resources": [],
            "results": [],
        });
        let path = join(&directory, "kyverno-test.yaml");
        over.add(&path, Document::from(&probe).root().to_yaml());
        let overlay = Overlay { under: &Disk, over };
        let Some(probe) = suite::load(&overlay, &path, &Options::in_cluster(&settings.discovery))
            .into_iter()
            .next()
        else {
            return Ok(Exit::Input);
        };
        let mut diagnostics: Vec<Diagnostic> = probe.diagnostics.clone();
        diagnostics.retain(|found| found.code != Code::EmptySuite);
        if diagnostics.iter().any(|found| found.severity == Severity::Error) {
            return Err(Failure::Input(diagnostics, probe.sources));
        }
        for diagnostic in &diagnostics {
            output.diagnostic(diagnostic, &probe.sources);
        }
        let mut frame = frame;
        if let Some(name) = skeleton::policy_name(&probe) {
            frame.name = name;
        }
        let made = skeleton::skeleton(&probe, &frame, &settings, &Disk, &directory);
        if made.directories.is_empty() {
            let (mut problems, sources) = made.problems;
            problems.push(skeleton::nothing(&made.rules));
            return Err(Failure::Input(problems, sources));
        }
        for text in made
            .rules
            .iter()
            .map(skeleton::Rule::missing)
            .filter(|text| !text.is_empty())
        {
            output.diagnostic(&Diagnostic::new(Code::ExampleMissing, text), &Sources::new());
        }
        let files: Vec<(PathBuf, &str)> = made
            .directories
            .iter()
            .flat_map(|(below, files)| {
                let at = join(&directory, below);
                files
                    .iter()
                    .map(move |file| (PathBuf::from(join(&at, file.name)), file.text.as_str()))
            })
            .collect();
        let help = "choose another directory with `--dir`, or add missing cases with `kyvtest fill`";
        new_files::write(&files, help)?;
        for (path, _) in &files {
            output
                .artefact()
                .write_all(format!("{}\n", path.display()).as_bytes())?;
        }
        let noted = |(path, text): &&(PathBuf, &str)| path.ends_with(SIDECAR) && text.contains("divergence:");
        for (path, _) in files.iter().filter(noted) {
            output.remark(&format!(
                "the engines differ on some of these requests: see `{}`\n",
                path.display()
            ));
        }
        let whole = made.rules.iter().filter(|rule| rule.passes && rule.fails).count();
        output.remark(&format!(
            "found a passing and a failing resource for {whole} of {} rules; run them with `kyvtest run {directory}`\n",
            made.rules.len()
        ));
        Ok(Exit::Success)
    }

    /// The directory of the suite.
    fn directory(&self) -> String {
        if let Some(dir) = &self.dir {
            return join("", dir);
        }
        let first = self.policies.first().map_or(".", String::as_str);
        let beside = match Path::new(first).parent().and_then(Path::to_str) {
            _ if Path::new(first).is_dir() => first,
            None | Some("") => ".",
            Some(parent) => parent,
        };
        join(beside, ".kyverno-test")
    }

    fn frame(&self, directory: &str) -> Result<Frame, Failure> {
        let absolute = |path: &str| -> Result<String, Failure> {
            let found = std::path::absolute(path).map_err(|error| {
                let message = format!("cannot read `{path}`: {}", input::reason(&error));
                Diagnostic::new(Code::Unreadable, message)
            })?;
            Ok(found.to_string_lossy().into_owned())
        };
        let from = absolute(directory)?;
        let paths = |list: &[String]| -> Result<Vec<String>, Failure> {
            let paths = list.iter().map(|path| {
                if let Err(error) = fs::metadata(path) {
                    let message = format!("cannot read `{path}`: {}", input::reason(&error));
                    return Err(Diagnostic::new(Code::Unreadable, message).into());
                }
                Ok(relative(&from, &absolute(path)?))
            });
            paths.collect()
        };
        let first = self.policies.first().map_or("", String::as_str);
        let stem = Path::new(first)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        Ok(Frame {
            name: stem
                .filter(|stem| !stem.is_empty())
                .unwrap_or_else(|| "policies".to_owned()),
            policies: paths(&self.policies)?,
            exceptions: paths(&self.exceptions)?,
            head: "# Written by `kyvtest init`; `kyvtest schema suite` prints the schema for editors.\n".to_owned(),
            command: "kyvtest init",
            terse: true,
            ..Frame::default()
        })
    }
}
