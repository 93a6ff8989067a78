//! `kyvtest watch`: reruns suites when a file that they depend on changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Exit, Failure, input, interrupt, output::Output, run};
use crate::{
    run::{Executed, Stop, overrides::Override},
    suite::Dependencies,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic},
    text::path::clean,
};

/// The quiet period after a burst of changes before suites run.
const PAUSE: Duration = Duration::from_millis(60);

/// The polling interval for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Rerun suites when their files change
///
/// Runs the suites once. Then reruns a suite when a file that it reads changes, when a directory that it lists changes,
/// or when a missing file appears; new test files are added and deleted ones dropped. Reruns all suites when a file of
/// `--crds` or `--discovery` changes. Press Ctrl-C to stop.
#[derive(Debug, clap::Args)]
// `run`'s arguments already have a group of this name.
#[group(id = "watch")]
pub(super) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// Clear the screen before each run
    #[arg(long)]
    clear: bool,

    #[arg(skip)]
    config_file: Option<PathBuf>,
}

impl Args {
    /// Sets the configuration's file and its overrides for single cases.
    pub(super) fn set_config(&mut self, file: Option<PathBuf>, overrides: Vec<Override>) {
        self.config_file = file;
        self.run.set_overrides(overrides);
    }

    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        if self.run.update.update || self.run.check_determinism {
            let message = "`watch` cannot be combined with `--update` or `--check-determinism`";
            return Err(Diagnostic::new(Code::CommandLine, message).into());
        }
        let suites = &mut self.run.suites;
        suites.noted = true;
        if suites.paths.is_empty() {
            suites.paths.push(".".to_owned());
        }
        let (sender, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).map_err(|error| problem(&error))?;
        let mut watched = BTreeSet::new();
        for path in suites.paths.clone() {
            watch(&mut watcher, &mut watched, Path::new(&path), RecursiveMode::Recursive);
        }
        if watched.is_empty() {
            let message = format!("cannot watch `{}`", suites.paths.join("`, `"));
            return Err(Diagnostic::new(Code::Unreadable, message).into());
        }
        let reports: BTreeSet<String> = self.run.report.iter().map(|report| absolute(&report.path)).collect();
        let cluster: BTreeSet<String> = self.run.suites.cluster.files().map(absolute).collect();
        let config_file = self.config_file.as_ref().map(absolute);
        for file in cluster.iter().chain(&config_file) {
            let directory = parent(file);
            watch(
                &mut watcher,
                &mut watched,
                Path::new(&directory),
                RecursiveMode::NonRecursive,
            );
        }
        let mut known = Known::default();
        let stop = interrupt::flag();
        loop {
            if self.clear && output.is_colored() {
                output.styled("\u{1b}[2J\u{1b}[H")?;
            }
            let (exit, executed) = self.run.once(output)?;
            if executed
                .stopped
                .is_some_and(|stopped| matches!(stopped, Stop::Interrupted(_)))
            {
                return Ok(Exit::Interrupted);
            }
            known.learn(&executed);
            // Files outside the given paths are watched through their directories.
            for directory in known.directories() {
                watch(
                    &mut watcher,
                    &mut watched,
                    Path::new(&directory),
                    RecursiveMode::NonRecursive,
                );
            }
            output.remark(&format!("{}\nwatching; press Ctrl-C to stop\n", known.line()));
            output.flush()?;
            if output.is_closed() {
                return Ok(exit);
            }
            // Changes that affect no suite are not reported.
            let touched = loop {
                let Some(changed) = changes(&events, &|| stop.load(Ordering::Relaxed)) else {
                    return Ok(Exit::Interrupted);
                };
                let changed: BTreeSet<String> = changed
                    .into_iter()
                    .filter(|path| !reports.contains(path) && !is_part(path))
                    .collect();
                let found = self.run.suites.test_files();
                let gone: Vec<String> = known.seen.difference(&found).cloned().collect();
                if let Some(file) = config_file.as_ref().filter(|file| changed.contains(*file)) {
                    output.remark(&format!("{file} is only read when `watch` starts; restart it\n"));
                }
                let mut touched = if changed.is_disjoint(&cluster) {
                    affected(&known.suites, &changed)
                } else {
                    found.clone()
                };
                touched.extend(found.difference(&known.seen).cloned());
                for path in &gone {
                    touched.remove(path);
                    known.forget(path);
                    output.remark(&format!("{path} was removed\n"));
                }
                if !gone.is_empty() && touched.is_empty() {
                    output.remark(&format!("{}\n", known.line()));
                }
                if !touched.is_empty() {
                    break touched;
                }
            };
            self.run.suites.only = Some(touched);
        }
    }
}

fn problem(error: &notify::Error) -> Diagnostic {
    let why = match &error.kind {
        notify::ErrorKind::Io(error) => input::reason(error),
        _ => error.to_string(),
    };
    Diagnostic::new(Code::Unreadable, format!("cannot watch files: {why}"))
}

/// Watches a file or directory once; ignores those that cannot be watched.
fn watch(watcher: &mut RecommendedWatcher, watched: &mut BTreeSet<String>, path: &Path, mode: RecursiveMode) {
    let name = absolute(path);
    let below = |directory: &String| name == *directory || name.starts_with(&format!("{directory}/"));
    let known = watched.contains(&format!("{name}/.")) || watched.iter().any(below);
    if !known && watcher.watch(path, mode).is_ok() {
        // A path below a recursively watched directory needs no separate watch.
        if mode == RecursiveMode::Recursive || !path.is_dir() {
            watched.insert(name);
        } else {
            watched.insert(format!("{name}/."));
        }
    }
}

/// The paths that changed in a burst; `None` after an interrupt.
fn changes(events: &Receiver<notify::Result<notify::Event>>, stop: &dyn Fn() -> bool) -> Option<BTreeSet<String>> {
    let mut changed = BTreeSet::new();
    loop {
        if stop() {
            return None;
        }
        let wait = if changed.is_empty() { TICK } else { PAUSE };
        match events.recv_timeout(wait) {
            Ok(Ok(event)) if !matches!(event.kind, EventKind::Access(_)) => {
                changed.extend(event.paths.iter().map(absolute));
            }
            // Access events are not changes.
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if changed.is_empty() => {}
            Err(RecvTimeoutError::Timeout) => return Some(changed),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Whether a file is a temporary file of an atomic write.
fn is_part(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "part")
}

/// Makes a path absolute without resolving links.
fn absolute(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let full: PathBuf = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    clean(&full.to_string_lossy())
}

/// The state of the watched suites.
#[derive(Debug, Default)]
struct Known {
    /// The dependencies of each test file, as absolute paths.
    suites: BTreeMap<String, Dependencies>,
    /// The test files found so far, run or not.
    seen: BTreeSet<String>,
    /// The test files with problems.
    bad: BTreeSet<String>,
}

impl Known {
    fn learn(&mut self, executed: &Executed) {
        self.seen.clone_from(&executed.selected);
        let paths: BTreeSet<&String> = executed.runs.iter().map(|timed| &timed.run.path).collect();
        for path in paths {
            self.bad.remove(path);
        }
        for timed in &executed.runs {
            let path = &timed.run.path;
            let mut dependencies = Dependencies::default();
            dependencies.paths.extend(timed.dependencies.paths.iter().map(absolute));
            dependencies.paths.insert(absolute(path));
            dependencies
                .directories
                .extend(timed.dependencies.directories.iter().map(absolute));
            self.suites.insert(path.clone(), dependencies);
            let problem = |case: &crate::run::Case| case.outcome.fails() || case.diverges();
            if timed.run.is_broken() || timed.run.cases.iter().any(problem) {
                self.bad.insert(path.clone());
            }
        }
    }

    fn forget(&mut self, path: &str) {
        self.suites.remove(path);
        self.seen.remove(path);
        self.bad.remove(path);
    }

    /// All directories that files are read from.
    fn directories(&self) -> BTreeSet<String> {
        let all = self.suites.values();
        let parents = all.flat_map(|dependencies| {
            let parents = dependencies.paths.iter().map(|path| parent(path));
            parents.chain(dependencies.directories.iter().cloned())
        });
        parents.collect()
    }

    fn line(&self) -> String {
        match (self.seen.len(), self.bad.len()) {
            (1, 0) => "the test file passed".to_owned(),
            (all, 0) => format!("all {all} test files passed"),
            (all, bad) => format!("{bad} of {all} test files failed"),
        }
    }
}

fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((directory, _)) => directory.to_owned(),
    }
}

/// The test files affected by changes: a file they read or looked for, or a directory they listed. All paths are
/// absolute.
fn affected(suites: &BTreeMap<String, Dependencies>, changed: &BTreeSet<String>) -> BTreeSet<String> {
    let touches = |dependencies: &Dependencies| {
        changed.iter().any(|path| {
            dependencies.paths.contains(path)
                || dependencies.directories.contains(path)
                || dependencies.directories.contains(&parent(path))
        })
    };
    let touched = suites.iter().filter(|(_, dependencies)| touches(dependencies));
    touched.map(|(path, _)| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_touch_what_depends_on_them() {
        let set = |paths: &[&str]| -> BTreeSet<String> { paths.iter().map(|path| (*path).to_owned()).collect() };
        let suite = |paths: &[&str], directories: &[&str]| Dependencies {
            paths: set(paths),
            directories: set(directories),
        };
        let suites = BTreeMap::from([
            (
                "a/kyverno-test.yaml".to_owned(),
                suite(&["/w/a/kyverno-test.yaml", "/w/policy.yaml", "/w/a/missing.yaml"], &[]),
            ),
            (
                "b/kyverno-test.yaml".to_owned(),
                suite(&["/w/b/kyverno-test.yaml", "/w/policies/one.yaml"], &["/w/policies"]),
            ),
        ]);
        for (changed, touched) in [
            (&["/w/policy.yaml"][..], &["a/kyverno-test.yaml"][..]),
            (&["/w/a/missing.yaml"], &["a/kyverno-test.yaml"]),
            (&["/w/policies/two.yaml"], &["b/kyverno-test.yaml"]),
            (&["/w/policies"], &["b/kyverno-test.yaml"]),
            (&["/w/policies/below/three.yaml"], &[]),
            (&["/w/b/notes.md"], &[]),
            (
                &["/w/policy.yaml", "/w/b/kyverno-test.yaml"],
                &["a/kyverno-test.yaml", "b/kyverno-test.yaml"],
            ),
        ] {
            assert_eq!(affected(&suites, &set(changed)), set(touched), "{changed:?}");
        }
    }
}
