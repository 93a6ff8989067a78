//! A generate rule and its translation on the same triggers: the objects that they generate must be equal.
//!
//! Upstream counterpart: `kyverno test` on both sides (`kyvtest_kyverno::offline`). Objects that rules copy are described to each side
//! in its own way. Labels that Kyverno adds to what it generates are left out, and a rule that is skipped counts as one that
//! generates nothing.

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{matching::kind_matches, offline};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation, RequestClass, parse_api_version},
    policy::{ClassicPolicy, Rule},
};
use kyvtest_prove::{
    server::{Reason, Server},
    universe,
    witness::Scenario,
};
use serde_json::{Value as Json, json};

use crate::{Options, Refusal, RefusalCode, kinds::load_translation, migrate::cut, samples::requests};

/// How many triggers of each kind are made.
const TRIES: u64 = 40;
const MORE: u64 = 8;
/// How many of them should generate something; below, more are made.
const ENOUGH: u64 = 5;

/// Runs both sides on triggers, and counts them.
///
/// # Errors
/// A trigger for which the sides generate different objects.
pub(super) fn rule(
    only: &ClassicPolicy,
    rule: &Rule,
    objects: &[Json],
    discovery: &Discovery,
    options: &Options,
) -> Result<u64, Refusal> {
    load_translation(objects)?;
    let written = cut(only, &[rule]);
    let mut sources: Vec<Json> = objects.iter().map(|object| object["spec"].clone()).collect();
    sources.push(written["spec"].clone());
    let universe = universe::with_unknown(discovery);
    let cells: Vec<RequestClass<'_>> = universe::cells(&universe)
        .into_iter()
        .filter(|cell| cell.operation == Operation::Create && cell.resource.subresource.is_empty())
        .filter(|cell| {
            rule.matches
                .kinds()
                .any(|kind| kind_matches(kind, cell.resource, false))
        })
        .take(8)
        .collect();
    let copied = sources_of(&written["spec"]["rules"][0]["generate"]);
    let server = Server::new(discovery, Vec::new());
    let (mut tried, mut generated) = (0, 0);
    for factor in [1, MORE] {
        for cell in &cells {
            let count = TRIES.min(options.proof.tries.max(1)) * factor;
            for scenario in requests(&sources, &[rule], cell, count) {
                let before = evaluated(&written, &scenario, ("cloneSource", json!(copied)), true).unwrap_or_default();
                let mut after: Vec<Json> = Vec::new();
                for object in objects {
                    let given = ("context", json!({"resources": copied}));
                    after.extend(evaluated(object, &scenario, given, false).map_err(|error| {
                        let reason = format!("the translation cannot be evaluated: {error}");
                        Refusal::new(RefusalCode::Refuted, reason)
                    })?);
                }
                tried += 1;
                generated += u64::from(!before.is_empty());
                if !are_alike(&before, &after, &server) && !has_duplicates(&scenario, &server) {
                    let object = scenario.request.object.root().to_json();
                    let reason = format!(
                        "the translation generates other objects; it is not written. The trigger: {object}; the rule: {}; \
                         the translation: {}",
                        Json::Array(before),
                        Json::Array(after)
                    );
                    return Err(Refusal::new(RefusalCode::Refuted, reason));
                }
            }
        }
        if generated >= ENOUGH {
            break;
        }
    }
    if generated == 0 {
        let reason = "no object was found for which the rule generates another one, so nothing shows that the translation is right";
        return Err(Refusal::new(RefusalCode::Untested, reason));
    }
    Ok(tried)
}

/// Whether the objects are equal, as they are or as an API server reads them: it drops a `null` that one side writes.
fn are_alike(before: &[Json], after: &[Json], server: &Server) -> bool {
    let read = |object: &Json| {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (group, version) = parse_api_version(text("apiVersion"));
        let kind = GroupVersionKind::new(group, version, text("kind"));
        server.read(&kind, &Document::from(object)).ok()
    };
    let same = |(own, other): (&Json, &Json)| own == other || read(own).is_some_and(|own| Some(own) == read(other));
    before.len() == after.len() && before.iter().zip(after).all(same)
}

/// Whether an API server rejects the trigger because two things have one name, such as two containers: a trigger that is
/// merely incomplete could be completed.
fn has_duplicates(scenario: &Scenario, server: &Server) -> bool {
    let refused = server.admit(&mut scenario.request.clone()).err();
    refused.is_some_and(|refused| refused.errors.iter().any(|error| error.reason == Reason::Duplicate))
}

/// Objects that a rule copies.
fn sources_of(generate: &Json) -> Vec<Json> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let object = |api_version: String, kind: String, namespace: String, name: String| {
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "data": {"key": "dmFsdWU="},
        })
    };
    let clone = &generate["clone"];
    if clone.is_object() {
        found.push(object(
            text(&generate["apiVersion"]),
            text(&generate["kind"]),
            text(&clone["namespace"]),
            text(&clone["name"]),
        ));
    }
    let list = &generate["cloneList"];
    for kind in list["kinds"].as_array().into_iter().flatten() {
        let written = text(kind);
        let (api_version, kind) = written.rsplit_once('/').unwrap_or(("v1", &written));
        for (name, selected) in [("one", true), ("two", true), ("three", false)] {
            let mut made = object(
                api_version.to_owned(),
                kind.to_owned(),
                text(&list["namespace"]),
                format!("{}-{name}", kind.to_ascii_lowercase()),
            );
            if let Some(labels) = list["selector"]["matchLabels"].as_object().filter(|_| selected) {
                made["metadata"]["labels"] = json!(labels);
            }
            found.push(made);
        }
    }
    found
}

/// What a policy generates for a trigger.
///
/// # Errors
/// The text with which Kyverno ends the run.
fn evaluated(
    policy: &Json,
    scenario: &Scenario,
    (key, given): (&str, Json),
    classic: bool,
) -> Result<Vec<Json>, String> {
    let namespace = scenario.world.namespace(&scenario.request.namespace);
    let labels = namespace.and_then(|namespace| {
        let object = namespace.object.root().to_serde();
        object["metadata"].get("labels").cloned()
    });
    let row = json!({
        "policies": [policy],
        "resource": scenario.request.object.root().to_serde(),
        "values": {"namespaceSelector": [{
            "name": scenario.request.namespace,
            "labels": labels.unwrap_or_else(|| json!({})),
        }]},
        key: given,
    });
    let case = offline::Case::read(Document::from(&row).root())?;
    let observed = offline::run(&case, &Mocks::new()).to_json();
    if let Some(error) = observed["error"].as_str() {
        return Err(error.to_owned());
    }
    let responses = observed["responses"].as_array().into_iter().flatten();
    let rules = responses.flat_map(|response| response["rules"].as_array().into_iter().flatten());
    let rules = rules.filter(|rule| !classic || rule["status"] == "pass");
    let objects = rules.flat_map(|rule| rule["generated"].as_array().into_iter().flatten());
    Ok(objects.map(without_labels).collect())
}

/// Whole numbers as such: one side has doubles, which print alike.
fn whole_numbers(value: &mut Json) {
    match value {
        Json::Number(number) => {
            if let Some(double) = number.as_f64()
                && double.fract() == 0.0
                && double.abs() < 9e15
            {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number of a small size")]
                let whole = double as i64;
                *value = json!(whole);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(whole_numbers),
        Json::Object(entries) => entries.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// An object without the labels that Kyverno adds.
fn without_labels(object: &Json) -> Json {
    let mut object = object.clone();
    whole_numbers(&mut object);
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return object;
    };
    if let Some(labels) = metadata.get_mut("labels").and_then(Json::as_object_mut) {
        labels.retain(|key, value| {
            let managed = key == "app.kubernetes.io/managed-by" && value == "kyverno";
            !managed && !key.starts_with("generate.kyverno.io/")
        });
        if labels.is_empty() {
            metadata.shift_remove("labels");
        }
    }
    object
}
