//! `kyvtest run`: suites, and what Kyverno decides on them.

use std::{
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use clap::ValueEnum;
use rayon::prelude::*;

use super::{
    Exit, Failure, input,
    output::Output,
    report_file::{ReportFile, ReportFormat},
};
use crate::{
    cel::time::Timestamp,
    diagnostic::{Code, Diagnostic, Sources},
    report::{human, json, junit},
    run::{self, Settings, SuiteRun},
    suite::{self, BuiltInScopes, Disk, Options},
};

/// Run kyverno-test.yaml suites
///
/// Decides every row as Kyverno 1.19 would on a cluster, and checks the answer against the result that the row expects. A row
/// that no rule answers fails; `--compat` gives the verdicts that `kyverno test` prints instead, with a warning for those
/// that pass although nothing answered.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folders with suites, searched with everything below them
    #[arg(value_name = "PATH")]
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

    /// Write a report to a file, too: `json=PATH` or `junit=PATH`; may be given several times
    #[arg(long, value_name = "FORMAT=PATH")]
    report: Vec<ReportFile>,

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

    /// Kyverno's configuration: `bare`, `chart` (that of the Helm chart), or a file with its ConfigMap
    ///
    /// It says which requests Kyverno judges at all. `kyverno test` judges all of them, whatever it says.
    #[arg(long, value_name = "bare|chart|FILE", default_value = "bare")]
    kyverno_config: String,

    /// What it means that there is nothing to run
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    no_tests: NoTests,

    /// With `--compat`: fail if there is no suite
    #[arg(long)]
    require_tests: bool,

    /// End with 0 whatever the expectations and the engines say
    #[arg(long)]
    exit_zero: bool,

    /// How many threads to use; as many as there are cores unless given
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Accepted for the sake of scripts; output to a pipe has no colours
    #[arg(long, hide = true)]
    remove_color: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
    Junit,
}

/// What it means that there is nothing to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum NoTests {
    #[default]
    Fail,
    Warn,
    Pass,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        if self.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "there is no path to look for suites in");
            output.diagnostic(
                &diagnostic.with_help("`kyvtest run .` looks in this folder"),
                &Sources::new(),
            );
            return Ok(if self.compat { Exit::Mismatch } else { Exit::Input });
        }
        let settings = self.settings()?;
        let options = Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            scopes: &BuiltInScopes,
            own_crds: !self.compat,
            sidecar: !self.compat,
        };
        let clock = Clock::start(settings.now);
        let mut runs: Vec<Timed> = Vec::new();
        let mut files = Vec::new();
        for path in &self.paths {
            match suite::discover(&Disk, path, &options) {
                Ok(found) => files.extend(found),
                Err(diagnostic) => runs.push(Timed {
                    run: SuiteRun::unusable(path, diagnostic),
                    sources: Sources::new(),
                    elapsed: Duration::ZERO,
                }),
            }
        }
        let run_file = |file: &String| -> Vec<Timed> {
            let mut lap = Instant::now();
            let suites = suite::load(&Disk, file, &options);
            let timed = suites.into_iter().map(|suite| {
                let run = run::run(&suite, &settings);
                let elapsed = lap.elapsed();
                lap = Instant::now();
                Timed {
                    run,
                    sources: suite.sources,
                    elapsed: clock.shown(elapsed),
                }
            });
            timed.collect()
        };
        let all = || files.par_iter().flat_map_iter(run_file).collect::<Vec<Timed>>();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.map_or(0, usize::from));
        runs.extend(match pool.build() {
            Ok(pool) => pool.install(all),
            // The system gives no threads: the one that we have does it.
            Err(_) => files.iter().flat_map(run_file).collect(),
        });
        self.report(&runs, &clock, output)
    }

    /// Shows what came of the suites, on the streams and in files.
    fn report(&self, runs: &[Timed], clock: &Clock, output: &mut Output) -> Result<Exit, Failure> {
        let mut exit = Exit::Success;
        for Timed { run, sources, .. } in runs {
            for diagnostic in &run.diagnostics {
                output.diagnostic(diagnostic, sources);
            }
            exit = exit.combine(exit_of(run));
        }
        if runs.iter().all(|timed| timed.run.cases.is_empty()) {
            exit = exit.combine(self.no_tests(output));
        }
        let listed: Vec<json::Run<'_>> = runs.iter().map(|timed| (&timed.run, &timed.sources)).collect();
        let summary = human::summary(&runs.iter().map(|timed| &timed.run).collect::<Vec<_>>());
        let json = || format!("{}\n", json::render(&listed, self.compat, self.all_responses));
        let junit = || junit::render(&listed, self.compat, &clock.times(runs));
        for file in &self.report {
            let written = file.write(&match file.format {
                ReportFormat::Json => json(),
                ReportFormat::Junit => junit(),
            });
            if let Err(diagnostic) = written {
                output.diagnostic(&diagnostic, &Sources::new());
                exit = exit.combine(Exit::Input);
            }
        }
        match self.format {
            Format::Human => {
                for Timed { run, sources, .. } in runs {
                    let text = human::suite(run, sources, self.detailed_results);
                    output.artefact().write_all(text.as_bytes())?;
                }
                output.artefact().write_all(summary.as_bytes())?;
            }
            Format::Json => output.artefact().write_all(json().as_bytes())?,
            Format::Junit => output.artefact().write_all(junit().as_bytes())?,
        }
        if self.format != Format::Human {
            output.remark(&summary);
        }
        if self.compat && self.require_tests && runs.is_empty() {
            return Ok(Exit::Mismatch);
        }
        let exit = if self.compat { compat_exit(exit) } else { exit };
        let forgiven = matches!(exit, Exit::Mismatch | Exit::Divergence | Exit::BelowThreshold) && self.exit_zero;
        Ok(if forgiven { Exit::Success } else { exit })
    }

    fn no_tests(&self, output: &mut Output) -> Exit {
        match self.no_tests {
            NoTests::Fail => Exit::NoTests,
            NoTests::Pass => Exit::Success,
            NoTests::Warn => {
                let diagnostic = Diagnostic::new(Code::NoTests, "there is nothing to run");
                output.diagnostic(&diagnostic, &Sources::new());
                Exit::Success
            }
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            config: input::kyverno_config(&self.kyverno_config)?,
            compat: self.compat,
            discovery: input::cluster(self.discovery.as_deref(), &self.crds)?,
            now: self.now.as_deref().map(input::time).transpose()?,
        })
    }
}

/// A suite's run, with the texts that its diagnostics refer to.
struct Timed {
    run: SuiteRun,
    sources: Sources,
    elapsed: Duration,
}

/// The clock of reports. A clock that `--now` fixes stands still, so that the same input gives the same bytes.
struct Clock {
    begin: (i64, u32),
    watch: Option<Instant>,
}

impl Clock {
    fn start(fixed: Option<Timestamp>) -> Self {
        if let Some(now) = fixed {
            return Self {
                begin: now.instant(),
                watch: None,
            };
        }
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            begin: (i64::try_from(since.as_secs()).unwrap_or_default(), since.subsec_nanos()),
            watch: Some(Instant::now()),
        }
    }

    fn shown(&self, elapsed: Duration) -> Duration {
        self.watch.map_or(Duration::ZERO, |_| elapsed)
    }

    fn times(&self, runs: &[Timed]) -> junit::Times {
        junit::Times {
            begin: self.begin,
            elapsed: self.watch.map_or(Duration::ZERO, |watch| watch.elapsed()),
            suites: runs.iter().map(|timed| timed.elapsed).collect(),
        }
    }
}

/// What a suite's run means for the exit code.
fn exit_of(run: &SuiteRun) -> Exit {
    let broken = run.is_broken().then_some(Exit::Input);
    let cases = run.cases.iter().map(|case| {
        if case.outcome.fails() {
            Exit::Mismatch
        } else if case.diverges() {
            Exit::Divergence
        } else {
            Exit::Success
        }
    });
    broken.into_iter().chain(cases).collect()
}

/// `kyverno test` knows two codes only.
fn compat_exit(exit: Exit) -> Exit {
    match exit {
        Exit::Mismatch | Exit::Input | Exit::Divergence | Exit::BelowThreshold => Exit::Mismatch,
        Exit::NoTests => Exit::Success,
        Exit::Success | Exit::Interrupted | Exit::Internal => exit,
    }
}
