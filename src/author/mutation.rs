//! A first suite for policies that change objects: for each rule a resource that it changes and one that it leaves as it is, with
//! the objects after mutation as `patchedResources`.
//!
//! Resources are made from the words and constants of the policies. Whatever is written has been run first: a row stays only if
//! a run of the new suite meets it. No upstream counterpart.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::{
    fill::Frame,
    skeleton::Rule,
    suite_writer::{File, TEST, test, yaml},
    update::{made, plain, reconciled},
};
use crate::{
    run::{Case, Outcome, Settings, run},
    suite::{self, Files, Memory, Options, Overlay, Suite},
};
use kyvtest_go_compat::{text::path::join, value::Document};
use kyvtest_model::{
    kube::{Operation, RequestClass},
    policy::{Loaded, MatchResources, Policy, Text},
    verdict::Status,
};
use kyvtest_prove::{
    body::{
        mutation::{MutatingSide, parts},
        samples,
    },
    seeds::merge,
    server::Server,
    universe,
};

const RESOURCES: &str = "resources.yaml";
const PATCHED: &str = "patched.yaml";

/// How many resources are tried for a rule and a kind.
const TRIES: u64 = 60;
/// How many of them go into the trial run.
const TRIED: usize = 12;
/// How many kinds are tried for a rule.
const KINDS: usize = 3;

/// A policy, or one of its mutate rules.
struct Unit {
    policy: String,
    /// The policy as rows name it: with its namespace, if it has one.
    reference: String,
    rule: Option<String>,
    /// What tells `kyverno test` the kind of the policy.
    flag: Option<&'static str>,
    alone: Loaded,
    /// The namespace of the resources: one that the match block names, that of the policy, or `default`.
    namespace: String,
    parts: Vec<Json>,
}

/// A row on trial.
struct Row {
    unit: usize,
    object: Json,
    patched: Option<Json>,
    result: &'static str,
}

/// The suite of the policies that change objects, and what was found for their rules; `None` if there are no such policies.
pub(super) fn suite_of(
    probe: &Suite,
    frame: &Frame,
    settings: &Settings,
    files: &dyn Files,
    directory: &str,
) -> Option<(Vec<File>, Vec<Rule>)> {
    let units = units(&probe.policies);
    if units.is_empty() {
        return None;
    }
    let rows = found(&units, frame, (settings, files, directory), |_, _| true);
    let rules = units.iter().enumerate().map(|(number, unit)| {
        let has = |result: &str| rows.iter().any(|row| row.unit == number && row.result == result);
        Rule {
            policy: unit.policy.clone(),
            rule: unit.rule.clone(),
            passes: has("pass"),
            // A rule that changes every object has no other kind of resource.
            fails: has("skip") || has("pass"),
            why: String::new(),
        }
    });
    let rules: Vec<Rule> = rules.collect();
    let files = if rows.is_empty() {
        Vec::new()
    } else {
        written(&rows, &units, frame)
    };
    Some((files, rules))
}

/// The suite of what no row of another one tests of its policies that change objects; empty if nothing is missing. It is
/// in a directory below.
pub fn missing(suite: &Suite, frame: &Frame, settings: &Settings, files: &dyn Files, directory: &str) -> Vec<File> {
    let units = units(&suite.policies);
    let is_missing = |unit: &Unit, result: &str| {
        !suite.rows().iter().any(|row| {
            let named = row.policy.value.rsplit('/').next() == Some(unit.policy.as_str());
            let rule = row.rule.as_ref().map(|rule| rule.value.as_str());
            let same_rule = unit.rule.is_none() || rule.is_none() || rule == unit.rule.as_deref();
            named && same_rule && row.result.value.as_str() == result
        })
    };
    let rows = found(&units, frame, (settings, files, directory), is_missing);
    if rows.is_empty() {
        Vec::new()
    } else {
        written(&rows, &units, frame)
    }
}

/// The rows that a run of their suite meets, for each unit at most one for each result that is wanted.
fn found(units: &[Unit], frame: &Frame, world: World<'_>, wanted: impl Fn(&Unit, &str) -> bool) -> Vec<Row> {
    let (settings, ..) = world;
    let mut rows = Vec::new();
    let mut used = BTreeSet::new();
    for (number, unit) in units.iter().enumerate() {
        if !wanted(unit, "pass") && !wanted(unit, "skip") {
            continue;
        }
        let tried: Vec<Row> = resources(unit, &mut used, settings)
            .into_iter()
            .map(|object| Row {
                unit: number,
                patched: Some(object.clone()),
                object,
                result: "pass",
            })
            .collect();
        let own = chosen(tried, units, frame, world);
        rows.extend(own.into_iter().filter(|row| wanted(unit, row.result)));
    }
    // Every round takes at least one row away.
    loop {
        let wrong = wrong(&written(&rows, units, frame), &rows, world);
        if wrong.is_empty() || rows.is_empty() {
            return rows;
        }
        let mut number = 0;
        rows.retain(|_| {
            number += 1;
            !wrong.contains(&(number - 1))
        });
    }
}

fn units(loaded: &Loaded) -> Vec<Unit> {
    let mut units = Vec::new();
    for policy in &loaded.policies {
        let alone = |policy: Policy| Loaded {
            policies: vec![policy],
            mutating_bindings: loaded.mutating_bindings.clone(),
            ..Loaded::default()
        };
        let (flag, own) = match policy {
            Policy::Classic(classic) => {
                for rule in classic.spec.rules.iter().filter(|rule| rule.mutate.is_some()) {
                    let mut own = (**classic).clone();
                    own.spec.rules = vec![rule.clone()];
                    let loaded = alone(Policy::Classic(own.into()));
                    if MutatingSide::concerns(&loaded) {
                        units.push(Unit {
                            policy: policy.name().to_owned(),
                            reference: reference(policy.name(), classic.metadata.namespace.as_ref()),
                            rule: Some(rule.name.value.clone()),
                            flag: None,
                            alone: loaded,
                            namespace: namespace(classic.metadata.namespace.as_ref(), Some(&rule.matches)),
                            parts: parts(rule),
                        });
                    }
                }
                continue;
            }
            Policy::Mutating(own) => ("isMutatingPolicy", own.metadata.namespace.as_ref()),
            Policy::NativeMutating(_) => ("isMutatingAdmissionPolicy", None),
            _ => continue,
        };
        units.push(Unit {
            policy: policy.name().to_owned(),
            reference: reference(policy.name(), own),
            rule: None,
            flag: Some(flag),
            alone: alone(policy.clone()),
            namespace: namespace(own, None),
            parts: Vec::new(),
        });
    }
    units
}

fn reference(name: &str, namespace: Option<&Text>) -> String {
    match namespace {
        Some(namespace) => format!("{}/{name}", namespace.value),
        None => name.to_owned(),
    }
}

/// The namespace for resources of a policy with this namespace and match block.
fn namespace(own: Option<&Text>, matches: Option<&MatchResources>) -> String {
    let is_name = |text: &&str| !text.contains(['*', '?']);
    let filters = matches.into_iter().flat_map(|block| {
        let filters = block.any.iter().chain(&block.all);
        filters.chain(std::iter::once(&block.inline))
    });
    let named = filters.flat_map(|filter| &filter.resources.namespaces);
    let mut all = own.into_iter().chain(named).map(|name| name.value.as_str());
    all.find(is_name).unwrap_or("default").to_owned()
}

/// Objects that a server accepts, each with a name of its own.
fn resources(unit: &Unit, used: &mut BTreeSet<String>, settings: &Settings) -> Vec<Json> {
    let Ok(side) = MutatingSide::new(unit.alone.clone(), &settings.discovery, kyvtest_prove::Layer::Policy) else {
        return Vec::new();
    };
    let server = Server::new(&settings.discovery, Vec::new()).without_service_accounts();
    let seen = |cell: &RequestClass<'_>| {
        cell.operation == Operation::Create
            && cell.resource.subresource.is_empty()
            && side.may_see(cell, &settings.discovery)
    };
    let cells = universe::cells(&settings.discovery)
        .into_iter()
        .filter(seen)
        .take(KINDS);
    let mut all = Vec::new();
    for cell in cells {
        let mut own = 0;
        for (number, scenario) in samples(&side.sources(), &cell, TRIES).into_iter().enumerate() {
            if own == TRIED {
                break;
            }
            let mut object = scenario.request.object.root().to_serde();
            if let Some(part) = unit.parts.get(number % (unit.parts.len() + 1)) {
                object = merge(&object, part);
            }
            let kind = cell.resource.object_kind.kind.to_lowercase();
            // One of these names is free, because there are more of them than used ones.
            let mut names = (1..=used.len() + 1).map(|n| format!("{kind}-{n}"));
            let Some(name) = names.find(|name| !used.contains(name)) else {
                break;
            };
            object["metadata"]["name"] = json!(name);
            if cell.namespaced {
                object["metadata"]["namespace"] = json!(unit.namespace);
            }
            let mut request = scenario.request.clone();
            request.object = Document::from(&object);
            request.name.clone_from(&name);
            if cell.namespaced {
                request.namespace.clone_from(&unit.namespace);
            }
            if server.admit(&mut request).is_ok() {
                used.insert(name);
                own += 1;
                all.push(tidy(object));
            }
        }
    }
    all
}

/// An object without empty maps, lists and texts at its metadata, and with what identifies it first.
fn tidy(mut object: Json) -> Json {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    let mut first = serde_json::Map::new();
    for key in ["apiVersion", "kind", "metadata"] {
        first.extend(map.shift_remove(key).map(|value| (key.to_owned(), value)));
    }
    first.append(map);
    Json::Object(first)
}

type World<'w> = (&'w Settings, &'w dyn Files, &'w str);

/// Runs a suite that is not written yet.
fn trial<T>(
    own: &[File],
    (settings, files, directory): World<'_>,
    look: impl Fn(&Suite, &crate::run::SuiteRun) -> T,
) -> Vec<T> {
    let mut over = Memory::default();
    for file in own {
        over.add(&join(directory, file.name), file.text.as_bytes());
    }
    let overlay = Overlay { under: files, over };
    let suites = suite::load(
        &overlay,
        &join(directory, TEST),
        &Options::in_cluster(&settings.discovery),
    );
    suites.iter().map(|suite| look(suite, &run(suite, settings))).collect()
}

/// The first row that changes its object and the first that does not.
fn chosen(tried: Vec<Row>, units: &[Unit], frame: &Frame, world: World<'_>) -> Vec<Row> {
    let own = written(&tried, units, frame);
    let found = trial(&own, world, |suite, run| {
        let outcome = |number: usize| {
            let case = run.cases.iter().find(|case| case.row == Some(number))?;
            let status = case.kyverno.as_ref()?.status;
            let row = suite.rows().get(number)?;
            let objects = made(run, row, case).map(|(given, object)| (plain(given), plain(object)));
            Some((status, objects))
        };
        (0..suite.rows().len()).map(outcome).collect::<Vec<_>>()
    });
    let found = found.into_iter().flatten();
    let mut changed = None;
    let mut left = None;
    for (row, found) in tried.into_iter().zip(found) {
        match found {
            Some((Status::Pass, Some((given, object)))) if changed.is_none() && object != given => {
                changed = Some(Row {
                    patched: Some(tidy(reconciled(Some(&row.object), &given, &object))),
                    ..row
                });
            }
            Some((Status::Skip, _)) if left.is_none() => {
                left = Some(Row {
                    patched: None,
                    result: "skip",
                    ..row
                });
            }
            _ => {}
        }
    }
    changed.into_iter().chain(left).collect()
}

/// The numbers of the rows that a run does not meet.
fn wrong(own: &[File], rows: &[Row], world: World<'_>) -> BTreeSet<usize> {
    let found = trial(own, world, |_, run| {
        let is_met = |case: &&Case| case.outcome == Outcome::Pass && !case.diverges();
        let wrong = (0..rows.len()).filter(|number| {
            let cases: Vec<&Case> = run.cases.iter().filter(|case| case.row == Some(*number)).collect();
            cases.is_empty() || !cases.iter().all(is_met)
        });
        wrong.collect::<Vec<_>>()
    });
    if found.is_empty() {
        return (0..rows.len()).collect();
    }
    found.into_iter().flatten().collect()
}

fn written(rows: &[Row], units: &[Unit], frame: &Frame) -> Vec<File> {
    let mut document = test(&frame.name);
    document["policies"] = json!(frame.policies);
    if !frame.exceptions.is_empty() {
        document["exceptions"] = json!(frame.exceptions);
    }
    document["resources"] = json!([RESOURCES]);
    let results: Vec<Json> = rows
        .iter()
        .filter_map(|row| {
            let unit = units.get(row.unit)?;
            let metadata = &row.object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let key = match metadata["namespace"].as_str() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            };
            let mut result = json!({"policy": unit.reference});
            if let Some(rule) = &unit.rule {
                result["rule"] = json!(rule);
            }
            if let Some(flag) = unit.flag {
                result[flag] = json!(true);
            }
            result["kind"] = row.object["kind"].clone();
            result["resources"] = json!([key]);
            if row.patched.is_some() {
                result["patchedResources"] = json!(PATCHED);
            }
            result["result"] = json!(row.result);
            Some(result)
        })
        .collect();
    document["results"] = json!(results);
    let mut all = vec![
        File {
            name: TEST,
            text: format!("{}{}", frame.head, yaml(&document)),
        },
        File::with_all(RESOURCES, rows.iter().map(|row| row.object.clone())),
    ];
    let patched: Vec<Json> = rows.iter().filter_map(|row| row.patched.clone()).collect();
    if !patched.is_empty() {
        all.push(File::with_all(PATCHED, patched));
    }
    all
}
