//! Defaults of the version: constants from the table, and code if the API server has code.
//!
//! Upstream counterpart: `pkg/apis/*/*/defaults.go` and the visible conversions between versioned and internal types
//! (`serviceAccount`, `stringData`, `podCIDR`), Kubernetes 1.36.

use std::borrow::Cow;

use crate::{
    image,
    node::Node,
    table::{Shape, TABLE, TypeId},
};

mod objects;
mod pod;
mod workload;

/// Sets the defaults that a type's constants cannot express. Runs before the constants of the type.
pub(crate) type Hook = for<'a, 'b> fn(&'b mut Node<'a>);

/// The code of a type, if it has any.
pub(crate) fn hook(type_name: &str) -> Option<Hook> {
    Some(match type_name {
        "core.v1.Pod" => pod::pod,
        "core.v1.PodSpec" => pod::pod_spec,
        "core.v1.Container" | "core.v1.EphemeralContainer" => pod::container,
        "core.v1.Volume" => pod::volume,
        "core.v1.PodTemplateSpec" => pod::template,
        "core.v1.Service" => objects::service,
        "core.v1.ReplicationController" => workload::replication_controller,
        "core.v1.PersistentVolume" => objects::persistent_volume,
        "core.v1.PersistentVolumeClaim" => objects::persistent_volume_claim,
        "core.v1.Namespace" => objects::namespace,
        "core.v1.NodeSpec" => objects::node_spec,
        "core.v1.NodeStatus" => objects::node_status,
        "core.v1.LimitRangeItem" => objects::limit_range_item,
        "core.v1.Secret" => objects::secret,
        "apps.v1.DeploymentStrategy" => workload::deployment_strategy,
        "apps.v1.DaemonSet" => workload::daemon_set,
        "apps.v1.DaemonSetUpdateStrategy" => workload::daemon_set_strategy,
        "apps.v1.StatefulSetUpdateStrategy" => workload::stateful_set_strategy,
        "apps.v1.StatefulSetSpec" => workload::stateful_set,
        "batch.v1.Job" => workload::job,
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => workload::autoscaler,
        "networking.v1.NetworkPolicySpec" => objects::network_policy,
        "rbac.v1.Subject" => objects::subject,
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => objects::device_request,
        "apiextensions.v1.CustomResourceDefinition" => objects::custom_resource_definition,
        _ => return None,
    })
}

/// Applies the defaults of a struct and of everything below it.
pub(crate) fn apply(id: TypeId, node: &mut Node<'_>) {
    let found = TABLE.get(id);
    if !found.has_defaults {
        return;
    }
    if let Some(hook) = found.hook {
        hook(node);
    }
    for &position in &found.defaulted {
        let field = &found.fields[position as usize];
        let set = node
            .get(field.name)
            .is_some_and(|value| field.pointer || !value.is_empty());
        if let (false, Some(default)) = (set, &field.default) {
            node.set(field.name, default.clone());
        }
    }
    for (name, value) in node.entries_mut() {
        let (Node::Map(_) | Node::List(_)) = value else {
            continue;
        };
        if let Some(field) = found.own_field(name) {
            below(&field.shape, value);
        }
    }
}

fn below(shape: &Shape, node: &mut Node<'_>) {
    match shape {
        Shape::Struct(id) if TABLE.get(*id).has_defaults => apply(*id, node),
        Shape::List(item) => match &**item {
            Shape::Struct(id) if TABLE.get(*id).has_defaults => {
                node.items_mut().iter_mut().for_each(|node| apply(*id, node));
            }
            _ => {}
        },
        Shape::Map(item) if matches!(**item, Shape::Struct(_)) => {
            node.entries_mut().iter_mut().for_each(|(_, node)| below(item, node));
        }
        _ => {}
    }
}

/// Sets a non-pointer field if it has Go's zero value.
fn set_if_empty<'a>(node: &mut Node<'a>, name: &'static str, value: impl Into<Node<'a>>) {
    if node.get(name).is_none_or(Node::is_empty) {
        node.set(name, value);
    }
}

fn pull_policy(image: &str) -> &'static str {
    if image::is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Adds the entries of `from` that `to` lacks.
fn add_missing<'a>(to: &mut Node<'a>, from: &[(Cow<'a, str>, Node<'a>)]) {
    for (key, value) in from {
        if !to.has(key) {
            to.set(key.clone(), value.clone());
        }
    }
}
