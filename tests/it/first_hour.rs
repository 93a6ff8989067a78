//! A new user's first hour: results that were silently wrong, and reports that hid important facts.

mod reports;

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::{code, command, json, kyvtest, stderr, stdout};

const NOW: &str = "--now=2026-11-16T00:00:00Z";

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("first-hour").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a scratch folder");
    directory
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The problems of a JUnit report: elements that each dialect forbids.
fn junit_problems(report: &str, strict: bool) -> Vec<String> {
    let document = roxmltree::Document::parse(report).expect("XML");
    let root = document.root_element();
    let mut problems = Vec::new();
    for node in root.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        let parent = node.parent_element().map_or("", |parent| parent.tag_name().name());
        let (parents, attributes): (&[&str], &[&str]) = match name {
            "testsuites" if strict => (&[""], &["name", "time", "tests", "failures", "disabled", "errors"]),
            "testsuites" => (
                &[""],
                &[
                    "name",
                    "time",
                    "tests",
                    "failures",
                    "disabled",
                    "errors",
                    "skipped",
                    "timestamp",
                ],
            ),
            "testsuite" => (
                &["testsuites"],
                &[
                    "name",
                    "tests",
                    "failures",
                    "errors",
                    "skipped",
                    "time",
                    "timestamp",
                    "disabled",
                ],
            ),
            "properties" if strict => (&["testsuite"], &[]),
            "properties" => (&["testsuite", "testcase"], &[]),
            "property" => (&["properties"], &["name", "value"]),
            "testcase" if strict => (&["testsuite"], &["name", "classname", "time"]),
            "testcase" => (&["testsuite"], &["name", "classname", "time", "file", "line"]),
            "failure" | "error" | "skipped" => (&["testcase"], &["type", "message"]),
            "system-out" | "system-err" => (&["testcase", "testsuite"], &[]),
            _ => (&[], &[]),
        };
        if !parents.contains(&parent) {
            problems.push(format!("<{name}> in <{parent}>"));
        }
        for attribute in node.attributes().filter(|found| !attributes.contains(&found.name())) {
            problems.push(format!("<{name} {}>", attribute.name()));
        }
    }
    let cases = || root.descendants().filter(|node| node.has_tag_name("testcase"));
    problems.extend(
        cases()
            .filter(|case| case.attribute("time").is_none())
            .map(|_| "no time".to_owned()),
    );
    let placed = cases().any(|case| case.attribute("file").is_some() && case.attribute("line").is_some());
    if placed == strict {
        problems.push(format!("file and line: {placed}"));
    }
    problems
}

#[test]
fn junit_passes_what_met_its_expectation() {
    for (dialect, strict) in [("annotated", false), ("strict", true)] {
        let output = kyvtest(&[
            "run",
            "fixtures/report",
            "suites",
            "-o",
            "junit",
            "--junit-dialect",
            dialect,
        ]);
        let report = stdout(&output);
        assert_eq!(junit_problems(&report, strict), Vec::<String>::new(), "{dialect}");
        // Each check notices the other dialect.
        assert_ne!(junit_problems(&report, !strict), Vec::<String>::new(), "{dialect}");
        let document = roxmltree::Document::parse(&report).expect("XML");
        let skipped = document.descendants().filter(|node| node.has_tag_name("skipped"));
        let undecided = json(&kyvtest(&["run", "fixtures/report", "suites", "-o", "json"]));
        assert_eq!(
            skipped.count() as u64,
            undecided["summary"]["needsRegistry"].as_u64().expect("a number")
        );
        assert!(report.contains("not-cel"), "the missing native side is still there");
    }
    let shown = stdout(&kyvtest(&[
        "run",
        "fixtures/report/divergence",
        "-o",
        "junit",
        "--junit-dialect",
        "strict",
        NOW,
    ]));
    insta::assert_snapshot!("junit-strict", shown);
}

#[test]
fn the_exit_code_survives_a_closed_pipe() {
    for (args, expected) in [
        (&["run", "fixtures/run/unmet", "--status-level", "all"][..], 1),
        (&["run", "fixtures/run/unmet", "-o", "json"], 1),
        (&["run", "fixtures/report/divergence"], 3),
        (&["run", "fixtures/run/met"], 0),
        (&["eval"], 2),
    ] {
        let mut child = command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(expected), "{args:?}");
    }
}

#[test]
fn the_clock_is_the_start_of_the_run() {
    let suite = "fixtures/first-hour/clock";
    for more in [&[][..], &["--compat"]] {
        let output = kyvtest(&[&["run", suite], more].concat());
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    }
    let late = kyvtest(&["run", suite, "--now", "2199-01-01T00:00:00Z"]);
    assert_eq!(code(&late), 1, "{}", stdout(&late));
    let report = json(&kyvtest(&["run", suite, "-o", "json"]));
    let now = report["now"].as_str().expect("a time");
    assert!(now >= "2026-01-01T00:00:00Z" && now.ends_with('Z'), "{now}");
    // The recorded time repeats the run.
    let again = json(&kyvtest(&["run", suite, "-o", "json", "--now", now]));
    assert_eq!(again, report);
    for format in [
        "human", "table", "json", "yaml", "jsonl", "junit", "sarif", "github", "markdown", "tap", "html",
    ] {
        let output = kyvtest(&["run", suite, "-o", format, NOW]);
        assert!(stdout(&output).contains("2026-11-16T00:00:00Z"), "{format}");
    }
    let diff = kyvtest(&["diff", "--from", suite, "--to", suite, "-o", "json"]);
    assert_eq!(
        json(&diff)["pairs"][0]["cases"][0]["from"]["status"],
        "pass",
        "{}",
        stdout(&diff)
    );
    assert!(json(&diff)["now"].is_string());
    let pinned = "2026-11-16T00:00:00Z";
    let policy = format!("{suite}/policy.yaml");
    let pod = format!("{suite}/resources.yaml");
    for args in [
        &["eval", "--policy", &policy, "--object", &pod][..],
        &["prove", &policy],
        &["cover", suite],
        &["cover", suite, "--behaviours"],
    ] {
        let report = json(&kyvtest(&[args, &["-o", "json", NOW]].concat()));
        assert_eq!(report["now"], pinned, "{args:?}");
    }
}

#[test]
fn the_trace_is_that_of_the_resource() {
    let output = kyvtest(&["run", "fixtures/first-hour/trace", "-v", "--status-level", "all", NOW]);
    let text = stdout(&output);
    let (first, second) = text.split_once("second [CREATE]").expect("two cases");
    let value = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| line.contains("object.metadata.?labels.team.orValue('') !="));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert!(value(first).iter().all(|line| line.ends_with("= true")), "{text}");
    assert!(
        !value(second).is_empty() && value(second).iter().all(|line| line.ends_with("= false")),
        "{text}"
    );
}

#[test]
fn what_was_not_checked_does_not_succeed() {
    let suite = "fixtures/first-hour/unsupported";
    let policy = "fixtures/first-hour/unsupported/policy.yaml";
    let pod = "fixtures/first-hour/unsupported/resources.yaml";
    let empty = scratch("empty");
    for (args, expected, said) in [
        (&["run", suite][..], 5, "the only case was not decided"),
        (
            &["run", suite, "--unsupported", "warn"],
            5,
            "the only case was not decided",
        ),
        (&["run", suite, "--unsupported", "pass"], 0, ""),
        (&["run", suite, "fixtures/run/met"], 0, "1 of 10 cases was not decided"),
        (
            &["run", suite, "fixtures/run/met", "--unsupported", "fail"],
            5,
            "1 of 10 cases was not decided",
        ),
        (
            &["run", text(&empty)],
            4,
            "no tests selected: found no `kyverno-test.yaml` below",
        ),
        (
            &["run", "fixtures/run/met", "-E", "policy(=nothing)"],
            4,
            "no tests selected: ",
        ),
        (&["diff", "--from", policy, "--to", policy], 4, "nothing was compared"),
        (&["diff", "--from", suite, "--to", suite], 5, "not decided"),
        (
            &["diff", "--from", suite, "--to", suite, "--unsupported", "pass"],
            0,
            "",
        ),
        (&["eval", "--object", pod], 2, "no policy to evaluate"),
        (&["eval", "--policy", policy, "--object", pod], 5, "needs a registry"),
    ] {
        let output = kyvtest(args);
        assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    let eval = kyvtest(&["eval", "--policy", policy, "--object", pod]);
    assert!(stdout(&eval).starts_with("kyverno: undecided"), "{}", stdout(&eval));
}

/// A suite that takes longer than a user would wait.
#[cfg(unix)]
#[test]
fn a_signal_stops_a_long_suite() {
    let directory = scratch("long");
    let numbers: Vec<String> = (0..48).map(|number| number.to_string()).collect();
    let policy = fs::read_to_string("fixtures/run/long/policy.yaml").expect("a policy");
    let policy = policy.replace("LIST", &format!("[{}]", numbers.join(", ")));
    fs::write(directory.join("policy.yaml"), policy).expect("a file");
    fs::copy("fixtures/run/long/test.yaml", directory.join("kyverno-test.yaml")).expect("a file");
    let resources =
        (0..4_000).map(|number| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\n"));
    fs::write(
        directory.join("resources.yaml"),
        resources.collect::<Vec<_>>().join("---\n"),
    )
    .expect("a file");
    for signal in ["-INT", "-TERM"] {
        let report = directory.join("report.json");
        let option = format!("--report=json={}", report.display());
        let mut child = command(&["run", text(&directory), &option])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(child.try_wait().expect("a state").is_none(), "the suite is too short");
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        let begin = Instant::now();
        let mut shown = String::new();
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_to_string(&mut shown)
            .expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{shown}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(shown.ends_with("interrupted: 1 test file was not run\n"), "{shown}");
        let report: Value = serde_json::from_str(&fs::read_to_string(&report).expect("a report")).expect("JSON");
        assert_eq!(
            (&report["stopped"], &report["exit"]),
            (&"interrupted".into(), &130.into())
        );
    }
}

#[test]
fn shards_do_not_depend_on_how_paths_are_spelt() {
    let absolute = format!("{}/suites", env!("CARGO_MANIFEST_DIR"));
    let listed = |path: &str, shard: &str| {
        let report = json(&kyvtest(&["run", path, "--shard", shard, "-o", "json"]));
        let suites = report["suites"].as_array().expect("suites").iter();
        let paths = suites.map(|suite| suite["path"].as_str().expect("a path").to_owned());
        let mut paths: Vec<String> = paths
            .map(|path| path.rsplit_once("suites/").expect("a suite").1.to_owned())
            .collect();
        paths.sort();
        paths
    };
    let first = listed("suites", "1/3");
    assert!(first.len() > 3, "{first:?}");
    for path in ["./suites", "suites/", "src/../suites", absolute.as_str()] {
        assert_eq!(listed(path, "1/3"), first, "{path}");
    }
}

#[test]
fn merge_wants_every_shard_once() {
    let directory = scratch("merge");
    for format in ["json", "junit"] {
        let part = |shard: &str| {
            let path = directory.join(format!("{}.{format}", shard.replace('/', "-")));
            let option = format!("{format}={}", path.display());
            kyvtest(&[
                "run",
                "fixtures/run/met",
                "fixtures/run/unmet",
                "suites",
                "--report",
                &option,
                "--shard",
                shard,
            ]);
            text(&path).to_owned()
        };
        let parts = ["1/3", "2/3", "3/3"].map(part);
        let merged = kyvtest(&["merge", &parts[0], &parts[1], &parts[2]]);
        assert_eq!(code(&merged), 1, "{format}: {}", stderr(&merged));
        let twice = kyvtest(&["merge", &parts[0], &parts[1], &parts[0]]);
        assert_eq!(code(&twice), 2, "{format}");
        assert!(
            stderr(&twice).contains("shard 1/3 is given twice"),
            "{}",
            stderr(&twice)
        );
        assert!(twice.stdout.is_empty());
        let missing = kyvtest(&["merge", &parts[0], &parts[2]]);
        assert_eq!(code(&missing), 2, "{format}");
        assert!(stderr(&missing).contains("missing shard 2/3"), "{}", stderr(&missing));
        assert!(!missing.stdout.is_empty());
        let other = part("1/2");
        let mixed = kyvtest(&["merge", &parts[0], &other]);
        assert_eq!(code(&mixed), 2, "{format}");
        assert!(
            stderr(&mixed).contains("another report is shard 1/3"),
            "{}",
            stderr(&mixed)
        );
    }
}

/// Files in memory, one directory of which cannot be read.
struct Locked(kyvtest::suite::Memory);

impl kyvtest::suite::Files for Locked {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn is_directory(&self, path: &str) -> std::io::Result<bool> {
        self.0.is_directory(path)
    }

    fn list(&self, path: &str) -> std::io::Result<Vec<(String, bool)>> {
        if path == "all/locked" {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        self.0.list(path)
    }
}

#[test]
fn an_unreadable_directory_does_not_hide_its_siblings() {
    let mut files = kyvtest::suite::Memory::default();
    for directory in ["a", "locked", "z"] {
        files.add(&format!("all/{directory}/kyverno-test.yaml"), "");
    }
    let options = kyvtest::suite::Options::default();
    let (found, unreadable) = kyvtest::suite::discover_all(&Locked(files), "all", &options).expect("a folder");
    assert_eq!(found, ["all/a/kyverno-test.yaml", "all/z/kyverno-test.yaml"]);
    let [(path, why)] = &unreadable[..] else {
        panic!("{unreadable:?}")
    };
    assert_eq!(path, "all/locked");
    assert_eq!(why.message, "cannot read `all/locked`: permission denied");
}

#[test]
fn policies_for_payloads_have_no_native_side() {
    let policy = "fixtures/first-hour/json-mode/policy.yaml";
    let prove = kyvtest(&["prove", policy, "-o", "json"]);
    let proof = &json(&prove)["proofs"][0];
    assert_eq!(
        (&proof["label"], &proof["code"]),
        (&"NOT-CONVERTIBLE".into(), &"json-mode".into())
    );
    assert_eq!(proof["stats"]["requests"], 0);
    let run = kyvtest(&["run", "fixtures/first-hour/json-mode", "-o", "json"]);
    assert_eq!(code(&run), 0, "{}", stdout(&run));
    let case = &json(&run)["suites"][0]["cases"][0];
    assert_eq!((&case["vap"], &case["divergence"]), (&Value::Null, &Value::Null));
    assert_eq!(json(&run)["suites"][0]["notes"], Value::Array(Vec::new()));
}

#[test]
fn operations_are_listed_once() {
    let output = kyvtest(&["prove", "fixtures/first-hour/messages/policy.yaml", NOW]);
    let text = stdout(&output);
    let regions = text
        .lines()
        .filter(|line| line.contains(" of horizontalpodautoscalers"));
    assert!(regions.clone().count() > 0, "{text}");
    for line in regions {
        for word in ["CREATE", "UPDATE", "DELETE"] {
            assert!(line.matches(word).count() <= 1, "{line}");
        }
    }
}

#[test]
fn diff_reads_more_resources_beside_suites() {
    let (from, to) = ("fixtures/first-hour/diff/from", "fixtures/first-hour/diff/to");
    let more = "fixtures/first-hour/diff/controller.yaml";
    assert_eq!(code(&kyvtest(&["diff", "--from", from, "--to", to])), 0);
    let output = kyvtest(&["diff", "--from", from, "--to", to, "--resources", more]);
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    assert!(
        stdout(&output).contains("weaker: CREATE ReplicationController/default/plain"),
        "{}",
        stdout(&output)
    );
    let missing = kyvtest(&[
        "diff",
        "--from",
        from,
        "--to",
        to,
        "--resources",
        "fixtures/first-hour/absent.yaml",
    ]);
    assert_eq!(code(&missing), 2);
    let said = stderr(&missing);
    assert_eq!(said.matches("absent.yaml").count(), 1, "{said}");
    assert!(!said.contains("kyvtest-diff.yaml"), "{said}");
}

#[test]
fn coverage_wants_every_shard_once() {
    let directory = scratch("merge-coverage");
    let part = |shard: &str| {
        let output = kyvtest(&["cover", "suites", "-o", "json", "--shard", shard, NOW]);
        let path = directory.join(format!("{}.json", shard.replace('/', "-")));
        fs::write(&path, &output.stdout).expect("a file");
        text(&path).to_owned()
    };
    let [first, second, third] = ["1/3", "2/3", "3/3"].map(part);
    for (reports, expected, said) in [
        (&[&first, &second, &third][..], 0, ""),
        (&[&first, &second, &first], 2, "shard 1/3 is given twice"),
        (&[&first, &third], 2, "missing shard 2/3"),
        (&[&first, &part("1/2")], 2, "another report is shard 1/3"),
    ] {
        let args: Vec<&str> = std::iter::once("merge")
            .chain(reports.iter().map(|path| path.as_str()))
            .collect();
        let merged = kyvtest(&args);
        assert_eq!(code(&merged), expected, "{reports:?}: {}", stderr(&merged));
        assert!(stderr(&merged).contains(said), "{}", stderr(&merged));
    }
    let whole = directory.join("whole.json");
    fs::write(&whole, kyvtest(&["cover", "suites", "-o", "json", NOW]).stdout).expect("a file");
    let twice = kyvtest(&["merge", text(&whole), text(&whole)]);
    assert_eq!(code(&twice), 2);
    assert!(stderr(&twice).contains("is in an earlier report"), "{}", stderr(&twice));
}

#[test]
fn the_search_starts_from_resources_and_patterns() {
    let label = |args: &[&str]| {
        let output = kyvtest(&[&["prove"], args, &["-o", "json", NOW]].concat());
        let proof = json(&output)["proofs"][0].take();
        (proof["label"].as_str().expect("a label").to_owned(), proof)
    };
    // A suite lies beside the policy.
    let beside = "fixtures/first-hour/samples/policy.yaml";
    let native = "fixtures/first-hour/samples/native.yaml";
    let (found, proof) = label(&[beside, "--to", native]);
    assert_eq!(found, "REFUTED", "{proof}");
    assert_eq!(proof["world"]["data"], "normalised", "{proof}");
    // Without it the difference is not found, unless the resources are given.
    let alone = scratch("samples").join("policy.yaml");
    fs::copy(beside, &alone).expect("a file");
    assert_eq!(label(&[text(&alone), "--to", native]).0, "PROVEN-MATCH");
    for given in [
        "fixtures/first-hour/samples/resources.yaml",
        "fixtures/first-hour/samples",
    ] {
        assert_eq!(
            label(&[text(&alone), "--to", native, "--resources", given]).0,
            "REFUTED",
            "{given}"
        );
    }
    // A pattern is filled in, for Pods and for their controllers.
    let directory = "fixtures/first-hour/seeds";
    let (found, proof) = label(&[
        &format!("{directory}/policy.yaml"),
        "--to",
        &format!("{directory}/native.yaml"),
    ]);
    assert_eq!(found, "REFUTED", "{proof}");
    assert_eq!(proof["regions"][0]["class"], "weaker", "{proof}");
}

#[test]
fn a_target_must_have_policies() {
    let file = |name: &str| format!("fixtures/first-hour/prove/{name}.yaml");
    let prove = |to: &str| kyvtest(&["prove", &file("policy"), "--to", &file(to)]);
    for (to, said) in [
        ("empty", "no ValidatingAdmissionPolicy in"),
        ("binding", "only a binding for policy `team-label`"),
    ] {
        let output = prove(to);
        assert_eq!(code(&output), 2, "{to}: {}", stdout(&output));
        assert!(stderr(&output).contains(said), "{to}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{to}: {}", stdout(&output));
    }
    for to in ["validating", "policy"] {
        let output = prove(to);
        assert_eq!(code(&output), 0, "{to}: {}", stderr(&output));
        assert!(stdout(&output).starts_with("PROVEN"), "{to}: {}", stdout(&output));
    }
    let unbound = prove("unbound");
    assert!(stderr(&unbound).contains("has no binding"), "{}", stderr(&unbound));
    let both = kyvtest(&[
        "prove",
        &file("policy"),
        "--to",
        &file("unbound"),
        "--to",
        &file("binding"),
    ]);
    assert!(!stderr(&both).contains("has no binding"), "{}", stderr(&both));
}

#[test]
fn refused_objects_do_not_drown_the_rest() {
    let directory = "fixtures/first-hour/refused";
    let warnings = |args: &[&str]| {
        let output = kyvtest(&[&["run", directory, NOW], args].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stderr(&output)
    };
    let few = warnings(&[]);
    assert_eq!(few.matches("warning[KT044]").count(), 4, "{few}");
    assert!(few.contains("the API server rejects 2 more objects"), "{few}");
    let all = warnings(&["--details"]);
    assert_eq!(all.matches("warning[KT044]").count(), 5, "{all}");
    let strict = kyvtest(&["run", directory, NOW, "--strict-resources"]);
    assert_eq!(code(&strict), 2);
    assert_eq!(
        stderr(&strict).matches("error[KT044]").count(),
        5,
        "{}",
        stderr(&strict)
    );
}

#[test]
fn errors_of_refused_objects_have_places() {
    let directory = "fixtures/first-hour/refused-places";
    let output = kyvtest(&["run", directory, NOW, "--details"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    let places: Vec<String> = stderr(&output)
        .lines()
        .filter_map(|line| Some(line.split_once("resources.yaml:")?.1.to_owned()))
        .collect();
    // The list itself; the port of the first Service, which the second shares; the first port of the third.
    assert_eq!(places, ["2:1", "11:17", "17:111"]);
}
