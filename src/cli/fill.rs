//! `kyvtest fill`: writes the behaviours that suites do not exercise as cases.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use super::{Exit, Failure, interrupt, new_files, output::Output, suites::Suites};
use crate::{
    author::{
        fill::{Frame, Lookups, Missing, Written, suites},
        mutation,
        suite_writer::File,
    },
    run::{Extras, Settings, SuiteRun, analysis::Behaviour},
    suite::{self, Disk, Options, Suite},
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};
use kyvtest_prove::body::reads;

/// Write cases for the behaviours that suites do not exercise
///
/// For every behaviour of a policy that no row tests (see `kyvtest cover --behaviours`), writes a resource and a row
/// with the current results of both engines to a new directory `behaviours` beside the suite. Review them before you
/// accept them: a row records what the policy does, not what it should do.
///
/// Without `--write` the files end in `.new`, so that no run reads them. Existing files are never overwritten.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    suites: Suites,

    /// Write the files under their own names, so that runs read them
    #[arg(long)]
    write: bool,
}

impl Args {
    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        if self.suites.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "no path given");
            return Err(diagnostic
                .with_help("`kyvtest fill .` searches the current directory")
                .into());
        }
        self.suites.extras = Extras {
            coverage: false,
            behaviours: true,
            proofs: false,
            to: None,
            stop: Some(interrupt::flag()),
        };
        let settings = self.suites.settings()?;
        let executed = self.suites.plan()?.execute_quietly();
        // Incomplete results are not written.
        if interrupt::flag().load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        let mut exit = Exit::Success;
        let mut lines = String::new();
        for timed in &executed.runs {
            for diagnostic in &timed.run.diagnostics {
                output.diagnostic(diagnostic, &timed.sources);
            }
            if timed.run.is_broken() {
                exit = exit.combine(Exit::Input);
                continue;
            }
            let loaded = suite::load(&Disk, &timed.run.path, &Options::in_cluster(&settings.discovery));
            if let Some(own) = loaded.into_iter().find(|suite| suite.document == timed.run.doc) {
                self.fill(&timed.run, &own, &settings, &mut lines)?;
            }
        }
        if lines.is_empty() && exit == Exit::Success {
            let note = Diagnostic::new(Code::NothingToFill, "nothing to fill in");
            output.diagnostic(&note, &Sources::new());
        }
        output.artefact().write_all(lines.as_bytes())?;
        Ok(exit)
    }

    /// Writes the missing cases of a suite, and reports the files.
    fn fill(&self, run: &SuiteRun, suite: &Suite, settings: &Settings, lines: &mut String) -> Result<(), Failure> {
        let Some(test) = &suite.test else { return Ok(()) };
        let rules = |name: &str| {
            let mut classic = suite.policies.classic();
            let own = classic.find(|policy| policy.metadata.name.value == name);
            own.map_or(&[][..], |policy| &policy.spec.rules)
        };
        let mut missing = Vec::new();
        for policy in &run.behaviours {
            let rules = rules(&policy.name);
            let mut originals = suite.policies.policies.iter();
            let original = originals.find(|original| original.name() == policy.name && original.validates());
            let reads = original.map(reads).unwrap_or_default();
            let cel = rules.iter().filter_map(|rule| rule.validate.as_ref()?.cel.as_ref());
            let kinds: Vec<_> = cel.filter_map(|cel| cel.param_kind.clone()).collect();
            // Rows about changed objects are written with the objects, see `author::mutation`.
            let missing_here = |behaviour: &&Behaviour| !behaviour.exercised && !behaviour.mutates;
            for behaviour in policy.found.list.iter().filter(missing_here) {
                let Some(shown) = &behaviour.witness else { continue };
                missing.push(Missing {
                    policy: &policy.name,
                    rule: match rules {
                        [only] => Some(only.name.value.as_str()),
                        _ => None,
                    },
                    has_several_rules: rules.len() > 1,
                    text: &behaviour.text,
                    shown,
                    has_user: true,
                    looked_up: reads.any.then(|| Lookups::of(shown, &kinds, reads.objects)),
                });
            }
        }
        let directory = Path::new(&run.path).parent().unwrap_or_else(|| Path::new(""));
        let frame = Frame::below(test);
        let written = suites(&frame, &missing).into_iter().map(|Written { files, .. }| files);
        let below = directory.join("behaviours").display().to_string();
        let mutation = mutation::missing(suite, &frame, settings, &Disk, &below);
        for files in written.chain([mutation]).filter(|files| !files.is_empty()) {
            let at = self.free(directory, &files);
            let files = files.iter();
            let files: Vec<(PathBuf, &str)> = files
                .map(|file| (at.join(self.name(file)), file.text.as_str()))
                .collect();
            new_files::write(&files, "remove or move the directories `behaviours`")?;
            for (path, _) in &files {
                let _ = writeln!(lines, "{}", path.display());
            }
        }
        Ok(())
    }

    fn name(&self, file: &File) -> String {
        let end = if self.write { "" } else { ".new" };
        format!("{}{end}", file.name)
    }

    /// The first directory in which nothing would be overwritten.
    fn free(&self, directory: &Path, files: &[File]) -> PathBuf {
        let taken = |at: &Path| {
            files
                .iter()
                .any(|file| at.join(file.name).exists() || at.join(self.name(file)).exists())
        };
        let first = directory.join("behaviours");
        let others = (2..10_000).map(|number| directory.join(format!("behaviours-{number}")));
        let mut all = std::iter::once(first.clone()).chain(others);
        all.find(|at| !taken(at)).unwrap_or(first)
    }
}
