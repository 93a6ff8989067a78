//! `kyvtest run` as people and programs see it: expectations of the sidecar, reports, exit codes.

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use roxmltree::{Document, Node};
use serde_json::Value;

fn kyvtest(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn shown(output: &Output) -> String {
    let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("exit code: {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}").replace('\u{1b}', "ESC")
}

fn json(args: &[&str]) -> (i32, Value) {
    let output = kyvtest(&[&["run", "-o", "json"], args].concat());
    let report = serde_json::from_slice(&output.stdout).expect("standard output is the report alone");
    (output.status.code().unwrap_or(-1), report)
}

fn outcomes(report: &Value) -> Vec<String> {
    let suites = report["suites"].as_array().into_iter().flatten();
    let cases = suites.flat_map(|suite| suite["cases"].as_array().into_iter().flatten());
    cases
        .map(|case| case["outcome"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn codes(report: &Value) -> Vec<String> {
    let suites = report["suites"].as_array().into_iter().flatten();
    let found = suites.flat_map(|suite| suite["diagnostics"].as_array().into_iter().flatten());
    found
        .map(|found| found["code"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn expectations_that_are_met() {
    let (code, report) = json(&["fixtures/run/met"]);
    assert_eq!(codes(&report), Vec::<String>::new(), "{report:#}");
    assert!(outcomes(&report).iter().all(|word| word == "pass"), "{report:#}");
    assert_eq!((outcomes(&report).len(), code), (9, 0));
}

#[test]
fn expectations_that_are_not_met() {
    let (code, report) = json(&["fixtures/run/unmet"]);
    assert_eq!(code, 1);
    assert_eq!(
        codes(&report),
        [
            "KT506", "KT507", "KT505", "KT506", "KT507", "KT508", "KT507", "KT508", "KT503", "KT505"
        ]
    );
    insta::assert_snapshot!("unmet", shown(&kyvtest(&["run", "fixtures/run/unmet"])));
}

#[test]
fn kyverno_knows_no_sidecar() {
    let (code, report) = json(&["fixtures/run/unmet", "--compat"]);
    assert_eq!(code, 1);
    assert_eq!(outcomes(&report), ["Pass", "Fail", "Pass"]);
}

#[test]
fn rows_that_nothing_meets() {
    let (code, report) = json(&["fixtures/run/unmatched"]);
    assert_eq!(code, 1);
    assert_eq!(codes(&report), ["KT500", "KT501", "KT502", "KT503", "KT504", "KT501"]);
    assert!(outcomes(&report).iter().all(|word| word == "unmatched"), "{report:#}");
    insta::assert_snapshot!("unmatched", shown(&kyvtest(&["run", "fixtures/run/unmatched"])));
    insta::assert_snapshot!(
        "unmatched-compat",
        shown(&kyvtest(&[
            "run",
            "fixtures/run/unmatched",
            "--compat",
            "--detailed-results"
        ]))
    );
}

#[test]
fn a_refused_policy_fails_its_rows() {
    let (code, report) = json(&["fixtures/run/refused"]);
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(outcomes(&report), ["error", "pass"]);
    assert_eq!(codes(&report), ["KT106", "KT106"]);
    let (code, report) = json(&["fixtures/run/refused", "--compat"]);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(outcomes(&report), ["Skip", "Pass"]);
    assert_eq!(report["suites"][0]["cases"][0]["reason"], "Invalid Policy");
}

/// Everything that consumers of JUnit reports rely on.
fn check_junit(text: &str) -> (usize, usize, usize, usize) {
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"));
    assert!(!text.contains('\u{1b}') && !text.contains('\0'));
    let document = Document::parse(text).expect("well-formed XML");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    for name in ["name", "tests", "failures", "errors", "skipped", "time", "timestamp"] {
        assert!(root.attribute(name).is_some(), "testsuites has no {name}");
    }
    let number = |node: Node<'_, '_>, name: &str| -> usize {
        let text = node.attribute(name).expect("a counter");
        text.parse().expect("a number")
    };
    let mut names = HashSet::new();
    let mut files = HashSet::new();
    let mut totals = [0; 4];
    for suite in root.children().filter(Node::is_element) {
        assert_eq!(suite.tag_name().name(), "testsuite");
        assert!(files.insert(suite.attribute("name")), "one test suite a file");
        let properties = suite.children().find(|node| node.has_tag_name("properties"));
        assert!(properties.is_some_and(|node| node.children().any(|node| node.has_tag_name("property"))));
        let mut counts = [0; 4];
        for case in suite.children().filter(|node| node.has_tag_name("testcase")) {
            let class = case.attribute("classname").expect("a class name");
            assert!(!class.contains('.') && !class.is_empty(), "{class}");
            let name = case.attribute("name").expect("a name");
            assert!(!name.contains(['\n', '\t', '\r']), "{name:?}");
            assert!(names.insert(name), "{name} occurs twice");
            assert!(name.contains(" :: "), "{name}");
            if case.attribute("file").is_some() {
                let line: usize = case.attribute("line").expect("a line").parse().expect("a number");
                assert!(line > 0);
            }
            counts[0] += 1;
            for result in case.children().filter(Node::is_element) {
                let kind = result.tag_name().name();
                let message = result.attribute("message").expect("a message");
                assert!(!message.contains('\n'), "{message}");
                if kind != "skipped" {
                    assert!(result.attribute("type").is_some_and(|text| !text.is_empty()));
                    assert!(
                        result.text().is_some_and(|text| !text.trim().is_empty()),
                        "{name}: no text"
                    );
                }
                let place = ["failure", "error", "skipped"].iter().position(|known| *known == kind);
                counts[1 + place.expect("a known result")] += 1;
            }
        }
        let written = ["tests", "failures", "errors", "skipped"].map(|name| number(suite, name));
        assert_eq!(counts, written);
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count;
        }
    }
    let written = ["tests", "failures", "errors", "skipped"].map(|name| number(root, name));
    assert_eq!(totals, written);
    totals.into()
}

#[test]
fn junit_reports_of_hostile_suites() {
    let output = kyvtest(&["run", "fixtures/run", "fixtures/absent", "-o", "junit"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (tests, failures, errors, _) = check_junit(&text);
    assert!(
        tests > 30 && failures > 10 && errors >= 3,
        "{tests} {failures} {errors}"
    );
    let hostile = kyvtest(&[
        "run",
        "fixtures/run/hostile",
        "-o",
        "junit",
        "--now",
        "2026-11-16T00:00:00Z",
    ]);
    insta::assert_snapshot!("hostile-junit", shown(&hostile));
    check_junit(&String::from_utf8(hostile.stdout).expect("UTF-8"));
}

#[test]
fn a_report_that_is_wrong_is_noticed() {
    let output = kyvtest(&["run", "fixtures/run/met", "-o", "junit"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    check_junit(&text);
    for (right, wrong) in [
        ("classname=\"fixtures/run", "classname=\"fixtures.run"),
        ("tests=\"", "tests=\"9"),
        ("</testsuites>", "</testsuite>"),
        (" time=\"", " tim=\""),
    ] {
        let broken = text.replacen(right, wrong, 1);
        assert_ne!(broken, text, "{right}");
        let result = std::panic::catch_unwind(|| check_junit(&broken));
        assert!(result.is_err(), "{wrong} is not noticed");
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("run");
    fs::create_dir_all(&folder).expect("a scratch folder");
    folder.join(name)
}

#[test]
fn reports_go_to_files() {
    let (xml, js) = (scratch("report.xml"), scratch("report.json"));
    fs::write(&xml, "old").expect("a file");
    let args = [format!("junit={}", xml.display()), format!("json={}", js.display())];
    let output = kyvtest(&["run", "fixtures/run/met", "--report", &args[0], "--report", &args[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("run 9 in 1 suites"));
    check_junit(&fs::read_to_string(&xml).expect("a report"));
    let report: Value = serde_json::from_str(&fs::read_to_string(&js).expect("a report")).expect("JSON");
    assert_eq!(report["version"], 1);
    let left: Vec<_> = fs::read_dir(xml.parent().expect("a folder"))
        .expect("a folder")
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn reports_that_cannot_be_written() {
    for report in ["junit=fixtures/absent/report.xml", "json=fixtures"] {
        let output = kyvtest(&["run", "fixtures/run/met", "--report", report]);
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
        insta::assert_snapshot!(format!("unwritable-{}", &report[..4]), shown(&output));
    }
    for report in ["xml=a.xml", "junit", "json="] {
        let output = kyvtest(&["run", "fixtures/run/met", "--report", report]);
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    }
}

/// The whole corpus: finishes, says what it does not decide, and the number of threads does not show.
#[test]
fn the_corpus_with_any_number_of_threads() {
    let base = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(base).join("corpus");
    if !corpus.exists() {
        assert!(std::env::var_os("KYVTEST_REQUIRE_SHARED").is_none_or(|value| value != "1"));
        return;
    }
    let corpus = corpus.display().to_string();
    let run = |threads: &str| {
        let xml = scratch(&format!("corpus-{threads}.xml"));
        let report = format!("junit={}", xml.display());
        let now = "2026-11-16T00:00:00Z";
        let output = kyvtest(&[
            "run", &corpus, "--compat", "--now", now, "-j", threads, "--report", &report,
        ]);
        (output, fs::read_to_string(&xml).expect("a report"))
    };
    let (one, two) = (run("1"), run("2"));
    assert!(matches!(one.0.status.code(), Some(0 | 1)), "{:?}", one.0.status);
    assert!(one.0.stdout == two.0.stdout && one.0.stderr == two.0.stderr);
    assert!(one.1 == two.1);
    let (tests, .., skipped) = check_junit(&one.1);
    assert!(tests > 3500 && skipped > 0, "{tests} {skipped}");
}
