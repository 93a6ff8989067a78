//! The values of the stored object that an UPDATE keeps.
//!
//! Upstream counterpart: `rest.BeforeUpdate`, `PrepareForUpdate` below `pkg/registry`, the preconditions of
//! `k8s.io/apiserver/pkg/registry/generic/registry/store.go`.

use crate::{
    Cause, Cluster, Reason, Refused, Stage,
    custom::Custom,
    encode::{self, Form},
    node::Node,
    step::Decoded,
    table::Served,
};

/// Kinds whose updates must name the version that they replace.
pub(super) const CONDITIONAL: &[&str] = &[
    "APIService",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "CustomResourceDefinition",
    "Lease",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PodDisruptionBudget",
    "RuntimeClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Kinds that PUT creates if they do not exist.
pub(crate) const CREATED_BY_PUT: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "Endpoints",
    "Event",
    "Lease",
    "LimitRange",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Service",
];

pub(super) fn update(
    served: Served,
    decoded: &mut Decoded<'_>,
    old: &Decoded<'_>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    let (node, old) = (&mut decoded.node, &old.node);
    preconditions(
        served.resource,
        served.api_version,
        CONDITIONAL.contains(&served.kind),
        node,
        old,
    )?;
    keep_metadata(node, old);
    if served.status
        && let Some(status) = old.get("status")
    {
        node.set("status", status.to_owned());
    }
    match served.kind {
        "Service" => {
            super::service::allocate(node, Some(old), cluster)?;
            type_dependent_fields(node, old);
        }
        "Namespace" => {
            let spec = node.child("spec");
            spec.remove("finalizers");
            if let Some(finalizers) = old.at(&["spec", "finalizers"]) {
                spec.set("finalizers", finalizers.to_owned());
            }
        }
        "PersistentVolumeClaim" => super::data_sources(node),
        "ServiceAccount" => super::secret_references(node),
        "DaemonSet" => template_generation(served, node, old),
        _ => {}
    }
    count_generation(served, node, old);
    Ok(())
}

/// Prepares a custom resource; without `old` it is created.
pub(super) fn custom(
    custom: Custom<'_>,
    decoded: &mut Decoded<'_>,
    old: Option<&Decoded<'_>>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    let node = &mut decoded.node;
    let Some(old) = old.map(|old| &old.node) else {
        super::made_up_metadata(node, [custom.api_version, custom.kind], cluster);
        node.child("metadata").set("generation", 1);
        if custom.status {
            node.remove("status");
        }
        return Ok(());
    };
    preconditions(custom.resource, custom.api_version, true, node, old)?;
    keep_metadata(node, old);
    if custom.status {
        node.remove("status");
        if let Some(status) = old.get("status") {
            node.set("status", status.to_owned());
        }
    }
    let spec = |node: &Node<'_>| {
        let mut spec = node.to_owned();
        spec.remove("metadata");
        spec
    };
    if !spec(node).same(&spec(old)) {
        let before = old.at(&["metadata", "generation"]).and_then(Node::as_int).unwrap_or(1);
        node.child("metadata").set("generation", before + 1);
    }
    Ok(())
}

/// Keeps the values that the server set when the object was created.
pub(super) fn keep_metadata(node: &mut Node<'_>, old: &Node<'_>) {
    let metadata = node.child("metadata");
    // An identity that a policy has set is rejected by validation.
    if metadata.str("uid").is_empty()
        && let Some(value) = old.at(&["metadata", "uid"])
    {
        metadata.set("uid", value.to_owned());
    }
    for field in ["creationTimestamp", "generation"] {
        metadata.remove(field);
        if let Some(value) = old.at(&["metadata", field]) {
            metadata.set(field, value.to_owned());
        }
    }
    metadata.remove("managedFields");
    metadata.remove("selfLink");
}

/// Compares the identity that a client sent with that of the stored object, before any mutation.
pub(crate) fn identity(resource: &str, node: &Node<'_>, old: &Node<'_>) -> Result<(), Refused> {
    let text = |node: &Node<'_>, field: &str| node.at(&["metadata", field]).map_or("", Node::as_str).to_owned();
    let (sent, stored) = (text(node, "uid"), text(old, "uid"));
    if sent.is_empty() || sent == stored {
        return Ok(());
    }
    Err(Refused::new(
        Stage::Conflict,
        format!(
            "Operation cannot be fulfilled on {resource} \"{}\": Precondition failed: UID in precondition: {sent}, UID in \
             object meta: {stored}",
            text(node, "name")
        ),
    ))
}

/// Compares the version with that of the stored object.
pub(super) fn preconditions(
    resource: &str,
    api_version: &str,
    conditional: bool,
    node: &Node<'_>,
    old: &Node<'_>,
) -> Result<(), Refused> {
    let text = |node: &Node<'_>, field: &str| node.at(&["metadata", field]).map_or("", Node::as_str).to_owned();
    let name = text(node, "name");
    let conflict = |message: &str| {
        Err(Refused::new(
            Stage::Conflict,
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {message}"),
        ))
    };
    let version = text(node, "resourceVersion");
    if version.is_empty() {
        if conditional {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let resource = if group.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}.{group}")
            };
            let cause = Cause {
                field: "metadata.resourceVersion".to_owned(),
                reason: Reason::Invalid,
                detail: "0: must be specified for an update".to_owned(),
            };
            return Err(Refused::invalid(&resource, &name, vec![cause]));
        }
        return Ok(());
    }
    if version.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
        return Err(Refused::new(Stage::Other, message));
    }
    if version != text(old, "resourceVersion") {
        return conflict("the object has been modified; please apply your changes to the latest version and try again");
    }
    Ok(())
}

/// Drops fields of the old type of a service if the client merely sent them back.
fn type_dependent_fields(node: &mut Node<'_>, old: &Node<'_>) {
    let Some(old) = old.get("spec") else { return };
    let spec = node.child("spec");
    let (before, after) = (old.str("type").to_owned(), spec.str("type").to_owned());
    let ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let same = |spec: &Node<'_>, field: &str| match (spec.get(field), old.get(field)) {
        (Some(new), Some(old)) => new.same(old),
        _ => false,
    };
    if before != "ExternalName" && after == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if ports(&before) && !ports(&after) {
        let known: Vec<i64> = old
            .list("ports")
            .iter()
            .filter_map(|port| port.int("nodePort"))
            .collect();
        let unchanged = spec.list("ports").iter().all(|port| {
            let number = port.int("nodePort").unwrap_or(0);
            number == 0 || known.contains(&number)
        });
        if unchanged {
            for port in spec.list_mut("ports") {
                port.remove("nodePort");
            }
        }
    }
    let health = |kind: &str, spec: &Node<'_>| kind == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local";
    if health(&before, old) && !health(&after, spec) && same(spec, "healthCheckNodePort") {
        spec.remove("healthCheckNodePort");
    }
    if before == "LoadBalancer" && after != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    let external = |kind: &str, spec: &Node<'_>| ports(kind) || !spec.list("externalIPs").is_empty();
    if external(&before, old) && !external(&after, spec) && same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}

fn template_generation(served: Served, node: &mut Node<'_>, old: &Node<'_>) {
    const KEY: &str = super::TEMPLATE_GENERATION;
    let before = old
        .at(&["metadata", "annotations", KEY])
        .map_or(1, |own| own.as_str().parse().unwrap_or(1_i64));
    let changed = differs(served, node, old, &["spec", "template"]);
    let annotations = node.child("metadata").child("annotations");
    annotations.set(KEY, (before + i64::from(changed)).to_string());
}

/// Whether a part of two objects differs once it is written.
fn differs(served: Served, node: &Node<'_>, old: &Node<'_>, path: &[&str]) -> bool {
    let write = |node: &Node<'_>| encode::document(served.type_id, node, Form::Stored).0;
    write(node).root().at(path) != write(old).root().at(path)
}

pub(super) fn count_generation(served: Served, node: &mut Node<'_>, old: &Node<'_>) {
    if !super::GENERATIONS.contains(&served.kind) || served.kind == "PriorityClass" {
        return;
    }
    let paths: &[&[&str]] = match served.kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => &[&["webhooks"]],
        "PodTemplate" => &[&["template"]],
        "EndpointSlice" => &[&["endpoints"], &["ports"], &["addressType"], &["metadata", "labels"]],
        "Deployment" => &[&["spec"], &["metadata", "annotations"]],
        _ => &[&["spec"]],
    };
    if paths.iter().any(|path| differs(served, node, old, path)) {
        let before = old.at(&["metadata", "generation"]).and_then(Node::as_int).unwrap_or(1);
        node.child("metadata").set("generation", before + 1);
    }
}
