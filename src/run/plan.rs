//! The plan of a run: the selected test files below the given paths.

use std::collections::BTreeSet;

use super::{Selection, source_map};
use crate::suite::{self, Files, Options};
use kyvtest_go_compat::diagnostic::Diagnostic;

/// The test files of a run, sorted by path. Nothing has been loaded yet.
#[derive(Debug)]
pub struct Plan {
    /// The files to run.
    pub(super) files: Vec<PlannedFile>,
    /// The number of test files before selection.
    pub found: usize,
    /// The test files after selection.
    pub selected: BTreeSet<String>,
}

/// A test file, or an unusable path.
#[derive(Debug)]
pub(super) enum PlannedFile {
    /// A file to load.
    File(String),
    /// A path that cannot be used, and the reason.
    Unusable(String, Diagnostic),
}

impl PlannedFile {
    fn path(&self) -> &str {
        match self {
            Self::File(path) | Self::Unusable(path, _) => path,
        }
    }
}

/// The order and the number of threads in which test files are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By path, on as many threads as requested.
    Sorted,
    /// In another order and on another number of threads, with the same result.
    Shuffled,
}

impl Plan {
    /// Finds the test files below paths and keeps those that the selection may need.
    pub fn new(files: &dyn Files, paths: &[String], options: &Options<'_>, selection: &Selection) -> Self {
        let mut planned = Vec::new();
        for path in paths {
            match suite::discover_all(files, path, options) {
                Ok((found, unreadable)) => {
                    planned.extend(found.into_iter().map(PlannedFile::File));
                    planned.extend(
                        unreadable
                            .into_iter()
                            .map(|(path, why)| PlannedFile::Unusable(path, why)),
                    );
                }
                Err(diagnostic) => planned.push(PlannedFile::Unusable(path.clone(), diagnostic)),
            }
        }
        planned.sort_by(|a, b| a.path().split('/').cmp(b.path().split('/')));
        let found = planned.len();
        planned.retain(|file| selection.file(file.path()));
        let selected = planned.iter().map(|file| file.path().to_owned()).collect();
        Self {
            files: planned,
            found,
            selected,
        }
    }

    /// Keeps only some of the files.
    pub fn retain(&mut self, only: &BTreeSet<String>) {
        self.files.retain(|file| only.contains(file.path()));
    }

    /// The number of files to run.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The indices of the files in execution order, and the number of threads.
    pub(super) fn schedule(&self, order: Order, threads: usize) -> (Vec<usize>, usize) {
        let mut positions: Vec<usize> = (0..self.files.len()).collect();
        match order {
            Order::Sorted => (positions, threads),
            Order::Shuffled => {
                positions.sort_by_key(|&at| self.files.get(at).map(|file| source_map::fingerprint(&[file.path()])));
                (positions, if threads == 1 { 2 } else { 1 })
            }
        }
    }
}
