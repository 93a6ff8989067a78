//! The stages of the DeletingPolicies and of the CleanupPolicies, and what `kyverno apply` makes of the latter.
//!
//! Upstream counterpart: `applyDeletingPolicies` of `cmd/cli/kubectl-kyverno/commands/test/test.go`, `Handle` of
//! `pkg/cel/policies/dpol/engine/engine.go` and `applyCleanupPolicies` of `cmd/cli/kubectl-kyverno/commands/apply/command.go`
//! (1.19).

use std::sync::Arc;

use super::{
    case::Case,
    host::{Asker, CaseHost},
    observed::{CleanupResult, Observed, PolicyResponse, RuleResult, RuleType},
    resource::Resource,
};
use crate::{
    classic::context::{Api, Given, SuiteSources},
    cleanup_policy::CompiledCleanupPolicy,
    deleting_policy::{CompiledDeletingPolicy, Deletion},
    response::RuleResponse,
    schedule,
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Builder, Document, Value};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Namespace, Operation, Request, World, namespace_object},
    policy::CleanupPolicy,
    verdict::{Part, Status, Trace},
};

/// Evaluates the DeletingPolicies on an object or a payload. `discovery` is that of a cluster; `kyverno test` has its own.
///
/// # Errors
/// The text with which the run ends.
pub(super) fn deleting_policies(
    case: &Case,
    key: &str,
    object: &Document,
    discovery: Option<&Discovery>,
    host: &CaseHost<'_>,
) -> Result<Vec<PolicyResponse>, String> {
    let exceptions = case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
    let mut policies = Vec::new();
    for policy in case.policies.deleting() {
        // A cluster cannot tell when such a policy is due.
        if case.in_cluster && schedule::check(&policy.spec.schedule.value).is_err() {
            continue;
        }
        let compiled = CompiledDeletingPolicy::compile(policy, exceptions.clone());
        let name = &policy.metadata.name.value;
        policies.push(compiled.map_err(|error| format!("failed to compile policy {name} ({error})"))?);
    }
    let object = &doubles(object);
    let mut responses = Vec::new();
    for policy in &policies {
        let (status, message) = match handle(case, policy, object, discovery, host) {
            Ok(None) => continue,
            Ok(Some(Deletion::Delete)) => (Status::Pass, "resource matched".to_owned()),
            Ok(Some(Deletion::Keep | Deletion::Exempt(_))) => (Status::Fail, "resource did not match".to_owned()),
            Err(error) => (Status::Error, error),
        };
        let trace = if status == Status::Error {
            Trace::error(Part::All)
        } else {
            Trace::of(Part::All)
        };
        let response = RuleResponse::new(&policy.id().name, status, message, trace);
        responses.push(PolicyResponse::new(
            key.to_owned(),
            policy.id().kind,
            (policy.id().name.clone(), policy.id().namespace.clone()),
            vec![RuleResult::new(RuleType::Deletion, response)],
        ));
    }
    Ok(responses)
}

fn doubles(object: &Document) -> Document {
    let mut builder = Builder::new();
    builder.value_with_doubles(object.root());
    builder.finish()
}

/// What a policy decides about an object; `None` if the object is not selected. What is not an object of Kubernetes is
/// selected always.
fn handle(
    case: &Case,
    policy: &CompiledDeletingPolicy,
    object: &Document,
    discovery: Option<&Discovery>,
    host: &dyn Host,
) -> Result<Option<Deletion>, String> {
    let root = object.root();
    let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let mut described = Document::null();
    if !api_version.is_empty() && !kind.is_empty() {
        let built_in;
        let discovery = match discovery {
            Some(discovery) => discovery,
            None => {
                built_in = Discovery::kubernetes();
                &built_in
            }
        };
        let Some(served) = discovery.by_object(api_version, kind) else {
            return Err(format!("no matches for kind {kind:?} in version {api_version:?}"));
        };
        let mut world = World::new();
        case.values.describe_namespaces(&mut world);
        let name = text(&["metadata", "namespace"]);
        let is_namespace = api_version == "v1" && kind == "Namespace";
        let known = match name {
            "" if is_namespace => {
                let name = text(&["metadata", "name"]);
                Some(world.namespace(name).cloned().unwrap_or_else(|| own(root, name)))
            }
            name => world.namespace(name).cloned(),
        };
        if let Some(namespace) = &known {
            described = namespace_object(namespace.object.root());
        }
        let request = Request::about(Operation::Create, Arc::clone(served), object.clone());
        // For selectors a namespace of which nothing is known has its name as a label.
        let labelled = known.or_else(|| (!name.is_empty()).then(|| Namespace::minimal(name)));
        if !policy.selects(&request, labelled.as_ref())? {
            return Ok(None);
        }
    }
    policy.evaluate(root, described.root(), host).map(Some)
}

/// A Namespace object as the namespace that it is in: name and labels.
fn own(object: Value<'_>, name: &str) -> Namespace {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(kyvtest_go_compat::value::Map::iter);
    let labels: Vec<(&str, &str)> = labels
        .filter_map(|(key, value)| Some((key.text(), value.as_str()?)))
        .collect();
    Namespace::with_labels(name, labels)
}

/// Evaluates the CleanupPolicies on a resource, as a cluster does when they are due; `kyverno test` does not.
pub(super) fn cleanup_policies(case: &Case, resource: &Resource, host: &CaseHost<'_>) -> Vec<PolicyResponse> {
    let mut responses = Vec::new();
    for policy in case.policies.cleanup() {
        if schedule::check(&policy.spec.schedule.value).is_err() {
            continue;
        }
        let outside = SuiteSources {
            host,
            values: Vec::new(),
            namespace: "",
            given: Given {
                api: Api::Server,
                ..case.surroundings.given()
            },
        };
        let (status, message) = match cleans_up(case, policy, resource, &outside) {
            Ok(None) => continue,
            Ok(Some(true)) => (Status::Pass, "resource matched".to_owned()),
            Ok(Some(false)) => (Status::Fail, "resource did not match".to_owned()),
            Err(error) => (Status::Error, error),
        };
        let trace = if status == Status::Error {
            Trace::error(Part::All)
        } else {
            Trace::of(Part::All)
        };
        let name = &policy.metadata.name.value;
        let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
        let response = RuleResponse::new(name, status, message, trace);
        responses.push(PolicyResponse::new(
            resource.key(),
            policy.kind(),
            (
                name.clone(),
                namespace.map(|text| text.value.clone()).unwrap_or_default(),
            ),
            vec![RuleResult::new(RuleType::Deletion, response)],
        ));
    }
    responses
}

/// Whether a policy deletes a resource; `None` if it is not about it.
fn cleans_up(
    case: &Case,
    policy: &CleanupPolicy,
    resource: &Resource,
    outside: &SuiteSources<'_>,
) -> Result<Option<bool>, String> {
    let mut world = World::new();
    case.values.describe_namespaces(&mut world);
    let discovery = Discovery::kubernetes();
    let kind = GroupVersionKind::from_api_version(&resource.api_version, &resource.kind);
    let served = discovery.by_object(&resource.api_version, &resource.kind).cloned();
    let served = served.unwrap_or_else(|| Arc::new(Discovery::guess(&kind, !resource.namespace.is_empty())));
    let request = Request::about(Operation::Create, served, doubles(&resource.object));
    CompiledCleanupPolicy::new(policy).deletes(&request, world.namespace(&resource.namespace), outside)
}

/// What `kyverno apply` reports about the CleanupPolicies of a case, by resource.
pub(super) fn cleanup(case: &Case, host: &dyn Host, observed: &mut Observed) {
    let host = CaseHost::new(case, host, Asker::Classic);
    let mut results = Vec::new();
    for policy in case.policies.cleanup() {
        let outside = SuiteSources {
            host: &host,
            values: Vec::new(),
            namespace: "",
            given: Given::default(),
        };
        let name = &policy.metadata.name.value;
        let namespace = policy.metadata.namespace.as_ref();
        for resource in &case.resources {
            let (status, message) = match cleans_up(case, policy, resource, &outside) {
                Ok(Some(true)) => (Status::Pass, "resource matched".to_owned()),
                // Resources that the policy is not about are reported as well.
                Ok(Some(false) | None) => (Status::Fail, "resource did not match".to_owned()),
                Err(error) => (Status::Error, error),
            };
            results.push(CleanupResult {
                resource: resource.key(),
                policy: match namespace.filter(|_| policy.namespaced) {
                    Some(namespace) => format!("{}/{name}", namespace.value),
                    None => name.clone(),
                },
                rule: name.clone(),
                status,
                message,
            });
        }
    }
    results.sort_by(|a, b| (&a.policy, &a.resource).cmp(&(&b.policy, &b.resource)));
    observed.results = Some(results);
}
