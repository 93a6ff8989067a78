//! `exclude` of `podSecurity`: the controls that accept images, and field and values together.
//!
//! Upstream counterpart: `ValidatePSaControlNames` and `PodSecurityStandard.Validate` in `api/kyverno/v1`.

use super::Errors;
use crate::policy::Rule;
use kyvtest_go_compat::yaml::{Items, Node};

/// Controls of the restricted level that the baseline does not have.
const RESTRICTED: [&str; 4] = [
    "Volume Types",
    "Privilege Escalation",
    "Running as Non-root",
    "Running as Non-root user",
];

const OF_PODS: [&str; 4] = ["Host Namespaces", "HostPath Volumes", "Sysctls", "Volume Types"];

const OF_CONTAINERS: [&str; 5] = [
    "Capabilities",
    "Privileged Containers",
    "Host Ports",
    "/proc Mount Type",
    "Privilege Escalation",
];

/// Checks the excludes of a rule.
pub(super) fn check(rule: &Rule, path: &str, errors: &mut Errors) {
    let part = rule
        .validate
        .as_ref()
        .and_then(|validate| validate.pod_security.as_ref());
    let Some(node) = part.map(|part| part.node()) else {
        return;
    };
    let baseline = node.get("level").and_then(Node::as_str) == Some("baseline");
    let excludes = node.get("exclude").and_then(Node::as_seq);
    for (i, exclude) in excludes.into_iter().flat_map(Items::iter).enumerate() {
        let path = format!("{path}.podSecurity.exclude[{i}]");
        let some = |name: &str| {
            exclude
                .get(name)
                .and_then(Node::as_seq)
                .is_some_and(|list| !list.is_empty())
        };
        let name = exclude.get("controlName").and_then(Node::as_str).unwrap_or_default();
        let mut wrong = |detail: &str| errors.invalid(&format!("{path}.controlName"), &format!("\"{name}\""), detail);
        if OF_CONTAINERS.contains(&name) && !some("images") {
            wrong("exclude.images must be specified for the container level control");
        }
        if OF_PODS.contains(&name) && some("images") {
            wrong("exclude.images must not be specified for the pod level control");
        }
        let field = exclude.get("restrictedField").and_then(Node::as_str);
        let field = field.is_some_and(|field| !field.is_empty());
        if field && !some("values") {
            errors.forbidden(&format!("{path}.values"), "values is required");
        }
        if !field && some("values") {
            errors.forbidden(&format!("{path}.restrictedField"), "restrictedField is required");
        }
        if baseline && RESTRICTED.contains(&name) {
            let detail = "Invalid control name defined at the given level";
            errors.invalid(&format!("{path}.controlName"), &format!("\"{name}\""), detail);
        }
    }
}
