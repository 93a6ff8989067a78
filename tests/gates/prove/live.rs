//! Differences observed in a live cluster lie in a reported region; every policy of the corpus has a label.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use kyvtest::{
    eval::{Evaluator, Settings},
    kube::{Discovery, Namespace, Request},
    policy::{Loaded, Policy, Purpose},
    prove::{Label, Layer, Options, Proof},
    value::Document,
};
use serde_json::{Value, json};

use super::{Case, add, optional, quoted};
use crate::{
    eval::{self, hazard_request, settings},
    kyverno_live::corpus,
    support::{Gate, fixture, jsonl, print_count, read, shared},
};

/// A request of the reference data, with its namespace.
fn request(objects: &[Value], request: &Value, settings: &Settings) -> Result<(Request, Option<Namespace>), String> {
    let documents: Vec<Document> = objects.iter().map(Document::from).collect();
    let cluster = Evaluator::new(&documents, settings);
    let request = cluster.request(Document::from(request).root())?;
    let name = request.namespace.as_str();
    let mut namespaces = objects
        .iter()
        .filter(|object| object["kind"] == "Namespace" && object["metadata"]["name"] == name);
    let known = namespaces.next().map(|object| Namespace {
        object: Document::from(object),
    });
    let namespace = known.or_else(|| (!name.is_empty()).then(|| Namespace::minimal(name)));
    let namespace = namespace.map(|namespace| namespace.labelled());
    Ok((request, namespace))
}

/// Whether a request on which the sides differ lies in a region.
fn is_in_a_region(proof: &Proof, request: &Request, namespace: Option<&Namespace>) -> Result<(), String> {
    if proof.regions.iter().any(|region| region.contains(request, namespace)) {
        return Ok(());
    }
    let regions: Vec<String> = proof
        .regions
        .iter()
        .map(|region| format!("{} in {:?}", region.text, region.cells))
        .collect();
    Err(format!(
        "{} {}: not reported: {} {} {} among {regions:#?}",
        proof.label.as_str(),
        proof.reason,
        request.operation.as_str(),
        request.resource.name(),
        request.name
    ))
}

/// The request of a hazard's fixture lies in a region, if the sides were observed to differ on it.
pub(super) fn hazard_is_in_a_region(id: &str, proof: &Proof) -> Result<(), String> {
    let folder = shared("golden/hazards").unwrap_or_else(|| fixture("hazards")).join(id);
    let expected: Value = serde_json::from_str(&read(&folder.join("expected.json"))).expect("JSON");
    let seen = |key: &str| expected[key].as_str().filter(|word| matches!(*word, "allow" | "deny"));
    let (Label::Refuted(_), Some(ours), Some(theirs)) = (&proof.label, seen("obsK"), seen("obsV")) else {
        return Ok(());
    };
    if ours == theirs {
        return Ok(());
    }
    let given = super::documents(&quoted(&read(&folder.join("request.yaml")))).swap_remove(0);
    let mut objects = super::documents(&quoted(&read(&folder.join("policy.yaml"))));
    objects.extend(super::documents(&quoted(&optional(&folder.join("exceptions.yaml")))));
    objects.extend(eval::namespaces(&given["ns"]));
    let (request, namespace) = request(&objects, &hazard_request(&given), &settings())?;
    is_in_a_region(proof, &request, namespace.as_ref())
}

/// A policy of the live rows, with the requests on which the sides were observed to differ.
struct Observed {
    case: Case,
    requests: Vec<(Vec<Value>, Value)>,
}

fn observed(rows: impl Iterator<Item = (Value, Vec<Value>, Value)>) -> Vec<Observed> {
    let mut all: BTreeMap<String, Observed> = BTreeMap::new();
    for (row, objects, request) in rows {
        let texts = |key: &str| -> String {
            let objects = row[key].as_array().into_iter().flatten();
            let objects: Vec<String> = objects.map(Value::to_string).collect();
            objects.join("\n---\n")
        };
        let (policy, exceptions) = (texts("policies"), texts("exceptions"));
        let cluster = row["config"] == "chart";
        let key = format!("{cluster} {policy}{exceptions}");
        let id = ["id", "source"]
            .into_iter()
            .find_map(|key| row[key].as_str())
            .unwrap_or_default();
        let entry = all.entry(key).or_insert_with(|| Observed {
            case: Case {
                id: format!("{id} {}", if cluster { "chart" } else { "bare" }),
                policy,
                exceptions,
                layer: if cluster { Layer::Cluster } else { Layer::Policy },
                ..Case::default()
            },
            requests: Vec::new(),
        });
        entry.requests.push((objects, request));
    }
    all.into_values().collect()
}

fn check_observed(observed: &Observed, settings: &Settings) -> Result<(), String> {
    let options = Options {
        layer: observed.case.layer,
        paranoid: true,
        ..Options::default()
    };
    let proof = observed.case.prove_with(&options, &settings.discovery)?;
    if proof.fault {
        return Err(proof.reason);
    }
    match proof.label {
        Label::Refuted(_) => {}
        Label::Proven => return Err("proven, but observed to differ".to_owned()),
        // The authorizer's decisions are not part of a request.
        Label::Unknown if proof.reason.contains("D12") => return Ok(()),
        _ => return Err(format!("{}: {}", proof.label.as_str(), proof.reason)),
    }
    for (objects, given) in &observed.requests {
        let (request, namespace) = request(objects, given, settings)?;
        is_in_a_region(&proof, &request, namespace.as_ref())?;
    }
    Ok(())
}

#[test]
fn observed_differences_are_reported() {
    let Some(folder) = shared("golden/kyverno-live") else {
        return;
    };
    let differs = |row: &Value| {
        let single = row["policies"].as_array().is_some_and(|list| list.len() == 1);
        single && row["pair"].as_str().is_some_and(|pair| pair != "agree")
    };
    let rows = ["conversions.jsonl", "vectors.jsonl"]
        .into_iter()
        .flat_map(|name| jsonl::<Value>(&folder.join(name)));
    let rows = observed(rows.filter(differs).map(|row| {
        let (objects, request) = eval::live(&row);
        (row, objects, request)
    }));
    let gate = Gate {
        name: "prove-live",
        rows: 40,
    };
    let settings = settings();
    gate.run(&rows, |row| row.case.id.clone(), |row| check_observed(row, &settings));
}

#[test]
fn observed_differences_of_published_policies_are_reported() {
    let Some(path) = shared("golden/kyverno-live/verdicts.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let rows: Vec<Value> = rows
        .into_iter()
        .filter(|row| row["pair"].as_str().is_some_and(|pair| pair != "agree"))
        .collect();
    let corpus = corpus(rows.iter());
    let settings = Settings {
        discovery: corpus.discovery.clone(),
        ..Settings::default()
    };
    let rows = observed(rows.iter().filter_map(|row| {
        let (policy, object) = corpus.row(row).ok()?;
        let request = eval::verdict_request(row, object);
        let row = json!({"source": row["source"], "policies": [policy], "exceptions": []});
        Some((row, Vec::new(), request))
    }));
    let gate = Gate {
        name: "prove-live-verdicts",
        rows: 20,
    };
    gate.run(&rows, |row| row.case.id.clone(), |row| check_observed(row, &settings));
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml")
        {
            found.push(path);
        }
    }
}

/// The policies of the corpus that may have a native counterpart: ClusterPolicies with `validate.cel`, and
/// ValidatingPolicies.
pub(super) fn published() -> Vec<Case> {
    let Some(folder) = shared("corpus") else {
        return Vec::new();
    };
    let mut files = Vec::new();
    yaml_files(&folder, &mut files);
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for path in files {
        let text = std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.expect("a file");
        if !text.contains("Policy") {
            continue;
        }
        for (i, document) in super::documents(&text).into_iter().enumerate() {
            let cel = document["kind"] == "ClusterPolicy"
                && document["spec"]["rules"]
                    .as_array()
                    .is_some_and(|rules| rules.iter().any(|rule| rule["validate"]["cel"].is_object()));
            if !cel && document["kind"] != "ValidatingPolicy" {
                continue;
            }
            let name = path.strip_prefix(&folder).expect("below it").display();
            let case = Case {
                id: format!("{name}#{i}"),
                policy: document.to_string(),
                layer: Layer::Policy,
                ..Case::default()
            };
            // Many files are copies of others.
            cases.entry(case.policy.clone()).or_insert(case);
        }
    }
    cases.into_values().collect()
}

/// What the clusters of the reference data served.
pub(super) fn discovery() -> Discovery {
    corpus(std::iter::empty()).discovery
}

/// Every policy of the corpus has a label, and none is unknown for its match part.
#[test]
fn published_policies_have_labels() {
    let mut cases = published();
    if cases.is_empty() {
        return;
    }
    cases.retain(|case| {
        let mut loaded = Loaded::default();
        add(&mut loaded, &case.policy, Purpose::Policies);
        loaded.policies.iter().any(Policy::validates)
    });
    // Kyverno generates nothing from a ValidatingPolicy with autogen for pod controllers; without autogen it does.
    let off: Vec<Case> = cases
        .iter()
        .filter_map(|case| {
            let mut value: Value = serde_json::from_str(&case.policy).expect("JSON");
            (value["kind"] == "ValidatingPolicy").then(|| {
                value["spec"]["autogen"]["podControllers"] = json!({"controllers": []});
                Case {
                    id: format!("{} without pod controllers", case.id),
                    policy: value.to_string(),
                    ..case.clone()
                }
            })
        })
        .collect();
    cases.extend(off);
    let discovery = discovery();
    let gate = Gate {
        name: "prove-corpus",
        rows: 190,
    };
    let counts = std::sync::Mutex::new(BTreeMap::<String, usize>::new());
    gate.run(
        &cases,
        |case| case.id.clone(),
        |case| {
            let proof = case.prove_with(&Options::default(), &discovery)?;
            let mut reason = proof.reason.clone();
            if let Label::NotConvertible { code } = &proof.label {
                reason.clone_from(code);
            }
            if let Some(region) = proof.regions.first() {
                reason = format!("{} {}", region.class, region.hazard.clone().unwrap_or_default());
            }
            let line = format!("{}: {reason}", proof.label.as_str());
            *counts.lock().expect("no panic").entry(line).or_default() += 1;
            if proof.fault {
                return Err(proof.reason);
            }
            let undecided = ["paths", "match part", "Kyverno refuses"];
            match proof.label {
                Label::Unknown if undecided.iter().any(|word| proof.reason.contains(word)) => {
                    Err(format!("unknown: {}", proof.reason))
                }
                _ => Ok(()),
            }
        },
    );
    for (line, count) in counts.into_inner().expect("no panic") {
        print_count(&format!("  {count:4} {line}"));
    }
}

/// `orValue` on a value that is not optional is an error from Kubernetes 1.37 on: formerly equivalent policies differ.
#[test]
fn a_newer_kubernetes_reads_policies_otherwise() {
    let discovery = discovery();
    let cases = published();
    if cases.is_empty() {
        return;
    }
    let names = [
        "ensure-readonly-hostpath",
        "require-emptydir-requests",
        "require-qos-guaranteed",
        "disallow-capabilities-strict",
    ];
    let mut flipped = Vec::new();
    for mut case in cases {
        let mut value: Value = serde_json::from_str(&case.policy).expect("JSON");
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if !names.iter().any(|wanted| name.starts_with(wanted)) {
            continue;
        }
        // Kyverno generates nothing from policies that also apply to pod controllers.
        if value["kind"] == "ValidatingPolicy" {
            value["spec"]["autogen"]["podControllers"] = json!({"controllers": []});
            case.policy = value.to_string();
        }
        let at = |kube: &str| {
            let options = Options {
                layer: Layer::Rule,
                kube: kyvtest::cel::profile::Profile::named(kube).expect("a profile"),
                ..Options::default()
            };
            case.prove_with(&options, &discovery).expect("a policy")
        };
        let (old, new) = (at("k8s-1.36"), at("k8s-1.37"));
        print_count(&format!(
            "  {name} of {}: {} at 1.36 ({}), {} at 1.37 ({})",
            case.id,
            old.label.as_str(),
            old.reason,
            new.label.as_str(),
            new.reason
        ));
        assert_eq!(new.world.kube, "1.37");
        if old.label == Label::Proven && new.label != Label::Proven {
            flipped.push(name);
        }
    }
    assert!(flipped.len() >= 3, "{flipped:?}");
}
