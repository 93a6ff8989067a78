//! The strategy of a kind, which runs before validation: system metadata, status, allocated values, generated labels.
//!
//! Upstream counterpart: `PrepareForCreate` and `PrepareForUpdate` below `pkg/registry`, `rest.BeforeCreate` and
//! `rest.BeforeUpdate`, Kubernetes 1.36.

use std::borrow::Cow;

use crate::{
    Cluster, Refused, Request, Stage,
    node::Node,
    step::{Decoded, Known},
    table::{Served, Shape, TABLE},
};

mod pod;
mod service;
mod subresource;
mod update;

pub(crate) use pod::quality_of_service;
pub(crate) use update::{CREATED_BY_PUT, identity};

/// Kinds whose strategy starts `metadata.generation` at 1.
const GENERATIONS: &[&str] = &[
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "DeviceClass",
    "EndpointSlice",
    "FlowSchema",
    "Ingress",
    "IngressClass",
    "Job",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "ResourceSlice",
    "StatefulSet",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Prepares an object for validation; `old` is the stored object of an UPDATE.
pub(crate) fn prepare(
    decoded: &mut Decoded<'_>,
    old: Option<&Decoded<'_>>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    if !request.subresource.is_empty() {
        return subresource::prepare(decoded, old, request, cluster);
    }
    let served = match decoded.known {
        Known::BuiltIn(served) => served,
        Known::Custom(custom) => return update::custom(custom, decoded, old, cluster),
        Known::Unknown => return Ok(()),
    };
    match old {
        None => create(served, &mut decoded.node, cluster),
        Some(old) => update::update(served, decoded, old, cluster),
    }
}

/// Fills in missing values that the server set when the object was created.
pub(crate) fn complete_stored(decoded: &mut Decoded<'_>, cluster: &Cluster) {
    let served = match decoded.known {
        Known::BuiltIn(served) => served,
        Known::Custom(custom) => {
            let metadata = decoded.node.child("metadata");
            let id = uid(&[
                custom.api_version,
                custom.kind,
                metadata.str("namespace"),
                metadata.str("name"),
            ]);
            metadata.set_default("uid", id);
            metadata.set_default("creationTimestamp", cluster.now.clone());
            metadata.set_default("generation", 1);
            metadata.set_default("resourceVersion", RESOURCE_VERSION);
            return;
        }
        Known::Unknown => return,
    };
    let before = decoded.node.clone();
    // A stored job without its identity still has it in its selector.
    let job = before.at(&["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"]);
    let job = job.filter(|_| served.kind == "Job").cloned();
    let _ = create(served, &mut decoded.node, cluster);
    let metadata = decoded.node.child("metadata");
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if let Some(value) = before.at(&["metadata", field]) {
            metadata.set(field, value.clone());
        }
    }
    if let (Some(id), None) = (job, before.at(&["metadata", "uid"])) {
        metadata.set("uid", id);
    }
    let version = before.at(&["metadata", "resourceVersion"]).cloned();
    metadata.set("resourceVersion", version.unwrap_or(Node::text(RESOURCE_VERSION)));
    let sent = before.get("status").is_some_and(|status| !sparse(status));
    if let (true, Some(status)) = (sent, before.get("status")) {
        decoded.node.set("status", status.clone());
    }
}

/// Version of a stored object that does not name its own.
pub(crate) const RESOURCE_VERSION: &str = "1000";

/// Whether a struct has only structs without fields.
fn sparse(node: &Node<'_>) -> bool {
    node.entries()
        .iter()
        .all(|(_, value)| matches!(value, Node::Map(_)) && sparse(value))
}

fn create(served: Served, node: &mut Node<'_>, cluster: &Cluster) -> Result<(), Refused> {
    system_metadata(served, node, cluster);
    if served.kind == "Namespace" && cluster.complete {
        let name = node.child("metadata").str("name");
        if matches!(name, "default" | "kube-system" | "kube-public" | "kube-node-lease") {
            return Err(Refused::new(
                Stage::Conflict,
                format!("namespaces \"{name}\" already exists"),
            ));
        }
    }
    if served.kind == "Node" {
        return Ok(());
    }
    if served.status {
        reset_status(served, node);
    }
    match served.kind {
        "Pod" => pod::create(node, &cluster.now),
        "Namespace" => namespace(node),
        "PersistentVolume" => {
            let status = node.child("status");
            status.set("phase", "Pending");
            status.set("lastPhaseTransitionTime", cluster.now.clone());
        }
        "Job" => job(node),
        "DaemonSet" => daemon_set(node),
        "Service" => service::allocate(node, None, cluster)?,
        "PersistentVolumeClaim" => data_sources(node),
        "CertificateSigningRequest" => {
            let spec = node.child("spec");
            for field in ["username", "uid", "groups", "extra"] {
                spec.remove(field);
            }
        }
        "CustomResourceDefinition" => stored_versions(node),
        "ServiceAccount" => secret_references(node),
        _ => {}
    }
    Ok(())
}

/// Sets the metadata that the server controls, regardless of what the client sent.
fn system_metadata(served: Served, node: &mut Node<'_>, cluster: &Cluster) {
    if served.kind == "LimitRange" {
        let metadata = node.child("metadata");
        if metadata.str("name").is_empty() && metadata.str("generateName").is_empty() {
            metadata.set("name", uid(&["LimitRange"]));
        }
    }
    made_up_metadata(node, [served.api_version, served.kind], cluster);
    let metadata = node.child("metadata");
    if GENERATIONS.contains(&served.kind) {
        metadata.set("generation", 1);
    }
}

/// Removes fields that a client may not set on a new object, before any admission; values that a mutation sets
/// afterwards stay.
///
/// Upstream: `rest.WipeObjectMetaSystemFields` in `k8s.io/apiserver/pkg/endpoints/handlers/create.go`.
pub(crate) fn wipe_system_metadata(node: &mut Node<'_>, subresource: &str) {
    // They compare the identity with that of the pod or service account.
    if matches!(subresource, "binding" | "token") {
        return;
    }
    if let Some(metadata) = node.get_mut("metadata") {
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
}

/// Replaces values that only the server may set: name, `uid`, `creationTimestamp`.
fn made_up_metadata(node: &mut Node<'_>, [api_version, kind]: [&str; 2], cluster: &Cluster) {
    let metadata = node.child("metadata");
    for field in ["managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    if metadata.str("name").is_empty() && !metadata.str("generateName").is_empty() {
        let base: String = metadata.str("generateName").chars().take(58).collect();
        metadata.set("name", base + "xxxxx");
    }
    let id = uid(&[api_version, kind, metadata.str("namespace"), metadata.str("name")]);
    metadata.set("uid", id);
    metadata.set("creationTimestamp", cluster.now.clone());
}

/// An identifier in the form of a random UUID, the same for the same parts.
pub(crate) fn uid(parts: &[&str]) -> String {
    let mut halves = [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142];
    for half in &mut halves {
        for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
            *half = (*half ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let [high, low] = halves;
    let groups = [
        (high >> 32, 8),
        (high >> 16, 4),
        (0x4000 | high & 0xfff, 4),
        (0x8000 | low >> 48 & 0x3fff, 4),
        (low, 12),
    ];
    let mut text = String::with_capacity(36);
    for (group, digits) in groups {
        if !text.is_empty() {
            text.push('-');
        }
        for place in (0..digits).rev() {
            text.push(char::from(b"0123456789abcdef"[(group >> (4 * place) & 0xf) as usize]));
        }
    }
    text
}

pub(crate) fn reset_status(served: Served, node: &mut Node<'_>) {
    let found = TABLE.get(served.type_id);
    let field = found.fields.iter().find(|field| field.name == "status");
    if let Some(Shape::Struct(id)) = field.map(|field| &field.shape) {
        node.set("status", crate::decode::zero(TABLE.get(*id)));
    }
}

fn namespace(node: &mut Node<'_>) {
    let metadata = node.child("metadata");
    if let Some(name) = metadata.get("name").cloned() {
        metadata.child("labels").set("kubernetes.io/metadata.name", name);
    }
    node.child("status").set("phase", "Active");
    let finalizers = node.child("spec").child_list("finalizers");
    if !finalizers.iter().any(|name| name.as_str() == "kubernetes") {
        finalizers.push(Node::text("kubernetes"));
    }
}

/// Labels and selector that tie pods to their job.
fn job(node: &mut Node<'_>) {
    let (name, id) = {
        let metadata = node.child("metadata");
        (metadata.str("name").to_owned(), metadata.str("uid").to_owned())
    };
    let spec = node.child("spec");
    if spec.bool("manualSelector") {
        return;
    }
    // A job that got its labels from the template shares the map, so that it also gets the generated ones.
    let shared = spec.at(&["template", "metadata", "labels"]).is_some();
    let before = spec.at(&["template", "metadata", "labels"]).cloned();
    let labels = spec.child("template").child("metadata").child("labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &id),
        ("batch.kubernetes.io/controller-uid", &id),
    ] {
        labels.set_default(key, value.clone());
    }
    let labels = labels.clone();
    spec.child("selector")
        .child("matchLabels")
        .set_default("batch.kubernetes.io/controller-uid", id);
    let metadata = node.child("metadata");
    let same = match (&before, metadata.get("labels")) {
        (Some(before), Some(own)) => own.same(before),
        (Some(before), None) => before.is_empty(),
        _ => false,
    };
    if shared && same {
        metadata.set("labels", labels);
    }
}

/// The annotation that shows a field of daemon sets without a place in `apps/v1`.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn daemon_set(node: &mut Node<'_>) {
    let annotations = node.child("metadata").child("annotations");
    let generation = annotations.str(TEMPLATE_GENERATION).parse().unwrap_or(0_i64).max(1);
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

/// Keeps the two names of a claim's data source in step.
fn data_sources(node: &mut Node<'_>) {
    let spec = node.child("spec");
    if spec
        .get("dataSourceRef")
        .is_some_and(|reference| !reference.str("namespace").is_empty())
    {
        spec.remove("dataSourceRef");
    }
    let usual = spec
        .get("dataSource")
        .is_some_and(|source| match (source.str("apiGroup"), source.str("kind")) {
            ("", "PersistentVolumeClaim") => !source.has("apiGroup") || source.str("apiGroup").is_empty(),
            ("snapshot.storage.k8s.io", "VolumeSnapshot") => true,
            _ => false,
        });
    if !spec.has("dataSourceRef") && !usual {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => spec.set("dataSourceRef", source),
        (None, Some(mut reference)) => {
            reference.remove("namespace");
            spec.set("dataSource", reference);
        }
        _ => {}
    }
}

fn stored_versions(node: &mut Node<'_>) {
    let versions = node.child("spec").list("versions");
    let stored = versions.iter().find(|version| version.bool("storage"));
    let stored = stored.map(|version| Node::Text(Cow::Owned(version.str("name").to_owned())));
    let status = node.child("status");
    if let Some(stored) = stored {
        status.set("storedVersions", Node::List(vec![stored]));
    }
}

/// Only the names of secrets are kept.
fn secret_references(node: &mut Node<'_>) {
    if let Some(Node::List(secrets)) = node.get_mut("secrets") {
        for secret in secrets {
            let name = secret.remove("name");
            *secret = Node::EMPTY;
            if let Some(name) = name {
                secret.set("name", name);
            }
        }
    }
}
