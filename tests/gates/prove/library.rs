//! Changed policies of the library (`equivalence.md` §9.2): how many the prover tells from the original, how many the policy's own
//! suite does, and how many search does. Every change that the prover does not refute is listed with its cause in
//! `fixtures/gates/prove-library.known`.
//!
//! A suite kills a changed policy if one of its resources has another effect, whether or not a row expects that effect: the
//! suite is given the benefit of the doubt. Search is the prover's own, without the solver.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use kyvtest::{
    cel::host::Mocks,
    kube::{Discovery, NAME_LABEL, Namespace, Operation},
    prove::{
        Label,
        body::{Options, Side, compare_sides, samples},
        universe,
    },
    value::Document,
    yaml,
};
use rayon::prelude::*;
use serde_json::Value;

use super::rewrites::changed_policies;
use crate::support::{Gate, print_count, read, shared};

/// How many policies are changed.
const POLICIES: usize = 60;

/// How many changed policies there are at least.
const CHANGES: usize = 442;

/// How many changes of one kind are made of one policy.
const OF_A_KIND: usize = 2;

/// How many requests of each class search tries.
const TRIES: u64 = 100;

/// A policy with the resources of its suite.
struct Tested {
    name: String,
    policy: Value,
    resources: Vec<Value>,
}

/// The policies of CEL folders that have a suite and are installed, in the order of their places.
fn tested(root: &Path) -> Vec<Tested> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut open: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            if path.join(".kyverno-test/kyverno-test.yaml").is_file() {
                folders.push(path);
            } else {
                open.push(path);
            }
        }
    }
    folders.sort();
    let is_cel = |path: &&PathBuf| {
        let place = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let set = place.split('/').next().unwrap_or_default();
        set.ends_with("-cel") || set.ends_with("-vpol")
    };
    let discovery = Discovery::kubernetes();
    let mut all = Vec::new();
    for folder in folders.iter().filter(is_cel) {
        let documents = |folder: &Path| -> Vec<Value> {
            let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
                .collect();
            files.sort();
            files.iter().flat_map(|file| values(&read(file))).collect()
        };
        let is_policy = |object: &&Value| matches!(object["kind"].as_str(), Some("ClusterPolicy" | "ValidatingPolicy"));
        let policies: Vec<Value> = documents(folder).iter().filter(is_policy).cloned().collect();
        let [policy] = policies.as_slice() else { continue };
        let Ok(side) = Side::from_objects(std::slice::from_ref(policy), &discovery) else {
            continue;
        };
        // A policy on custom kinds applies to nothing here.
        if !compare_sides(&side, &side, &discovery, &Options::default())
            .reason
            .is_empty()
        {
            continue;
        }
        if all.len() == POLICIES {
            break;
        }
        all.push(Tested {
            name: folder.strip_prefix(root).unwrap_or(folder).display().to_string(),
            policy: policy.clone(),
            resources: documents(&folder.join(".kyverno-test")),
        });
    }
    all
}

/// The documents of a file.
fn values(text: &str) -> Vec<Value> {
    let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    trees
        .map(|tree| Document::from(tree.root()).root().to_serde())
        .collect()
}

/// Whether one of the resources has different effects on two sides when it is created.
fn kills(resources: &[Value], a: &Side, b: &Side, discovery: &Discovery) -> bool {
    let cells = universe::cells(discovery);
    resources.iter().any(|resource| {
        let text = |key: &str| resource[key].as_str().unwrap_or_default();
        let cell = cells.iter().find(|cell| {
            let kind = &cell.resource.object_kind;
            cell.operation == Operation::Create
                && cell.resource.subresource.is_empty()
                && kind.kind == text("kind")
                && kind.api_version() == text("apiVersion")
        });
        let Some(mut scenario) = cell.and_then(|cell| samples(&[], cell, 1).pop()) else {
            return false;
        };
        let metadata = |key: &str| resource["metadata"][key].as_str();
        let namespace = metadata("namespace").unwrap_or("default");
        scenario.request.object = Document::from(resource);
        metadata("name")
            .unwrap_or_default()
            .clone_into(&mut scenario.request.name);
        if !scenario.request.namespace.is_empty() {
            namespace.clone_into(&mut scenario.request.namespace);
            let labels = [(NAME_LABEL, namespace)];
            scenario.world.add_namespace(Namespace::with_labels(namespace, labels));
        }
        let decide = |side: &Side| side.decide(&scenario, discovery, &Mocks::new()).effect;
        decide(a) != decide(b)
    })
}

/// What became of one changed policy.
struct Fate {
    id: String,
    label: Label,
    reason: String,
    by_suite: bool,
    by_search: bool,
}

fn fate(tested: &Tested, id: String, mutant: &Value, discovery: &Discovery) -> Option<Fate> {
    let side = |policy: &Value| Side::from_objects(std::slice::from_ref(policy), discovery);
    let (original, changed) = (side(&tested.policy).ok()?, side(mutant).ok()?);
    let options = Options {
        collections: false,
        ..Options::default()
    };
    let found = compare_sides(&original, &changed, discovery, &options);
    assert!(!found.fault, "{id}: {}", found.reason);
    let search = Options {
        cases: 0,
        tries: TRIES,
        ..options
    };
    let searched = compare_sides(&original, &changed, discovery, &search);
    Some(Fate {
        by_suite: kills(&tested.resources, &original, &changed, discovery),
        by_search: matches!(searched.label, Label::Refuted(_)),
        label: found.label,
        reason: found.reason,
        id,
    })
}

#[test]
fn changed_policies_of_the_library_are_told_apart() {
    let Some(root) = shared("corpus/policies") else {
        return;
    };
    let discovery = Discovery::kubernetes();
    let policies = tested(&root);
    assert_eq!(policies.len(), POLICIES, "policies with a suite");
    let fates: Vec<Fate> = policies
        .par_iter()
        .flat_map_iter(|tested| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            let mut own = Vec::new();
            for (kind, mutant) in changed_policies(&tested.policy) {
                let count = counts.entry(kind).or_default();
                if *count < OF_A_KIND && mutant != tested.policy {
                    *count += 1;
                    let id = format!("{} {kind} {count}", tested.name);
                    own.extend(fate(tested, id, &mutant, &discovery));
                }
            }
            own
        })
        .collect();
    let count = |which: &dyn Fn(&Fate) -> bool| fates.iter().filter(|fate| which(fate)).count();
    let refuted = |fate: &Fate| matches!(fate.label, Label::Refuted(_));
    let (all, by_prover) = (fates.len(), count(&refuted));
    let (by_suite, by_search) = (count(&|fate| fate.by_suite), count(&|fate| fate.by_search));
    let by_either = count(&|fate| fate.by_suite || fate.by_search);
    let equal = count(&|fate| fate.label == Label::Proven);
    print_count(&format!(
        "gate prove-library: {all} changes of {POLICIES} policies: {by_prover} killed by the prover, {by_suite} by the suites, \
         {by_search} by search, {by_either} by suites or search; {equal} proven equal, {} open",
        all - by_prover - equal
    ));
    // A suite may use resources that no API server accepts; search does not.
    let contradicts = |fate: &&Fate| fate.label == Label::Proven && fate.by_search;
    if let Some(fate) = fates.iter().find(contradicts) {
        panic!("{}: proven, but refuted by search", fate.id);
    }
    let gate = Gate {
        name: "prove-library",
        rows: CHANGES,
    };
    gate.run(
        &fates,
        |fate| fate.id.clone(),
        |fate| match (&fate.label, fate.reason.as_str()) {
            (Label::Refuted(_), _) => Ok(()),
            (label, "") => Err(label.as_str().to_owned()),
            (label, reason) => Err(format!("{}: {reason}", label.as_str())),
        },
    );
    let lost: Vec<&str> = fates
        .iter()
        .filter(|fate| fate.by_search && !refuted(fate))
        .map(|fate| fate.id.as_str())
        .collect();
    assert!(lost.is_empty(), "search alone refutes {lost:?}");
    assert!(
        by_prover > by_either,
        "{by_prover} by the prover, {by_either} by the others"
    );
}
