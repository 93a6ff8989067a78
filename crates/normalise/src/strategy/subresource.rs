//! Subresources: the part of an object that each of them may change.
//!
//! Upstream counterpart: the strategies of `status`, `finalize`, `approval`, `ephemeralcontainers` and `resize`, and the
//! storage of `scale`, `eviction`, `binding` and `token` below `pkg/registry`, Kubernetes 1.36.
//!
//! Known deviations: the times of conditions are not filled in.

use super::{Served, pod, update};
use crate::{
    Cluster, Operation, Refused, Request, Stage,
    node::Node,
    step::{Decoded, Known},
};

/// Kinds whose status updates leave all metadata of the stored object.
const KEEP_METADATA: &[&str] = &[
    "APIService",
    "DeviceTaintRule",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// The audience of tokens that name none.
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Prepares the object of a request to a subresource; `old` is the stored object of an UPDATE.
pub(super) fn prepare(
    decoded: &mut Decoded<'_>,
    old: Option<&Decoded<'_>>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    match (old, decoded.known) {
        (Some(old), Known::BuiltIn(served)) => change(served, &mut decoded.node, &old.node, request),
        (Some(old), Known::Custom(custom)) => {
            update::preconditions(custom.resource, custom.api_version, true, &decoded.node, &old.node)?;
            custom_status(&mut decoded.node, &old.node);
            Ok(())
        }
        (None, Known::BuiltIn(_)) if request.operation == Operation::Create => {
            create(&mut decoded.node, request, cluster)
        }
        _ => Ok(()),
    }
}

/// Everything but the status is that of the stored object.
fn custom_status(node: &mut Node<'_>, old: &Node<'_>) {
    let status = node.remove("status");
    *node = old.to_owned();
    node.remove("status");
    if let Some(status) = status {
        node.set("status", status);
    }
}

fn create(node: &mut Node<'_>, request: Request<'_>, cluster: &Cluster) -> Result<(), Refused> {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let kind = match request.subresource {
        "eviction" => "Eviction",
        "binding" => "Binding",
        "token" => {
            token(node, request, cluster);
            return Ok(());
        }
        _ => return Ok(()),
    };
    if !request.name.is_empty() && name != request.name {
        let message = format!("name in URL does not match name in {kind} object");
        return Err(Refused::new(Stage::Request, message));
    }
    // A dry run must not evict.
    if let (true, Some(options)) = (request.dry_run, node.get_mut("deleteOptions"))
        && options.list("dryRun").is_empty()
    {
        options.set("dryRun", Node::List(vec![Node::text("All")]));
    }
    Ok(())
}

/// Names the service account that the token is for.
fn token(node: &mut Node<'_>, request: Request<'_>, cluster: &Cluster) {
    let metadata = node.child("metadata");
    if metadata.str("name").is_empty() {
        metadata.set("name", request.name.to_owned());
    }
    if metadata.str("uid").is_empty() {
        let id = super::uid(&["v1", "ServiceAccount", metadata.str("namespace"), metadata.str("name")]);
        metadata.set("uid", id);
    }
    metadata.set("creationTimestamp", cluster.now.clone());
    let spec = node.child("spec");
    if spec.list("audiences").is_empty() {
        spec.set("audiences", Node::List(vec![Node::text(AUDIENCE)]));
    }
    node.set("status", Node::EMPTY);
}

fn change(served: Served, node: &mut Node<'_>, old: &Node<'_>, request: Request<'_>) -> Result<(), Refused> {
    let conditional = update::CONDITIONAL.contains(&served.kind);
    update::preconditions(served.resource, served.api_version, conditional, node, old)?;
    if request.subresource == "scale" {
        scale(node, old);
        return Ok(());
    }
    update::keep_metadata(node, old);
    match request.subresource {
        "status" => status(served.kind, node, old),
        "finalize" => copy(node, old, "status"),
        "approval" => {
            let conditions = node.child("status").remove("conditions");
            for field in ["spec", "status"] {
                copy(node, old, field);
            }
            let status = node.child("status");
            status.remove("conditions");
            if let Some(conditions) = conditions {
                status.set("conditions", conditions);
            }
        }
        "ephemeralcontainers" => {
            let containers = node.child("spec").remove("ephemeralContainers");
            keep_all(node, old);
            let spec = node.child("spec");
            spec.remove("ephemeralContainers");
            if let Some(containers) = containers {
                spec.set("ephemeralContainers", containers);
            }
            update::count_generation(served, node, old);
        }
        "resize" => {
            resize(node, old);
            update::count_generation(served, node, old);
        }
        _ => {}
    }
    Ok(())
}

/// A scale shows the identity of its object; only the replicas can be changed.
fn scale(node: &mut Node<'_>, old: &Node<'_>) {
    for field in ["metadata", "status"] {
        copy(node, old, field);
    }
}

/// Sets a field to its stored value.
fn copy(node: &mut Node<'_>, old: &Node<'_>, field: &'static str) {
    node.remove(field);
    if let Some(value) = old.get(field) {
        node.set(field, value.to_owned());
    }
}

/// Upstream: `metav1.ResetObjectMetaForStatus`.
fn reset_metadata(node: &mut Node<'_>, old: &Node<'_>) {
    let metadata = node.child("metadata");
    for field in [
        "deletionTimestamp",
        "generation",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        metadata.remove(field);
        if let Some(value) = old.at(&["metadata", field]) {
            metadata.set(field, value.to_owned());
        }
    }
}

fn keep_all(node: &mut Node<'_>, old: &Node<'_>) {
    for field in ["spec", "status"] {
        copy(node, old, field);
    }
    reset_metadata(node, old);
}

fn status(kind: &str, node: &mut Node<'_>, old: &Node<'_>) {
    copy(node, old, "spec");
    if KEEP_METADATA.contains(&kind) {
        reset_metadata(node, old);
    }
    match kind {
        "Deployment" => copy(
            node.child("metadata"),
            old.get("metadata").unwrap_or(&Node::EMPTY),
            "labels",
        ),
        "Pod" => pod::status(node, old),
        "DaemonSet" => {
            // The annotation is a field of the stored spec.
            let path = ["metadata", "annotations", super::TEMPLATE_GENERATION];
            if let Some(generation) = old.at(&path) {
                let annotations = node.child("metadata").child("annotations");
                annotations.set(super::TEMPLATE_GENERATION, generation.to_owned());
            }
        }
        "PersistentVolume" => {
            let phase = |node: &Node<'_>| node.at(&["status", "phase"]).map_or("", Node::as_str).to_owned();
            let since = old.at(&["status", "lastPhaseTransitionTime"]);
            if phase(node) == phase(old)
                && let Some(since) = since
            {
                node.child("status")
                    .set_default("lastPhaseTransitionTime", since.to_owned());
            }
        }
        _ => {}
    }
}

/// Only the resources of containers change. Containers that were added, removed or renamed stay for validation to reject.
fn resize(node: &mut Node<'_>, old: &Node<'_>) {
    let names = |node: &Node<'_>, field: &str| -> Vec<String> {
        let containers = node.get("spec").map_or(&[][..], |spec| spec.list(field));
        containers.iter().map(|own| own.str("name").to_owned()).collect()
    };
    let lists = ["containers", "initContainers"];
    if lists.iter().any(|field| names(node, field) != names(old, field)) {
        return;
    }
    let sent = node.child("spec").to_owned();
    keep_all(node, old);
    let spec = node.child("spec");
    copy(spec, &sent, "resources");
    for field in lists {
        for (container, own) in spec.list_mut(field).iter_mut().zip(sent.list(field)) {
            for part in ["resources", "resizePolicy"] {
                copy(container, own, part);
            }
        }
    }
}
