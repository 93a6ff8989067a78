//! Horizontal pod autoscalers.
//!
//! Upstream counterpart: `pkg/apis/autoscaling/validation/validation.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{Checker, Path, TypeCheck, core, format};
use crate::node::Node;

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "autoscaling.v1.HorizontalPodAutoscalerSpec" => spec_v1,
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => spec_v2,
        "autoscaling.v2.HPAScalingRules" => rules,
        "autoscaling.v2.HPAScalingPolicy" => policy,
        "autoscaling.v2.MetricSpec" => metric,
        _ => return None,
    })
}

fn replicas(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (least, most) = (node.int("minReplicas"), node.int("maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        checker.invalid(
            &path.field("minReplicas"),
            &least.to_string(),
            "must be greater than or equal to 1",
        );
    }
    if most == 0 {
        checker.required(&path.field("maxReplicas"), "must be set and greater than 0");
    } else if most < 0 {
        checker.invalid(
            &path.field("maxReplicas"),
            &most.to_string(),
            "must be greater than or equal to 1",
        );
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        checker.invalid(&path.field("maxReplicas"), &most.to_string(), detail);
    }
    if let Some(target) = node.get("scaleTargetRef") {
        reference(checker, target, true, &path.field("scaleTargetRef"));
    }
}

fn reference(checker: &mut Checker<'_>, node: &Node<'_>, target: bool, path: &Path<'_>) {
    for field in ["kind", "name"] {
        match node.str(field) {
            "" => checker.required(&path.field(field), ""),
            own => checker.problems(&path.field(field), own, &format::path_segment(own)),
        }
    }
    let version = node.str("apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    // Only the core group has kinds that can be scaled without naming a group.
    let core = node.str("kind") == "ReplicationController" && version == "v1";
    let wrong = version.matches('/').count() > 1 || (target && group.is_empty() && !core);
    if wrong {
        checker.invalid(&path.field("apiVersion"), version, "apiVersion must specify API group");
    }
}

fn spec_v1(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    replicas(checker, node, path);
    if node.int("minReplicas") == Some(0) {
        scale_to_zero(checker, &path.field("metrics"));
    }
    if let Some(percent) = node
        .int("targetCPUUtilizationPercentage")
        .filter(|percent| *percent < 1)
    {
        let at = path.field("metrics");
        let at = at.index(0);
        let at = at.field("resource");
        let at = at.field("target");
        checker.invalid(
            &at.field("averageUtilization"),
            &percent.to_string(),
            "must be greater than 0",
        );
    }
}

fn scale_to_zero(checker: &mut Checker<'_>, path: &Path<'_>) {
    let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
    checker.forbidden(path, detail);
}

fn spec_v2(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    replicas(checker, node, path);
    let external = node
        .list("metrics")
        .iter()
        .any(|metric| matches!(metric.str("type"), "Object" | "External"));
    if node.int("minReplicas") == Some(0) && !external {
        scale_to_zero(checker, &path.field("metrics"));
    }
}

fn rules(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.list("policies").is_empty() {
        checker.required(&path.field("policies"), "must specify at least one Policy");
    }
    if Quantity::parse(node.str("tolerance")).is_ok_and(|tolerance| tolerance.sign() < 0) {
        checker.invalid(
            &path.field("tolerance"),
            node.str("tolerance"),
            "must be greater than or equal to 0",
        );
    }
}

fn policy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["value", "periodSeconds"] {
        let value = node.int(field).unwrap_or(0);
        if value <= 0 {
            checker.invalid(&path.field(field), &value.to_string(), "must be greater than zero");
        } else if field == "periodSeconds" && value > 1800 {
            checker.invalid(
                &path.field(field),
                &value.to_string(),
                "must be less than or equal to 1800",
            );
        }
    }
}

fn metric(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = node.str("type");
    if kind.is_empty() {
        checker.required(&path.field("type"), "must specify a metric source type");
    }
    if !TYPES.contains(&kind) {
        checker.unsupported(&path.field("type"), kind, TYPES);
        checker.unsupported(&path.field("type"), kind, TYPES);
    }
    let sources = ["object", "external", "pods", "resource", "containerResource"];
    let present: Vec<&str> = sources.into_iter().filter(|field| node.has(field)).collect();
    if let Some(first) = present.first()
        && let Some(own) = node.get(first)
    {
        source(checker, own, first, &path.field(first));
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    if !expected.is_empty() && !present.contains(&expected) {
        checker.required(
            &path.field(expected),
            "must populate information for the given metric source",
        );
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| *field != expected) {
            checker.forbidden(&path.field(field), "must populate the given metric source only");
        }
    }
}

fn source(checker: &mut Checker<'_>, node: &Node<'_>, kind: &str, path: &Path<'_>) {
    if kind == "object"
        && let Some(object) = node.get("describedObject")
    {
        reference(checker, object, false, &path.field("describedObject"));
    }
    if let Some(metric) = node.get("metric") {
        match metric.str("name") {
            "" => checker.required(&path.field("metric").field("name"), "must specify a metric name"),
            name => checker.problems(&path.field("metric").field("name"), name, &format::path_segment(name)),
        }
    }
    if matches!(kind, "resource" | "containerResource") {
        match node.str("name") {
            "" => checker.required(&path.field("name"), "must specify a resource name"),
            name if kind == "containerResource" => core::container_resource(checker, name, &path.field("name")),
            _ => {}
        }
    }
    if kind == "containerResource" {
        match node.str("container") {
            "" => checker.required(&path.field("container"), "must specify a container"),
            name => checker.problems(&path.field("container"), name, &format::label(name)),
        }
    }
    let Some(own) = node.get("target") else { return };
    let path = path.field("target");
    target(checker, own, &path);
    let (value, average, utilization) = (own.has("value"), own.has("averageValue"), own.has("averageUtilization"));
    match kind {
        "object" | "external" => {
            if !value && !average {
                checker.required(
                    &path.field("averageValue"),
                    "must set either a target value or averageValue",
                );
            }
            if kind == "external" && value && average {
                let detail = "may not set both a target value for metric and a per-pod target";
                checker.forbidden(&path.field("value"), detail);
            }
        }
        "pods" if !average => {
            checker.required(
                &path.field("averageValue"),
                "must specify a positive target averageValue",
            );
        }
        "pods" => {}
        _ => match (utilization, average) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                checker.required(&path.field("averageUtilization"), detail);
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                checker.forbidden(&path.field("averageValue"), detail);
            }
            _ => {}
        },
    }
}

fn target(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let kind = node.str("type");
    if kind.is_empty() {
        checker.required(&path.field("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        checker.invalid(
            &path.field("type"),
            kind,
            "must be either Utilization, Value, or AverageValue",
        );
    }
    for field in ["value", "averageValue"] {
        if Quantity::parse(node.str(field)).is_ok_and(|value| value.sign() <= 0) {
            checker.invalid(&path.field(field), node.str(field), "must be positive");
        }
    }
    if let Some(percent) = node.int("averageUtilization").filter(|percent| *percent < 1) {
        checker.invalid(
            &path.field("averageUtilization"),
            &percent.to_string(),
            "must be greater than 0",
        );
    }
}
