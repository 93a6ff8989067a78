//! Bad input through `kyvtest run`: the messages, exit code 2, and an unaffected good suite.
//!
//! Every directory of `fixtures/bad-input` and `fixtures/suite/bad` is run together with the suite
//! `fixtures/bad-input/good`. Input that cannot be in a repository (dangling links, huge files, pipes) is created here.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use kyvtest::{
    diagnostic::render,
    suite::{self, Disk, Files, Options},
};

use crate::program::timeless as kyvtest;

const GOOD: &str = "fixtures/bad-input/good";

/// Runs a directory next to the good suite; returns exit code and output, the same in both formats. The good suite must
/// pass, and the code must be 2 exactly if some input cannot be used.
fn beside_the_good_one(directory: &str) -> (i32, String) {
    let human = kyvtest(&["run", directory, GOOD]);
    let machine = kyvtest(&["run", directory, GOOD, "-o", "json"]);
    let code = human.status.code().expect("it ends by itself");
    assert_eq!(machine.status.code(), Some(code), "{directory}");
    let report: serde_json::Value = serde_json::from_slice(&machine.stdout).expect("JSON, whatever the input");
    let suites = report["suites"].as_array().expect("suites");
    let good = suites
        .iter()
        .find(|suite| suite["name"] == "good")
        .expect("the good suite");
    let cases = good["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2, "{directory}");
    assert!(
        cases.iter().all(|case| case["outcome"] == "pass"),
        "{directory}: {cases:?}"
    );
    assert_eq!(good["diagnostics"].as_array().map(Vec::len), Some(0), "{directory}");
    let stderr = String::from_utf8_lossy(&human.stderr);
    let stdout = String::from_utf8_lossy(&human.stdout);
    assert!(!stderr.contains("panicked"), "{directory}: {stderr}");
    // A readable policy that is rejected fails its rows: that is a result, not bad input.
    let input = stderr.replace("error[KT106]", "").contains("error[KT");
    assert_eq!(input, code == 2, "{directory}: {code}\n{stderr}");
    (
        code,
        format!("exit code: {code}\n--- stderr\n{stderr}--- stdout\n{stdout}"),
    )
}

fn directories(below: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(below);
    let entries = fs::read_dir(root).expect("the fixtures");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "good")
        .collect();
    names.sort();
    names
}

#[test]
fn fixtures() {
    let mut input_errors = 0;
    for name in directories("fixtures/bad-input") {
        let (code, text) = beside_the_good_one(&format!("fixtures/bad-input/{name}"));
        assert!(text.contains("[KT"), "{name}: nothing is said\n{text}");
        input_errors += usize::from(code == 2);
        insta::assert_snapshot!(name.as_str(), text);
    }
    assert!(input_errors >= 50, "{input_errors} fixtures that cannot be run");
}

/// `tests/it/suite.rs` has separate snapshots of these messages.
#[test]
fn fixtures_of_the_loader() {
    let mut input_errors = 0;
    for name in directories("fixtures/suite/bad") {
        let (code, text) = beside_the_good_one(&format!("fixtures/suite/bad/{name}"));
        assert!(
            text.contains("[KT") || name == "test-is-a-folder",
            "{name}: nothing is said\n{text}"
        );
        input_errors += usize::from(code == 2);
    }
    assert!(input_errors >= 60, "{input_errors} fixtures that cannot be run");
}

/// Rows about missing things are unmet expectations, not bad input.
#[test]
fn missing_references() {
    let (code, text) = beside_the_good_one("fixtures/missing-references");
    assert_eq!(code, 1, "{text}");
    insta::assert_snapshot!("missing-references", text);
}

#[test]
fn command_lines() {
    let all: &[(&str, &[&str])] = &[
        ("missing-path", &["run", "fixtures/nowhere", GOOD]),
        ("address", &["run", "https://github.com/kyverno/policies", GOOD]),
        ("missing-crds", &["run", GOOD, "--crds", "fixtures/nowhere.yaml"]),
        (
            "crds-that-say-little",
            &["run", GOOD, "--crds", "fixtures/bad-input/crd-says-little/crd.yaml"],
        ),
        (
            "crds-broken",
            &["run", GOOD, "--crds", "fixtures/bad-input/crd-broken/crd.yaml"],
        ),
        (
            "discovery-broken",
            &["run", GOOD, "--discovery", "fixtures/bad-input/good/policy.yaml"],
        ),
        ("no-time", &["run", GOOD, "--now", "tomorrow"]),
    ];
    for (name, args) in all {
        let output = kyvtest(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        insta::assert_snapshot!(
            format!("command-line-{name}"),
            format!("exit code: 2\n--- stderr\n{stderr}--- stdout\n{stdout}")
        );
    }
}

/// A fresh directory with a suite whose policies and resources are `policy.yaml` and `resources.yaml`.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-input").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a folder");
    for file in ["kyverno-test.yaml", "policy.yaml", "resources.yaml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOOD).join(file);
        fs::copy(from, directory.join(file)).expect("a copy");
    }
    let test = directory.join("kyverno-test.yaml");
    let text = fs::read_to_string(&test)
        .expect("a text")
        .replace("name: good", "name: made");
    fs::write(test, text).expect("it is written");
    directory
}

/// The messages about a created directory, without its path.
fn messages(directory: &Path) -> String {
    let (code, text) = beside_the_good_one(&directory.display().to_string());
    assert_eq!(code, 2, "{text}");
    text.replace(&directory.display().to_string(), "made")
}

#[test]
fn huge_files() {
    let directory = scratch("huge-policy");
    let file = fs::File::create(directory.join("policy.yaml")).expect("a file");
    file.set_len(3 << 30).expect("a file with a hole");
    insta::assert_snapshot!("made-huge-policy", messages(&directory));
    fs::remove_file(directory.join("policy.yaml")).expect("it goes");

    let directory = scratch("huge-test");
    let file = fs::File::create(directory.join("kyverno-test.yaml")).expect("a file");
    file.set_len((64 << 20) + 1).expect("a file with a hole");
    insta::assert_snapshot!("made-huge-test", messages(&directory));
    fs::remove_file(directory.join("kyverno-test.yaml")).expect("it goes");

    // Large, but within the limit: one comment of 8 MiB is accepted.
    let directory = scratch("large-policy");
    let policy = fs::read_to_string(directory.join("policy.yaml")).expect("a text");
    fs::write(
        directory.join("policy.yaml"),
        format!("# {}\n{policy}", "x".repeat(8 << 20)),
    )
    .expect("it is written");
    let (code, text) = beside_the_good_one(&directory.display().to_string());
    assert_eq!(code, 0, "{text}");
}

#[cfg(unix)]
#[test]
fn links_and_devices() {
    use std::os::unix::fs::symlink;

    let directory = scratch("link-to-itself");
    fs::remove_file(directory.join("policy.yaml")).expect("it goes");
    symlink("policy.yaml", directory.join("policy.yaml")).expect("a link");
    insta::assert_snapshot!("made-link-to-itself", messages(&directory));

    let directory = scratch("link-to-nothing");
    fs::remove_file(directory.join("resources.yaml")).expect("it goes");
    symlink("gone.yaml", directory.join("resources.yaml")).expect("a link");
    insta::assert_snapshot!("made-link-to-nothing", messages(&directory));

    let directory = scratch("test-is-a-dead-link");
    fs::remove_file(directory.join("kyverno-test.yaml")).expect("it goes");
    symlink("gone.yaml", directory.join("kyverno-test.yaml")).expect("a link");
    insta::assert_snapshot!("made-test-is-a-dead-link", messages(&directory));

    let directory = scratch("folder-in-itself");
    let test = fs::read_to_string(directory.join("kyverno-test.yaml")).expect("a text");
    let test = test.replace("[policy.yaml]", "[policies]");
    fs::write(directory.join("kyverno-test.yaml"), test).expect("it is written");
    fs::create_dir(directory.join("policies")).expect("a folder");
    fs::rename(directory.join("policy.yaml"), directory.join("policies/policy.yaml")).expect("it moves");
    symlink(".", directory.join("policies/again")).expect("a link");
    symlink("../policies", directory.join("policies/once-more")).expect("a link");
    insta::assert_snapshot!("made-folder-in-itself", messages(&directory));

    if Path::new("/dev/zero").exists() {
        let directory = scratch("device");
        fs::remove_file(directory.join("resources.yaml")).expect("it goes");
        symlink("/dev/zero", directory.join("resources.yaml")).expect("a link");
        insta::assert_snapshot!("made-device", messages(&directory));
    }
}

/// The disk, except that some files are unreadable: a privileged user cannot create such a file.
struct Forbidden(&'static str);

impl Files for Forbidden {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if path.ends_with(self.0) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Disk.read(path)
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        Disk.is_directory(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        Disk.list(path)
    }
}

#[test]
fn unreadable_files() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOOD);
    let path = directory.join("kyverno-test.yaml").display().to_string();
    let mut text = String::new();
    for name in ["kyverno-test.yaml", "policy.yaml", "resources.yaml"] {
        let suites = suite::load(&Forbidden(name), &path, &Options::default());
        assert_eq!(suites.len(), 1, "{name}");
        assert!(suites[0].has_errors(), "{name}");
        for diagnostic in &suites[0].diagnostics {
            text.push_str(&render::full(diagnostic, &suites[0].sources, false));
        }
    }
    let text = text.replace(&directory.display().to_string(), GOOD);
    insta::assert_snapshot!("made-unreadable", text);
}
