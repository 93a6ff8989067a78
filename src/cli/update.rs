//! `kyvtest run --update`: updates failing expectations to Kyverno's results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead as _, IsTerminal as _},
    path::Path,
};

use super::{Failure, output::Output, report_file, suites::Suites};
use crate::{
    author::update::{Acceptance, Change, Changed, apply, update},
    run::{self, Executed, Settings},
    suite::{self, Disk, Memory, Options, Overlay, Suite},
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_line_diff::unified;

/// The treatment of failing expectations.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Updating expectations")]
pub(super) struct Update {
    /// Update expectations that are not met to Kyverno's results
    ///
    /// Changes results, effects and messages in kyverno-test.yaml and kyvtest.yaml, and preserves comments and layout.
    /// Expected objects that differ from what mutation makes are changed in their files.
    /// The changed files are written beside the originals with the suffix `.new`. Rows without a result are never
    /// updated.
    #[arg(long, conflicts_with_all = ["compat", "check_determinism"])]
    #[expect(clippy::struct_field_names, reason = "the name of the option")]
    pub(super) update: bool,

    /// Change the files themselves
    #[arg(long, requires = "update", conflicts_with = "review")]
    accept: bool,

    /// Prompt for each change on the terminal
    #[arg(long, requires = "update")]
    review: bool,

    /// Accept divergences of a class or code and record them in the sidecar (may be repeated)
    #[arg(long, value_name = "CODE", requires_all = ["update", "reason"])]
    accept_divergence: Vec<String>,

    /// Why they are accepted
    #[arg(long, value_name = "TEXT", requires = "accept_divergence")]
    reason: Option<String>,

    /// The last day on which they are accepted, such as `2027-03-31`
    #[arg(long, value_name = "DATE", requires = "accept_divergence", value_parser = day)]
    expires: Option<String>,
}

fn day(text: &str) -> Result<String, String> {
    if suite::is_day(text) {
        Ok(text.to_owned())
    } else {
        Err("write a day as `2027-03-31`".to_owned())
    }
}

/// The user's choice about a change.
enum Choice {
    Take,
    Leave,
    Quit,
}

impl Update {
    /// Checks that the options can be satisfied.
    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        if self.review && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let diagnostic = Diagnostic::new(Code::CommandLine, "`--review` needs a terminal");
            return Err(diagnostic.with_help("`--update` writes the changes beside the files, `--accept` into them"));
        }
        if self.reason.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
            return Err(Diagnostic::new(Code::CommandLine, "`--reason` is empty")
                .with_help("write a sentence that a reviewer can verify"));
        }
        Ok(())
    }

    /// Writes the updates of the runs, and returns the test files that were changed in place.
    pub(super) fn apply(
        &self,
        suites: &Suites,
        executed: &Executed,
        output: &mut Output,
    ) -> Result<BTreeSet<String>, Failure> {
        let settings = suites.settings()?;
        let acceptance = Acceptance {
            names: self.accept_divergence.clone(),
            reason: self.reason.clone().unwrap_or_default(),
            expires: self.expires.clone(),
        };
        let mut runs: BTreeMap<&str, Vec<&run::SuiteRun>> = BTreeMap::new();
        for timed in &executed.runs {
            runs.entry(&timed.run.path).or_default().push(&timed.run);
        }
        let mut accepted = BTreeSet::new();
        let mut count = 0;
        let mut quit = false;
        for (path, runs) in runs {
            if quit || runs.iter().any(|run| run.is_broken()) {
                continue;
            }
            let loaded = suite::load(&Disk, path, &Options::in_cluster(&settings.discovery));
            let mut changes: Vec<(&Suite, Change)> = Vec::new();
            let mut before = Vec::new();
            for suite in &loaded {
                let whole = run::run(suite, &settings);
                before.push(met(&whole));
                let Some(shown) = runs.iter().find(|run| run.doc == suite.document) else {
                    continue;
                };
                // A filter may have removed some cases of a row, but a row is updated as a whole.
                let wanted = |case: &run::Case| {
                    let mut cases = shown.cases.iter();
                    cases.any(|own| own.place == case.place && (own.outcome.fails() || own.diverges()))
                };
                let found = update(suite, &whole, &acceptance, wanted);
                for diagnostic in &found.left {
                    output.diagnostic(diagnostic, &suite.sources);
                }
                changes.extend(found.changes.into_iter().map(|change| (suite, change)));
            }
            if self.review {
                changes = review(changes, loaded.len(), output, &mut quit);
            }
            let taken: Vec<(&Suite, &Change)> = changes.iter().map(|(suite, change)| (*suite, change)).collect();
            let files = apply(&taken, loaded.len());
            if files.is_empty() {
                continue;
            }
            if let Some(problem) = unusable(&files, path, &settings, &before) {
                output.diagnostic(&problem, &Sources::new());
                continue;
            }
            for (_, change) in &taken {
                output.remark(&format!("{}\n", change.text));
            }
            count += taken.len();
            let in_place = self.accept || self.review;
            for file in &files {
                let target = if in_place {
                    file.path.clone()
                } else {
                    format!("{}.new", file.path)
                };
                report_file::write(Path::new(&target), &file.after)?;
                if !in_place {
                    output.remark(&format!("{target} written\n"));
                }
            }
            if in_place {
                for file in &files {
                    // The proposals of an earlier `--update` are obsolete.
                    let _ = fs::remove_file(format!("{}.new", file.path));
                }
                accepted.insert(path.to_owned());
            }
        }
        let changes = if count == 1 {
            "1 change".to_owned()
        } else {
            format!("{count} changes")
        };
        output.remark(&match (count, self.accept || self.review) {
            (0, _) => "nothing to update\n".to_owned(),
            (_, true) => format!("{changes} made\n"),
            (_, false) => format!("wrote {changes} to `.new` files; use `--accept` to apply them\n"),
        });
        Ok(accepted)
    }
}

/// The cases that meet their expectations.
fn met(run: &run::SuiteRun) -> Vec<bool> {
    let met = |case: &run::Case| !case.outcome.fails() && !case.diverges();
    run.cases.iter().map(met).collect()
}

/// The reason why changed files must not be written: they are invalid, or break another expectation, such as a row that
/// shares a value by an alias.
fn unusable(files: &[Changed], path: &str, settings: &Settings, before: &[Vec<bool>]) -> Option<Diagnostic> {
    let mut over = Memory::default();
    for file in files {
        over.add(&file.path, file.after.as_bytes());
    }
    let overlay = Overlay { under: &Disk, over };
    let refuse = |note: String| {
        let message = format!("`{path}` cannot be changed in place");
        Diagnostic::new(Code::NotUpdated, message).with_note(note)
    };
    let suites = suite::load(&overlay, path, &Options::in_cluster(&settings.discovery));
    for (suite, before) in suites.iter().zip(before) {
        let run = run::run(suite, settings);
        if run.is_broken() {
            let mut errors = run.diagnostics.iter();
            let first = errors.find(|found| found.severity == Severity::Error);
            return Some(refuse(first.map_or_else(String::new, |first| first.message.clone())));
        }
        let after = met(&run);
        if before.iter().zip(&after).any(|(before, after)| *before && !after) {
            return Some(refuse(
                "an expectation that is met now would no longer be met".to_owned(),
            ));
        }
    }
    None
}

/// Prompts for each change.
fn review<'s>(
    changes: Vec<(&'s Suite, Change)>,
    documents: usize,
    output: &mut Output,
    quit: &mut bool,
) -> Vec<(&'s Suite, Change)> {
    let mut taken = Vec::new();
    for (suite, change) in changes {
        if *quit {
            break;
        }
        output.remark(&format!("\n{}\n", change.text));
        for file in apply(&[(suite, &change)], documents) {
            output.remark(&difference(&file));
        }
        match prompt(output) {
            Choice::Take => taken.push((suite, change)),
            Choice::Leave => {}
            Choice::Quit => *quit = true,
        }
    }
    taken
}

fn prompt(output: &mut Output) -> Choice {
    loop {
        output.remark("make this change? [y]es, [n]o, [q]uit: ");
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return Choice::Quit,
            Ok(_) => {}
        }
        match line.trim() {
            "y" | "yes" => return Choice::Take,
            "n" | "no" => return Choice::Leave,
            "q" | "quit" => return Choice::Quit,
            _ => {}
        }
    }
}

/// The change of a file in the format of `diff -u`.
fn difference(file: &Changed) -> String {
    unified(&file.before, &file.after, [&file.path; 2], 2)
}
