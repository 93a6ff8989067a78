//! The whole program, process start included: the corpus as `kyverno test` would run it and with both engines, and a suite with one
//! row.
//!
//! `cargo bench --bench program`. The corpus lies in `../shared/corpus` (or where `KYVTEST_SHARED` points); without it only the
//! project's own suites are run.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use divan::Bencher;

fn main() {
    divan::main();
}

fn run(args: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("run")
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // What comes of the suites is no matter of speed, but that they were run is.
    assert!(status.is_ok_and(|status| matches!(status.code(), Some(0..=3))));
}

fn corpus() -> String {
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared).join("corpus");
    if corpus.exists() {
        corpus.display().to_string()
    } else {
        "suites".to_owned()
    }
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn corpus_compat(bencher: Bencher<'_, '_>) {
    let corpus = corpus();
    bencher.bench_local(|| run(&[&corpus, "--compat"]));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn corpus_both_engines(bencher: Bencher<'_, '_>) {
    let corpus = corpus();
    bencher.bench_local(|| run(&[&corpus]));
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn one_row(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| run(&["fixtures/bench/one-row"]));
}
