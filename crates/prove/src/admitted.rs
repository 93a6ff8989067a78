//! Whether an API server would accept the objects of a witness, and what admission would then see.
//!
//! A difference that shows only on objects that a server refuses, or changes before admission, is none that a cluster can
//! show: such a witness is printed as `data=raw`. No upstream counterpart; the server's part is [`super::server`].

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    server::{Refused, Server},
    witness::Scenario,
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::{Operation, Resource};

/// Returns the request with its objects as admission sees them.
///
/// # Errors
/// The refusal of the API server.
pub(super) fn admitted(scenario: &Scenario, server: &Server) -> Result<Scenario, Refused> {
    let mut admitted = scenario.clone();
    server.admit(&mut admitted.request)?;
    Ok(admitted)
}

/// Returns the request with its objects as a server decodes them. Objects of subresources are not validated, except that a Pod
/// that gets ephemeral containers stays as it is otherwise, was valid when it was created, and gets valid containers.
///
/// # Errors
/// The refusal of the API server.
pub(super) fn decoded(scenario: &Scenario, server: &Server) -> Result<Scenario, Refused> {
    let resource = &scenario.request.resource;
    if resource.subresource.is_empty() {
        return admitted(scenario, server);
    }
    let namespace = if resource.namespaced {
        scenario.request.namespace.as_str()
    } else {
        ""
    };
    let ephemeral = with_ephemeral_containers(scenario, server)?;
    let scenario = ephemeral.as_ref().unwrap_or(scenario);
    let decode = |object: &Document| server.decode(&resource.object_kind, namespace, object);
    let mut seen = scenario.clone();
    seen.request.object = decode(&scenario.request.object)?;
    seen.request.old_object = decode(&scenario.request.old_object)?;
    Ok(seen)
}

/// An update of a Pod's ephemeral containers as the server carries it out (`dropNonEphemeralContainerUpdates`); `None` if the
/// request is another one.
fn with_ephemeral_containers(scenario: &Scenario, server: &Server) -> Result<Option<Scenario>, Refused> {
    let resource = &scenario.request.resource;
    let is_update = scenario.request.operation == Operation::Update;
    if !is_update || resource.subresource != "ephemeralcontainers" || resource.plural != "pods" {
        return Ok(None);
    }
    let mut created = scenario.clone();
    let mut first = scenario.request.old_object.root().to_serde();
    if let Some(metadata) = first.pointer_mut("/metadata").and_then(Json::as_object_mut) {
        metadata.shift_remove("resourceVersion");
    }
    if let Some(spec) = first.pointer_mut("/spec").and_then(Json::as_object_mut) {
        spec.shift_remove("ephemeralContainers");
    }
    created.request.operation = Operation::Create;
    created.request.resource = Arc::new(Resource::main(&resource.object_kind, "pods", true));
    created.request.object = Document::from(&first);
    created.request.old_object = Document::null();
    let wanted = scenario.request.object.root().to_serde();
    let mut checked = created.clone();
    checked.request.object = Document::from(&with_more_containers(&first, &wanted["spec"]["ephemeralContainers"]));
    server.admit(&mut created.request)?;
    server.admit(&mut checked.request)?;
    let mut changed = scenario.clone();
    let mut new = scenario.request.old_object.root().to_serde();
    if let Some(spec) = new.pointer_mut("/spec").and_then(Json::as_object_mut) {
        spec.shift_remove("ephemeralContainers");
        if let Some(list) = wanted["spec"].get("ephemeralContainers") {
            spec.insert("ephemeralContainers".to_owned(), list.clone());
        }
    }
    changed.request.object = Document::from(&new);
    Ok(Some(changed))
}

/// A Pod in which ephemeral containers are ordinary ones: what validation asks of these, it asks of those as well.
fn with_more_containers(pod: &Json, more: &Json) -> Json {
    let mut pod = pod.clone();
    let list = pod.pointer_mut("/spec/containers").and_then(Json::as_array_mut);
    if let (Some(list), Some(more)) = (list, more.as_array()) {
        for container in more {
            let mut container = container.clone();
            if let Some(fields) = container.as_object_mut() {
                fields.shift_remove("targetContainerName");
            }
            list.push(container);
        }
    }
    pod
}
