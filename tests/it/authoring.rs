//! Commands that write files for users: `fix`, `init`, `run --update`; and `watch`, which reads them.

#![expect(clippy::print_stdout, reason = "a test over many policies prints its counts")]

use std::{fmt::Write as _, fs, path::Path, process::Command};

use kyvtest::suite::{Disk, fix};

fn directories(below: &str) -> Vec<String> {
    let mut directories: Vec<String> = fs::read_dir(below)
        .expect("the fixtures are there")
        .map(|entry| entry.expect("an entry").path().to_string_lossy().into_owned())
        .collect();
    directories.sort();
    directories
}

#[test]
fn old_test_files_become_current_ones() {
    for directory in directories("fixtures/fix") {
        let fixed = fix(&Disk, &format!("{directory}/kyverno-test.yaml")).expect("it can be read");
        let expected = fs::read_dir(format!("{directory}/expected"))
            .expect("expectations")
            .count();
        assert_eq!(fixed.len(), expected, "{directory}");
        for file in fixed {
            let name = Path::new(&file.path).file_name().expect("a name").to_string_lossy();
            let wanted = fs::read_to_string(format!("{directory}/expected/{name}")).expect("an expectation");
            assert_eq!(file.after, wanted, "{}", file.path);
            assert_eq!(file.changes.is_empty(), file.after == file.before, "{}", file.path);
            let unfixable = directory.ends_with("checks");
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
    for directory in directories("fixtures/fix") {
        let path = format!("{directory}/expected/kyverno-test.yaml");
        for file in fix(&Disk, &path).expect("it can be read") {
            assert_eq!(file.before, file.after, "{}", file.path);
        }
    }
}

/// A copy of a directory of fixtures that a test may change.
fn copy(directory: &str, name: &str) -> std::path::PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).expect("a folder");
    for entry in fs::read_dir(directory).expect("a folder").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
    to
}

fn kyvtest(directory: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn fix_shows_a_diff_and_writes_only_on_request() {
    let directory = copy("fixtures/fix/old", "fix-old");
    let before = fs::read_to_string(directory.join("kyverno-test.yaml")).expect("a file");
    let (code, diff, remarks) = kyvtest(&directory, &["fix", "."]);
    assert_eq!(code, Some(0), "{remarks}");
    insta::assert_snapshot!("fix-diff", format!("{diff}---- stderr\n{remarks}"));
    assert_eq!(
        fs::read_to_string(directory.join("kyverno-test.yaml")).expect("a file"),
        before
    );
    assert_eq!(kyvtest(&directory, &["fix", "--check", "."]).0, Some(1));

    let (code, stdout, _) = kyvtest(&directory, &["fix", "--write", "."]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    for name in ["kyverno-test.yaml", "values.yaml", "user.yaml"] {
        let wanted = fs::read_to_string(format!("fixtures/fix/old/expected/{name}")).expect("an expectation");
        assert_eq!(
            fs::read_to_string(directory.join(name)).expect("a file"),
            wanted,
            "{name}"
        );
    }
    assert_eq!(kyvtest(&directory, &["fix", "--check", "."]).0, Some(0));
    assert_eq!(kyvtest(&directory, &["fix", "nowhere"]).0, Some(2));
}

/// A new directory for what a test writes.
fn scratch(name: &str) -> std::path::PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a folder");
    directory
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Makes a suite for each policy and runs it: rules with a passing and a failing resource, all rules, and policies without a suite.
fn init_all(policies: &[String], name: &str) -> (usize, usize, usize) {
    let directory = scratch(name);
    let (mut whole, mut all, mut without) = (0, 0, 0);
    for (number, policy) in policies.iter().enumerate() {
        let dir = directory.join(number.to_string()).to_string_lossy().into_owned();
        let (code, _, remarks) = kyvtest(Path::new("."), &["init", policy, "--dir", &dir]);
        if code == Some(2) && remarks.contains("KT511") {
            without += 1;
            assert!(!Path::new(&dir).exists(), "{policy}");
            continue;
        }
        assert_eq!(code, Some(0), "{policy}: {remarks}");
        let counts = remarks
            .lines()
            .find(|line| line.starts_with("found a passing "))
            .expect("counts");
        let mut numbers = counts.split(' ').filter_map(|word| word.parse::<usize>().ok());
        whole += numbers.next().expect("a number");
        all += numbers.next().expect("a number");
        let (code, stdout, remarks) = kyvtest(Path::new("."), &["run", &dir]);
        assert_eq!(code, Some(0), "{policy}: {stdout}{remarks}");
    }
    (whole, all, without)
}

#[test]
fn init_writes_green_suites_for_the_policies_of_the_suites() {
    let policies: Vec<String> = directories("suites")
        .iter()
        .map(|directory| format!("{directory}/policy.yaml"))
        .filter(|path| Path::new(path).exists())
        .collect();
    let (whole, all, without) = init_all(&policies, "init-suites");
    println!("{whole} of {all} rules with a passing and a failing resource; {without} policies without a suite");
    assert!(
        policies.len() > 40 && without <= 2 && whole >= 100,
        "{whole} of {all}, {without} without"
    );
}

/// Results that depend on ConfigMaps, API calls, the global context, services and parameters: the suite provides the objects and
/// the answers.
#[test]
fn init_finds_what_policies_look_up() {
    let policies = directories("fixtures/authoring/init-lookups");
    assert_eq!(init_all(&policies, "init-lookups"), (12, 12, 0));
}

#[test]
fn init_writes_green_suites_for_a_sample_of_the_corpus() {
    let shared = std::env::var("KYVTEST_SHARED").unwrap_or_else(|_| "../shared".to_owned());
    let root = Path::new(&shared).join("corpus/policies");
    if !root.is_dir() {
        println!("skipped: no shared data");
        return;
    }
    let mut policies = Vec::new();
    let mut open = vec![root];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a folder").flatten() {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let kinds = ["kind: ClusterPolicy\n", "kind: ValidatingPolicy\n"];
                if kinds.iter().any(|kind| text.contains(kind)) && text.contains("valid") && !text.contains("{{") {
                    policies.push(path.to_string_lossy().into_owned());
                }
            }
        }
    }
    policies.sort();
    let step = (policies.len() / 40).max(1);
    let sample: Vec<String> = policies.into_iter().step_by(step).take(40).collect();
    let (whole, all, without) = init_all(&sample, "init-corpus");
    println!(
        "{whole} of {all} rules with a passing and a failing resource; {without} of {} policies without a suite",
        sample.len()
    );
    assert!(whole * 10 >= all * 8, "{whole} of {all}, {without} without");
}

#[test]
fn init_shows_what_it_writes_and_never_overwrites() {
    let directory = scratch("init-once");
    fs::copy("suites/getting-started/policy.yaml", directory.join("policy.yaml")).expect("a copy");
    let (code, paths, remarks) = kyvtest(&directory, &["init", "policy.yaml"]);
    assert_eq!(code, Some(0), "{remarks}");
    let mut shown = format!("{paths}---- stderr\n{remarks}");
    for path in paths.lines() {
        let _ = write!(shown, "---- {path}\n{}", read(directory.join(path)));
    }
    insta::assert_snapshot!("init", shown);
    assert_eq!(kyvtest(&directory, &["run", "."]).0, Some(0));

    fs::remove_file(directory.join(".kyverno-test/resources.yaml")).expect("it is there");
    let before = read(directory.join(".kyverno-test/kyverno-test.yaml"));
    let (code, stdout, remarks) = kyvtest(&directory, &["init", "policy.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(remarks.contains("KT513"), "{remarks}");
    assert!(!directory.join(".kyverno-test/resources.yaml").exists());
    assert_eq!(read(directory.join(".kyverno-test/kyverno-test.yaml")), before);
    assert_eq!(kyvtest(&directory, &["init", "nowhere.yaml"]).0, Some(2));
}

#[test]
fn update_changes_expected_objects_only_where_they_differ() {
    let directory = copy("suites/mutation", "update-objects");
    let path = directory.join("patched.yaml");
    let good = read(&path);
    let broken = good
        .replace("team: unknown", "team: wrong")
        .replace("owner: platform", "owner: nobody");
    let (broken, _) = broken.rsplit_once("---\n").expect("several objects");
    fs::write(&path, broken).expect("a file");
    assert_eq!(kyvtest(&directory, &["run", "."]).0, Some(1));
    let (code, stdout, remarks) = kyvtest(&directory, &["run", ".", "--update", "--accept"]);
    assert_eq!(code, Some(0), "{stdout}{remarks}");
    let after = read(&path);
    for text in ["team: unknown", "owner: platform", "class: internal", "- port: 80\n"] {
        assert!(after.contains(text), "{text}: {after}");
    }
    assert!(!after.contains("terminationMessagePath"), "{after}");
}

#[test]
fn update_writes_kyvernos_results_next_to_the_files_or_into_them() {
    let directory = copy("fixtures/update", "update");
    let names = ["kyverno-test.yaml", "kyvtest.yaml"];
    let before = names.map(|name| read(directory.join(name)));
    let expected = names.map(|name| read(format!("fixtures/update/expected/{name}")));
    let (code, stdout, remarks) = kyvtest(
        &directory,
        &[
            "run",
            ".",
            "--update",
            "--status-level",
            "none",
            "--now",
            "2026-01-01T00:00:00Z",
        ],
    );
    assert_eq!(code, Some(1), "{stdout}{remarks}");
    insta::assert_snapshot!("update", remarks);
    assert_eq!(names.map(|name| read(directory.join(name))), before);
    assert_eq!(names.map(|name| read(directory.join(format!("{name}.new")))), expected);

    let (code, stdout, remarks) = kyvtest(&directory, &["run", ".", "--update", "--accept"]);
    assert_eq!(code, Some(0), "{stdout}{remarks}");
    assert_eq!(names.map(|name| read(directory.join(name))), expected);
    let (code, _, remarks) = kyvtest(&directory, &["run", ".", "--update"]);
    assert_eq!(code, Some(0));
    assert!(remarks.contains("nothing to update"), "{remarks}");
}

#[test]
fn update_ignores_rows_without_a_result() {
    let directory = copy("fixtures/update", "update-vacuous");
    let path = directory.join("kyverno-test.yaml");
    let text = read(&path).replace(
        "rule: team-is-known\n    kind: Service\n",
        "rule: team-is-known\n    kind: ConfigMap\n",
    );
    let text = text.replace("resources: [stranger]", "resources: [bare]");
    fs::write(&path, &text).expect("a change");
    fs::remove_file(directory.join("kyvtest.yaml")).expect("a file");
    let (code, _, remarks) = kyvtest(&directory, &["run", ".", "--update", "--accept"]);
    assert_eq!(code, Some(1), "{remarks}");
    assert!(
        remarks.contains("KT514") && remarks.contains("no rule produced a result"),
        "{remarks}"
    );
    assert!(
        read(&path).ends_with("resources: [bare]\n    result: fail\n"),
        "{}",
        read(&path)
    );
    assert_eq!(kyvtest(&directory, &["run", ".", "--update", "--review"]).0, Some(2));
}

#[test]
fn update_never_breaks_a_row_that_is_met() {
    let directory = copy("fixtures/update", "update-alias");
    let path = directory.join("kyverno-test.yaml");
    let text = read(&path).replacen("result: pass}", "result: &same pass}", 1);
    let text = text.replace("result: \"pass\"", "result: *same");
    fs::write(&path, &text).expect("a change");
    let (code, _, remarks) = kyvtest(&directory, &["run", ".", "--update", "--accept"]);
    assert_eq!(code, Some(1), "{remarks}");
    assert!(remarks.contains("cannot be changed in place"), "{remarks}");
    assert_eq!(read(&path), text);
}

#[test]
fn divergences_are_accepted_by_name_with_a_reason_and_until_a_day() {
    let directory = copy("suites/weaker-wildcard", "update-divergence");
    fs::remove_file(directory.join("kyvtest.yaml")).expect("a sidecar");
    assert_eq!(kyvtest(&directory, &["run", "."]).0, Some(3));
    let (code, _, remarks) = kyvtest(&directory, &["run", ".", "--update", "--accept"]);
    assert_eq!(code, Some(3));
    assert!(remarks.contains("--accept-divergence H19"), "{remarks}");
    assert!(!directory.join("kyvtest.yaml").exists());
    let accept = ["run", ".", "--update", "--accept", "--accept-divergence", "weaker"];
    assert_eq!(kyvtest(&directory, &accept).0, Some(2), "a reason is needed");
    let until = |day: &'static str| [&accept[..], &["--reason", "known: see the tracker", "--expires", day]].concat();
    assert_eq!(kyvtest(&directory, &until("tomorrow")).0, Some(2));
    let (code, stdout, remarks) = kyvtest(&directory, &until("2999-12-31"));
    assert_eq!(code, Some(0), "{stdout}{remarks}");
    insta::assert_snapshot!("accepted-divergence", read(directory.join("kyvtest.yaml")));
    assert_eq!(
        kyvtest(&directory, &["run", ".", "--now", "2999-12-31T23:00:00Z"]).0,
        Some(0)
    );
    let (code, stdout, _) = kyvtest(&directory, &["run", ".", "--now", "3000-01-01T00:00:00Z"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("KT207"), "{stdout}");
    // Entries are added to an existing sidecar.
    fs::copy(
        "fixtures/update/sidecar-with-effect.yaml",
        directory.join("kyvtest.yaml"),
    )
    .expect("a copy");
    assert_eq!(kyvtest(&directory, &until("2999-12-31")).0, Some(0));
    insta::assert_snapshot!("accepted-divergence-added", read(directory.join("kyvtest.yaml")));
}

#[test]
fn watch_runs_again_what_a_change_touches() {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
        sync::mpsc,
        time::Duration,
    };
    let directory = scratch("watch");
    for name in ["one", "two"] {
        fs::create_dir_all(directory.join(name)).expect("a folder");
        for file in ["kyverno-test.yaml", "policy.yaml", "resources.yaml"] {
            fs::copy(
                format!("suites/getting-started/{file}"),
                directory.join(name).join(file),
            )
            .expect("a copy");
        }
    }
    let crds = directory.with_file_name("watched-crds.yaml");
    fs::write(&crds, "").expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["watch", ".", "--crds", "../watched-crds.yaml"])
        .current_dir(&directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let (sender, lines) = mpsc::channel();
    let streams: [Box<dyn std::io::Read + Send>; 2] = [
        Box::new(child.stdout.take().expect("a stream")),
        Box::new(child.stderr.take().expect("a stream")),
    ];
    for stream in streams {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    // Everything up to the line that says that it waits.
    let until_waiting = || -> String {
        let mut seen = String::new();
        loop {
            let line = lines
                .recv_timeout(Duration::from_mins(1))
                .unwrap_or_else(|_| panic!("nothing comes: {seen}"));
            seen.push_str(&line);
            seen.push('\n');
            if line.contains("watching") {
                return seen;
            }
        }
    };
    let first = until_waiting();
    assert!(first.contains("all 2 test files passed"), "{first}");
    let test = directory.join("two/kyverno-test.yaml");
    let text = read(&test);
    fs::write(&test, text.replacen("result: pass", "result: fail", 1)).expect("a change");
    let second = until_waiting();
    assert!(second.contains("1 of 2 test files failed"), "{second}");
    assert!(!second.contains("one/kyverno-test.yaml"), "{second}");
    fs::write(&test, &text).expect("a change");
    let third = until_waiting();
    assert!(third.contains("all 2 test files passed"), "{third}");
    // A change of the served kinds affects all suites.
    fs::write(&crds, "# nothing\n").expect("a change");
    let fourth = until_waiting();
    assert!(fourth.contains("all 2 test files passed"), "{fourth}");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
}
