//! The whole program, process start included: the corpus as `kyverno test` would run it and with both engines, a suite with one
//! row, and one with 100,000 resources.
//!
//! `cargo bench --bench program`. The corpus lies in `../shared/corpus` (or where `KYVTEST_SHARED` points); without it only the
//! project's own suites are run. The suite with many resources is written to `target/tmp/many` and stays there, so that its memory
//! can be measured: `/usr/bin/time -v target/release/kyvtest run target/tmp/many`.

use std::{
    fmt::Write as _,
    fs,
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

const POLICY: &str = r#"apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: require-app
spec:
  validationFailureAction: Enforce
  rules:
  - name: app
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      message: app is required
      pattern:
        metadata:
          labels:
            app: "?*"
"#;

const TEST: &str = "apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata:
  name: many
policies: [policy.yaml]
resources: [resources.yaml]
results:
- policy: require-app
  rule: app
  kind: Pod
  result: pass
";

/// Writes a suite with many Pods and one row about all of them.
fn write_many(resources: usize) -> String {
    let mut pods = String::new();
    for number in 0..resources {
        let (namespace, app) = (number % 50, number % 100);
        let metadata = format!("{{name: pod-{number}, namespace: ns-{namespace}, labels: {{app: app-{app}}}}}");
        let container =
            format!("image: registry.example.com/app:{number}\n    resources: {{limits: {{memory: 64Mi}}}}");
        // Writing into memory cannot fail.
        let _ = write!(
            pods,
            "apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec:\n  containers:\n  - name: main\n    {container}\n---\n"
        );
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many");
    fs::create_dir_all(&directory).expect("a directory");
    for (name, text) in [
        ("resources.yaml", pods.as_str()),
        ("policy.yaml", POLICY),
        ("kyverno-test.yaml", TEST),
    ] {
        fs::write(directory.join(name), text).expect("a file");
    }
    directory.display().to_string()
}

#[divan::bench(args = ["raw", "normalised"], sample_count = 5, sample_size = 1)]
fn many_resources(bencher: Bencher<'_, '_>, data: &str) {
    let directory = write_many(100_000);
    bencher.bench_local(|| run(&[&directory, "--data", data]));
}
