//! Pairs of policies with different texts, whose truth is known (`golden/prove-cel`): no answer may be wrong, and how many are
//! decided must not sink.
//!
//! The rows go through the command's own entry, `prove --pairs`, so that its format is tested as well.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{jsonl, shared, tell};

/// How many rows of each class are decided at least.
const DECIDED: [(&str, usize); 4] = [("M", 280), ("B", 92), ("S", 24), ("X", 12)];

#[test]
fn no_answer_about_a_pair_is_wrong() {
    let Some(path) = shared("golden/prove-cel/pairs.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["prove", "--delete", "named", "--now", "2026-06-01T00:00:00Z", "--pairs"])
        .arg(&path)
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), rows.len(), "one line for each pair");
    let mut wrong = Vec::new();
    let mut decided: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, answer) in rows.iter().zip(&answers) {
        assert_eq!(row["id"], answer["id"]);
        let class = row["class"].as_str().unwrap_or_default();
        *all.entry(class).or_default() += 1;
        let label = answer["label"].as_str().unwrap_or_default();
        match (label, row["truth"].as_str().unwrap_or_default()) {
            ("PROVEN", "equal") | ("REFUTED", "differs") => *decided.entry(class).or_default() += 1,
            ("PROVEN" | "REFUTED", truth) => wrong.push(format!("{} is {label}, and is {truth}", row["id"])),
            _ => {}
        }
    }
    for (class, count) in &all {
        let own = decided.get(class).copied().unwrap_or_default();
        tell(&format!(
            "gate prove-cel {class}: {own}/{count} decided, {} wrong",
            wrong.len()
        ));
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (class, least) in DECIDED {
        let own = decided.get(class).copied().unwrap_or_default();
        assert!(
            own >= least,
            "only {own} rows of class {class} are decided, not {least}"
        );
    }
}
