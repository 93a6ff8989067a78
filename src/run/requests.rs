//! The requests that the policies of a suite are evaluated on.

use super::{
    Key, Settings, authorization,
    check::{Check, CheckId},
    engines::Engines,
};
use crate::suite::{Named, OldObject, Resource, Suite};
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::Operation;

pub(super) struct SuiteRequest<'s> {
    pub(super) run: Option<Operation>,
    pub(super) check_id: Option<CheckId>,
    pub(super) resource: &'s Resource,
    pub(super) key: &'s Key,
    pub(super) old: Option<Document>,
}

/// Every resource in every run, followed by the requests of rows and cases with their own old object, which `kyverno
/// test` does not have.
pub(super) fn requests<'e>(engines: &'e Engines<'_>, operations: &[Operation]) -> Vec<SuiteRequest<'e>> {
    let (suite, settings) = (engines.suite, engines.settings);
    let resources = || suite.resources.iter().zip(&engines.keys);
    let checks: Vec<Check<'_>> = Check::all(suite)
        .filter(|check| !settings.compat || check.row().is_some())
        .collect();
    let mut runs: Vec<Option<Operation>> = vec![None];
    for check in &checks {
        if !runs.contains(&check.operation) {
            runs.push(check.operation);
        }
    }
    for operation in operations {
        if !runs.contains(&Some(*operation)) {
            runs.push(Some(*operation));
        }
    }
    let mut requests = Vec::new();
    for run in runs {
        requests.extend(resources().map(|(resource, key)| SuiteRequest {
            run,
            check_id: None,
            resource,
            key,
            old: None,
        }));
    }
    if settings.compat {
        return requests;
    }
    for check in checks.iter().filter(|check| check.may_have_old_object(suite)) {
        for (resource, key) in resources() {
            if !check.concerns(key) {
                continue;
            }
            let old = check.wanted(suite, key).old_object;
            requests.extend(
                old.and_then(|old| old_object(suite, resource, old))
                    .map(|old| SuiteRequest {
                        run: check.operation,
                        check_id: Some(check.id),
                        resource,
                        key,
                        old: Some(old),
                    }),
            );
        }
    }
    requests
}

/// The old object of an expectation; `None` if its file could not be read. Immutable fields that it omits are taken
/// from the resource.
fn old_object(suite: &Suite, resource: &Resource, old: &OldObject) -> Option<Document> {
    let given = match old {
        OldObject::Inline(part) => part.document(),
        OldObject::File(path) => {
            let (_, found) = suite.old_objects.iter().find(|(known, _)| *known == path.value)?;
            (*found.object).clone()
        }
    };
    let mut object = given.root().to_serde();
    let fields = object.as_object_mut()?;
    let text = |text: &str| serde_json::Value::from(text);
    fields
        .entry("apiVersion")
        .or_insert_with(|| text(&resource.api_version));
    fields.entry("kind").or_insert_with(|| text(&resource.kind));
    let metadata = fields.entry("metadata").or_insert_with(|| serde_json::json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.entry("name").or_insert_with(|| text(&resource.name));
        if !resource.namespace.is_empty() {
            metadata.entry("namespace").or_insert_with(|| text(&resource.namespace));
        }
    }
    Some(Document::from(&object))
}

/// Every resource and payload of a suite, sorted. `resources` are the keys of its resources.
pub(super) fn keys(suite: &Suite, settings: &Settings, resources: &[Key]) -> Vec<Key> {
    let payloads = suite
        .json_payloads
        .iter()
        .map(|payload| Key::named(&payload.path.value));
    let requests = suite.http_payloads.iter().chain(&suite.envoy_payloads);
    let requests = requests.map(|payload| authorization::key(payload, settings));
    let mut keys: Vec<Key> = resources.iter().cloned().chain(payloads).chain(requests).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The operation in the values, else CREATE.
pub(super) fn default_operation(suite: &Suite, resource: &Resource) -> Operation {
    let operation = |values: &[Named]| {
        let value = values.iter().rev().find(|(name, _)| name.value == "request.operation");
        value
            .and_then(|(_, value)| value.value.root().as_str())
            .and_then(|text| text.parse().ok())
    };
    let own = suite.values.policies.iter().flat_map(|policy| &policy.resources);
    let own = own
        .filter(|entry| entry.name.value == resource.name)
        .find_map(|entry| operation(&entry.values));
    own.or_else(|| operation(&suite.values.global_values))
        .unwrap_or(Operation::Create)
}
