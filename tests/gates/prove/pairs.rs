//! Pairs of policies with different sources: those with a known truth (`golden/prove-cel`) must not be decided wrongly,
//! and those of the corpus must be decided without a contradiction between proofs and engines.
//!
//! The first go through the command's own entry, `prove --pairs`, so that its format is tested as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use kyvtest::{
    kube::Discovery,
    policy::{Loaded, Policy, Purpose},
    prove::{
        Label,
        body::{Comparison, Options, Side, compare_sides},
        server::Data,
    },
};
use rayon::prelude::*;
use serde_json::Value;

use super::add;
use crate::support::{Gate, jsonl, print_count, read, shared};

/// How many rows of each class are decided at least.
const DECIDED: [(&str, usize); 4] = [("M", 290), ("B", 99), ("S", 57), ("X", 42)];

/// The results of `prove --pairs` for the pairs of a file.
fn answers(path: &Path) -> Vec<Value> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["prove", "--delete", "named", "--now", "2026-06-01T00:00:00Z"])
        // Many requests are tried against each proof.
        .args(["--paranoid", "--pairs"])
        .arg(path)
        .output()
        .expect("the command runs");
    // A contradiction between a proof and the engines is another code.
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines();
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A selection of the pairs with a known truth, all of them decided.
#[test]
fn own_pairs_are_decided() {
    let path = crate::support::fixture("prove/body/pairs.jsonl");
    let rows: Vec<Value> = jsonl(&path);
    let answers = answers(&path);
    assert_eq!(answers.len(), rows.len(), "one line for each pair");
    let gate = Gate {
        name: "prove-own-pairs",
        rows: 340,
    };
    let pairs: Vec<(Value, Value)> = rows.into_iter().zip(answers).collect();
    gate.run(
        &pairs,
        |(row, _)| row["id"].as_str().unwrap_or_default().to_owned(),
        |(row, answer)| match (answer["label"].as_str(), row["truth"].as_str()) {
            (Some("PROVEN"), Some("equal")) | (Some("REFUTED"), Some("differs")) => Ok(()),
            (label, truth) => Err(format!("{label:?}, truth {truth:?}: {}", answer["reason"])),
        },
    );
}

/// Pairs that differ in ways that are easily missed: large numbers, quantifiers over a list nested in one over the same
/// list, lists of lists, lookups of other objects; and equal pairs next to them.
#[test]
fn pairs_that_differ_are_refuted() {
    let path = crate::support::fixture("prove/body/differs.jsonl");
    let rows: Vec<Value> = jsonl(&path);
    let answers = answers(&path);
    assert_eq!(answers.len(), rows.len(), "one line for each pair");
    for (row, answer) in rows.iter().zip(&answers) {
        assert_eq!(row["id"], answer["id"]);
        assert_eq!(row["label"], answer["label"], "{}: {}", row["id"], answer["reason"]);
    }
}

#[test]
fn no_pair_is_decided_wrongly() {
    let Some(path) = shared("golden/prove-cel/pairs.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let answers = answers(&path);
    assert_eq!(answers.len(), rows.len(), "one line for each pair");
    let pairs: Vec<(&Value, &Value)> = rows.iter().zip(&answers).collect();
    let mut decided: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, answer) in &pairs {
        let class = row["class"].as_str().unwrap_or_default();
        *all.entry(class).or_default() += 1;
        let right = match answer["label"].as_str().unwrap_or_default() {
            "PROVEN" => row["truth"] == "equal",
            "REFUTED" => row["truth"] == "differs",
            _ => false,
        };
        *decided.entry(class).or_default() += usize::from(right);
    }
    for (class, count) in &all {
        print_count(&format!("gate prove-cel {class}: {}/{count} decided", decided[class]));
    }
    let gate = Gate {
        name: "prove-cel",
        rows: 498,
    };
    let id = |(row, _): &(&Value, &Value)| row["id"].as_str().unwrap_or_default().to_owned();
    gate.run(&pairs, id, |(row, answer)| {
        let (label, truth) = (&answer["label"], &row["truth"]);
        if row["id"] != answer["id"] {
            return Err("the lines are out of order".to_owned());
        }
        if label == "PROVEN" && truth != "equal" || label == "REFUTED" && truth != "differs" {
            return Err(format!("{label}, but the truth is {truth}"));
        }
        Ok(())
    });
    for (class, least) in DECIDED {
        let own = decided.get(class).copied().unwrap_or_default();
        assert!(
            own >= least,
            "only {own} rows of class {class} are decided, not {least}"
        );
    }
}

/// The policies of a directory of the corpus that has exactly one, by the directory's place.
fn policies(root: &Path) -> BTreeMap<String, Loaded> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| !name.to_string_lossy().starts_with('.'))
            })
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let mut loaded = Loaded::default();
            add(&mut loaded, &read(&path), Purpose::Policies);
            let name = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
            if loaded.policies.len() == 1 && loaded.policies.iter().all(Policy::validates) {
                found.entry(name).or_insert(loaded);
            }
        }
    }
    found
}

/// The pairs of policies in directories whose names end in two words, by name.
pub(super) fn folder_pairs(root: &Path, from: &str, to: &str) -> Vec<(String, Loaded, Loaded)> {
    let folders: BTreeSet<String> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    let mut pairs: Vec<(String, Loaded, Loaded)> = Vec::new();
    for folder in &folders {
        let plain = ["-cel", "-vpol", "-mpol", "-gpol", "-ivpol", "-dpol"];
        let Some(stem) = folder.strip_suffix(from) else {
            continue;
        };
        if from.is_empty() && plain.iter().any(|end| folder.ends_with(end)) {
            continue;
        }
        let other = format!("{stem}{to}");
        if !folders.contains(&other) {
            continue;
        }
        let mut theirs = policies(&root.join(&other));
        for (name, ours) in policies(&root.join(folder)) {
            if let Some(theirs) = theirs.remove(&name) {
                pairs.push((format!("{stem}/{name}"), ours, theirs));
            }
        }
    }
    pairs
}

/// Compares the policies of folders whose names end in two words; many requests are tried against each proof.
fn compare_folders(root: &Path, from: &str, to: &str, data: Data) -> Vec<(String, Result<Comparison, String>)> {
    let pairs = folder_pairs(root, from, to);
    let discovery = Discovery::kubernetes();
    let options = Options {
        collections: false,
        checks: Options::THOROUGH,
        data,
        ..Options::default()
    };
    pairs
        .par_iter()
        .map(|(name, ours, theirs)| {
            let side = |loaded: &Loaded| Side::new(loaded.clone(), Vec::new(), &discovery);
            let found = match (side(ours), side(theirs)) {
                (Ok(a), Ok(b)) => compare_sides(&a, &b, &discovery, &options),
                (Err(reason), _) | (_, Err(reason)) => return (name.clone(), Err(reason)),
            };
            assert!(!found.fault, "{name}: {}", found.reason);
            (name.clone(), Ok(found))
        })
        .collect()
}

/// Whether a refutation is about the resources that both policies name: neither a subresource nor what autogen adds.
fn is_about_expressions(found: &Comparison) -> bool {
    let Some(example) = &found.counterexample else {
        return false;
    };
    let resource = &example.scenario().request.resource;
    let controllers = [
        "Deployment",
        "DaemonSet",
        "StatefulSet",
        "ReplicaSet",
        "Job",
        "CronJob",
        "ReplicationController",
    ];
    resource.subresource.is_empty() && !controllers.contains(&resource.kind.as_str())
}

/// Hand conversions that differ (`equivalence.md` §10.4), and whether they do on objects that an API server accepts.
const CONVERSIONS: [(&str, bool); 12] = [
    ("require-probes", true),
    ("require-ro-rootfs", true),
    ("require-pod-requests-limits", true),
    ("restrict-clusterrole-nodesproxy", false),
    ("restrict-node-label-creation", false),
    ("restrict-node-port", false),
    ("block-ephemeral-containers", false),
    ("restrict-service-external-ips", false),
    ("disallow-selinux", false),
    ("disallow-capabilities-strict", false),
    ("disallow-all-secrets", false),
    ("disallow-secrets-from-env-vars", false),
];

#[test]
fn conversions_that_differ_are_refuted() {
    let Some(root) = shared("corpus/policies") else {
        return;
    };
    let accepted = compare_folders(&root, "-cel", "-vpol", Data::Normalised);
    let raw = compare_folders(&root, "-cel", "-vpol", Data::Raw);
    let mut present = 0;
    for (name, differs) in CONVERSIONS {
        let of = |found: &[(String, Result<Comparison, String>)]| {
            let own = found.iter().find(|(own, _)| own.ends_with(&format!("/{name}")));
            own.and_then(|(_, found)| found.as_ref().ok().cloned())
        };
        let (Some(accepted), Some(raw)) = (of(&accepted), of(&raw)) else {
            continue;
        };
        present += 1;
        let refuted = matches!(accepted.label, Label::Refuted(_)) && is_about_expressions(&accepted);
        assert_eq!(refuted, differs, "{name}: {:?}", accepted.label);
        assert!(
            matches!(raw.label, Label::Refuted(_)),
            "{name} on any objects: {:?}",
            raw.label
        );
    }
    print_count(&format!("gate prove-conversions: {present}/{present} as expected"));
    assert!(present >= 6, "only {present} of the conversions are there");
}

#[test]
fn pairs_of_the_corpus_are_decided() {
    let Some(root) = shared("corpus/policies") else {
        return;
    };
    let mut requests = 0;
    for (from, to, least) in [("-cel", "-vpol", 48), ("", "-cel", 49), ("", "-vpol", 53)] {
        let found = compare_folders(&root, from, to, Data::Normalised);
        let count = found.len();
        let mut decided = 0;
        for (name, found) in &found {
            match found {
                Ok(found) if found.label == Label::Proven => {
                    decided += 1;
                    requests += found.requests;
                }
                Ok(found) if matches!(found.label, Label::Refuted(_)) => decided += 1,
                Ok(found) => print_count(&format!("  {name}: {} {}", found.label.as_str(), found.reason)),
                Err(reason) => print_count(&format!("  {name}: {reason}")),
            }
        }
        print_count(&format!(
            "gate prove-corpus X{from} and X{to}: {decided}/{count} decided"
        ));
        assert!(
            decided >= least,
            "only {decided} pairs of X{from} and X{to} are decided, not {least}"
        );
    }
    // A request that contradicts a proof is a fault, which `compare_folders` does not accept.
    print_count(&format!(
        "gate prove-search: {requests} requests against proofs, no difference"
    ));
    assert!(
        requests >= 100_000,
        "only {requests} requests were tried against proofs"
    );
}
