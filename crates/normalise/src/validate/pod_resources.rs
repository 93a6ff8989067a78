//! Resource requests, limits and claims of pods and containers.
//!
//! Upstream counterpart: the helpers of `ValidatePodSpec` in `pkg/apis/core/validation/validation.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{Checker, Path, format};
use crate::node::Node;

pub(super) fn resize_policy(checker: &mut Checker<'_>, node: &Node<'_>, restart: &str, path: &Path<'_>) {
    let policies = node.list("resizePolicy");
    for (index, policy) in policies.iter().enumerate() {
        let name = policy.str("resourceName");
        if policies[..index].iter().any(|other| other.str("resourceName") == name) {
            checker.duplicate(&path.index(index), name);
        }
        for (value, allowed) in [
            (name, &["cpu", "memory"]),
            (policy.str("restartPolicy"), &["NotRequired", "RestartContainer"]),
        ] {
            if value.is_empty() {
                checker.required(path, "");
            } else if !allowed.contains(&value) {
                checker.unsupported(path, value, allowed);
            }
        }
        if restart == "Never" && policy.str("restartPolicy") != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            checker.invalid(path, policy.str("restartPolicy"), detail);
        }
    }
}

/// Checks requests, limits and claims.
pub(super) fn resources(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    requirements(checker, node, path, super::core::container_resource);
    claims(checker, node, &path.field("claims"));
}

fn requirements(
    checker: &mut Checker<'_>,
    node: &Node<'_>,
    path: &Path<'_>,
    name_check: fn(&mut Checker<'_>, &str, &Path<'_>),
) {
    let (mut compute, mut huge) = (false, false);
    for field in ["limits", "requests"] {
        let at = path.field(field);
        for (name, amount) in node.map(field) {
            let key = at.key(name);
            name_check(checker, name, &key);
            super::core::resource_amount(checker, name, amount.as_str(), &key);
            compute |= matches!(name.as_ref(), "cpu" | "memory");
            huge |= name.starts_with("hugepages-");
            if field == "requests" {
                request(checker, node, name, amount.as_str(), path);
            }
        }
    }
    if huge && !compute {
        checker.forbidden(path, "HugePages require cpu or memory");
    }
}

fn request(checker: &mut Checker<'_>, node: &Node<'_>, name: &str, amount: &str, path: &Path<'_>) {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let overcommit = native && !name.starts_with("hugepages-");
    let at = path.field("requests");
    match node.at(&["limits", name]) {
        Some(limit) => {
            let (Ok(amount), Ok(limit)) = (Quantity::parse(amount), Quantity::parse(limit.as_str())) else {
                return;
            };
            if amount != limit && !overcommit {
                checker.invalid(
                    &at,
                    &amount.to_string(),
                    &format!("must be equal to {name} limit of {limit}"),
                );
            } else if amount > limit {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                checker.invalid(&at, &amount.to_string(), &detail);
            }
        }
        None if !overcommit => {
            checker.required(
                &path.field("limits"),
                "Limit must be set for non overcommitable resources",
            );
        }
        None => {}
    }
}

fn claims(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let mut known: Vec<String> = Vec::new();
    for (index, claim) in node.list("claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (claim.str("name"), claim.str("request"));
        if name.is_empty() {
            checker.required(&path, "");
            continue;
        }
        if !request.is_empty() {
            checker.problems(&path.field("request"), request, &format::label(request));
        }
        let key = if request.is_empty() {
            name.to_owned()
        } else {
            format!("{name}/{request}")
        };
        let taken = known.iter().any(|other| {
            *other == key || *other == name || (request.is_empty() && other.starts_with(&format!("{name}/")))
        });
        if taken {
            checker.duplicate(&path, &key);
        }
        known.push(key);
        if !checker.claims.iter().any(|known| known == name) {
            checker.not_found(&path, name);
        }
    }
}

/// Checks the resource claims of a pod and remembers their names.
pub(super) fn resource_claims(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    checker.claims.clear();
    let mut known: Vec<&str> = Vec::new();
    for (index, claim) in spec.list("resourceClaims").iter().enumerate() {
        let path = path.index(index);
        let name = claim.str("name");
        if name.is_empty() {
            checker.required(&path.field("name"), "");
        } else if known.contains(&name) {
            checker.duplicate(&path.field("name"), name);
        } else {
            checker.problems(&path.field("name"), name, &format::label(name));
            known.push(name);
        }
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => checker.invalid(
                &path,
                name,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => checker.invalid(
                &path,
                name,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(own) = claim.get(field) {
                checker.problems(&path.field(field), own.as_str(), &format::subdomain(own.as_str()));
            }
        }
        checker.claims.push(name.to_owned());
    }
}

pub(super) fn pod_resources(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(own) = spec.get("resources") else { return };
    if spec.at(&["os", "name"]).is_some_and(|name| name.as_str() == "windows") {
        return checker.forbidden(path, "may not be set for a windows pod");
    }
    if own.has("claims") {
        checker.forbidden(
            &path.field("claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    requirements(checker, own, path, |checker, name, path| {
        let before = checker.errors.len();
        super::core::resource_name(checker, name, path);
        if checker.errors.len() == before && !matches!(name, "cpu" | "memory") && !name.starts_with("hugepages-") {
            checker.unsupported(path, name, &["cpu", "hugepages-", "memory"]);
        }
    });
    for (name, limit) in own.map("limits") {
        for (index, container) in spec.list("containers").iter().enumerate() {
            let Some(used) = container.at(&["resources", "limits", name]) else {
                continue;
            };
            if let (Ok(used), Ok(limit)) = (Quantity::parse(used.as_str()), Quantity::parse(limit.as_str()))
                && used > limit
            {
                let at = path.field("containers");
                let at = at.index(index);
                let detail = format!("must be less than or equal to pod limits of {limit}");
                checker.invalid(&at.key(name).field("limits"), &used.to_string(), &detail);
            }
        }
    }
}
