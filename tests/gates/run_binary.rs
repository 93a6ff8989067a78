//! Rows of the Kyverno gates through the binary: `kyvtest run` shows the library's results.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Gate, id, jsonl, shared, text};

fn run(folder: &Path, args: &[&str]) -> Result<Value, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["run", "-o", "json", "--now", "2026-11-16T00:00:00Z"])
        .args(args)
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn cases(report: &Value) -> impl Iterator<Item = &Value> {
    let suites = report["suites"].as_array().into_iter().flatten();
    suites.flat_map(|suite| suite["cases"].as_array().into_iter().flatten())
}

/// Every nth row, up to ten.
fn ten<T>(rows: Vec<T>) -> Vec<T> {
    let step = (rows.len() / 10).max(1);
    rows.into_iter().step_by(step).take(10).collect()
}

/// A live row as a suite: policy, object, user and namespaces as files.
fn suite_of(row: &Value) -> PathBuf {
    let id = text(row, "id").replace('/', "-");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live").join(id);
    fs::create_dir_all(&folder).expect("a scratch folder");
    let write = |name: &str, value: &Value| fs::write(folder.join(name), value.to_string()).expect("a file");
    write("policy.yaml", &row["policies"][0]);
    write("resource.yaml", row.get("seen").unwrap_or(&row["request"]["object"]));
    write(
        "user.yaml",
        &json!({"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "UserInfo", "userInfo": row["request"]["userInfo"]}),
    );
    let namespaces = row["namespaces"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, labels)| {
            let mut labels = labels.clone();
            labels["kubernetes.io/metadata.name"] = json!(name);
            json!({"name": name, "labels": labels})
        });
    write(
        "kyverno-test.yaml",
        &json!({
            "apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Test", "metadata": {"name": "row"},
            "policies": ["policy.yaml"], "resources": ["resource.yaml"], "userinfo": "user.yaml",
            "values": {"namespaceSelector": namespaces.collect::<Vec<_>>()},
            "results": [{"policy": text(&row["policies"][0]["metadata"], "name"), "kind": "Any", "result": "pass"}],
        }),
    );
    folder
}

/// Rows that a suite can express as it is: one policy, one new object of a kind that Kubernetes serves.
fn expressible(row: &Value) -> bool {
    let none = |key: &str| row[key].as_array().is_none_or(Vec::is_empty);
    let object = &row["request"]["object"];
    row["observed"]["allowed"].is_boolean()
        && text(row, "config") == "bare"
        && row["policies"].as_array().is_some_and(|policies| policies.len() == 1)
        && none("exceptions")
        && none("params")
        && none("rbac")
        && row["request"]["operation"] == "CREATE"
        && text(&row["request"], "subResource").is_empty()
        && matches!(text(object, "kind"), "ConfigMap" | "Pod" | "Deployment" | "Service")
        && !text(&object["metadata"], "name").is_empty()
        && !text(row, "id").starts_with("authz")
}

#[test]
fn live_rows_as_suites() {
    let Some(path) = shared("golden/kyverno-live/vectors.jsonl") else {
        return;
    };
    let mut rows: Vec<Value> = jsonl(&path);
    rows.retain(expressible);
    let (refused, admitted): (Vec<Value>, Vec<Value>) = rows
        .into_iter()
        .partition(|row| row["observed"]["allowed"] == json!(false));
    let rows: Vec<Value> = ten(refused).into_iter().chain(ten(admitted)).collect();
    Gate::new("kyverno-live-binary", 20).run(&rows, id, |row| {
        let report = run(&suite_of(row), &[])?;
        let denial = cases(&report).find(|case| case["kyverno"]["effect"] == "deny");
        let observed = &row["observed"];
        if denial.is_none() != observed["allowed"].as_bool().unwrap_or_default() {
            return Err(format!("{report}; observed {observed}"));
        }
        let message = denial.map_or("", |case| text(&case["kyverno"], "message"));
        if text(observed, "message").contains(message) {
            Ok(())
        } else {
            Err(format!("{message:?}; observed {observed}"))
        }
    });
}

#[test]
fn suites_of_the_corpus() {
    let (Some(path), Some(corpus)) = (shared("golden/kyverno-cli/checks.jsonl"), shared("corpus")) else {
        return;
    };
    let checks: Vec<Value> = jsonl(&path);
    let cel = checks.iter().map(|check| text(check, "suite"));
    let cel = cel.filter(|suite| suite.contains("-cel/") || suite.contains("-vpol/"));
    let suites: BTreeSet<&str> = cel.collect();
    let suites = ten(suites.into_iter().collect());
    Gate::new("kyverno-cli-binary", 10).run(
        &suites,
        |suite| (*suite).to_owned(),
        |suite| {
            let folder = corpus.join(suite);
            let report = run(folder.parent().unwrap_or(&folder), &["--compat"])?;
            for check in checks
                .iter()
                .filter(|check| text(check, "suite") == *suite && check["unstable"] != json!(true))
            {
                let same = cases(&report).any(|case| {
                    let of = &case["resource"];
                    let key = ["apiVersion", "kind", "namespace", "name"]
                        .map(|key| text(of, key))
                        .join(",");
                    case["row"] == check["row"]
                        && key == text(check, "key")
                        && text(case, "outcome") == text(check, "result")
                        && text(case, "reason") == text(check, "reason")
                });
                let excluded = text(check, "reason") == "Excluded";
                if !same && !excluded {
                    return Err(format!("no case for {check}"));
                }
            }
            Ok(())
        },
    );
}
