//! Sample resources for the search for a counterexample: those of `--resources`, and of suites next to the policy.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::super::{Failure, input, output::Output};
use crate::suite::{self, Disk, Options};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources};

/// The paths of suites relative to the policy's directory.
const BESIDE: [&str; 2] = ["kyverno-test.yaml", ".kyverno-test/kyverno-test.yaml"];

/// The sample objects, by the directory of the policy.
pub(super) struct Samples {
    given: Vec<Json>,
    beside: BTreeMap<PathBuf, Vec<Json>>,
}

impl Samples {
    /// Reads the given files; a directory or test file contributes the resources of its suites.
    pub(super) fn read(given: &[PathBuf], output: &mut Output) -> Result<Self, Failure> {
        let mut objects = Vec::new();
        for path in given {
            let before = objects.len();
            if path.is_dir() || path.ends_with("kyverno-test.yaml") {
                let found = suite::discover(&Disk, &path.display().to_string(), &Options::default())?;
                objects.extend(found.iter().flat_map(|file| of_suites(file)));
            } else {
                let mut sources = Sources::new();
                let documents = input::read_values(path, &mut sources);
                let documents = documents.map_err(|problems| Failure::Input(problems, sources))?;
                let documents = documents.iter().filter(|document| !document.root().is_null());
                objects.extend(documents.map(|document| document.root().to_serde()));
            }
            if objects.len() == before {
                let message = format!("`{}` contains no resource", path.display());
                output.diagnostic(&Diagnostic::new(Code::NothingInFile, message), &Sources::new());
            }
        }
        Ok(Self {
            given: objects,
            beside: BTreeMap::new(),
        })
    }

    /// The sample objects for a policy of a file.
    pub(super) fn of(&mut self, policy: &str) -> Vec<Json> {
        let directory = Path::new(policy).parent().unwrap_or(Path::new("")).to_owned();
        let beside = self.beside.entry(directory).or_insert_with_key(|directory| {
            let files = BESIDE.iter().map(|name| directory.join(name));
            let files = files.filter(|file| file.is_file());
            files.flat_map(|file| of_suites(&file.display().to_string())).collect()
        });
        self.given.iter().chain(beside.iter()).cloned().collect()
    }
}

/// The resources of a test file. Its problems are not reported, since the user did not name it.
fn of_suites(file: &str) -> Vec<Json> {
    let options = Options {
        sidecar: false,
        ..Options::default()
    };
    let suites = suite::load(&Disk, file, &options);
    let resources = suites.iter().flat_map(|suite| &suite.resources);
    resources.map(|resource| resource.object.root().to_serde()).collect()
}
