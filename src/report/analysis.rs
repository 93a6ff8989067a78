//! Results for all requests: proof labels in run reports, and the behaviour report.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Run, markdown::escaped};
use crate::run::{
    SuiteRun,
    analysis::{Behaviour, Label, Proof, Shown},
    coverage::Score,
};
use kyvtest_go_compat::diagnostic::Sources;
use kyvtest_model::verdict::Verdict;

/// The kind of difference, the code of a refusal.
fn details(label: &Label) -> (Option<&str>, Option<&str>) {
    match label {
        Label::Refuted(kind) => (Some(kind.as_str()), None),
        Label::NotConvertible { code } => (None, Some(code)),
        _ => (None, None),
    }
}

/// The reason why a label is not stronger.
fn why(proof: &Proof) -> &str {
    let first = proof.regions.first().map(|region| region.text.as_str());
    first.unwrap_or(&proof.reason)
}

/// The proofs of a suite as its JSON has them.
pub(super) fn proofs_json(run: &SuiteRun, sources: &Sources) -> Vec<Value> {
    let proof = |found: &crate::run::analysis::PolicyAnalysis<Proof>| {
        let proof = &found.found;
        let (kind, code) = details(&proof.label);
        let regions: Vec<Value> = proof
            .regions
            .iter()
            .map(|region| json!({"class": region.class.as_str(), "hazard": region.hazard, "text": region.text}))
            .collect();
        json!({
            "policy": {
                "kind": found.kind,
                "name": found.name,
                "file": sources.name(found.file),
                "doc": found.doc,
            },
            "label": proof.label.as_str(),
            "kind": kind,
            "code": code,
            "reason": (!proof.reason.is_empty()).then_some(&proof.reason),
            "world": proof.world.to_string(),
            "regions": regions,
        })
    };
    run.proofs.iter().map(proof).collect()
}

/// The proofs of a suite, one line each.
pub(super) fn proofs_human(run: &SuiteRun) -> String {
    let mut text = String::new();
    for found in &run.proofs {
        let proof = &found.found;
        let why = why(proof);
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(": {why}")
        };
        let label = proof.label.as_str();
        let _ = writeln!(text, "{label:<12} {} :: {}{why}", run.path, found.name);
    }
    text
}

/// The proofs of a suite as strings: policy, label, reason.
pub(super) fn proof_cells(run: &SuiteRun) -> impl Iterator<Item = [String; 3]> {
    run.proofs.iter().map(|found| {
        let proof = &found.found;
        [
            found.name.clone(),
            proof.label.as_str().to_owned(),
            why(proof).to_owned(),
        ]
    })
}

/// The proofs of all suites as a Markdown table; empty if there are none.
pub(super) fn proofs_markdown(runs: &[Run<'_>], text: &mut String) {
    if runs.iter().all(|(run, _)| run.proofs.is_empty()) {
        return;
    }
    text.push_str("\n## Proofs\n\n| suite | policy | label | why |\n|---|---|---|---|\n");
    for (run, _) in runs {
        for cells in proof_cells(run) {
            let [policy, label, why] = cells.map(|cell| escaped(&cell));
            let _ = writeln!(text, "| {} | {policy} | {label} | {why} |", escaped(&run.path));
        }
    }
}

/// The number of exercised behaviours; each suite counts separately.
pub fn exercised(runs: &[Run<'_>]) -> Score {
    let policies = runs.iter().flat_map(|(run, _)| &run.behaviours);
    score(policies.flat_map(|policy| &policy.found.list))
}

fn score<'b>(list: impl Iterator<Item = &'b Behaviour> + Clone) -> Score {
    Score {
        seen: list.clone().filter(|behaviour| behaviour.exercised).count() as u64,
        total: list.count() as u64,
    }
}

/// A sentence with the numbers.
fn sentence(suites: usize, score: Score) -> String {
    let who = if suites == 1 {
        "your suite tests".to_owned()
    } else {
        format!("your {suites} suites test")
    };
    let noun = if score.total == 1 { "behaviour" } else { "behaviours" };
    format!("{who} {} of {} {noun}", score.seen, score.total)
}

/// The human-readable behaviour report: the number first, then the missing ones with an example request each.
pub fn behaviours_human(runs: &[Run<'_>]) -> String {
    let mut text = String::new();
    let all = exercised(runs);
    let _ = writeln!(text, "{}", sentence(runs.len(), all));
    for (run, _) in runs {
        for policy in &run.behaviours {
            let own = score(policy.found.list.iter());
            let _ = writeln!(text, "\n{} :: {}: {} of {}", run.path, policy.name, own.seen, own.total);
            if !policy.found.note.is_empty() {
                let _ = writeln!(text, "  note: {}", policy.found.note);
            }
            for behaviour in &policy.found.list {
                let mark = if behaviour.exercised { "exercised" } else { "missing" };
                let side = match behaviour.sides {
                    "kyverno" => " [Kyverno only]",
                    "vap" => " [native policy only]",
                    _ => "",
                };
                let _ = writeln!(text, "  {mark:<9}  {}{side}", behaviour.text);
                if let Some(shown) = behaviour.witness.as_ref().filter(|_| !behaviour.exercised) {
                    witness(shown, &mut text);
                }
            }
        }
    }
    text
}

/// A request with its verdicts.
fn witness(shown: &Shown, text: &mut String) {
    let request = &shown.scenario.request;
    let describe = |verdict: &Verdict| format!("{} ({})", verdict.effect, verdict.status);
    let native = shown
        .native
        .as_ref()
        .map(|native| format!(", native policy: {}", describe(native)));
    let user = if request.user.username == "alice"
        && matches!(request.user.groups(), [only] if only == "system:authenticated")
    {
        String::new()
    } else {
        format!(
            " by {} in groups [{}]",
            request.user.username,
            request.user.groups().join(", ")
        )
    };
    let _ = writeln!(
        text,
        "    {} {}{user}: Kyverno: {}{}",
        request.operation.as_str(),
        request.resource.name(),
        describe(&shown.kyverno),
        native.unwrap_or_default()
    );
    let own = [("object", &request.object), ("oldObject", &request.old_object)];
    let around = shown.scenario.world.params.iter().map(|object| ("cluster has", object));
    for (name, document) in own.into_iter().chain(around) {
        if !document.root().is_null() {
            let _ = writeln!(text, "      {name}: {}", document.root().to_serde());
        }
    }
    for (name, list) in shown.scenario.calls.fields() {
        let _ = writeln!(text, "      {name}: {}", Value::Array(list));
    }
    let labels = shown.scenario.namespace_labels.iter();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    if labels.len() > 1 {
        let _ = writeln!(text, "      namespace labels: {}", labels.join(", "));
    }
}

pub fn behaviours_json(runs: &[Run<'_>], now: &str) -> Value {
    let suites: Vec<Value> = runs
        .iter()
        .map(|(run, sources)| {
            let policies: Vec<Value> = run
                .behaviours
                .iter()
                .map(|policy| {
                    json!({
                        "name": policy.name,
                        "kind": policy.kind,
                        "file": sources.name(policy.file),
                        "doc": policy.doc,
                        "score": super::coverage::score(score(policy.found.list.iter())),
                        "note": (!policy.found.note.is_empty()).then_some(&policy.found.note),
                        "behaviours": policy.found.list.iter().map(behaviour).collect::<Vec<_>>(),
                    })
                })
                .collect();
            json!({"path": run.path, "doc": run.doc, "name": run.name, "policies": policies})
        })
        .collect();
    json!({
        "version": 1,
        "kind": "behaviours",
        "now": now,
        "summary": super::coverage::score(exercised(runs)),
        "suites": suites,
    })
}

fn behaviour(behaviour: &Behaviour) -> Value {
    let verdict = |verdict: &Verdict| json!({"status": verdict.status.as_str(), "effect": verdict.effect.as_str(), "message": verdict.message});
    let witness = behaviour.witness.as_ref().map(|shown| {
        let request = &shown.scenario.request;
        let object = |document: &kyvtest_go_compat::value::Document| {
            let root = document.root();
            if root.is_null() { Value::Null } else { root.to_serde() }
        };
        let labels: serde_json::Map<String, Value> = shown
            .scenario
            .namespace_labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        json!({
            "operation": request.operation.as_str(),
            "collection": request.collection,
            "resource": request.resource.name(),
            "group": request.resource.group,
            "userInfo": {"username": request.user.username, "groups": request.user.groups()},
            "roles": request.roles.as_deref().unwrap_or_default(),
            "clusterRoles": request.cluster_roles.as_deref().unwrap_or_default(),
            "namespaceLabels": labels,
            "object": object(&request.object),
            "oldObject": object(&request.old_object),
            "kyverno": verdict(&shown.kyverno),
            "objects": shown.scenario.world.params.iter().map(object).collect::<Vec<_>>(),
            "globalContextEntries": shown.scenario.calls.entries(),
            "apiCallResponses": shown.scenario.calls.responses(),
            "vap": shown.native.as_ref().map(verdict),
        })
    });
    json!({
        "sides": behaviour.sides,
        "fate": behaviour.fate.as_str(),
        "text": behaviour.text,
        "cells": behaviour.cells,
        "exercised": behaviour.exercised,
        "witness": witness,
    })
}

/// The behaviours as a table in Markdown.
pub fn behaviours_markdown(runs: &[Run<'_>]) -> String {
    let all = exercised(runs);
    let mut text = format!("# Behaviours: {} of {}\n\n", all.seen, all.total);
    text.push_str("| suite | policy | behaviour | tested |\n|---|---|---|---|\n");
    for (run, _) in runs {
        for policy in &run.behaviours {
            for behaviour in &policy.found.list {
                let mark = if behaviour.exercised { "yes" } else { "**no**" };
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {mark} |",
                    escaped(&run.path),
                    escaped(&policy.name),
                    escaped(&behaviour.text)
                );
            }
        }
    }
    text
}
