//! Runs that end badly: the reader closes the pipe, the disk is full, the user interrupts. No partial file remains, and
//! everything that can be written is.

#![cfg(unix)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kyvtest"));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// An empty directory for one test.
fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kill").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a scratch folder");
    directory
}

fn report(format: &str, path: &Path) -> String {
    format!("--report={format}={}", path.display())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn check_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a report")).expect("a whole report")
}

fn check_xml(path: &Path) {
    let text = fs::read_to_string(path).expect("a report");
    roxmltree::Document::parse(&text).expect("a whole report");
}

#[test]
fn a_full_disk_behind_standard_output() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    for format in ["human", "json", "junit", "html"] {
        let directory = scratch(&format!("full-{format}"));
        let (json, xml) = (directory.join("a.json"), directory.join("b.xml"));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = command()
            .args(["run", "fixtures/report", "-o", format])
            .args([report("json", &json), report("junit", &xml)])
            .stdout(full)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{format}");
        assert!(stderr(&output).contains("KT010"), "{format}: {}", stderr(&output));
        check_json(&json);
        check_xml(&xml);
        assert_eq!(names(&directory), ["a.json", "b.xml"]);
    }
}

#[test]
fn a_full_disk_behind_a_report() {
    let directory = scratch("limit");
    let (page, list) = (directory.join("page.html"), directory.join("list.txt"));
    fs::write(&page, "what was there before").expect("a file");
    let kyvtest = env!("CARGO_BIN_EXE_kyvtest");
    // A page is longer than four kilobytes, a list of one suite is not. A limit on the size of files simulates a full
    // disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {kyvtest} run fixtures/report/actions {} {}",
        report("html", &page),
        report("table", &list),
    );
    let output = command_of("sh").args(["-c", &script]).output().expect("a shell");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("KT010"), "{}", stderr(&output));
    assert_eq!(
        fs::read_to_string(&page).expect("the old file"),
        "what was there before"
    );
    assert!(
        fs::read_to_string(&list)
            .expect("the other report")
            .contains("strict-but")
    );
    assert_eq!(names(&directory), ["list.txt", "page.html"]);
}

fn command_of(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
#[test]
fn a_tiny_disk_behind_a_report() {
    let directory = scratch("disk");
    let mount = command_of("mount")
        .args(["-t", "tmpfs", "-o", "size=8k", "tmpfs"])
        .arg(&directory)
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let (page, list) = (directory.join("page.html"), directory.join("list.txt"));
    let output = command()
        .args(["run", "fixtures/report", "fixtures/run"])
        .args([report("html", &page), report("github", &list)])
        .output()
        .expect("it starts");
    let left = names(&directory);
    let whole = fs::read_to_string(&list);
    let unmounted = command_of("umount").arg(&directory).output();
    assert!(unmounted.is_ok_and(|output| output.status.success()));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("page.html`: no space left"),
        "{}",
        stderr(&output)
    );
    assert_eq!(left, ["list.txt"]);
    assert!(whole.is_ok_and(|text| text.starts_with("::") && text.ends_with('\n')));
}

#[test]
fn reports_that_cannot_be_written() {
    let directory = scratch("unwritable");
    let locked = directory.join("locked");
    fs::create_dir(&locked).expect("a folder");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).expect("permissions");
    let good = directory.join("good.json");
    let mut paths = vec![
        directory.join("absent/report.xml"),
        directory.clone(),
        "/proc/kyvtest.xml".into(),
    ];
    // A privileged user can also write here.
    if fs::write(locked.join("probe"), "").is_err() {
        paths.push(locked.join("report.xml"));
    }
    for path in paths {
        let output = command()
            .args(["run", "fixtures/run/met"])
            .args([report("junit", &path), report("json", &good)])
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        let text = stderr(&output);
        assert!(
            text.contains("KT010") && text.contains(&path.display().to_string()),
            "{text}"
        );
        check_json(&good);
        assert!(
            output.stdout.starts_with(b"run 9"),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        fs::remove_file(&good).expect("the report");
        assert_eq!(names(&directory), ["locked"]);
    }
}

#[test]
fn the_reader_closes_the_pipe() {
    let directory = scratch("pipe");
    for (args, reports) in [
        (&["-o", "human", "--status-level", "all"][..], false),
        (&["-o", "human", "--status-level", "all"], true),
        (&["-o", "json", "--all-responses"], true),
    ] {
        let json = directory.join("report.json");
        let mut command = command();
        command.args(["run", "fixtures", "suites"]).args(args);
        if reports {
            command.arg(report("json", &json));
        }
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let mut first = [0];
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut first).expect("something is written");
        drop(stdout);
        // Some of the fixtures are broken, regardless of the reader.
        assert_eq!(child.wait().expect("it ends").code(), Some(2), "{args:?}");
        if reports {
            check_json(&json);
        }
    }
}

/// Suites that take long enough to be interrupted.
fn long_suites(directory: &Path) {
    let numbers: Vec<String> = (0..48).map(|number| number.to_string()).collect();
    let list = format!("[{}]", numbers.join(", "));
    let policy = fs::read_to_string("fixtures/run/long/policy.yaml").expect("a policy");
    let policy = policy.replace("LIST", &list);
    let test = fs::read_to_string("fixtures/run/long/test.yaml").expect("a test file");
    let resources: Vec<String> = (0..40)
        .map(|number| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\n"))
        .collect();
    for suite in 0..60 {
        let directory = directory.join(format!("suite-{suite:03}"));
        fs::create_dir_all(&directory).expect("a folder");
        fs::write(directory.join("policy.yaml"), &policy).expect("a file");
        fs::write(directory.join("resources.yaml"), resources.join("---\n")).expect("a file");
        fs::write(directory.join("kyverno-test.yaml"), &test).expect("a file");
    }
}

fn send(signal: &str, child: &Child) {
    let sent = command_of("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn interrupted_in_the_middle() {
    let suites = scratch("long");
    long_suites(&suites);
    for (signal, threads) in [("-INT", "1"), ("-INT", "2"), ("-TERM", "2")] {
        let directory = scratch("interrupted");
        let (json, xml) = (directory.join("a.json"), directory.join("b.xml"));
        let mut child = command()
            .arg("run")
            .arg(&suites)
            .args(["-j", threads, "--status-level", "all"])
            .args([report("json", &json), report("junit", &xml)])
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut text = String::new();
        stdout.read_line(&mut text).expect("a line");
        assert!(text.starts_with("PASS"), "{text}");
        send(signal, &child);
        stdout.read_to_string(&mut text).expect("the rest");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("interrupted: ") && last.ends_with(" test files were not run"),
            "{last}"
        );
        let whole = check_json(&json);
        assert_eq!(whole["stopped"], "interrupted");
        let cases = whole["summary"]["cases"].as_u64().expect("a number");
        assert!((40..2_400).contains(&cases), "{cases}");
        assert_eq!(text.matches("PASS ").count() as u64, cases);
        check_xml(&xml);
        assert_eq!(names(&directory), ["a.json", "b.xml"]);
    }
}

#[test]
fn a_limit_of_time() {
    let suites = scratch("timeout");
    long_suites(&suites);
    let one = suites.join("suite-000");
    let run = |limit: &str| {
        let output = command()
            .arg("run")
            .arg(&one)
            .args(["-o", "json", "--timeout", limit, "--now", "2026-11-16T00:00:00Z"])
            .output();
        let output = output.expect("it starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), report)
    };
    let (code, report) = run("1us");
    assert_eq!(code, Some(1));
    assert_eq!(report["summary"]["error"], 40);
    assert_eq!(report["suites"][0]["diagnostics"][0]["code"], "KT320");
    assert_eq!(run("1us").1, report);
    assert_eq!(run("10m").0, Some(0));
}
