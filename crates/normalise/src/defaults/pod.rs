//! Defaults of pods and pod templates.
//!
//! Upstream counterpart: `pkg/apis/core/v1/{defaults,conversion}.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{add_missing, pull_policy, set_if_empty};
use crate::node::Node;

pub(super) fn pod(node: &mut Node<'_>) {
    drop_init_container_annotations(node);
    let Some(spec) = node.get_mut("spec") else { return };
    for field in ["containers", "initContainers"] {
        for container in spec.list_mut(field) {
            requests_from_limits(container);
        }
    }
    pod_level_resources(spec);
    // Only for pods: a template keeps its negative value.
    if spec
        .int("terminationGracePeriodSeconds")
        .is_some_and(|seconds| seconds < 0)
    {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    spec.set_default("enableServiceLinks", true);
    if spec.bool("hostNetwork") {
        for field in ["containers", "initContainers"] {
            for container in spec.list_mut(field) {
                for port in container.list_mut("ports") {
                    if port.int("hostPort").unwrap_or(0) == 0 {
                        let own = port.int("containerPort").unwrap_or(0);
                        port.set("hostPort", own);
                    }
                }
            }
        }
    }
}

/// Only pods get these, not the templates of workloads.
fn requests_from_limits(container: &mut Node<'_>) {
    let Some(resources) = container.get_mut("resources") else {
        return;
    };
    if !resources.has("limits") {
        return;
    }
    let limits = resources.map("limits").to_vec();
    add_missing(resources.child("requests"), &limits);
}

/// Requests of the pod as a whole: from its containers, then from its limits.
fn pod_level_resources(spec: &mut Node<'_>) {
    if !spec.has("resources") {
        return;
    }
    let containers = aggregate(spec, "requests");
    let huge = aggregate(spec, "limits");
    let resources = spec.child("resources");
    if resources.map("limits").is_empty() && resources.map("requests").is_empty() {
        return;
    }
    for (name, limit) in huge.into_iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        if !resources.at(&["requests", &name]).is_some_and(|_| true) && resources.at(&["limits", &name]).is_none() {
            resources.child("limits").set(name, limit.to_string());
        }
    }
    if resources.map("limits").is_empty() {
        return;
    }
    let mut requests = resources.remove("requests").unwrap_or(Node::EMPTY);
    for (name, amount) in containers {
        let fits = matches!(name.as_str(), "cpu" | "memory");
        if fits && !requests.has(&name) {
            requests.set(name, amount.to_string());
        }
    }
    for (name, limit) in resources.map("limits") {
        let supported = matches!(name.as_ref(), "cpu" | "memory") || name.starts_with("hugepages-");
        if supported && !requests.has(name) {
            requests.set(name.clone(), limit.clone());
        }
    }
    if !requests.is_empty() {
        resources.set("requests", requests);
    }
}

/// The total requests of all containers; init containers count as far as they exceed the others.
fn aggregate(spec: &Node<'_>, which: &str) -> Vec<(String, Quantity)> {
    let mut sum: Vec<(String, Quantity)> = Vec::new();
    let mut add = |name: &str, amount: Quantity, largest: bool| match sum.iter_mut().find(|(known, _)| known == name) {
        Some((_, total)) if largest => {
            if *total < amount {
                *total = amount;
            }
        }
        Some((_, total)) => *total = total.add(&amount),
        None => sum.push((name.to_owned(), amount)),
    };
    for (field, largest) in [("containers", false), ("initContainers", true)] {
        for container in spec.list(field) {
            let restarts = container.str("restartPolicy") == "Always";
            let Some(resources) = container.get("resources") else {
                continue;
            };
            for (name, amount) in resources.map(which) {
                if let Ok(amount) = Quantity::parse(amount.as_str()) {
                    add(name, amount, largest && !restarts);
                }
            }
        }
    }
    sum
}

pub(super) fn pod_spec(spec: &mut Node<'_>) {
    // Two names of one field of the internal type.
    let account = match spec.str("serviceAccountName") {
        "" => spec.get("serviceAccount").cloned(),
        _ => spec.get("serviceAccountName").cloned(),
    };
    if let Some(account) = account.filter(|account| !account.is_empty()) {
        spec.set("serviceAccountName", account.clone());
        spec.set("serviceAccount", account);
    }
}

pub(super) fn template(node: &mut Node<'_>) {
    drop_init_container_annotations(node);
}

fn drop_init_container_annotations(node: &mut Node<'_>) {
    let Some(annotations) = node.at_mut(&["metadata", "annotations"]) else {
        return;
    };
    for stage in ["alpha", "beta"] {
        for what in ["init-containers", "init-container-statuses"] {
            annotations.remove(&format!("pod.{stage}.kubernetes.io/{what}"));
        }
    }
}

pub(super) fn container(node: &mut Node<'_>) {
    let policy = pull_policy(node.str("image"));
    set_if_empty(node, "imagePullPolicy", policy);
}

pub(super) fn volume(node: &mut Node<'_>) {
    if node
        .entries()
        .iter()
        .all(|(name, value)| name == "name" || matches!(value, Node::Null))
    {
        node.set("emptyDir", Node::EMPTY);
    }
    if let Some(image) = node.get_mut("image") {
        let policy = pull_policy(image.str("reference"));
        set_if_empty(image, "pullPolicy", policy);
    }
}
