//! Every command sees the same policies and the same cluster: identity across namespaces, scopes of custom kinds,
//! rejected policies, bindings without a policy, exit codes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::program::{code, json, kyvtest, stderr};

#[test]
fn policies_of_the_same_name_do_not_mix_their_verdicts() {
    let output = kyvtest(&["run", "fixtures/one-way/identity", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&output);
    let cases = report["suites"][0]["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2, "each row is about one policy: {report:#}");
}

#[test]
fn diff_pairs_policies_within_their_namespace() {
    let directory = "fixtures/one-way/identity";
    let changed = format!("{directory}/changed.yaml");
    let output = kyvtest(&["diff", "--from", directory, "--to", &changed, "-o", "json"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let report = json(&output);
    let pairs = report["pairs"].as_array().expect("pairs");
    let names: Vec<&str> = pairs.iter().filter_map(|pair| pair["from"].as_str()).collect();
    assert_eq!(names, ["a/team", "b/team"]);
    let differs = |pair: &Value| {
        let cases = pair["cases"].as_array().expect("cases");
        cases.iter().any(|case| case["class"] == "weaker")
    };
    let weaker: Vec<bool> = pairs.iter().map(differs).collect();
    assert_eq!(weaker, [false, true], "{report:#}");
}

#[test]
fn a_cluster_scoped_custom_kind_has_no_namespace() {
    let run = kyvtest(&[
        "run",
        "fixtures/one-way/scope",
        "--crds",
        "fixtures/one-way/scope/crds.yaml",
    ]);
    assert_eq!(code(&run), 0, "{}", String::from_utf8_lossy(&run.stdout));
    // `kyverno test` knows no such kind.
    let compat = kyvtest(&["run", "--compat", "fixtures/one-way/scope"]);
    assert_eq!(code(&compat), 1);
}

#[test]
fn diff_names_the_rejected_policy() {
    let (stored, broken) = (
        "fixtures/one-way/refused/stored.yaml",
        "fixtures/one-way/refused/broken.yaml",
    );
    let resources = "fixtures/one-way/refused/deployment.yaml";
    for (from, to, side) in [(stored, broken, "--to"), (broken, stored, "--from")] {
        let output = kyvtest(&["diff", "--from", from, "--to", to, "--resources", resources]);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(
            stderr(&output).contains(&format!("policy `replicas` of `{side}` is rejected")),
            "{}",
            stderr(&output)
        );
        assert!(!String::from_utf8_lossy(&output.stdout).contains("weaker"));
    }
}

#[test]
fn a_binding_without_its_policy_admits() {
    let output = kyvtest(&["eval", "--cases", "fixtures/one-way/binding.jsonl"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let line = json(&output);
    assert_eq!(line["vap"]["allowed"], true, "{line:#}");
    assert_eq!(line["kyverno"], Value::Null);
}

#[test]
fn the_exit_code_of_compat_does_not_depend_on_the_order_of_options() {
    let missing = "fixtures/one-way/nothing-here";
    for args in [
        ["run", "--compat", missing, "--color", "never"],
        ["--color", "never", "run", "--compat", missing],
    ] {
        let output = kyvtest(&args);
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
    }
}

/// The lines of `eval --cases`, each with its name and what both sides do.
fn evaluated(cases: &str) -> Vec<(String, bool, bool)> {
    let output = kyvtest(&["eval", "--cases", cases]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .map(|line| {
            let allowed = |side: &str| line[side]["allowed"].as_bool().unwrap_or_else(|| panic!("{line:#}"));
            let name = line["id"].as_str().expect("a name").to_owned();
            (name, allowed("kyverno"), allowed("vap"))
        })
        .collect()
}

#[test]
fn webhook_conditions_decide_alike_in_run_and_eval() {
    // Errors, ignored errors, and conditions that are guarded by kind.
    let run = kyvtest(&["run", "fixtures/one-way/webhook", "--engine", "kyverno"]);
    assert_eq!(code(&run), 0, "{}", String::from_utf8_lossy(&run.stdout));
    let lines = evaluated("fixtures/one-way/webhook.jsonl");
    let kyverno: Vec<(&str, bool)> = lines
        .iter()
        .map(|(name, allowed, _)| (name.as_str(), *allowed))
        .collect();
    let expected = [
        ("audited", false),
        ("ignored", true),
        ("guarded", true),
        ("dry-run", false),
        ("no-dry-run", true),
        ("subresource", false),
    ];
    assert_eq!(kyverno, expected);
}

#[test]
fn roles_of_the_cluster_count_in_run_and_eval() {
    let run = kyvtest(&["run", "fixtures/one-way/roles"]);
    assert_eq!(code(&run), 0, "{}", String::from_utf8_lossy(&run.stdout));
    assert_eq!(
        evaluated("fixtures/one-way/roles.jsonl"),
        [("roles".to_owned(), false, true)]
    );
}

#[test]
fn requests_that_the_configuration_filters_out_are_compared() {
    let output = kyvtest(&[
        "run",
        "fixtures/one-way/config",
        "--kyverno-config",
        "chart",
        "-o",
        "json",
    ]);
    let report = json(&output);
    let case = &report["suites"][0]["cases"][0];
    assert_eq!(case["kyverno"], Value::Null, "{case:#}");
    assert_eq!(case["vap"]["effect"], "deny", "{case:#}");
    assert_eq!(case["divergence"]["class"], "stricter", "{case:#}");
}

/// The exit code and the output of a proof.
fn proof(from: &str, to: &str) -> (i32, String) {
    let file = |name: &str| format!("fixtures/one-way/{name}");
    let output = kyvtest(&["prove", &file(from), "--to", &file(to)]);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    (code(&output), text)
}

#[test]
fn nothing_is_proven_about_policies_that_are_not_there() {
    let (code, text) = proof("proofs/rejected.yaml", "proofs/native.yaml");
    assert_eq!(code, 5, "{text}");
    assert!(
        text.contains("UNKNOWN") && text.contains("Kyverno rejects the policy"),
        "{text}"
    );
    let (code, text) = proof("config/policy.yaml", "config/resources.yaml");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("no ValidatingAdmissionPolicy in"), "{text}");
}

#[test]
fn proofs_follow_the_order_of_the_engines() {
    let cases = [
        // Preconditions come before exceptions, so their errors count.
        ("proofs/precondition.yaml", "proofs/nothing.yaml"),
        ("proofs/precondition.yaml", "proofs/idle.yaml"),
        // An exception for one control of the Pod Security Standards leaves the others.
        ("proofs/pod-security.yaml", "proofs/idle.yaml"),
        // A policy without actions denies.
        ("proofs/no-actions.yaml", "proofs/idle.yaml"),
        // A native policy that cannot be used admits if errors are ignored.
        ("proofs/no-actions.yaml", "proofs/misconfigured.yaml"),
    ];
    for (from, to) in cases {
        let (code, text) = proof(from, to);
        assert!(code == 3 && text.starts_with("REFUTED"), "{from} {to}: {code} {text}");
    }
}

/// What is outside of the cluster answers from mocks in lines of `eval`, as in suites.
#[test]
fn mocks_answer_lookups_in_eval() {
    let output = kyvtest(&["eval", "--cases", "fixtures/one-way/mocks.jsonl"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["kyverno"]["status"], "pass", "{line:#}");
    }
}

/// `eval` evaluates what neither mutates nor validates through the stages of `run`: the results are the same.
#[test]
fn other_kinds_have_the_results_of_suites_in_eval() {
    let output = kyvtest(&["eval", "--cases", "fixtures/one-way/kinds.jsonl"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut compared = 0;
    for suite in ["generation", "deletion", "image-mocks"] {
        let output = kyvtest(&["run", &format!("suites/{suite}"), "-o", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let cases = report["suites"][0]["cases"].as_array().expect("cases");
        for case in cases.iter().filter(|case| case["kyverno"].is_object()) {
            let of_case = |line: &&Value| {
                line["id"]["suite"] == suite
                    && line["id"]["resource"] == case["resource"]["name"]
                    && line["id"]["kind"] == case["resource"]["kind"]
            };
            let line = lines.iter().find(of_case).expect("a line of the resource");
            let own = line["kyverno"]["rules"].as_array().expect("rules").iter();
            let mut own = own.filter(|rule| rule["policy"] == case["policy"] && rule["rule"] == case["rule"]);
            // A refused request does not reach the policies behind the refusal.
            let refused = line["kyverno"]["allowed"] == false;
            let status = &case["kyverno"]["status"];
            let same = own.any(|rule| rule["status"] == *status);
            assert!(same || refused || status == "no-match", "{case:#}\n{line:#}");
            compared += usize::from(same);
        }
    }
    assert!(compared >= 14, "{compared} results were compared");
}

/// The stages of a request: images, validation, generation; and what only a registry can decide.
#[test]
fn stages_of_a_request() {
    let output = kyvtest(&["eval", "--cases", "fixtures/one-way/stages.jsonl"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut shown = String::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let kyverno = &line["kyverno"];
        let _ = writeln!(shown, "{}", line["id"].as_str().expect("a text"));
        for invalid in line["invalid"].as_array().expect("a list") {
            let _ = writeln!(shown, "  invalid: {invalid}");
        }
        if kyverno.is_null() {
            continue;
        }
        let [allowed, status, effect] = ["allowed", "status", "effect"].map(|key| &kyverno[key]);
        let _ = writeln!(shown, "  allowed {allowed}, status {status}, effect {effect}");
        for rule in kyverno["rules"].as_array().expect("a list") {
            let [policy, name, status] = ["policy", "rule", "status"].map(|key| rule[key].as_str().unwrap_or_default());
            let generated = rule["generated"].as_array().map_or(0, Vec::len);
            let mocked = if rule["mocked"] == true { ", mocked" } else { "" };
            let _ = writeln!(shown, "  {policy}/{name}: {status}, {generated} generated{mocked}");
        }
        if let Some(image) = kyverno["object"]["spec"]["containers"][0]["image"].as_str() {
            let _ = writeln!(shown, "  image {image}");
        }
    }
    insta::assert_snapshot!("stages-of-a-request", shown);
}

/// Without a mock for its image a request is not decided, and the command does not succeed.
#[test]
fn images_without_mocks_need_a_registry_in_eval() {
    let policy = "fixtures/first-hour/unsupported/policy.yaml";
    let object = "fixtures/first-hour/unsupported/resources.yaml";
    let output = kyvtest(&["eval", "--policy", policy, "--object", object, "-o", "json"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["kyverno"]["status"], "needs-registry");
    assert!(report["kyverno"]["allowed"].is_null(), "{report:#}");
    let mocks = "fixtures/one-way/image-mocks.yaml";
    let output = kyvtest(&[
        "eval", "--policy", policy, "--object", object, "--mocks", mocks, "-o", "json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["kyverno"]["status"], "pass", "{report:#}");
    assert_eq!(report["kyverno"]["rules"][0]["mocked"], true, "{report:#}");
}
