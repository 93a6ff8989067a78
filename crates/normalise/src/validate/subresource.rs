//! Validation of requests to subresources.
//!
//! Upstream counterpart: `Validate…StatusUpdate`, `ValidateScale`, `ValidatePodEphemeralContainersUpdate` and
//! `ValidatePodResize` below `pkg/apis`, `ValidateTokenRequest`.
//!
//! Known deviations: values of a status are not checked; a resize may remove requests and limits.

use super::{Checker, Path, meta, repeat_metadata_errors, update};
use crate::{Request, node::Node, strategy::quality_of_service, table::Served};

pub(super) fn check(
    checker: &mut Checker<'_>,
    served: Served,
    node: &Node<'_>,
    old: Option<&Node<'_>>,
    request: Request<'_>,
) {
    let root = Path::root("");
    let spec = Path::root("spec");
    match request.subresource {
        "eviction" | "binding" => return,
        "token" => return token(checker, node),
        "scale" => {
            meta::object(checker, served, node, &root);
            let replicas = node.get("spec").and_then(|spec| spec.int("replicas")).unwrap_or(0);
            if replicas < 0 {
                let at = spec.field("replicas");
                checker.invalid(&at, &replicas.to_string(), "must be greater than or equal to 0");
            }
            return;
        }
        _ => {}
    }
    meta::object(checker, served, node, &root);
    match request.subresource {
        "ephemeralcontainers" | "resize" => repeat_metadata_errors(&mut checker.errors, [4, 2], served.kind),
        _ => {
            // Names of finalizers are not checked further, and metadata once less.
            checker
                .errors
                .retain(|cause| !cause.field.starts_with("metadata.finalizers["));
            let labels = if served.kind == "CronJob" { 2 } else { 3 };
            repeat_metadata_errors(&mut checker.errors, [labels, 1], "");
        }
    }
    let Some(old) = old else { return };
    update::metadata_of(checker, served, node, old);
    match request.subresource {
        "ephemeralcontainers" => {
            checker.walk(served.type_id, node, &root);
            ephemeral_containers(checker, node, old);
        }
        "resize" => {
            checker.walk(served.type_id, node, &root);
            let class = |pod: &Node<'_>| pod.get("spec").map(quality_of_service);
            if class(node) != class(old) {
                let class = node.at(&["status", "qosClass"]).map_or("", Node::as_str);
                checker.invalid(&spec, class, "Pod QOS Class may not change as a result of resizing");
            }
        }
        _ => {}
    }
}

/// Containers that are there may not change.
fn ephemeral_containers(checker: &mut Checker<'_>, node: &Node<'_>, old: &Node<'_>) {
    let path = Path::root("spec");
    let path = path.field("ephemeralContainers");
    let list = |pod: &Node<'_>| {
        let spec = pod.get("spec").map(Node::to_owned);
        spec.map_or_else(Vec::new, |spec| spec.list("ephemeralContainers").to_vec())
    };
    let new: Vec<Node<'static>> = list(node);
    for stored in list(old) {
        let name = stored.str("name");
        match new.iter().rfind(|own| own.str("name") == name) {
            None => checker.forbidden(
                &path,
                &format!("existing ephemeral containers \"{name}\" may not be removed\n"),
            ),
            Some(own) if !own.same(&stored) => checker.forbidden(
                &path,
                &format!("existing ephemeral containers \"{name}\" may not be changed\n"),
            ),
            Some(_) => {}
        }
    }
}

fn token(checker: &mut Checker<'_>, node: &Node<'_>) {
    let path = Path::root("spec");
    let at = path.field("expirationSeconds");
    let seconds = node.at(&["spec", "expirationSeconds"]).and_then(Node::as_int);
    let seconds = seconds.unwrap_or(0);
    if seconds < 600 {
        checker.invalid(
            &at,
            &seconds.to_string(),
            "may not specify a duration less than 10 minutes",
        );
    }
    if seconds > 1 << 32 {
        checker.invalid(
            &at,
            &seconds.to_string(),
            "may not specify a duration larger than 2^32 seconds",
        );
    }
}
