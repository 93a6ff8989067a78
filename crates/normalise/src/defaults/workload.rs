//! Defaults of workloads and of their autoscalers.
//!
//! Upstream counterpart: `defaults.go` below `pkg/apis/{apps,batch,autoscaling}`.

use super::set_if_empty;
use crate::node::Node;

pub(super) fn deployment_strategy(node: &mut Node<'_>) {
    set_if_empty(node, "type", "RollingUpdate");
    if node.str("type") == "RollingUpdate" {
        let update = node.child("rollingUpdate");
        update.set_default("maxUnavailable", "25%");
        update.set_default("maxSurge", "25%");
    }
}

/// A field of the internal type that `apps/v1` keeps in an annotation.
pub(super) fn daemon_set(node: &mut Node<'_>) {
    const KEY: &str = "deprecated.daemonset.template.generation";
    let annotations = node.child("metadata").child("annotations");
    let generation = annotations.str(KEY).parse().unwrap_or(0_i64);
    annotations.set(KEY, generation.to_string());
}

pub(super) fn daemon_set_strategy(node: &mut Node<'_>) {
    set_if_empty(node, "type", "RollingUpdate");
    if node.str("type") == "RollingUpdate" {
        let update = node.child("rollingUpdate");
        update.set_default("maxUnavailable", 1);
        update.set_default("maxSurge", 0);
    }
}

pub(super) fn stateful_set_strategy(node: &mut Node<'_>) {
    if node.str("type").is_empty() {
        node.set("type", "RollingUpdate");
        node.child("rollingUpdate");
    }
    if node.str("type") == "RollingUpdate"
        && let Some(update) = node.get_mut("rollingUpdate")
    {
        update.set_default("partition", 0);
    }
}

pub(super) fn stateful_set(node: &mut Node<'_>) {
    for claim in node.list_mut("volumeClaimTemplates") {
        claim.set("apiVersion", "v1");
        claim.set("kind", "PersistentVolumeClaim");
    }
}

pub(super) fn replication_controller(node: &mut Node<'_>) {
    let Some(labels) = node.at(&["spec", "template", "metadata", "labels"]).cloned() else {
        return;
    };
    if let Some(spec) = node.get_mut("spec") {
        set_if_empty(spec, "selector", labels.clone());
    }
    if let Some(metadata) = node.get_mut("metadata") {
        set_if_empty(metadata, "labels", labels);
    }
}

pub(super) fn job(node: &mut Node<'_>) {
    let labels = node.at(&["spec", "template", "metadata", "labels"]).cloned();
    if let (Some(labels), Some(metadata)) = (labels, node.get_mut("metadata")) {
        set_if_empty(metadata, "labels", labels);
    }
    let Some(spec) = node.get_mut("spec") else { return };
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.set("completions", 1);
    }
    spec.set_default("parallelism", 1);
    let limit = if spec.has("backoffLimitPerIndex") {
        i64::from(i32::MAX)
    } else {
        6
    };
    spec.set_default("backoffLimit", limit);
    spec.set_default("completionMode", "NonIndexed");
    spec.set_default("suspend", false);
    let replacement = if spec.has("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    spec.set_default("podReplacementPolicy", replacement);
    spec.set_default("manualSelector", false);
}

/// A list of scaling policies: type, value, period.
fn policies(rows: &[(&'static str, i64)]) -> Node<'static> {
    Node::List(
        rows.iter()
            .map(|&(kind, value)| {
                let mut policy = Node::EMPTY;
                policy.set("type", kind);
                policy.set("value", value);
                policy.set("periodSeconds", 15);
                policy
            })
            .collect(),
    )
}

pub(super) fn autoscaler(node: &mut Node<'_>) {
    if node.list("metrics").is_empty() {
        let mut target = Node::EMPTY;
        target.set("type", "Utilization");
        target.set("averageUtilization", 80);
        let mut resource = Node::EMPTY;
        resource.set("name", "cpu");
        resource.set("target", target);
        let mut metric = Node::EMPTY;
        metric.set("type", "Resource");
        metric.set("resource", resource);
        node.set("metrics", Node::List(vec![metric]));
    }
    let Some(behavior) = node.get_mut("behavior") else {
        return;
    };
    let up = behavior.child("scaleUp");
    up.set_default("stabilizationWindowSeconds", 0);
    up.set_default("selectPolicy", "Max");
    up.set_default("policies", policies(&[("Pods", 4), ("Percent", 100)]));
    let down = behavior.child("scaleDown");
    down.set_default("selectPolicy", "Max");
    down.set_default("policies", policies(&[("Percent", 100)]));
}
