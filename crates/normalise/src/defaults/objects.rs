//! Defaults of services, storage, namespaces, nodes and other objects.
//!
//! Upstream counterpart: `pkg/apis/{core,networking,rbac,resource}/v1/defaults.go`, `pkg/apis/core/v1/conversion.go` and
//! `pkg/apis/apiextensions/v1/defaults.go` of apiextensions-apiserver.

use std::borrow::Cow;

use kyvtest_go_compat::text::base64;

use super::{add_missing, set_if_empty};
use crate::node::Node;

pub(super) fn service(node: &mut Node<'_>) {
    let balanced = {
        let Some(spec) = node.get_mut("spec") else { return };
        service_spec(spec);
        spec.str("type") == "LoadBalancer"
    };
    if balanced && let Some(status) = node.at_mut(&["status", "loadBalancer"]) {
        for ingress in status.list_mut("ingress") {
            if !ingress.str("ip").is_empty() {
                ingress.set_default("ipMode", "VIP");
            }
        }
    }
}

fn service_spec(spec: &mut Node<'_>) {
    set_if_empty(spec, "sessionAffinity", "None");
    match spec.str("sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP"
            if spec
                .at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"])
                .is_none() =>
        {
            let mut client = Node::EMPTY;
            client.set("timeoutSeconds", 10_800);
            let mut config = Node::EMPTY;
            config.set("clientIP", client);
            spec.set("sessionAffinityConfig", config);
        }
        _ => {}
    }
    set_if_empty(spec, "type", "ClusterIP");
    for port in spec.list_mut("ports") {
        let unset = match port.get("targetPort") {
            None | Some(Node::Int(0)) => true,
            Some(target) => matches!(target, Node::Text(text) if text.is_empty()),
        };
        if unset {
            let own = port.int("port").unwrap_or(0);
            port.set("targetPort", own);
        }
    }
    let kind = spec.str("type").to_owned();
    let external = matches!(kind.as_str(), "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.list("externalIPs").is_empty());
    if external {
        set_if_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "LoadBalancer" | "NodePort" | "ClusterIP") {
        spec.set_default("internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.set_default("allocateLoadBalancerNodePorts", true);
    }
}

pub(super) fn persistent_volume(node: &mut Node<'_>) {
    let Some(spec) = node.get_mut("spec") else { return };
    set_if_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
    spec.set_default("volumeMode", "Filesystem");
}

pub(super) fn persistent_volume_claim(node: &mut Node<'_>) {
    set_if_empty(node.child("status"), "phase", "Pending");
}

pub(super) fn namespace(node: &mut Node<'_>) {
    let Some(metadata) = node.get_mut("metadata") else {
        return;
    };
    if let Some(name) = metadata.get("name").filter(|name| !name.is_empty()).cloned() {
        metadata.child("labels").set("kubernetes.io/metadata.name", name);
    }
}

pub(super) fn node_spec(node: &mut Node<'_>) {
    // Two names of one field of the internal type; the list wins.
    match node.list("podCIDRs").first() {
        Some(first) => {
            let first = first.clone();
            node.set("podCIDR", first);
        }
        None => {
            if let Some(range) = node.get("podCIDR").filter(|range| !range.is_empty()).cloned() {
                node.set("podCIDRs", Node::List(vec![range]));
            }
        }
    }
}

pub(super) fn node_status(node: &mut Node<'_>) {
    if !node.has("allocatable")
        && let Some(capacity) = node.get("capacity").cloned()
    {
        node.set("allocatable", capacity);
    }
}

pub(super) fn limit_range_item(node: &mut Node<'_>) {
    if node.str("type") != "Container" {
        return;
    }
    let most = node.map("max").to_vec();
    add_missing(node.child("default"), &most);
    let default = node.map("default").to_vec();
    let least = node.map("min").to_vec();
    let request = node.child("defaultRequest");
    add_missing(request, &default);
    add_missing(request, &least);
}

pub(super) fn secret(node: &mut Node<'_>) {
    let Some(Node::Map(entries)) = node.remove("stringData") else {
        return;
    };
    if entries.is_empty() {
        return;
    }
    let data = node.child("data");
    for (key, value) in entries {
        data.set(key, base64::encode(value.as_str().as_bytes()));
    }
}

pub(super) fn network_policy(node: &mut Node<'_>) {
    if node.list("policyTypes").is_empty() {
        let mut types = vec![Node::text("Ingress")];
        if !node.list("egress").is_empty() {
            types.push(Node::text("Egress"));
        }
        node.set("policyTypes", Node::List(types));
    }
}

pub(super) fn subject(node: &mut Node<'_>) {
    if matches!(node.str("kind"), "User" | "Group") {
        set_if_empty(node, "apiGroup", "rbac.authorization.k8s.io");
    }
}

pub(super) fn device_request(node: &mut Node<'_>) {
    if matches!(node.str("allocationMode"), "" | "ExactCount") {
        set_if_empty(node, "count", 1);
    }
}

pub(super) fn custom_resource_definition(node: &mut Node<'_>) {
    if let Some(names) = node.at_mut(&["spec", "names"]) {
        let kind = names.str("kind").to_owned();
        set_if_empty(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            set_if_empty(names, "listKind", kind + "List");
        }
    }
    let versions = node.get("spec").map_or(&[][..], |spec| spec.list("versions"));
    let stored = versions.iter().find(|version| version.bool("storage"));
    let stored = stored.map(|version| Node::Text(Cow::Owned(version.str("name").to_owned())));
    let status = node.child("status");
    if let (true, Some(stored)) = (status.list("storedVersions").is_empty(), stored) {
        status.set("storedVersions", Node::List(vec![stored]));
    }
}
