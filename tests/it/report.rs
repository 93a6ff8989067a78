//! One run with each outcome in every format: the output, its completeness, selection, limits and merging.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::{
    program::{kyvtest, with},
    schema,
};

pub(crate) const NOW: [&str; 2] = ["--now", "2026-11-16T00:00:00Z"];

/// The report of the run with each outcome, warnings and errors on the other stream included.
fn written(format: &str, more: &[&str]) -> String {
    let args = [
        &["run", "fixtures/report", "fixtures/absent", "-o", format][..],
        &NOW,
        more,
    ];
    let output = kyvtest(&args.concat());
    assert_eq!(output.status.code(), Some(2), "{format}");
    assert!(!output.stderr.is_empty());
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&directory).expect("a scratch folder");
    directory.join(name)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn every_format() {
    for format in [
        "human", "table", "json", "yaml", "jsonl", "junit", "sarif", "github", "markdown", "tap", "html",
    ] {
        let text = written(format, &[]);
        assert!(text.ends_with('\n') && !text.contains('\u{1b}'), "{format}");
        let shown = match format {
            "json" | "sarif" => {
                let value: Value = serde_json::from_str(&text).expect("JSON");
                format!("{value:#}")
            }
            _ => text,
        };
        insta::assert_snapshot!(format, shown);
    }
}

#[test]
fn json_yaml_and_events_say_the_same() {
    let json: Value = serde_json::from_str(&written("json", &[])).expect("JSON");
    let yaml = kyvtest::value::Document::from_yaml(&written("yaml", &[])).expect("YAML");
    assert_eq!(yaml.root().to_serde(), json);
    let text = written("jsonl", &[]);
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    let suites = array(&json["suites"]);
    assert_eq!(named("suite-begin"), suites.len());
    assert_eq!(named("suite-end"), suites.len());
    let total = |key: &str| suites.iter().map(|suite| array(&suite[key]).len()).sum::<usize>();
    assert_eq!(named("case"), total("cases"));
    assert_eq!(named("diagnostic"), total("diagnostics"));
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["event"], &last["summary"]),
        (&"run-end".into(), &json["summary"])
    );
}

#[test]
fn every_class_of_divergence_is_there() {
    let json: Value = serde_json::from_str(&written("json", &[])).expect("JSON");
    let found: Vec<&String> = json["summary"]["divergences"]
        .as_object()
        .expect("classes")
        .keys()
        .collect();
    let classes = [
        "action",
        "error",
        "message",
        "not-convertible",
        "scope",
        "stricter",
        "weaker",
    ];
    assert_eq!(found, classes);
}

#[test]
fn sarif_is_consistent() {
    let log: Value = serde_json::from_str(&written("sarif", &[])).expect("JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = array(&run["tool"]["driver"]["rules"]);
    let results = array(&run["results"]);
    assert!(results.len() > 8, "{}", results.len());
    let mut fingerprints = Vec::new();
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("a number") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(
            ["error", "warning", "note"]
                .iter()
                .any(|level| result["level"] == **level)
        );
        assert!(!result["message"]["text"].as_str().expect("a text").is_empty());
        assert_eq!(array(&result["locations"]).len(), 1);
        for place in array(&result["locations"])
            .iter()
            .chain(array(&result["relatedLocations"]))
        {
            let place = &place["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().expect("a path");
            assert!(!uri.contains([' ', '\\']) && !uri.starts_with('/'), "{uri}");
            if let Some(line) = place["region"].get("startLine") {
                assert!(line.as_u64().is_some_and(|line| line > 0));
            }
        }
        fingerprints.push(result["partialFingerprints"].to_string());
    }
    fingerprints.sort();
    let before = fingerprints.len();
    fingerprints.dedup();
    assert!(before - fingerprints.len() <= 1, "{fingerprints:#?}");
    // A divergence is located at the policy, with the row and the resource as related locations.
    let weaker = results.iter().find(|result| result["ruleId"] == "H27").expect("H27");
    let file = |place: &Value| place["physicalLocation"]["artifactLocation"]["uri"].clone();
    assert_eq!(file(&weaker["locations"][0]), "fixtures/report/divergence/policy.yaml");
    let related: Vec<Value> = array(&weaker["relatedLocations"]).iter().map(file).collect();
    assert_eq!(
        related,
        [
            "fixtures/report/divergence/kyverno-test.yaml",
            "fixtures/report/divergence/resources.yaml"
        ]
    );
}

/// Validates against the part of SARIF that is written; and, if `KYVTEST_SARIF_SCHEMA` names the schema that OASIS
/// publishes, against all of it.
#[test]
fn sarif_is_of_its_schema() {
    let mut schemas = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/report/sarif.schema.json")];
    schemas.extend(std::env::var_os("KYVTEST_SARIF_SCHEMA").map(PathBuf::from));
    let of_hostile = kyvtest(&["run", "fixtures/run/hostile", "-o", "sarif"]);
    let logs = [
        written("sarif", &[]),
        String::from_utf8(of_hostile.stdout).expect("UTF-8"),
    ];
    for path in schemas {
        let text = fs::read_to_string(&path).expect("the schema");
        let schema: Value = serde_json::from_str(&text).expect("a schema");
        for log in &logs {
            let mut log: Value = serde_json::from_str(log).expect("JSON");
            assert!(array(&log["runs"][0]["results"]).len() > 1);
            assert_eq!(schema::problems(&schema, &log), Vec::<String>::new());
            let results = log["runs"][0]["results"].as_array_mut().expect("results");
            for (number, key) in ["message", "locations"].iter().enumerate() {
                results[number][key] = Value::Null;
            }
            assert!(
                schema::problems(&schema, &log).len() > 1,
                "{} takes anything",
                path.display()
            );
        }
    }
}

#[test]
fn tap_and_github_are_whole() {
    let text = written("tap", &[]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("TAP version 14"));
    let plan: usize = lines
        .next()
        .and_then(|line| line.strip_prefix("1.."))
        .expect("a plan")
        .parse()
        .expect("a number");
    assert_eq!(lines.next(), Some("# now: 2026-11-16T00:00:00Z"));
    let points: Vec<&str> = lines.filter(|line| !line.starts_with("  ")).collect();
    assert_eq!(points.len(), plan);
    for (number, point) in points.iter().enumerate() {
        let rest = point.strip_prefix("not ").unwrap_or(point);
        assert!(rest.starts_with(&format!("ok {} - ", number + 1)), "{point}");
    }
    for line in written("github", &[]).lines() {
        let command = ["::error ", "::warning ", "::notice ", "::debug::"];
        assert!(command.iter().any(|word| line.starts_with(word)), "{line}");
    }
}

#[test]
fn junit_per_engine() {
    let cases = |per: &str| {
        let text = written("junit", &["--junit-per", per]);
        let document = roxmltree::Document::parse(&text).expect("XML");
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        cases
            .map(|case| {
                let name = case.attribute("name").expect("a name").to_owned();
                let result = case.children().find(roxmltree::Node::is_element);
                (name, result.map(|node| node.tag_name().name().to_owned()))
            })
            .collect::<Vec<_>>()
    };
    assert!(cases("case").iter().all(|(name, _)| !name.ends_with("[vap]")));
    let engines = cases("engine");
    let of = |policy: &str| -> Vec<(&str, Option<&str>)> {
        let found = engines.iter().filter(|(name, _)| name.starts_with(policy));
        found
            .map(|(name, result)| (name.rsplit(' ').next().unwrap_or_default(), result.as_deref()))
            .collect()
    };
    assert_eq!(of("conditional/"), [("[kyverno]", None), ("[vap]", Some("failure"))]);
    assert_eq!(of("two-rules/"), [("[kyverno]", None), ("[vap]", Some("skipped"))]);
}

#[test]
fn github_annotations_are_automatic() {
    let page = scratch("summary.md");
    fs::write(&page, "before\n").expect("a file");
    let path = page.display().to_string();
    let environment = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", path.as_str())];
    let output = with(&["run", "fixtures/report", "-o", "json"], &environment);
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    assert!(String::from_utf8_lossy(&output.stderr).contains("\n::error file=fixtures/report/"));
    let text = fs::read_to_string(&page).expect("a summary");
    assert!(text.starts_with("before\n# kyvtest\n"), "{text}");
    assert!(text.contains("| Diverge |") && !text.contains("| Pass |"), "{text}");
    let wrong = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_STEP_SUMMARY", "fixtures/absent/summary.md"),
    ];
    let output = with(&["run", "fixtures/run/met"], &wrong);
    assert_eq!(output.status.code(), Some(2));
    let output = with(&["run", "fixtures/run/met"], &[("GITHUB_STEP_SUMMARY", path.as_str())]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(&page).expect("a summary"), text);
}

/// The titles that a selection leaves.
fn selected(args: &[&str]) -> Vec<String> {
    let output = kyvtest(
        &[
            &["list", "fixtures/report/outcomes", "fixtures/report/divergence"],
            args,
        ]
        .concat(),
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let code = if text.is_empty() { 4 } else { 0 };
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let title = |line: &str| line.split(" :: ").nth(1).unwrap_or_default().to_owned();
    text.lines().map(title).collect()
}

#[test]
fn filters_select() {
    let count = |expression: &str| selected(&["-E", expression]).len();
    assert_eq!(selected(&[]).len(), 11);
    assert_eq!(count("all()"), 11);
    assert_eq!(count("none()"), 0);
    assert_eq!(count("suite(outcomes)"), 5);
    assert_eq!(count("path(*/outcomes/*)"), 5);
    assert_eq!(count("policy(=owners) | policy(labels)"), 5);
    assert_eq!(count("policy(owners) & rule(/sett$/)"), 1);
    assert_eq!(count("rule(host-network)"), 3);
    assert_eq!(count("rule(autogen-*)"), 2);
    assert_eq!(count("kind(Deployment)"), 2);
    assert_eq!(count("kind(apps/v1/Deployment)"), 2);
    assert_eq!(count("resource(default/bare)"), 3);
    assert_eq!(count("resource(~bad) and not kind(Pod)"), 2);
    assert_eq!(count("op(create)"), 11);
    assert_eq!(count("op(UPDATE)"), 0);
    assert_eq!(count("result(unmatched)"), 2);
    assert_eq!(count("result(diverge)"), 4);
    assert_eq!(count("result(diverge) - result(weaker)"), 3);
    assert_eq!(count("engine(vap)"), 8);
    assert_eq!(count("tag(slow)"), 5);
    assert_eq!(count("tag(team=reports) & !tag(slow)"), 0);
    assert_eq!(selected(&["-E", "policy(owners)", "-E", "policy(labels)"]).len(), 5);
    assert_eq!(selected(&["--", "bad-deployment", "labels/add"]).len(), 2);
    assert_eq!(selected(&["-t", "policy=no-*,resource=bad*"]).len(), 2);
    let output = kyvtest(&["list", "fixtures/report/outcomes", "-o", "json"]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let id = list["cases"][1]["id"].as_str().expect("an id").to_owned();
    assert_eq!(count(&format!("id({id})")), 1);
    assert_eq!(list["cases"][1]["line"], 10);
}

#[test]
fn selections_that_cannot_be_read() {
    for (name, args) in [
        ("filter-predicate", &["-E", "polcy(a) & rule(b)"][..]),
        ("filter-word", &["-E", "policy(a) & result(bad)"]),
        ("filter-end", &["-E", "policy(a) | "]),
        ("filter-regex", &["-E", "rule(/(/)"]),
        ("selector", &["-t", "bogus,color=red,policy=*"]),
    ] {
        let output = kyvtest(&[&["run", "fixtures/report"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        insta::assert_snapshot!(name, String::from_utf8_lossy(&output.stderr));
    }
    for args in [
        ["--shard", "0/3"],
        ["--shard", "4/3"],
        ["--shard", "x"],
        ["--max-fail", "0"],
        ["-o", "xml"],
    ] {
        let output = kyvtest(&[&["run", "fixtures/report"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let output = kyvtest(&["run", "fixtures/report", "--compat", "-o", "xml"]);
    assert_eq!(output.status.code(), Some(1));
}

/// The human-readable output of the run with each outcome: the statuses of the cases, and those of the list at the end.
fn words(args: &[&str]) -> (Vec<String>, Vec<String>) {
    let args = [
        &["run", "fixtures/report/outcomes", "fixtures/report/divergence"],
        args,
        &NOW,
        &["--details"],
    ]
    .concat();
    let output = kyvtest(&args);
    let text = format!("\n{}", String::from_utf8(output.stdout).expect("UTF-8"));
    let of = |text: &str| -> Vec<String> {
        let cases = text
            .lines()
            .filter(|line| line.contains(" :: ") && !line.starts_with([' ', 'n']));
        cases
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let (cases, end) = text.rsplit_once("\n\n").unwrap_or((&text, ""));
    (of(cases), of(end))
}

#[test]
fn levels_say_what_is_shown() {
    let counts = |args: &[&str]| {
        let (cases, end) = words(args);
        (cases.len(), end.len())
    };
    assert_eq!(counts(&[]), (7, 3));
    assert_eq!(counts(&["--status-level", "none"]), (0, 3));
    assert_eq!(
        counts(&["--status-level", "fail", "--final-status-level", "diverge"]),
        (3, 7)
    );
    assert_eq!(
        counts(&["--status-level", "diverge", "--final-status-level", "fail"]),
        (7, 3)
    );
    assert_eq!(counts(&["--status-level", "skip"]), (8, 3));
    assert_eq!(
        counts(&["--status-level", "pass", "--final-status-level", "none"]),
        (11, 0)
    );
    assert_eq!(
        counts(&["--status-level", "all", "--final-status-level", "all"]),
        (11, 11)
    );
    assert_eq!(counts(&["--detailed-results"]), (11, 3));
    assert_eq!(counts(&["--detailed-results", "--fail-only"]), (7, 3));
    let (cases, end) = words(&["--status-level", "skip", "--final-status-level", "fail"]);
    assert_eq!(end, ["FAIL", "UNMATCHED", "UNMATCHED"]);
    assert_eq!(cases.iter().filter(|word| *word == "NEEDS-REGISTRY").count(), 1);
    let output = kyvtest(&["run", "fixtures/report", "--status-level", "loud"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn names_do_not_command_terminals() {
    let args = ["run", "fixtures/run/hostile", "-v", "--color", "always"];
    let output = kyvtest(&[&args[..], &NOW].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("\u{1b}[1m\u{1b}[31mFAIL"), "{text:?}");
    // The names and messages contain escapes for red, bold and others.
    for wanted in ["\u{1b}[31mred", "\u{1b}[1mbold", "\u{7}", "\0", "\u{2028}"] {
        assert!(!text.contains(wanted), "{wanted:?}");
    }
    let ascii = with(&["run", "fixtures/report/actions"], &[("LC_ALL", "C")]);
    assert!(ascii.stdout.is_ascii());
}

#[test]
fn cases_are_shown_in_one_order() {
    let run = |threads: &str| {
        let args = ["run", "fixtures", "suites", "--status-level", "all", "-j", threads];
        let output = kyvtest(&[&args[..], &NOW].concat());
        (output.status.code(), output.stdout, output.stderr)
    };
    let one = run("1");
    assert_eq!(run("2"), one);
    assert_eq!(run("7"), one);
}

#[test]
fn every_problem_can_be_replayed() {
    let output = kyvtest(&[&["run", "fixtures/report"], &NOW[..]].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // Two cases of one rule share a command.
    let commands: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("replay:"))
        .collect();
    assert_eq!(commands.len(), 9);
    let mut outputs = String::new();
    for command in commands {
        let words: Vec<String> = command
            .split_whitespace()
            .skip(1)
            .map(|word| word.replace('\'', ""))
            .collect();
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = kyvtest(&args);
        assert!(matches!(output.status.code(), Some(1 | 3)), "{command}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.contains("\nrun 1 · pass 0 · "), "{command}\n{text}");
        outputs.push_str(&text);
    }
    insta::assert_snapshot!("replayed", outputs);
}

#[test]
fn verbose_runs_tell_both_stories() {
    let args = ["run", "fixtures/report/stories", "-v"];
    let output = kyvtest(&[&args[..], &NOW].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    insta::assert_snapshot!("verbose", String::from_utf8_lossy(&output.stdout));
    // Observing changes nothing.
    let plain = kyvtest(&[&["run", "fixtures", "suites", "-o", "json"], &NOW[..]].concat());
    let verbose = kyvtest(&[&["run", "fixtures", "suites", "-o", "json", "-v"], &NOW[..]].concat());
    assert!(plain.stdout == verbose.stdout);
}

#[test]
fn a_second_run_is_the_same() {
    for threads in ["1", "2"] {
        let args = ["run", "fixtures/report", "suites", "--check-determinism", "-j", threads];
        let output = kyvtest(&args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!String::from_utf8_lossy(&output.stderr).contains("KT321"));
    }
}

#[test]
fn runs_stop_at_their_limit() {
    let cases = |args: &[&str]| {
        let output = kyvtest(&[&["run", "fixtures/report/outcomes", "suites", "-o", "json"], args].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let cases = array(&report["suites"]).iter().flat_map(|suite| array(&suite["cases"]));
        cases
            .filter(|case| case["outcome"] != "pass" || !case["divergence"].is_null())
            .count()
    };
    let outcomes = |args: &[&str]| {
        let output = kyvtest(&[&["run", "fixtures/report/outcomes", "-o", "json"], args].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (
            report["summary"]["cases"].as_u64(),
            array(&report["suites"][0]["cases"]).len(),
        )
    };
    assert_eq!(outcomes(&["--fail-fast"]), (Some(2), 2));
    assert_eq!(outcomes(&["--max-fail", "2"]), (Some(3), 3));
    assert_eq!(outcomes(&["--max-fail", "all"]), (Some(5), 5));
    assert_eq!(outcomes(&["--no-fail-fast"]), (Some(5), 5));
    assert_eq!(outcomes(&["--fail-only"]), (Some(5), 3));
    assert_eq!(
        cases(&["--max-fail", "3", "-j", "1"]),
        cases(&["--max-fail", "3", "-j", "2"])
    );
}

#[test]
fn shards_are_the_whole() {
    let paths = ["suites", "fixtures/run", "fixtures/report", "fixtures/absent"];
    for format in ["json", "junit"] {
        let run = |name: &str, more: &[&str]| {
            let file = scratch(&format!("{name}.{format}"));
            let report = format!("{format}={}", file.display());
            let args = [&["run"], &paths[..], &NOW, &["--report", &report], more].concat();
            kyvtest(&args);
            file.display().to_string()
        };
        let whole = run("whole", &[]);
        let parts = ["3/3", "1/3", "2/3"].map(|shard| run(&shard[..1], &["--shard", shard]));
        let merged = kyvtest(&["merge", &parts[0], &parts[1], &parts[2]]);
        // A missing path is an input error of the whole run.
        assert_eq!(merged.status.code(), Some(2));
        let whole = fs::read_to_string(whole).expect("a report");
        assert!(whole == String::from_utf8_lossy(&merged.stdout), "{format}");
        assert!(
            parts
                .iter()
                .all(|part| fs::metadata(part).is_ok_and(|part| part.len() < whole.len() as u64))
        );
    }
    let output = kyvtest(&["merge", "fixtures/report/README.md"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("KT024"));
}

#[test]
fn the_page_is_one_file() {
    let text = written("html", &[]);
    for wanted in [
        "<!DOCTYPE html>",
        "id=\"filter\"",
        "Diverge",
        "&lt;owner&gt; &amp; &quot;team&quot;",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    for remote in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!text.contains(remote), "{remote}");
    }
}
