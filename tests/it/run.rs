//! `kyvtest run` for users and programs: expectations of the sidecar, reports, exit codes.

use std::{collections::HashSet, fs, path::PathBuf};

use roxmltree::{Document, Node};
use serde_json::Value;

use crate::{
    program::{shown, timeless as kyvtest},
    schema::problems,
};

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
fn the_data_lens_decides_what_policies_see() {
    let args = ["fixtures/run/data", "--status-level", "all", "-v"];
    insta::assert_snapshot!("data-normalised", shown(&kyvtest(&[&["run"], &args[..]].concat())));
    let raw = kyvtest(&["run", "fixtures/run/data", "--data", "raw"]);
    insta::assert_snapshot!("data-raw", shown(&raw));
    let strict = kyvtest(&["run", "fixtures/run/data", "--strict-resources"]);
    assert_eq!(strict.status.code(), Some(2));
    // `kyverno test` evaluates objects as written.
    let (_, compat) = json(&["fixtures/run/data", "--compat"]);
    let (_, raw) = json(&["fixtures/run/data", "--data", "raw"]);
    assert_eq!(outcomes(&compat), ["Fail", "Fail", "Pass", "Fail", "Pass", "Pass"]);
    assert_eq!(outcomes(&raw), ["fail", "fail", "pass", "fail", "pass", "pass"]);
    let (code, report) = json(&["fixtures/run/data"]);
    assert_eq!(
        (code, codes(&report)),
        (0, vec!["KT044".to_owned(), "KT044".to_owned()])
    );
    let notes = report["suites"][0]["cases"].as_array().into_iter().flatten();
    let notes: Vec<&str> = notes.map(|case| case["data"].as_str().unwrap_or_default()).collect();
    let (differs, refused) = (
        "with `--data raw` the status is fail",
        "judged on the object as written: the API server rejects it",
    );
    assert_eq!(notes, [differs, differs, "", differs, refused, refused]);
}

#[test]
fn a_failing_row_names_its_status_on_the_object_as_written_in_every_report() {
    let output = kyvtest(&["run", "fixtures/run/data-unmet"]);
    let text = shown(&output);
    assert_eq!(text.matches("with `--data raw` the status is").count(), 1, "{text}");
    assert!(text.contains("with `--data raw` the status is fail"), "{text}");
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
            "KT302", "KT303", "KT301", "KT302", "KT303", "KT304", "KT303", "KT304", "KT305", "KT301"
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
    assert_eq!(codes(&report), ["KT210", "KT211", "KT212", "KT305", "KT306", "KT211"]);
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

#[test]
fn values_edit_the_objects_of_requests() {
    for lens in [&["fixtures/run/edited"][..], &["fixtures/run/edited", "--compat"]] {
        let (code, report) = json(lens);
        assert_eq!(code, 0, "{report:#}");
        assert_eq!(outcomes(&report).len(), 2);
    }
}

#[test]
fn kyvernos_configuration_is_honoured() {
    let run = |config: &str| {
        let (code, report) = json(&["fixtures/run/config", "--kyverno-config", config]);
        (code, outcomes(&report).join(" "))
    };
    assert_eq!(run("bare"), (0, "pass pass".to_owned()));
    assert_eq!(run("chart"), (1, "unmatched pass".to_owned()));
    assert_eq!(
        run("fixtures/run/config/config-map.yaml"),
        (1, "pass unmatched".to_owned())
    );
    assert_eq!(
        run("fixtures/run/config/robots.yaml"),
        (1, "unmatched unmatched".to_owned())
    );
    for wrong in ["fixtures/run/config/user.yaml", "fixtures/absent.yaml"] {
        let output = kyvtest(&["run", "fixtures/run/config", "--kyverno-config", wrong]);
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    }
}

#[test]
fn conditions_of_webhooks_that_fail() {
    let (code, report) = json(&["fixtures/run/conditions"]);
    assert_eq!(code, 0, "{report:#}");
}

#[test]
fn exit_codes_without_tests_and_for_reports() {
    let code = |args: &[&str]| kyvtest(&[&["run"], args].concat()).status.code();
    let empty = "fixtures/run/no-rows";
    let nothing = "fixtures/input";
    assert_eq!(code(&[empty]), Some(4));
    assert_eq!(code(&[nothing]), Some(4));
    assert_eq!(code(&[nothing, "--no-tests", "warn"]), Some(0));
    assert_eq!(code(&[nothing, "--no-tests", "pass"]), Some(0));
    assert_eq!(code(&[nothing, "--compat"]), Some(0));
    assert_eq!(code(&[nothing, "--compat", "--require-tests"]), Some(1));
    assert_eq!(code(&[empty, "--compat", "--require-tests"]), Some(0));
    assert_eq!(code(&["fixtures/run/unmet", "--exit-zero"]), Some(0));
    assert_eq!(code(&["fixtures/run/broken", "--exit-zero"]), Some(2));
    assert_eq!(code(&["fixtures/run/broken", "fixtures/run/unmet"]), Some(2));
    assert_eq!(code(&["fixtures/run/broken", "--compat"]), Some(1));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["--compat"]), Some(1));
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
                if kind == "properties" {
                    continue;
                }
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

fn schema(of: &str) -> Value {
    let output = kyvtest(&["schema", of]);
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    schema
}

/// The documents of all files of a name below a directory.
fn documents(directory: &str, name: &str) -> Vec<(PathBuf, Value)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = walk(&directory)
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|found| found == name));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a file");
        let stream = kyvtest::yaml::read(text, kyvtest::yaml::Mode::Strict, &kyvtest::yaml::Limits::default());
        let trees: Vec<Value> = stream
            .documents()
            .iter()
            .filter_map(|document| document.tree().ok())
            .map(|tree| kyvtest::value::Document::from(tree.root()).root().to_serde())
            .collect();
        trees.into_iter().map(move |tree| (path.clone(), tree))
    };
    files.flat_map(read).collect()
}

fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .expect("a folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    entries
        .into_iter()
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] })
        .collect()
}

#[test]
fn our_suites_have_the_form_of_the_schemas() {
    let (suite, sidecar) = (schema("suite"), schema("sidecar"));
    let mut seen = 0;
    for (kind, name) in [(&suite, "kyverno-test.yaml"), (&sidecar, "kyvtest.yaml")] {
        for directory in ["suites", "fixtures/run", "fixtures/suite/good"] {
            for (path, document) in documents(directory, name) {
                // Kyverno ignores the case of some names, a schema cannot.
                if path.ends_with("spellings/kyverno-test.yaml") {
                    continue;
                }
                assert_eq!(problems(kind, &document), Vec::<String>::new(), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "{seen}");
    let wrong =
        serde_json::json!({"apiVersion": "x", "kind": "Test", "results": [{"policy": "p", "result": "no"}], "more": 1});
    assert_eq!(problems(&suite, &wrong).len(), 2, "{:?}", problems(&suite, &wrong));
    let wrong =
        serde_json::json!({"apiVersion": "kyvtest.dev/v1", "kind": "Sidecar", "rows": [{"row": -1}], "cases": [{}]});
    assert_eq!(problems(&sidecar, &wrong).len(), 4, "{:?}", problems(&sidecar, &wrong));
}

#[test]
fn our_reports_have_the_form_of_the_schema() {
    let schema = schema("report");
    for args in [
        &[
            "suites",
            "fixtures/run",
            "fixtures/suite",
            "fixtures/absent",
            "--all-responses",
        ][..],
        &["suites", "fixtures/run", "--compat", "--all-responses"],
    ] {
        let (_, report) = json(args);
        assert_eq!(problems(&schema, &report), Vec::<String>::new());
    }
    assert!(!problems(&schema, &serde_json::json!({"version": 2})).is_empty());
}

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("run");
    fs::create_dir_all(&directory).expect("a scratch folder");
    directory.join(name)
}

#[test]
fn reports_go_to_files() {
    let (xml, js) = (scratch("report.xml"), scratch("report.json"));
    fs::write(&xml, "old").expect("a file");
    let args = [format!("junit={}", xml.display()), format!("json={}", js.display())];
    let output = kyvtest(&["run", "fixtures/run/met", "--report", &args[0], "--report", &args[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("run 9 · pass 9"));
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

/// The whole corpus: the run finishes, reports undecided cases, and does not depend on the number of threads.
#[test]
fn the_corpus_with_any_number_of_threads() {
    let base = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(base).join("corpus");
    if !corpus.exists() {
        assert!(std::env::var_os("KYVTEST_REQUIRE_SHARED").is_none_or(|value| value != "1"));
        return;
    }
    let corpus = corpus.display().to_string();
    let run = |name: &str, more: &[&str]| {
        let xml = scratch(&format!("corpus-{name}.xml"));
        let json = scratch(&format!("corpus-{name}.json"));
        let reports = [format!("junit={}", xml.display()), format!("json={}", json.display())];
        let now = "2026-11-16T00:00:00Z";
        let mut args = vec!["run", &corpus, "--compat", "--now", now];
        args.extend(reports.iter().flat_map(|report| ["--report", report]));
        args.extend(more);
        let output = kyvtest(&args);
        let read = |path| fs::read_to_string(path).expect("a report");
        (output, read(&xml), read(&json), [xml, json])
    };
    let (one, two) = (run("one", &["-j", "1"]), run("two", &["-j", "2"]));
    assert!(matches!(one.0.status.code(), Some(0 | 1)), "{:?}", one.0.status);
    assert!(one.0.stdout == two.0.stdout && one.0.stderr == two.0.stderr);
    assert!(one.1 == two.1 && one.2 == two.2);
    let (tests, .., skipped) = check_junit(&one.1);
    assert!(tests > 3500 && skipped > 0, "{tests} {skipped}");
    let shards = ["1/3", "2/3", "3/3"].map(|shard| run(&shard.replace('/', "-of-"), &["--shard", shard]).3);
    for (format, whole) in [&one.1, &one.2].into_iter().enumerate() {
        let parts: Vec<String> = shards.iter().map(|files| files[format].display().to_string()).collect();
        let merged = kyvtest(&["merge", &parts[0], &parts[1], &parts[2]]);
        assert!(
            *whole == String::from_utf8_lossy(&merged.stdout),
            "the shards are not the whole"
        );
    }
}

/// Odd suites give the results of Kyverno's command line; its crashes count as failures.
#[test]
fn odd_suites_under_compat() {
    let text = fs::read_to_string("fixtures/compat/expected.json").expect("a file");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert!(rows.len() > 5);
    for row in rows {
        let directory = format!("fixtures/{}", row["folder"].as_str().expect("a folder"));
        let output = kyvtest(&["run", &directory, "--compat", "-o", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            output.status.code().map(Value::from),
            Some(row["exit"].clone()),
            "{directory}"
        );
        assert_eq!(report["summary"]["cases"], row["rows"], "{directory}");
        let code = row["code"].as_str().unwrap_or_default();
        assert!(String::from_utf8_lossy(&output.stderr).contains(code), "{directory}");
    }
}

/// No row passes whose file of expected objects is compared with nothing.
#[test]
fn files_that_nothing_is_compared_with() {
    let (_, report) = json(&["fixtures/run/uncompared"]);
    let cases = report["suites"][0]["cases"].as_array().expect("cases");
    let outcomes: Vec<&str> = cases.iter().filter_map(|case| case["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["fail", "fail", "pass"], "{report}");
    let reason = cases[0]["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("nothing is compared with `expected.yaml`"),
        "{reason}"
    );
}

#[test]
fn a_filter_leaves_cases_as_they_are() {
    for suites in [
        "suites/match-kinds",
        "suites/getting-started",
        "suites/mutation",
        "suites/exceptions",
    ] {
        let (_, whole) = json(&[suites, "--now", "2026-06-01T00:00:00Z"]);
        let cases = |report: &Value| -> Vec<Value> {
            let suites = report["suites"].as_array().into_iter().flatten();
            suites
                .flat_map(|suite| suite["cases"].as_array().cloned().unwrap_or_default())
                .collect()
        };
        let whole = cases(&whole);
        let name = |case: &Value| case["resource"]["name"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = whole.iter().map(name).collect();
        names.sort();
        names.dedup();
        assert!(!names.is_empty(), "{suites}");
        for wanted in names {
            let filter = format!("resource(={wanted})");
            let (_, some) = json(&[suites, "--now", "2026-06-01T00:00:00Z", "-E", &filter]);
            let expected: Vec<Value> = whole.iter().filter(|case| name(case) == wanted).cloned().collect();
            assert_eq!(cases(&some), expected, "{suites}: {filter}");
        }
    }
}
