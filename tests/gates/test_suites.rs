//! Whole suites through `kyvtest run --compat`, compared with the output of `kyverno test`: `golden/mutate/test.jsonl`
//! and `golden/generate/test.jsonl`.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Gate, id, jsonl, shared, text};

/// Policy, rule, resource, result and reason of a printed line.
type Line = [String; 5];

fn folder(row: &Value) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("test-suites")
        .join(text(row, "id"));
    for (name, content) in row["files"].as_object().into_iter().flatten() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a scratch folder");
        fs::write(path, content.as_str().unwrap_or_default()).expect("a file");
    }
    folder
}

fn check(row: &Value) -> Result<(), String> {
    let args = row["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .current_dir(folder(row))
        .args(["run", "--compat", "-o", "json", "--now", "2026-11-16T12:00:00Z", "."])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let code = output.status.code().unwrap_or(-1);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let observed = &row["observed"];
    let expected = observed["exit"].as_i64().unwrap_or_default();
    let lost = observed.get("panic").is_some() || expected == 2;
    if lost {
        // Upstream panics: no verdict, and an error of our own.
        return if code != 0 && stderr.contains("[KT") {
            Ok(())
        } else {
            Err(format!("exit code {code} where upstream panics; {stderr}"))
        };
    }
    if i64::from(code) != expected {
        return Err(format!("exit code {code}, expected {expected}: {observed}; {stderr}"));
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let (mut ours, mut theirs) = (printed(&report), lines(observed));
    if row["args"].to_string().contains("--fail-only") {
        ours.retain(|line| line[3] == "Fail");
    }
    ours.sort();
    theirs.sort();
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("ours {ours:?}, theirs {theirs:?}; {stderr}"))
    }
}

fn lines(observed: &Value) -> Vec<Line> {
    let rows = observed["rows"].as_array().into_iter().flatten();
    rows.map(|line| ["policy", "rule", "resource", "result", "reason"].map(|key| text(line, key).to_owned()))
        .collect()
}

fn printed(report: &Value) -> Vec<Line> {
    let suites = report["suites"].as_array().into_iter().flatten();
    let cases = suites.flat_map(|suite| suite["cases"].as_array().into_iter().flatten());
    cases
        .filter(|case| case["outcome"] != "")
        .map(|case| {
            let of = &case["resource"];
            let parts = ["apiVersion", "kind", "namespace", "name"].map(|key| text(of, key));
            let resource = if of["kind"].is_null() && parts[3].contains('/') {
                parts[3].to_owned()
            } else if of["kind"].is_null() {
                format!("/{}", parts[3])
            } else {
                parts.join("/")
            };
            let own = |key: &str| text(case, key).to_owned();
            [own("policy"), own("rule"), resource, own("outcome"), own("reason")]
        })
        .collect()
}

fn gate(name: &str, path: &str, rows: usize) {
    let Some(path) = shared(path) else {
        return;
    };
    let list: Vec<Value> = jsonl(&path);
    Gate { name, rows }.run(&list, id, check);
}

#[test]
fn mutation() {
    gate("mutate-test", "golden/mutate/test.jsonl", 137);
}

#[test]
fn generation_deletion_images_and_payloads() {
    gate("generate-test", "golden/generate/test.jsonl", 330);
}
