//! Every command sees the same policies and the same cluster: identity across namespaces, scopes of custom kinds,
//! rejected policies, bindings without a policy, exit codes.

use std::process::{Command, Output, Stdio};

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

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

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
    let folder = "fixtures/one-way/identity";
    let changed = format!("{folder}/changed.yaml");
    let output = kyvtest(&["diff", "--from", folder, "--to", &changed, "-o", "json"]);
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
