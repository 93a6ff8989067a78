//! Proofs about objects: recorded differences between Kyverno and the API server refute every proof, and the classic policies of
//! the corpus are compared with the MutatingPolicies that replace them.

use std::collections::BTreeMap;

use kyvtest::{
    convert::Exceptions,
    kube::Discovery,
    policy::{Loaded, Policy, Purpose},
    prove::{
        Label, Options,
        body::{
            self, Setting,
            mutation::{MutatingSide, compare_loaded},
        },
        mutation::prove_mutating,
    },
};
use rayon::prelude::*;
use serde_json::Value;

use super::add;
use crate::support::{Gate, jsonl, print_count, read, shared};

/// A policy with its exceptions, and whether recorded requests were answered differently.
struct Recorded {
    id: String,
    loaded: Loaded,
    differs: bool,
}

fn recorded(rows: &[Value]) -> Vec<Recorded> {
    let mut all: BTreeMap<String, Recorded> = BTreeMap::new();
    for row in rows {
        let policies = row["policies"].as_array().filter(|policies| policies.len() == 1);
        let (Some(policies), Some(pair)) = (policies, row["pair"].as_str()) else {
            continue;
        };
        let key = format!("{}{}", policies[0], row["exceptions"]);
        let own = all.entry(key).or_insert_with(|| {
            let mut loaded = Loaded::default();
            add(&mut loaded, &policies[0].to_string(), Purpose::Policies);
            for exception in row["exceptions"].as_array().into_iter().flatten() {
                add(&mut loaded, &exception.to_string(), Purpose::Exceptions);
            }
            Recorded {
                id: row["id"].as_str().unwrap_or_default().to_owned(),
                loaded,
                differs: false,
            }
        });
        own.differs |= pair == "differs";
    }
    all.into_values().collect()
}

#[test]
fn recorded_differences_are_never_proven_away() {
    let Some(path) = shared("golden/map/live.jsonl") else {
        return;
    };
    let rows = recorded(&jsonl::<Value>(&path));
    let discovery = Discovery::kubernetes();
    let gate = Gate {
        name: "prove-mutation-live",
        rows: 200,
    };
    let check = |row: &Recorded| {
        let Some(policy) = row.loaded.policies.first() else {
            return Ok(());
        };
        let exceptions = Exceptions {
            classic: &row.loaded.exceptions,
            cel: &row.loaded.cel_exceptions,
        };
        let proof = prove_mutating(policy, exceptions, None, &discovery, &Options::default(), None);
        match proof.label {
            _ if proof.fault => Err(format!("the engines contradict a proof: {}", proof.reason)),
            Label::Proven if row.differs => Err("PROVEN, but a recorded request is answered differently".to_owned()),
            _ => Ok(()),
        }
    };
    gate.run(&rows, |row| row.id.clone(), check);
}

/// The policies of a folder, by the folder below it.
fn policies(root: &std::path::Path) -> BTreeMap<String, Loaded> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut loaded = Loaded::default();
        let file = entry.path().join(format!("{name}.yaml"));
        if file.is_file() {
            add(&mut loaded, &read(&file), Purpose::Policies);
        }
        if loaded.policies.len() == 1 && MutatingSide::concerns(&loaded) {
            found.insert(name, loaded);
        }
    }
    found
}

#[test]
fn mutate_rules_and_the_policies_that_replace_them() {
    let Some(root) = shared("corpus/policies") else {
        return;
    };
    let mut pairs: Vec<(String, Loaded, Loaded)> = Vec::new();
    for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = folder.strip_suffix("-mpol") else {
            continue;
        };
        let mut ours = policies(&root.join(stem));
        for (name, theirs) in policies(&entry.path()) {
            if let Some(ours) = ours.remove(&name) {
                pairs.push((format!("{stem}/{name}"), ours, theirs));
            }
        }
    }
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    let discovery = Discovery::kubernetes();
    let lines: Vec<(String, bool)> = pairs
        .par_iter()
        .map(|(name, ours, theirs)| {
            let sides = [ours, theirs].map(|loaded| (loaded.clone(), Vec::new()));
            let options = body::Options::default();
            let found = compare_loaded(sides, &[], &discovery, &Setting::default(), &options);
            assert!(!found.fault, "{name}: {}", found.reason);
            let why = found.counterexample.as_ref().map_or(found.reason.clone(), |example| {
                format!("{}: {}", example.class(), example.text(["the rule", "the policy"]))
            });
            let known = matches!(found.label, Label::Proven | Label::Refuted(_) | Label::Tested { .. });
            (format!("{} | {name} | {why}", found.label.as_str()), known)
        })
        .collect();
    let known = lines.iter().filter(|(_, known)| *known).count();
    let proven = lines.iter().filter(|(line, _)| line.starts_with("PROVEN")).count();
    print_count(&format!(
        "gate prove-mutation-corpus: {known}/{}, {proven} proven",
        lines.len()
    ));
    for (line, _) in &lines {
        print_count(&format!("  {line}"));
    }
    assert!(lines.len() >= 15, "only {} pairs were found", lines.len());
    assert_eq!(known, lines.len(), "every pair is decided or tested");
    assert!(proven >= 4, "only {proven} pairs are proven");
    assert!(ours_are_classic(&pairs), "the first of each pair has rules");
}

fn ours_are_classic(pairs: &[(String, Loaded, Loaded)]) -> bool {
    pairs
        .iter()
        .all(|(_, ours, _)| ours.policies.iter().all(|policy| matches!(policy, Policy::Classic(_))))
}
