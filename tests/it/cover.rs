//! `kyvtest cover`, `kyvtest fill`, and the additional analyses of `kyvtest run`: coverage, behaviours, proofs.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use kyvtest::{
    cel::{compile::compile, env::Env, observe::points, profile::Profile, types::Type},
    cli::input::read_values,
    diagnostic::Sources,
};
use serde_json::Value;

use crate::program::{kyvtest, shown};

const NOW: &str = "--now=2026-11-16T00:00:00Z";

fn json(args: &[&str]) -> Value {
    let output = kyvtest(args);
    serde_json::from_slice(&output.stdout).expect("standard output is the report alone")
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().expect("a list").iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// A report of coverage in the form of the predicted one.
fn lines(report: &Value) -> String {
    let score = |value: &Value| format!("{}/{}", value["seen"], value["total"]);
    let mut lines = String::new();
    for suite in list(report, "suites") {
        for policy in list(suite, "policies") {
            let _ = writeln!(lines, "{} {}", text(&policy["name"]), score(&policy["score"]));
            for item in list(policy, "items") {
                let what = match (&item["text"], &item["path"]) {
                    (Value::String(text), _) => format!(" {text}"),
                    (_, Value::String(path)) => format!(" {path}"),
                    _ => String::new(),
                };
                let outcomes: Vec<String> = list(item, "outcomes")
                    .map(|outcome| {
                        let pair = format!("{}={}", text(&outcome["name"]), outcome["count"]);
                        if outcome["wanted"] == true {
                            pair
                        } else {
                            format!("({pair})")
                        }
                    })
                    .collect();
                let (rule, kind) = (text(&item["rule"]), text(&item["kind"]));
                let _ = writeln!(lines, "{rule} {kind}{what}: {}", outcomes.join(" "));
            }
        }
    }
    let _ = writeln!(lines, "{}", score(&report["summary"]));
    for suite in list(report, "suites") {
        for found in list(suite, "unreferenced") {
            let resource = &found["resource"];
            let _ = writeln!(
                lines,
                "unreferenced {} {}",
                text(&resource["kind"]),
                text(&resource["name"])
            );
        }
    }
    lines
}

#[test]
fn every_number_is_as_predicted() {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cover/known/expected.txt");
    let expected = fs::read_to_string(expected).expect("it can be read");
    let report = json(&["cover", "--format", "json", "fixtures/cover/known"]);
    assert_eq!(lines(&report), expected);
}

#[test]
fn forks_are_found_where_they_stand() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cover/forks.yaml");
    let mut sources = Sources::new();
    let cases = read_values(&path, &mut sources).expect("it can be read");
    let cases = cases[0].root().to_serde();
    let mut env = Env::new(Profile::kubernetes());
    for (name, declared) in [
        ("a", Type::Bool),
        ("b", Type::Bool),
        ("c", Type::Bool),
        ("o", Type::Dyn),
    ] {
        env.declare(name, declared);
    }
    for case in cases.as_array().expect("a list") {
        let expression = text(&case["expression"]);
        let program = compile(expression, &env).expect("it compiles");
        let found: Vec<String> = points(expression, &program)
            .iter()
            .map(|point| format!("{} {}", point.fork.as_str(), &expression[point.start..point.end]))
            .collect();
        let wanted: Vec<&str> = list(case, "forks").map(text).collect();
        assert_eq!(found, wanted, "{expression}");
    }
}

#[test]
fn coverage_for_people() {
    insta::assert_snapshot!("human", shown(&kyvtest(&["cover", "fixtures/cover/known"])));
    let markdown = kyvtest(&["cover", "--format", "markdown", "fixtures/cover/known"]);
    insta::assert_snapshot!("markdown", shown(&markdown));
}

#[test]
fn a_minimum_and_resources_without_rows_are_thresholds() {
    let code = |args: &[&str]| {
        let all = [&["cover", "fixtures/cover/known"], args].concat();
        let output = kyvtest(&all);
        let codes = ["KT502", "KT503"].map(|code| String::from_utf8_lossy(&output.stderr).contains(code));
        (output.status.code(), codes)
    };
    assert_eq!(code(&[]), (Some(0), [false, false]));
    assert_eq!(code(&["--min", "66"]), (Some(0), [false, false]));
    assert_eq!(code(&["--min", "67"]), (Some(5), [false, true]));
    assert_eq!(code(&["--unreferenced", "warn"]), (Some(0), [true, false]));
    assert_eq!(code(&["--unreferenced", "reject"]), (Some(5), [true, false]));
}

#[test]
fn shards_merge_into_the_whole() {
    let directory = scratch("shards");
    let mut files = Vec::new();
    for part in ["1/3", "2/3", "3/3"] {
        let file = directory.join(part.replace('/', "-"));
        let output = kyvtest(&["cover", "--format", "json", "suites", "--shard", part, NOW]);
        fs::write(&file, &output.stdout).expect("it can be written");
        files.push(file.display().to_string());
    }
    let args: Vec<&str> = std::iter::once("merge")
        .chain(files.iter().map(String::as_str))
        .collect();
    let merged = kyvtest(&args);
    let whole = kyvtest(&["cover", "--format", "json", "suites", NOW]);
    assert!(
        whole.stdout == merged.stdout,
        "{}",
        String::from_utf8_lossy(&merged.stderr)
    );
}

/// Mutation has behaviours of its own: what changes an object, what leaves it as it is, what is skipped, and what fails.
#[test]
fn behaviours_of_mutation() {
    let report = json(&["cover", "--behaviours", "-o", "json", "fixtures/cover/mutation"]);
    let mut shown = String::new();
    for policy in list(&report["suites"][0], "policies") {
        let _ = writeln!(shown, "{}", text(&policy["name"]));
        for behaviour in list(policy, "behaviours") {
            let mark = if behaviour["exercised"] == true {
                "exercised"
            } else {
                "missing"
            };
            let _ = writeln!(shown, "  {mark}: {}", text(&behaviour["text"]));
        }
    }
    insta::assert_snapshot!("behaviours-of-mutation", shown);
    let fates = |name: &str| {
        let mut policies = list(&report["suites"][0], "policies");
        let policy = policies.find(|policy| policy["name"] == name).expect("the policy");
        let fates = list(policy, "behaviours").map(|behaviour| text(&behaviour["fate"]).to_owned());
        fates.collect::<std::collections::BTreeSet<String>>()
    };
    let teams = fates("teams");
    for fate in ["not matched", "changed", "left unchanged", "skipped"] {
        assert!(teams.contains(fate), "{fate}: {teams:?}");
    }
    let owners = fates("owners");
    for fate in [
        "not matched",
        "changed",
        "left unchanged",
        "denied because the mutation fails",
    ] {
        assert!(owners.contains(fate), "{fate}: {owners:?}");
    }
}

#[test]
fn behaviours_for_people() {
    let args = ["cover", "--behaviours", "fixtures/cover/behaviours"];
    insta::assert_snapshot!("behaviours", shown(&kyvtest(&args)));
    let markdown = kyvtest(&[&args[..], &["--format", "markdown"]].concat());
    insta::assert_snapshot!("behaviours-markdown", shown(&markdown));
    let report = json(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(report["kind"], "behaviours");
    for suite in list(&report, "suites") {
        for behaviour in list(suite, "policies").flat_map(|policy| list(policy, "behaviours")) {
            assert!(
                behaviour["exercised"] == true || behaviour["witness"].is_object(),
                "{behaviour}"
            );
        }
    }
}

/// A directory of this test alone, empty.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cover-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("it can be made");
    directory
}

fn copy(from: &str, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
    for entry in fs::read_dir(from).expect("it can be read") {
        let entry = entry.expect("it can be read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("it can be copied");
    }
}

#[test]
fn what_is_filled_in_is_green_and_exercises_everything() {
    for suite in [
        "fixtures/cover/behaviours",
        "fixtures/cover/lookups",
        "suites/exclude",
        "suites/match-constraints",
        "suites/user-info",
    ] {
        let directory = scratch(&format!("fill-{}", suite.replace('/', "-")));
        copy(suite, &directory);
        let at = directory.display().to_string();
        let proposed = kyvtest(&["fill", &at]);
        assert_eq!(proposed.status.code(), Some(0), "{}", shown(&proposed));
        let names = String::from_utf8_lossy(&proposed.stdout).into_owned();
        assert!(
            !names.is_empty()
                && names
                    .lines()
                    .all(|name| Path::new(name).extension().is_some_and(|end| end == "new")),
            "{names}"
        );
        let before = kyvtest(&["list", &at]).stdout;
        let written = kyvtest(&["fill", "--write", &at]);
        assert_eq!(written.status.code(), Some(0), "{}", shown(&written));
        let ran = kyvtest(&["run", &at]);
        assert_eq!(ran.status.code(), Some(0), "{}", shown(&ran));
        assert!(kyvtest(&["list", &at]).stdout.len() > before.len(), "{suite}");
        // Directories from an earlier run are left unchanged.
        let contents = || {
            let files = String::from_utf8_lossy(&written.stdout).into_owned();
            files.lines().map(|file| fs::read(file).ok()).collect::<Vec<_>>()
        };
        let earlier = contents();
        kyvtest(&["fill", "--write", &at]);
        assert!(earlier.iter().all(Option::is_some) && contents() == earlier, "{suite}");
    }
}

#[test]
fn a_run_reports_proofs() {
    let args = ["fixtures/cover/behaviours", "--prove", "--now", "2026-11-16T00:00:00Z"];
    insta::assert_snapshot!("prove-human", shown(&kyvtest(&[&["run"], &args[..]].concat())));
    let report = json(&[&["run", "-o", "json"], &args[..]].concat());
    let proof = &report["suites"][0]["proofs"][0];
    assert_eq!(proof["policy"]["name"], "apps-have-owners");
    assert!(proof["label"].is_string() && proof["world"].is_string(), "{proof}");
    let plain = json(&["run", "-o", "json", "fixtures/cover/behaviours"]);
    assert_eq!(plain["suites"][0]["proofs"], Value::Array(Vec::new()));
    for (format, wanted) in [
        ("junit", "proof:apps-have-owners"),
        ("markdown", "## Proofs"),
        ("html", "class=\"proofs\""),
    ] {
        let output = kyvtest(&[&["run", "-o", format], &args[..]].concat());
        assert!(String::from_utf8_lossy(&output.stdout).contains(wanted), "{format}");
    }
    let page = kyvtest(&["run", "-o", "html", "--coverage", "fixtures/cover/known"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains("<b>coverage 63.6 %</b> ports"));
}
