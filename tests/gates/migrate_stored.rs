//! Migrated policies as the API server and Kyverno store them, and beside those that the library's authors wrote by hand.

use std::path::{Path, PathBuf};

use kyvtest::{
    cel::{
        host::Mocks,
        profile::Profile,
        query::{Query, QueryResult, run_query},
    },
    diagnostic::{Severity, Sources},
    kube::{Discovery, Operation, RequestClass},
    migrate::{Options, migrate},
    policy::{self, ClassicPolicy, Loaded, Purpose},
    prove::{
        Label,
        body::{Side, compare_sides, samples},
        server::Server,
    },
    value::Document,
    yaml,
};
use rayon::prelude::*;
use serde_json::Value;

use crate::{
    migrate::{policies, policies_of},
    support::{print_count, shared},
};

/// What one expression may cost at the API server (`PerCallLimit`).
const COST_OF_EXPRESSION: u64 = 1_000_000;

/// What the expressions of a policy may cost together (`RuntimeCELCostBudget`).
const COST_OF_POLICY: u64 = 10_000_000;

/// How many requests of each class are evaluated for their cost.
const REQUESTS: u64 = 3;

/// Reads an object as it is written, as a server does: no diagnostics, and Kyverno compiles it.
fn is_stored(object: &Value, discovery: &Discovery) -> Result<(), String> {
    let text = Document::from(object).root().to_yaml();
    let file = Sources::new().add("policy.yaml", text.as_str());
    let stream = yaml::read(text.as_bytes(), yaml::Mode::Strict, &yaml::Limits::default());
    let mut loaded = Loaded::default();
    policy::load(stream, file, Purpose::Policies, &mut loaded);
    let mut problems = loaded.diagnostics.iter();
    if let Some(problem) = problems.find(|problem| problem.severity != Severity::Note) {
        return Err(problem.message.clone());
    }
    if loaded.policies.len() != 1 {
        return Err("not one policy".to_owned());
    }
    if is_validating(object) {
        Side::from_objects(std::slice::from_ref(object), discovery)?;
    }
    Ok(())
}

fn is_validating(object: &Value) -> bool {
    object["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("ValidatingPolicy") && !kind.contains("Image"))
}

fn named(list: &Value) -> Vec<(String, String)> {
    let each = list.as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    each.map(|entry| (text(entry, "name"), text(entry, "expression")))
        .collect()
}

/// The requests that a policy is about, a few of each kind, as the API server shows them to admission.
fn requests(object: &Value, discovery: &Discovery) -> Vec<(Document, Document)> {
    let server = Server::new(discovery, Vec::new()).without_service_accounts();
    let rules = object["spec"]["matchConstraints"]["resourceRules"].as_array();
    let named: Vec<&str> = rules
        .into_iter()
        .flatten()
        .flat_map(|rule| rule["resources"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let kinds = discovery
        .iter()
        .filter(|kind| named.contains(&kind.plural.as_str()) && kind.subresource.is_empty());
    let mut found = Vec::new();
    for kind in kinds {
        let cell = RequestClass::new(kind, Operation::Update, false);
        for mut scenario in samples(std::slice::from_ref(object), &cell, REQUESTS) {
            if server.admit(&mut scenario.request).is_ok() {
                found.push((scenario.request.object, scenario.request.old_object));
            }
        }
    }
    found
}

/// Evaluates the expressions of a policy and sums up their costs.
fn is_cheap(object: &Value, discovery: &Discovery) -> Result<(u64, bool), String> {
    let spec = &object["spec"];
    let variables = named(&spec["variables"]);
    let conditions = named(&spec["matchConditions"]);
    let validations = named(&spec["validations"]);
    let request = Document::from(&serde_json::json!({
        "operation": "UPDATE", "name": "sample", "namespace": "apps", "userInfo": {"username": "alice"},
    }));
    let mut most = 0;
    let mut evaluated = false;
    for (new, old) in requests(object, discovery) {
        let mut total = 0;
        for (_, expression) in conditions.iter().chain(&validations) {
            // Kyverno counts no costs: those of the API server, for expressions that it knows.
            let mut query = Query::new(expression, Profile::kubernetes());
            query.object = Some(&new);
            query.old_object = Some(&old);
            query.request = Some(&request);
            query.variables = Some(&variables);
            query.cost_limit = Some(COST_OF_EXPRESSION);
            let cost = match run_query(&query) {
                QueryResult::Value { cost, .. } | QueryResult::Failed { cost, .. } => {
                    evaluated = true;
                    cost.unwrap_or_default()
                }
                QueryResult::Refused(_) => 0,
            };
            if cost >= COST_OF_EXPRESSION {
                return Err(format!("`{expression}` costs {cost}"));
            }
            total += cost;
        }
        if total >= COST_OF_POLICY {
            return Err(format!("the policy costs {total}"));
        }
        most = most.max(total);
    }
    Ok((most, evaluated))
}

#[test]
fn migrated_policies_are_stored_and_cheap() {
    let Some(folder) = shared("corpus") else { return };
    let discovery = Discovery::kubernetes();
    let results: Vec<Result<(u64, bool), String>> = policies(&folder)
        .par_iter()
        .flat_map_iter(|policy| {
            let migration = migrate(policy, &discovery, &Options::default());
            let mut objects: Vec<Value> = migration.objects().cloned().collect();
            if objects.iter().any(|object| migration.rules_of(object).count() > 1) {
                let split = Options {
                    split: true,
                    ..Options::default()
                };
                let apart = migrate(policy, &discovery, &split);
                objects.extend(apart.objects().cloned());
            }
            let checked = objects.into_iter().map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                is_stored(&object, &discovery)
                    .and_then(|()| {
                        if is_validating(&object) {
                            is_cheap(&object, &discovery)
                        } else {
                            Ok((0, false))
                        }
                    })
                    .map_err(|problem| format!("{name}: {problem}"))
            });
            checked.collect::<Vec<_>>()
        })
        .collect();
    let failures: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let costs = || results.iter().filter_map(|result| result.as_ref().ok());
    let most = costs().map(|(cost, _)| *cost).max().unwrap_or_default();
    let evaluated = costs().filter(|(_, evaluated)| *evaluated).count();
    let clean = results.len() - failures.len();
    print_count(&format!("gate migrate-stored: {clean}/{}", results.len()));
    print_count(&format!(
        "  {evaluated} policies were evaluated for their cost; the most expensive one costs {most}"
    ));
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(evaluated >= 100, "only {evaluated} policies were evaluated");
    assert!(results.len() >= 428, "the corpus shrank to {} policies", results.len());
}

/// The folders with policies that the library's authors wrote by hand, and those of their originals.
const BY_HAND: [(&str, &str); 3] = [
    ("best-practices-vpol", "best-practices"),
    ("other-vpol", "other"),
    ("pod-security-vpol", "pod-security"),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

/// The ValidatingPolicies of a file.
fn by_hand(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    let objects = trees.map(|tree| Document::from(tree.root()).root().to_serde());
    objects.filter(|object| object["kind"] == "ValidatingPolicy").collect()
}

/// A policy written by hand, its original, and how the original, our translation and it compare.
struct Pair {
    name: String,
    migrated: bool,
    /// Ours with theirs, and the original with theirs.
    labels: [String; 2],
    /// Whether the original decides the request that tells ours and theirs apart as ours does.
    as_original: bool,
}

fn pair(path: &Path, original: &ClassicPolicy, theirs: &[Value], discovery: &Discovery) -> Option<Pair> {
    let name = path.file_stem()?.to_string_lossy().into_owned();
    let options = Options::default();
    let migration = migrate(original, discovery, &options);
    let migrated = migration.rules.iter().all(|rule| !rule.objects.is_empty());
    let ours: Vec<Value> = migration.objects().cloned().collect();
    let source = original_object(original);
    let theirs = Side::from_objects(theirs, discovery).ok()?;
    let before = Side::from_objects(std::slice::from_ref(&source), discovery).ok()?;
    let mut as_original = true;
    let mut compared = |objects: &[Value]| match Side::from_objects(objects, discovery) {
        Ok(side) => {
            let comparison = compare_sides(&side, &theirs, discovery, &options.proof);
            match (&comparison.label, &comparison.counterexample) {
                (Label::Proven, _) => "PROVEN".to_owned(),
                (Label::Refuted(_), Some(example)) => {
                    let request = &example.scenario().request;
                    let [first, second] = example.verdicts();
                    let original = before.decide(example.scenario(), discovery, &Mocks::new());
                    as_original &= original.effect == first.effect;
                    format!(
                        "REFUTED {} {}: {} became {}",
                        request.operation.as_str(),
                        request.resource.name(),
                        first.effect,
                        second.effect
                    )
                }
                _ => "TESTED".to_owned(),
            }
        }
        Err(problem) => format!("INVALID {problem}"),
    };
    let labels = [
        if migrated {
            compared(&ours)
        } else {
            "not migrated".to_owned()
        },
        compared(&[source]),
    ];
    Some(Pair {
        name,
        migrated,
        labels,
        as_original,
    })
}

fn original_object(policy: &ClassicPolicy) -> Value {
    serde_json::json!({
        "apiVersion": policy.api_version,
        "kind": policy.kind.name(),
        "metadata": {"name": policy.metadata.name.value},
        "spec": policy.spec.source.document().root().to_serde(),
    })
}

#[test]
fn migrated_policies_beside_those_written_by_hand() {
    let Some(corpus) = shared("corpus/policies") else {
        return;
    };
    let discovery = Discovery::kubernetes();
    let mut paths = Vec::new();
    for (own, original) in BY_HAND {
        let mut found = Vec::new();
        files(&corpus.join(own), &mut found);
        for path in found {
            if let Ok(rest) = path.strip_prefix(corpus.join(own)) {
                let original = corpus.join(original).join(rest);
                paths.push((path, original));
            }
        }
    }
    let pairs: Vec<Pair> = paths
        .par_iter()
        .filter_map(|(path, original)| {
            let theirs = by_hand(path);
            let originals = policies_of(std::slice::from_ref(original));
            let [original] = originals.as_slice() else { return None };
            if theirs.is_empty() {
                return None;
            }
            pair(path, original, &theirs, &discovery)
        })
        .collect();
    let count = |word: &str| pairs.iter().filter(|pair| pair.labels[0].starts_with(word)).count();
    print_count(&format!(
        "gate migrate-by-hand: {} pairs, {} migrated, PROVEN {}, TESTED {}, REFUTED {}",
        pairs.len(),
        pairs.iter().filter(|pair| pair.migrated).count(),
        count("PROVEN"),
        count("TESTED"),
        count("REFUTED"),
    ));
    for pair in &pairs {
        print_count(&format!("  {} | {} | {}", pair.name, pair.labels[0], pair.labels[1]));
    }
    assert!(pairs.len() >= 40, "the corpus shrank to {} pairs", pairs.len());
    // Where ours and theirs differ, the original decides as ours does.
    let wrong: Vec<&str> = pairs
        .iter()
        .filter(|pair| !pair.as_original || pair.labels[1] == "PROVEN" && pair.labels[0].starts_with("REFUTED"))
        .map(|pair| pair.name.as_str())
        .collect();
    assert!(wrong.is_empty(), "ours differs from the original: {wrong:?}");
}
