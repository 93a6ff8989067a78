//! Gate `suite-load`: every suite of the corpus is accepted or rejected as by `kyverno test`, and an accepted one has
//! the same rows, policies and names.

use kyvtest::{
    diagnostic::{Severity, render},
    suite::{self, Disk, Options, Suite, Upstream},
};
use serde::Deserialize;

use crate::support::{Gate, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    suite: String,
    docs: Vec<Doc>,
}

#[derive(Deserialize)]
struct Doc {
    #[serde(rename = "doc")]
    number: usize,
    #[serde(default)]
    test: String,
    #[serde(default)]
    rows: usize,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    skipped: Option<serde_json::Value>,
}

/// The errors of a suite, one line each.
fn errors(suite: &Suite) -> Vec<String> {
    let errors = suite.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    errors.map(|d| render::concise(d, &suite.sources)).collect()
}

fn check(corpus: &std::path::Path, row: &Row) -> Result<(), String> {
    let path = corpus.join(&row.suite);
    let suites = suite::load(&Disk, &path.to_string_lossy(), &Options::default());
    if suites.len() != row.docs.len() {
        return Err(format!("{} suites, expected {}", suites.len(), row.docs.len()));
    }
    for (suite, doc) in suites.iter().zip(&row.docs) {
        // Errors of the run itself come later: only loading errors count here.
        let loading = ["failed to load", "failed to decode", "deprecated schema"];
        let refused = doc
            .error
            .as_ref()
            .is_some_and(|error| loading.iter().any(|text| error.contains(text)));
        let expected = match (refused, doc.skipped.is_some()) {
            (true, _) => Upstream::Aborts,
            (false, true) => Upstream::Skips,
            (false, false) => Upstream::Runs,
        };
        if suite.upstream != expected {
            return Err(format!(
                "{:?}, expected {expected:?}: {}",
                suite.upstream,
                errors(suite).join("; ")
            ));
        }
        if !refused && suite.has_errors() {
            return Err(errors(suite).join("; "));
        }
        let name = suite.test.as_ref().map_or("", suite::Test::name);
        if (suite.document, name, suite.rows().len()) != (doc.number, doc.test.as_str(), doc.rows) {
            return Err(format!(
                "document {}, `{name}`, {} rows",
                suite.document,
                suite.rows().len()
            ));
        }
    }
    Ok(())
}

#[test]
fn suite_load() {
    let (Some(corpus), Some(path)) = (shared("corpus"), shared("golden/kyverno-cli/suites.jsonl")) else {
        return;
    };
    let rows: Vec<Row> = jsonl(&path);
    Gate::new("suite-load", 512).run(&rows, |row| row.suite.clone(), |row| check(&corpus, row));
    let found = suite::discover(&Disk, &corpus.to_string_lossy(), &Options::default()).expect("a folder");
    assert_eq!(found.len(), rows.len());
}
