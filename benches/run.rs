//! Deciding suites that are loaded: every policy about every resource, and the rows judged.
//!
//! `cargo bench --bench run`. The suites lie in `../shared/corpus` (or where `KYVTEST_SHARED` points); without them the
//! project's own are used.

use std::path::{Path, PathBuf};

use divan::Bencher;
use kyvtest::{
    run::{Data, DataNotes, Settings, run},
    suite::{self, Disk, Options, Suite},
};

fn main() {
    divan::main();
}

fn suites() -> Vec<Suite> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let corpus = root.join(shared).join("corpus");
    let directory = if corpus.exists() { corpus } else { root.join("suites") };
    let options = Options::default();
    let files = suite::discover(&Disk, &directory.display().to_string(), &options).expect("the folder");
    files
        .iter()
        .flat_map(|file| suite::load(&Disk, file, &options))
        .collect()
}

/// Whether a suite has classic rules, and nothing else.
fn is_classic(suite: &Suite) -> bool {
    let loaded = &suite.policies;
    let validates = |policy: &std::sync::Arc<kyvtest::policy::ClassicPolicy>| {
        policy
            .spec
            .rules
            .iter()
            .any(|rule| rule.validate.as_ref().is_some_and(|validate| validate.cel.is_none()))
    };
    loaded.validating().next().is_none() && loaded.classic().any(validates)
}

/// The suites with classic rules that validate, as `kyverno test` decides them.
#[divan::bench(args = [true, false])]
fn classic(bencher: Bencher<'_, '_>, compat: bool) {
    let suites: Vec<Suite> = suites().into_iter().filter(is_classic).collect();
    let settings = Settings::new(compat);
    bencher.bench_local(|| {
        suites
            .iter()
            .map(|suite| run(suite, &settings).cases.len())
            .sum::<usize>()
    });
}

/// All suites, on one core.
#[divan::bench(args = [true, false])]
fn all(bencher: Bencher<'_, '_>, compat: bool) {
    let suites = suites();
    let settings = Settings::new(compat);
    bencher.bench_local(|| {
        suites
            .iter()
            .map(|suite| run(suite, &settings).cases.len())
            .sum::<usize>()
    });
}

/// All suites with both engines, on one core, by the objects that policies see. Rows are evaluated a second time as the command
/// does it by default: if they fail.
#[divan::bench(args = ["raw", "normalised"])]
fn lens(bencher: Bencher<'_, '_>, data: &str) {
    let suites = suites();
    let settings = Settings {
        data: Data::named(data).expect("a lens"),
        data_notes: DataNotes::Failing,
        ..Settings::new(false)
    };
    bencher.bench_local(|| {
        suites
            .iter()
            .map(|suite| run(suite, &settings).cases.len())
            .sum::<usize>()
    });
}
