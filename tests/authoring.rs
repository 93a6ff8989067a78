//! Commands that write for their users: `fix`.

use std::{fs, path::Path, process::Command};

use kyvtest::suite::{Disk, fix};

fn folders(below: &str) -> Vec<String> {
    let mut folders: Vec<String> = fs::read_dir(below)
        .expect("the fixtures are there")
        .map(|entry| entry.expect("an entry").path().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    folders
}

#[test]
fn old_test_files_become_current_ones() {
    for folder in folders("fixtures/fix") {
        let fixed = fix(&Disk, &format!("{folder}/kyverno-test.yaml")).expect("it can be read");
        let expected = fs::read_dir(format!("{folder}/expected"))
            .expect("expectations")
            .count();
        assert_eq!(fixed.len(), expected, "{folder}");
        for file in fixed {
            let name = Path::new(&file.path).file_name().expect("a name").to_string_lossy();
            let wanted = fs::read_to_string(format!("{folder}/expected/{name}")).expect("an expectation");
            assert_eq!(file.after, wanted, "{}", file.path);
            assert_eq!(file.changes.is_empty(), file.after == file.before, "{}", file.path);
            let unfixable = folder.ends_with("checks");
            assert_eq!(
                !file.remaining.is_empty(),
                unfixable,
                "{}: {:?}",
                file.path,
                file.remaining
            );
        }
    }
}

#[test]
fn what_is_fixed_needs_no_fix() {
    for folder in folders("fixtures/fix") {
        let path = format!("{folder}/expected/kyverno-test.yaml");
        for file in fix(&Disk, &path).expect("it can be read") {
            assert_eq!(file.before, file.after, "{}", file.path);
        }
    }
}

/// A copy of a folder of fixtures that a test may change.
fn copy(folder: &str, name: &str) -> std::path::PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).expect("a folder");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
    to
}

fn kyvtest(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn fix_shows_a_diff_and_writes_only_when_asked() {
    let folder = copy("fixtures/fix/old", "fix-old");
    let before = fs::read_to_string(folder.join("kyverno-test.yaml")).expect("a file");
    let (code, diff, remarks) = kyvtest(&folder, &["fix", "."]);
    assert_eq!(code, Some(0), "{remarks}");
    insta::assert_snapshot!("fix-diff", format!("{diff}---- stderr\n{remarks}"));
    assert_eq!(
        fs::read_to_string(folder.join("kyverno-test.yaml")).expect("a file"),
        before
    );
    assert_eq!(kyvtest(&folder, &["fix", "--check", "."]).0, Some(1));

    let (code, stdout, _) = kyvtest(&folder, &["fix", "--write", "."]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    for name in ["kyverno-test.yaml", "values.yaml", "user.yaml"] {
        let wanted = fs::read_to_string(format!("fixtures/fix/old/expected/{name}")).expect("an expectation");
        assert_eq!(fs::read_to_string(folder.join(name)).expect("a file"), wanted, "{name}");
    }
    assert_eq!(kyvtest(&folder, &["fix", "--check", "."]).0, Some(0));
    assert_eq!(kyvtest(&folder, &["fix", "nowhere"]).0, Some(2));
}
