//! `kyvtest migrate`: every classic validate rule of the corpus and every whole rule of the golden set, translated and compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use kyvtest::{
    cel::host::Mocks,
    diagnostic::Sources,
    kube::{Discovery, GroupVersionKind, Operation, Request, UserInfo, World},
    migrate::{Options, RuleLabel, migrate},
    policy::{self, ClassicPolicy, Loaded, Purpose},
    prove::{body::Side, calls::Calls, server::Server, witness::Scenario},
    value::Document,
    verdict::Effect,
    yaml,
};
use rayon::prelude::*;
use serde_json::Value;

use crate::{
    kyverno::read,
    support::{self, Gate, jsonl, print_count, shared, text},
};

/// Of all rules of the corpus, in per cent: how many are translated, and how many of these proven.
const TRANSLATED: usize = 85;
const PROVEN: usize = 71;

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
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            found.push(path);
        }
    }
}

/// Every classic policy with validate rules, each once.
pub(crate) fn policies(folder: &Path) -> Vec<Arc<ClassicPolicy>> {
    let mut files = Vec::new();
    yaml_files(folder, &mut files);
    policies_of(&files)
}

/// The classic policies of some files, each once.
pub(crate) fn policies_of(files: &[PathBuf]) -> Vec<Arc<ClassicPolicy>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(file) else {
            continue;
        };
        let id = Sources::new().add(file.display().to_string(), text.as_str());
        let mut loaded = Loaded::default();
        let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
        policy::load(stream, id, Purpose::Policies, &mut loaded);
        for policy in loaded.classic().cloned() {
            let spec = policy.spec.source.document().root().to_json();
            if seen.insert((policy.metadata.name.value.clone(), spec)) {
                found.push(policy);
            }
        }
    }
    found
}

#[test]
fn corpus_rules_are_migrated() {
    let Some(folder) = shared("corpus") else { return };
    let discovery = Discovery::kubernetes();
    let policies = policies(&folder);
    let labels: Vec<(String, String)> = policies
        .par_iter()
        .flat_map_iter(|policy| {
            let migration = migrate(policy, &discovery, &Options::default());
            let rules = policy.spec.rules.iter().zip(migration.rules);
            let rules = rules.filter(|(rule, _)| {
                let validate = rule.validate.as_ref();
                validate.is_some_and(|validate| validate.manifests.is_none())
            });
            let each = rules.map(|(rule, migrated)| {
                let word = match &migrated.label {
                    RuleLabel::NotMigrated(code) => format!("NOT-MIGRATED({})", code.as_str()),
                    label => label.as_str().to_owned(),
                };
                (format!("{}/{}", policy.metadata.name.value, rule.name.value), word)
            });
            each.collect::<Vec<_>>()
        })
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, label) in &labels {
        *counts.entry(label).or_default() += 1;
    }
    let all = labels.len();
    let refused = labels
        .iter()
        .filter(|(_, label)| label.starts_with("NOT-MIGRATED"))
        .count();
    let proven = counts.get("PROVEN").copied().unwrap_or_default();
    print_count(&format!(
        "gate migrate-corpus: {all} rules, {} translated, {proven} proven",
        all - refused
    ));
    for (label, count) in &counts {
        print_count(&format!("  {count} {label}"));
    }
    assert!(all >= 354, "the corpus shrank to {all} rules");
    assert!(
        (all - refused) * 100 >= TRANSLATED * all,
        "less is translated than before"
    );
    assert!(proven * 100 >= PROVEN * all, "less is proven than before");
}

/// The request of a row.
fn scenario(row: &Value, discovery: &Discovery) -> Result<Scenario, String> {
    let resource = &row["resource"];
    let kind = GroupVersionKind::from_api_version(text(resource, "apiVersion"), text(resource, "kind"));
    let served = discovery
        .by_kind(&kind.group, &kind.version, &kind.kind)
        .ok_or("no kind")?;
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let mut request = Request::about(operation, Arc::clone(served), Document::from(resource));
    if operation == Operation::Update {
        request.old_object = Document::from(row.get("oldResource").unwrap_or(resource));
    }
    request.user = UserInfo {
        username: "alice".to_owned(),
        ..UserInfo::default()
    };
    if let Some(info) = row.get("info") {
        let info = Document::from(info);
        if let Some(user) = info.root().get("userInfo") {
            request.user = UserInfo::from_value(user);
        }
    }
    Ok(Scenario {
        request,
        world: World::new(),
        namespace_labels: Vec::new(),
        calls: Calls::default(),
    })
}

/// Migrates the policy of a row and compares both on the row's resource, as an API server shows it to admission.
fn check(row: &Value) -> Result<(), String> {
    let mut loaded = Loaded::default();
    read(text(row, "policy"), Purpose::Policies, &mut loaded);
    let Some(policy) = loaded.classic().next() else {
        return Ok(());
    };
    let resource = &row["resource"];
    let kind = GroupVersionKind::from_api_version(text(resource, "apiVersion"), text(resource, "kind"));
    let mut discovery = Discovery::kubernetes();
    discovery.add_guess(&kind, true);
    let mut scenario = scenario(row, &discovery)?;
    // An object that the server rejects never reaches a policy.
    let server = Server::new(&discovery, Vec::new()).without_service_accounts();
    if server.admit(&mut scenario.request).is_err() {
        return Ok(());
    }
    let migration = migrate(policy, &discovery, &Options::default());
    for (rule, migrated) in policy.spec.rules.iter().zip(&migration.rules) {
        if matches!(migrated.label, RuleLabel::NotMigrated(_)) {
            continue;
        }
        let object = Document::from_yaml(text(row, "policy")).map_err(|error| error.clone())?;
        let mut object = object.root().to_serde();
        object["spec"]["rules"] = serde_json::json!([rule.source.document().root().to_serde()]);
        let before = Side::from_objects(&[object], &discovery)?;
        let after = Side::from_objects(&migrated.objects, &discovery)?;
        let effect = |side: &Side| -> Effect { side.decide(&scenario, &discovery, &Mocks::new()).effect };
        let (before, after) = (effect(&before), effect(&after));
        if before != after {
            return Err(format!("rule {}: {before} became {after}", rule.name.value));
        }
    }
    Ok(())
}

#[test]
fn whole_rules_decide_alike_after_migration() {
    if let Some(path) = shared("golden/classic/rule.jsonl") {
        let rows: Vec<Value> = jsonl(&path);
        Gate {
            name: "migrate-rule",
            rows: 617,
        }
        .run(&rows, |row| text(row, "id").to_owned(), check);
    }
    let own: Vec<Value> = jsonl(&support::fixture("classic/rule.jsonl"));
    Gate {
        name: "migrate-rule-own",
        rows: 227,
    }
    .run(&own, |row| text(row, "id").to_owned(), check);
}
