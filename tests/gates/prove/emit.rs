//! Counterexamples written as suites: each passes when run, with the divergence accepted.

use std::{fs, path::PathBuf, process::Command};

use super::{optional, quoted, rows, storable};
use crate::support::{fixture, print_count};

fn kyvtest(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(args)
        .output()
        .expect("the binary starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code(), text)
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn emitted_suites_are_green() {
    let folder = scratch("emitted");
    let (mut written, mut left_out) = (0, 0);
    for row in rows("gates/prove-hazards.tsv") {
        if row[2] != "REFUTED" || row[1] == "cluster" {
            continue;
        }
        let hazard = fixture("hazards").join(&row[0]);
        let policy = folder.join(format!("{}.yaml", row[0]));
        fs::write(&policy, storable(&hazard)).expect("a file");
        let suites = folder.join(&row[0]);
        let mut args = vec!["prove", policy.to_str().expect("text"), "--layer", &row[1]];
        args.extend(["--emit-cases", suites.to_str().expect("text")]);
        let exceptions = folder.join(format!("{}-exceptions.yaml", row[0]));
        let text = quoted(&optional(&hazard.join("exceptions.yaml")));
        if !text.is_empty() {
            fs::write(&exceptions, text).expect("a file");
            args.extend(["--exception", exceptions.to_str().expect("text")]);
        }
        let (code, text) = kyvtest(&args);
        assert_eq!(code, Some(3), "{}: {text}", row[0]);
        left_out += text.matches("KT412").count();
        if !suites.exists() {
            print_count(&format!("  {}: nothing is written: {text}", row[0]));
            continue;
        }
        written += fs::read_dir(&suites).expect("a folder").count();
        let (code, text) = kyvtest(&["run", suites.to_str().expect("text")]);
        assert_eq!(code, Some(0), "{}: {text}", row[0]);
        // Existing files are not overwritten.
        let (code, text) = kyvtest(&args);
        assert_eq!(code, Some(2), "{}: {text}", row[0]);
        assert!(text.contains("already exists"), "{text}");
    }
    print_count(&format!(
        "  {written} suites are written and green, {left_out} counterexamples no suite can express"
    ));
    assert!(written >= 40, "{written}");
}
