//! `prove A --to B`, `prove --pairs`, `diff --prove` and `run --prove --to` with policies of different texts: explanations,
//! suggested edits, options and exit codes.

use std::{fs, process::Output};

use serde_json::{Value, json};

use crate::{
    program::{json, kyvtest},
    schema::problems,
};

const BEFORE: &str = "examples/rewrite/before.yaml";
const AFTER: &str = "examples/rewrite/after.yaml";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file in the directory for tests.
fn written(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the file is written");
    path.display().to_string()
}

#[test]
fn the_fixed_example_is_the_suggested_one() {
    let output = kyvtest(&["prove", BEFORE, "--to", AFTER, "-o", "json"]);
    let suggestion = &json(&output)["proofs"][0]["explanation"]["suggestion"];
    let diff = suggestion["diff"].as_str().expect("a diff");
    let after = fs::read_to_string(AFTER).expect("the example");
    let mut fixed = after.clone();
    let lines = |sign: char| {
        diff.lines()
            .filter(move |line| line.starts_with(sign) && !line.starts_with("---") && !line.starts_with("+++"))
    };
    for (old, new) in lines('-').zip(lines('+')) {
        fixed = fixed.replace(&old[1..], &new[1..]);
    }
    assert_ne!(fixed, after);
    assert_eq!(
        fs::read_to_string("examples/rewrite/fixed.yaml").expect("the example"),
        fixed
    );
}

/// Every suggested edit of a file of pairs makes its pair PROVEN when it is compared again, and every line conforms to
/// the schema.
#[test]
fn suggested_edits_are_proven() {
    let path = "fixtures/prove/explain/pairs.jsonl";
    let output = kyvtest(&["prove", "--pairs", path, "--delete", "named", "--explain"]);
    assert_eq!(output.status.code(), Some(0));
    let schema = json(&kyvtest(&["schema", "pairs"]));
    let rows = fs::read_to_string(path).expect("pairs");
    let mut again = String::new();
    for (row, line) in rows.lines().zip(text(&output).lines()) {
        let row: Value = serde_json::from_str(row).expect("a pair");
        let answer: Value = serde_json::from_str(line).expect("an answer");
        assert_eq!(problems(&schema, &answer), Vec::<String>::new(), "{}", row["id"]);
        let explanation = &answer["explanation"];
        assert_eq!(explanation["text"], row["text"], "{}", row["id"]);
        assert_eq!(explanation["suggestion"]["text"], row["edit"], "{}", row["id"]);
        for side in ["a", "b"] {
            assert_eq!(explanation[side]["path"], row["paths"][side], "{}", row["id"]);
        }
        if explanation["suggestion"].is_object() {
            let mut b = explanation["suggestion"]["objects"]
                .as_array()
                .cloned()
                .expect("objects");
            let kept = |object: &&Value| object["kind"] == "PolicyException";
            b.extend(row["b"].as_array().into_iter().flatten().filter(kept).cloned());
            again.push_str(&json!({"id": row["id"], "a": row["a"], "b": b}).to_string());
            again.push('\n');
        }
    }
    let file = written("suggested.jsonl", &again);
    let output = kyvtest(&["prove", "--pairs", &file, "--delete", "named"]);
    assert!(!again.is_empty() && output.status.code() == Some(0));
    for line in text(&output).lines() {
        let answer: Value = serde_json::from_str(line).expect("an answer");
        assert_eq!(answer["label"], "PROVEN", "{line}");
    }
}

#[test]
fn options_are_followed_or_refused() {
    let fixed = "examples/rewrite/fixed.yaml";
    let world = |args: &[&str]| {
        let output = kyvtest(&[&["prove", BEFORE, "--to", fixed, "-o", "json"], args].concat());
        json(&output)["proofs"][0].clone()
    };
    assert_eq!(world(&["--delete", "named"])["world"]["delete"], "named");
    assert_eq!(world(&["--layer", "rule"])["label"], "PROVEN");
    assert_eq!(world(&["--layer", "cluster"])["world"]["layer"], "cluster");
    let raw = world(&["--data", "raw"]);
    assert_eq!(
        (&raw["label"], &raw["witness"]["data"]),
        (&json!("REFUTED"), &json!("raw"))
    );
    let cut = world(&["--timeout", "0"]);
    assert_eq!(cut["label"], "UNKNOWN");
    assert!(
        cut["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("--timeout")),
        "{cut}"
    );
    let rows = fs::read_to_string("fixtures/prove/body/pairs.jsonl").expect("pairs");
    let row = rows
        .lines()
        .find(|row| row.contains("\"pc-m-annotation-prefix-04\""))
        .expect("a pair that takes several cases");
    let output = kyvtest(&["prove", "--pairs", &written("budget.jsonl", row), "--budget", "1"]);
    let cut = json(&output);
    assert_eq!(cut["label"], "UNKNOWN");
    assert!(
        cut["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("budget: "))
    );
    for refused in [
        &["--messages"][..],
        &["--warnings"],
        &["--kube", "1.37"],
        &["--output", "markdown"],
    ] {
        let output = kyvtest(&[&["prove", BEFORE, "--to", fixed], refused].concat());
        assert_eq!(output.status.code(), Some(2), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(refused[0]),
            "{refused:?}"
        );
    }
    let native = kyvtest(&["prove", BEFORE, "--delete", "named"]);
    assert_eq!(native.status.code(), Some(2));
    let idle = kyvtest(&["prove", BEFORE, "--to", fixed, "--kyverno-config", "chart"]);
    assert!(String::from_utf8_lossy(&idle.stderr).contains("`--kyverno-config` has no effect"));
}

#[test]
fn diff_proves_pairs_that_no_resource_distinguishes() {
    let refuted = kyvtest(&["diff", "--prove", "--from", BEFORE, "--to", AFTER]);
    assert_eq!(refuted.status.code(), Some(3));
    assert!(text(&refuted).contains("REFUTED  host-ports"), "{}", text(&refuted));
    let forgiven = kyvtest(&["diff", "--prove", "--exit-zero", "--from", BEFORE, "--to", AFTER]);
    assert_eq!(forgiven.status.code(), Some(0));
    let proven = kyvtest(&[
        "diff",
        "--prove",
        "--from",
        BEFORE,
        "--to",
        "examples/rewrite/fixed.yaml",
        "-o",
        "json",
    ]);
    assert_eq!(proven.status.code(), Some(0));
    assert_eq!(json(&proven)["pairs"][0]["proof"]["label"], "PROVEN");
    let plain = kyvtest(&["diff", "--from", BEFORE, "--to", AFTER]);
    assert_eq!(plain.status.code(), Some(4), "nothing is compared without resources");
}

#[test]
fn a_run_proves_replacements() {
    let run = |to: &str| {
        kyvtest(&[
            "run",
            "fixtures/prove/explain/suite",
            "--prove",
            "--to",
            to,
            "-o",
            "json",
        ])
    };
    let refuted = run(AFTER);
    assert_eq!(
        refuted.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&refuted.stderr)
    );
    let proof = &json(&refuted)["suites"][0]["proofs"][0];
    assert_eq!(
        (&proof["label"], &proof["kind"]),
        (&json!("REFUTED"), &json!("decision"))
    );
    let proven = run("examples/rewrite/fixed.yaml");
    assert_eq!(proven.status.code(), Some(0));
    assert_eq!(json(&proven)["suites"][0]["proofs"][0]["label"], "PROVEN");
    let missing = run("examples/migrate/team.yaml");
    assert_eq!(json(&missing)["suites"][0]["proofs"][0]["label"], "UNKNOWN");
}

/// As in `diff`: such a policy decides nothing, so that a label would say nothing about it.
#[test]
fn rejected_policies_of_a_run_are_errors_of_the_input() {
    let policy = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata:\n  name: teams\nspec:\n  \
                  matchConstraints:\n    resourceRules:\n    - apiGroups: ['']\n      apiVersions: [v1]\n      \
                  operations: [CREATE]\n      resources: [services]\n  validations:\n  - expression: object.spec ==\n";
    let to = written("rejected.yaml", policy);
    let output = kyvtest(&["run", "fixtures/cover/lookups", "--prove", "--to", &to]);
    assert_eq!(output.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(shown.contains("policy `teams` of `--to` is rejected"), "{shown}");
}
