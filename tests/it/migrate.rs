//! `kyvtest migrate` on a directory with test files: the new files pass as the old ones did.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::program::kyvtest;

const SUITE: &str = "fixtures/migrate/suite";

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn directories_with_test_files_are_rewritten_as_a_whole() {
    let folder = scratch("migrate-suite");
    let out = folder.to_string_lossy();
    let migrated = kyvtest(&["migrate", SUITE, "--out", &out]);
    assert_eq!(
        migrated.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&migrated.stderr)
    );
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the new files")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["exception.yaml", "kyverno-test.yaml", "policy.yaml", "resources.yaml"]
    );
    let policies = fs::read_to_string(folder.join("policy.yaml")).expect("policies");
    assert!(policies.contains("kind: ValidatingPolicy") && !policies.contains("ClusterPolicy"));
    let run = kyvtest(&["run", &out]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stdout));
    // Nothing is overwritten.
    assert_eq!(kyvtest(&["migrate", SUITE, "--out", &out]).status.code(), Some(2));
    let forced = kyvtest(&["migrate", SUITE, "--out", &out, "--force"]);
    assert_eq!(forced.status.code(), Some(0));
}

#[test]
fn operations_of_values_become_those_of_rows() {
    let folder = scratch("migrate-operations");
    let out = folder.to_string_lossy();
    let migrated = kyvtest(&["migrate", "fixtures/migrate/operations", "--out", &out]);
    assert_eq!(
        migrated.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&migrated.stderr)
    );
    let test = fs::read_to_string(folder.join("kyverno-test.yaml")).expect("a test file");
    assert_eq!(test.matches("operation: UPDATE").count(), 1, "{test}");
    let run = kyvtest(&["run", &out]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn json_names_exceptions_and_test_files() {
    let output = kyvtest(&["migrate", SUITE, "-o", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["exceptions"][0]["object"]["apiVersion"], "policies.kyverno.io/v1");
    assert_eq!(json["exceptions"][0]["remaining"], Value::Array(Vec::new()));
    assert_eq!(json["suites"][0]["file"], format!("{SUITE}/kyverno-test.yaml"));
    assert_eq!(json["suites"][0]["changed"], true);
    assert_eq!(json["suites"][0]["notes"].as_array().map(Vec::len), Some(2));
}

fn names(args: &[&str]) -> Vec<Vec<String>> {
    let output = kyvtest(args);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rules = json["policies"][0]["rules"].as_array().expect("rules");
    let texts = |rule: &Value| -> Vec<String> {
        let objects = rule["objects"].as_array().into_iter().flatten();
        objects.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    rules.iter().map(texts).collect()
}

#[test]
fn rules_share_a_policy_unless_it_is_split_or_an_exception_names_some_of_them() {
    let folder = "fixtures/migrate/shared-policy-exception";
    let policy = format!("{folder}/policy.yaml");
    assert_eq!(names(&["migrate", &policy, "-o", "json"]), [["service-basics"]; 3]);
    let apart = [
        ["service-basics-require-team"],
        ["service-basics-no-node-ports"],
        ["service-basics-no-external-ips"],
    ];
    assert_eq!(names(&["migrate", &policy, "--split", "-o", "json"]), apart);
    assert_eq!(names(&["migrate", folder, "-o", "json"]), apart);
}

#[test]
fn the_readme_shows_the_policy_before() {
    let page = fs::read_to_string("README.md").expect("the README");
    let rule = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let policy = fs::read_to_string("examples/migrate/team.yaml").expect("the example");
    assert!(rule.is_some_and(|rule| policy.ends_with(rule)), "{rule:?}");
}
