//! The results of `kyvtest prove` as JSON.

use kyvtest_model::policy::Policy;
use serde_json::{Value as Json, json};

use super::{Row, documents, fix_text};
use crate::run::Data;
use kyvtest_go_compat::{diagnostic::Sources, value::Value};
use kyvtest_model::verdict::Verdict;
use kyvtest_prove::{Label, Proof, Region, witness::Scenario};

/// The policy as `convert` writes it.
pub(super) fn policy_json(original: &Policy, sources: &Sources) -> Json {
    let origin = original.origin();
    json!({
        "apiVersion": original.api_version(),
        "kind": original.kind(),
        "namespace": original.namespace(),
        "name": original.name(),
        "file": sources.name(origin.file),
        "doc": origin.document,
    })
}

fn request_json(scenario: &Scenario) -> Json {
    let Scenario {
        request,
        world,
        namespace_labels,
        ..
    } = scenario;
    let labels: serde_json::Map<String, Json> = namespace_labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let resource = &request.resource;
    let object = |value: Value<'_>| if value.is_null() { Json::Null } else { value.to_serde() };
    json!({
        "operation": request.operation.as_str(),
        "collection": request.collection,
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "subResource": resource.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "namespaceLabels": labels,
        "userInfo": {"username": request.user.username, "groups": request.user.groups()},
        "roles": request.roles.as_deref().unwrap_or_default(),
        "clusterRoles": request.cluster_roles.as_deref().unwrap_or_default(),
        "object": object(request.object.root()),
        "oldObject": object(request.old_object.root()),
        "params": world.params.iter().map(|document| object(document.root())).collect::<Vec<_>>(),
    })
}

fn verdict_json(verdict: &Verdict) -> Json {
    json!({"status": verdict.status.as_str(), "effect": verdict.effect.as_str(), "message": verdict.message})
}

/// A region with its witness.
pub(in crate::cli) fn region_json(region: &Region) -> Json {
    let scenario = region.witness.scenario();
    let mut json = json!({
        "class": region.class.as_str(),
        "hazard": region.hazard,
        "text": region.text,
        "cells": region.cells,
        "witness": {
            "request": request_json(scenario),
            "kyverno": verdict_json(region.witness.kyverno()),
            "vap": verdict_json(region.witness.native()),
        },
    });
    let objects = region.witness.objects();
    if objects.iter().any(Option::is_some) {
        for (side, object) in ["kyverno", "vap"].into_iter().zip(objects) {
            json["witness"][side]["object"] = object.as_ref().map_or(Json::Null, |object| object.root().to_serde());
        }
    }
    if let Some(reason) = region.witness.raw_reason() {
        json["witness"]["data"] = json!({"lens": Data::Raw.name(), "reason": reason});
    }
    json
}

/// The kind of difference, and the code of a refusal.
fn details(label: &Label) -> (Option<&str>, Option<&str>) {
    match label {
        Label::Refuted(kind) => (Some(kind.as_str()), None),
        Label::NotConvertible { code } => (None, Some(code)),
        _ => (None, None),
    }
}

/// A row of the report.
pub(super) fn json_of(row: &Row) -> Json {
    let Proof {
        label,
        reason,
        world,
        regions,
        notes,
        stats,
        fault: _,
    } = &row.proof;
    let (kind, code) = details(label);
    json!({
        "policy": row.policy,
        "label": label.as_str(),
        "kind": kind,
        "code": code,
        "reason": (!reason.is_empty()).then_some(reason),
        "world": {
            "kyverno": world.kyverno, "kube": world.kube, "discovery": world.discovery,
            "layer": world.layer.as_str(), "data": world.data, "delete": world.delete,
        },
        "regions": regions.iter().map(region_json).collect::<Vec<_>>(),
        "notes": notes,
        "fix": row.fix.as_ref().map(|fix| {
            let objects: Vec<Json> = documents(fix).iter().map(|document| document.root().to_serde()).collect();
            json!({"text": fix_text(fix), "objects": objects})
        }),
        "stats": {"cells": stats.cells, "paths": stats.paths, "requests": stats.requests},
    })
}
