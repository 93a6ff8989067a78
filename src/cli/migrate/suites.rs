//! Directories with test files: new policies and exceptions in place of the old ones, rewritten test files, and the
//! files that they read.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

use super::{ExceptionRow, Row};
use crate::{
    cli::Failure,
    rewrite::{Moved, rewrite},
    suite::{Disk, Files as _, Memory, Options, Overlay, RecordingFiles, load},
};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    text::path::clean,
    yaml::{self, Limits, Mode},
};
use kyvtest_migrate::{Refusal, Replaced};

/// A test file and its rewriting.
pub(super) struct SuiteRow {
    pub(super) file: String,
    /// Whether the file has to change.
    pub(super) changed: bool,
    /// The file as it is and as it is rewritten, if it changes.
    pub(super) texts: Option<(String, String)>,
    pub(super) notes: Vec<String>,
    /// Why the file is not rewritten.
    pub(super) refusal: Option<Refusal>,
}

/// A directory with test files, rewritten.
#[derive(Default)]
pub(super) struct Rewritten {
    pub(super) suites: Vec<SuiteRow>,
    /// Paths below the output directory, and contents; test files come last.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Source files whose new policies are among `files`.
    pub(super) sources: BTreeSet<String>,
}

/// The test files below a directory.
fn test_files(directory: &Path) -> Vec<String> {
    let entries = WalkDir::new(directory).sort_by_file_name().follow_root_links(true);
    let files = entries.into_iter().filter_map(Result::ok);
    let name = Options::default().file_name;
    files
        .filter(|entry| entry.file_type().is_file() && entry.file_name() == name)
        .map(|entry| clean(&entry.path().display().to_string()))
        .collect()
}

/// Rewrites the test files below a directory; empty if there are none.
pub(super) fn rewritten(
    directory: &Path,
    rows: &[Row],
    exceptions: &[ExceptionRow],
    sources: &Sources,
    now: Option<Timestamp>,
) -> Result<Rewritten, Failure> {
    let tests = test_files(directory);
    let mut found = Rewritten::default();
    if tests.is_empty() {
        return Ok(found);
    }
    let root = clean(&directory.display().to_string());
    let below = |path: &str| -> Option<PathBuf> {
        let path = Path::new(path);
        let rest = if root == "." {
            path.is_relative().then_some(path)
        } else {
            path.strip_prefix(&root).ok()
        };
        rest.filter(|rest| !rest.starts_with("..")).map(Path::to_path_buf)
    };
    let mut moved = moved(rows, exceptions, sources);
    moved.retain(|moved| below(&moved.old).is_some());
    let policies: Vec<(String, Replaced)> = rows
        .iter()
        .map(|row| {
            let replaced = Replaced {
                key: row.key(),
                migration: row.migration.clone(),
            };
            (clean(sources.name(row.file()).unwrap_or_default()), replaced)
        })
        .collect();
    let mut written: BTreeMap<PathBuf, String> = BTreeMap::new();
    for moved in &moved {
        found.sources.insert(moved.old.clone());
        let folder = Path::new(&moved.old).parent().unwrap_or(Path::new(""));
        for (name, text) in &moved.new {
            if let Some(path) = below(&folder.join(name).display().to_string()) {
                written.insert(path, text.clone());
            }
        }
    }
    let mut changed: Vec<(PathBuf, String)> = Vec::new();
    for test in tests {
        let suite = rewrite(&Disk, &test, &moved, &policies, now).map_err(|error| {
            let message = format!("cannot rewrite `{test}`: {error}");
            Diagnostic::new(Code::OutputFailed, message)
        })?;
        let refusal = suite.as_ref().and_then(|suite| suite.refusal.clone());
        let suite = suite.filter(|_| refusal.is_none());
        let mut row = SuiteRow {
            file: test.clone(),
            changed: suite.is_some(),
            texts: None,
            notes: Vec::new(),
            refusal,
        };
        if let (Some(suite), Some(path)) = (suite, below(&test)) {
            row.notes = suite.notes;
            let before = String::from_utf8_lossy(&Disk.read(&test).unwrap_or_default()).into_owned();
            row.texts = Some((before, suite.text.clone()));
            let beside = path.parent().map(Path::to_path_buf).unwrap_or_default();
            let files = suite.files.into_iter();
            changed.extend(files.map(|(name, text)| (beside.join(name), text)));
            for companion in companions(&test, &suite.text, &moved) {
                match below(&companion) {
                    Some(at) => {
                        if let std::collections::btree_map::Entry::Vacant(free) = written.entry(at)
                            && let Ok(bytes) = Disk.read(&companion)
                        {
                            free.insert(String::from_utf8_lossy(&bytes).into_owned());
                        }
                    }
                    None => row.notes.push(format!(
                        "`{companion}` is outside `{root}` and is not copied; the path to it may have to change"
                    )),
                }
            }
            changed.push((path, suite.text));
        }
        found.suites.push(row);
    }
    found.files = written.into_iter().collect();
    found.files.extend(changed);
    Ok(found)
}

/// The files with policies and exceptions, and their replacements.
fn moved(rows: &[Row], exceptions: &[ExceptionRow], sources: &Sources) -> Vec<Moved> {
    // By file: the number of migrated documents, whether something was not migrated, and the new documents.
    let mut by_file: BTreeMap<String, (usize, bool, Vec<String>)> = BTreeMap::new();
    let mut add = |file: Option<&str>, stays: bool, text: String| {
        let entry = by_file.entry(clean(file.unwrap_or_default())).or_default();
        entry.0 += 1;
        entry.1 |= stays;
        if !text.is_empty() {
            entry.2.push(text);
        }
    };
    for row in rows {
        let stays = row.rules().iter().any(|rule| rule.objects.is_empty());
        add(sources.name(row.file()), stays, row.yaml());
    }
    for row in exceptions {
        add(sources.name(row.exception.origin.file), row.stays(), row.yaml());
    }
    let files = by_file.into_iter().filter(|(_, (_, _, texts))| !texts.is_empty());
    files
        .map(|(old, (documents, stays, texts))| {
            let stays = stays || documents != count(&old);
            let path = Path::new(&old);
            let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
            let name = if stays {
                format!("{}-migrated.yaml", part(path.file_stem()))
            } else {
                part(path.file_name())
            };
            Moved {
                new: vec![(name, texts.join("---\n"))],
                old,
                stays,
            }
        })
        .collect()
}

/// The number of documents in a file, blank ones not counted.
fn count(path: &str) -> usize {
    let text = Disk.read(path).unwrap_or_default();
    let stream = yaml::read(&text, Mode::Lax, &Limits::default());
    let documents = stream.documents().iter();
    documents
        .filter(|document| document.tree().is_ok_and(|tree| !tree.root().is_null()))
        .count()
}

/// The files that a rewritten test file reads, except its new policies.
fn companions(test: &str, text: &str, moved: &[Moved]) -> Vec<String> {
    let mut over = Memory::default();
    over.add(test, text);
    for moved in moved {
        let folder = Path::new(&moved.old).parent().unwrap_or(Path::new(""));
        for (name, text) in &moved.new {
            over.add(&folder.join(name).display().to_string(), text.as_str());
        }
    }
    let own: BTreeSet<String> = over.0.keys().cloned().collect();
    let overlay = Overlay { under: &Disk, over };
    let recording = RecordingFiles::new(&overlay);
    let _ = load(&recording, test, &Options::default());
    let dependencies = recording.dependencies();
    dependencies
        .paths
        .into_iter()
        .filter(|path| !own.contains(path) && Disk.is_directory(path).is_ok_and(|folder| !folder))
        .collect()
}
