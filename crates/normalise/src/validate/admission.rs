//! Webhook configurations, admission policies and their bindings.
//!
//! Upstream counterpart: `pkg/apis/admissionregistration/validation/validation.go`, `k8s.io/apiserver/pkg/util/webhook`.
//!
//! Known deviation: CEL expressions are not compiled here; `kyvtest check` does that.

use kyvtest_go_compat::text::url;

use super::{Checker, Path, TypeCheck, format, meta};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "admissionregistration.v1.ValidatingWebhookConfiguration"
        | "admissionregistration.v1.MutatingWebhookConfiguration" => unique_webhooks,
        "admissionregistration.v1.ValidatingWebhook" | "admissionregistration.v1.MutatingWebhook" => webhook,
        "admissionregistration.v1.RuleWithOperations" => rule,
        "admissionregistration.v1.NamedRuleWithOperations" => named_rule,
        "admissionregistration.v1.MatchCondition" => match_condition,
        "admissionregistration.v1.ValidatingAdmissionPolicy" => audit_annotations,
        "admissionregistration.v1.ValidatingAdmissionPolicySpec" => validating_policy,
        "admissionregistration.v1.MutatingAdmissionPolicySpec" => mutating_policy,
        "admissionregistration.v1.ParamKind" => param_kind,
        "admissionregistration.v1.ParamRef" => param_ref,
        "admissionregistration.v1.Validation" => validation,
        "admissionregistration.v1.Variable" => variable,
        "admissionregistration.v1.Mutation" => mutation,
        "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec" => validating_binding,
        "admissionregistration.v1.MutatingAdmissionPolicyBindingSpec" => mutating_binding,
        _ => return None,
    })
}

fn unique_webhooks(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let hooks = node.list("webhooks");
    for (index, hook) in hooks.iter().enumerate() {
        let name = hook.str("name");
        if !name.is_empty() && hooks[..index].iter().any(|other| other.str("name") == name) {
            let at = path.field("webhooks");
            checker.duplicate(&at.index(index).field("name"), name);
        }
    }
}

fn webhook(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let at = path.field("name");
    match node.str("name") {
        "" => checker.required(&at, ""),
        name => {
            let problems = format::subdomain(name);
            checker.problems(&at, name, &problems);
            if problems.is_empty() && name.split('.').count() < 3 {
                checker.invalid(
                    &at,
                    name,
                    "should be a domain with at least three segments separated by dots",
                );
            }
        }
    }
    if !node.has("sideEffects") {
        checker.required(&path.field("sideEffects"), "must specify one of None, NoneOnDryRun");
    }
    if let Some(seconds) = node.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        checker.invalid(&path.field("timeoutSeconds"), &seconds.to_string(), detail);
    }
    if let Some(config) = node.get("clientConfig") {
        client_config(checker, config, &path.field("clientConfig"));
    }
    let at = path.field("admissionReviewVersions");
    review_versions(
        checker,
        node.list("admissionReviewVersions"),
        "must specify one of v1, v1beta1",
        &at,
    );
    unique_names(checker, node.list("matchConditions"), &path.field("matchConditions"));
}

/// Checks the address of a webhook.
pub(super) fn client_config(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match (node.get("url"), node.get("service")) {
        (Some(own), None) => webhook_url(checker, own.as_str(), &path.field("url")),
        (None, Some(service)) => webhook_service(checker, service, &path.field("service")),
        _ => checker.required(path, "exactly one of url or service is required"),
    }
}

fn webhook_url(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    let Ok(own) = url::parse(text) else {
        return checker.required(path, "url must be a valid URL");
    };
    if own.scheme() != "https" {
        checker.invalid(path, own.scheme(), "'https' is the only allowed URL scheme");
    }
    if own.host().is_empty() {
        checker.invalid(path, "", "host must be specified");
    }
    let authority = text
        .split_once("//")
        .map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if authority.contains('@') {
        checker.invalid(path, "", "user information is not permitted in the URL");
    }
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    if !fragment.is_empty() {
        checker.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if before.split_once('?').is_some_and(|(_, query)| !query.is_empty()) {
        checker.invalid(path, "", "query parameters are not permitted in the URL");
    }
}

fn webhook_service(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    // Upstream swaps name and namespace.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if node.str(field).is_empty() {
            checker.required(&path.field(reported), "");
        }
    }
    let port = node.int("port").unwrap_or(0);
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        checker.invalid(&path.field("port"), &port.to_string(), detail);
    }
    let own = node.str("path");
    let at = path.field("path");
    if own.is_empty() || own == "/" {
        return;
    }
    if own == "//" {
        return checker.invalid(&at, own, "segment[0] may not be empty");
    }
    if !own.starts_with('/') {
        checker.invalid(&at, own, "must start with a '/'");
    }
    let rest: String = own.chars().skip(1).collect();
    for (index, step) in rest.strip_suffix('/').unwrap_or(&rest).split('/').enumerate() {
        if step.is_empty() {
            checker.invalid(&at, own, &format!("segment[{index}] may not be empty"));
        } else {
            checker.problems(&at, own, &format::subdomain(step));
        }
    }
}

/// Checks the versions of reviews that a webhook understands.
pub(super) fn review_versions(checker: &mut Checker<'_>, versions: &[Node<'_>], required: &str, path: &Path<'_>) {
    if versions.is_empty() {
        return checker.required(path, required);
    }
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str();
        if versions[..index].contains(version) {
            checker.invalid(&path.index(index), name, "duplicate version");
            continue;
        }
        checker.problems(&path.index(index), name, &format::dns1035(name));
    }
    if !versions
        .iter()
        .any(|version| matches!(version.as_str(), "v1" | "v1beta1"))
    {
        checker.invalid(path, "", "must include at least one of v1, v1beta1");
    }
}

fn unique_names(checker: &mut Checker<'_>, conditions: &[Node<'_>], path: &Path<'_>) {
    if conditions.len() > 64 {
        checker.fail(path, Reason::TooMany, "must have at most 64 items");
    }
    for (index, condition) in conditions.iter().enumerate() {
        let name = condition.str("name");
        if !name.is_empty() && conditions[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path.index(index).field("name"), name);
        }
    }
}

fn match_condition(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.str("expression").trim().is_empty() {
        checker.required(&path.field("expression"), "");
    }
    match node.str("name") {
        "" => checker.required(&path.field("name"), ""),
        name => checker.problems(&path.field("name"), name, &format::qualified(name)),
    }
}

fn rule(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (index, operation) in node.list("operations").iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str()) {
            checker.unsupported(&path.field("operations").index(index), operation.as_str(), OPERATIONS);
        }
    }
    for field in ["operations", "apiGroups", "apiVersions"] {
        let list = node.list(field);
        if list.is_empty() {
            checker.required(&path.field(field), "");
        }
        if list.len() > 1 && list.iter().any(|item| item.as_str() == "*") {
            checker.invalid(&path.field(field), "*", "if '*' is present, must not specify others");
        }
    }
    for (index, version) in node
        .list("apiVersions")
        .iter()
        .enumerate()
        .filter(|(_, version)| version.is_empty())
    {
        let _ = version;
        checker.required(&path.field("apiVersions").index(index), "");
    }
    resources(checker, node.list("resources"), &path.field("resources"));
    if let Some(scope) = node.get("scope").map(Node::as_str)
        && !matches!(scope, "*" | "Cluster" | "Namespaced")
    {
        checker.unsupported(&path.field("scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

fn resources(checker: &mut Checker<'_>, resources: &[Node<'_>], path: &Path<'_>) {
    if resources.is_empty() {
        checker.required(path, "");
    }
    let (mut every_sub, mut every_resource): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let own = resource.as_str();
        if own.is_empty() {
            checker.required(&path.index(index), "");
            continue;
        }
        let Some((name, sub)) = own.split_once('/') else {
            plain = own != "*";
            continue;
        };
        if every_sub.contains(&name) {
            checker.invalid(
                &path.index(index),
                own,
                &format!("if '{name}/*' is present, must not specify {own}"),
            );
        }
        if every_resource.contains(&sub) {
            checker.invalid(
                &path.index(index),
                own,
                &format!("if '*/{sub}' is present, must not specify {own}"),
            );
        }
        if sub == "*" {
            every_sub.push(name);
        }
        if name == "*" {
            every_resource.push(sub);
        }
    }
    let has = |text: &str| resources.iter().any(|resource| resource.as_str() == text);
    if resources.len() > 1 && has("*/*") {
        checker.invalid(path, "*/*", "if '*/*' is present, must not specify other resources");
    }
    if has("*") && plain {
        checker.invalid(
            path,
            "*",
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

fn named_rule(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    rule(checker, node, path);
    let names = node.list("resourceNames");
    for (index, name) in names.iter().enumerate() {
        let at = path.field("resourceNames");
        checker.problems(&at.index(index), name.as_str(), &format::path_segment(name.as_str()));
        if names[..index].contains(name) {
            checker.duplicate(&at.index(index), name.as_str());
        }
    }
}

fn param_kind(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let version = node.str("apiVersion");
    let at = path.field("apiVersion");
    if version.is_empty() {
        checker.required(&at, "");
    } else if version.matches('/').count() > 1 {
        checker.invalid(&at, version, "unexpected GroupVersion string");
    } else {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        if !group.is_empty() {
            checker.problems(&at, group, &format::subdomain(group));
        }
        checker.problems(&at, version, &format::dns1035(version));
    }
    match node.str("kind") {
        "" => checker.required(&path.field("kind"), ""),
        kind => checker.problems(&path.field("kind"), kind, &format::dns1035(&kind.to_lowercase())),
    }
}

fn param_ref(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let name = node.str("name");
    let detail = "name and selector are mutually exclusive";
    match (name.is_empty(), node.get("selector")) {
        (true, None) => checker.required(path, "one of name or selector must be specified"),
        (false, Some(_)) => {
            checker.forbidden(&path.field("name"), detail);
            checker.forbidden(&path.field("selector"), detail);
        }
        _ => {}
    }
    if !name.is_empty() {
        checker.problems(&path.field("name"), name, &format::path_segment(name));
    }
    if let Some(selector) = node.get("selector") {
        meta::selector(checker, selector, &path.field("selector"));
    }
    match node.str("parameterNotFoundAction") {
        "" => checker.required(&path.field("parameterNotFoundAction"), ""),
        "Allow" | "Deny" => {}
        other => checker.unsupported(&path.field("parameterNotFoundAction"), other, &["Allow", "Deny"]),
    }
}

/// Keys of audit annotations are prefixed with the policy's name.
fn audit_annotations(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let path = path.field("spec");
    let path = path.field("auditAnnotations");
    let annotations = node.get("spec").map_or(&[][..], |spec| spec.list("auditAnnotations"));
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        let key = annotation.str("key");
        if name.is_empty() {
            checker.invalid(&path.field("key"), key, "requires metadata.name be non-empty");
        } else {
            checker.problems(&path.field("key"), key, &format::qualified(&format!("{name}/{key}")));
        }
        if annotations[..index].iter().any(|other| other.str("key") == key) {
            checker.duplicate(&path.field("key"), key);
        }
        let expression = annotation.str("valueExpression").trim();
        if expression.is_empty() {
            checker.required(&path.field("valueExpression"), "valueExpression is not specified");
        } else if expression.len() > 5 * 1024 {
            checker.required(&path.field("valueExpression"), "must not exceed 5120 bytes in length");
        }
    }
    if annotations.len() > 20 {
        checker.invalid(&path, "", "must not have more than 20 auditAnnotations");
    }
}

fn match_constraints(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let at = path.field("matchConstraints");
    match node.get("matchConstraints") {
        None => checker.required(&at, ""),
        Some(own) if own.list("resourceRules").is_empty() => checker.required(&at.field("resourceRules"), ""),
        Some(_) => {}
    }
    unique_names(checker, node.list("matchConditions"), &path.field("matchConditions"));
}

fn validating_policy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match_constraints(checker, node, path);
    if node.list("validations").is_empty() && node.list("auditAnnotations").is_empty() {
        for field in ["validations", "auditAnnotations"] {
            checker.required(
                &path.field(field),
                "validations or auditAnnotations must contain at least one item",
            );
        }
    }
}

/// Operations that mutating policies know; upstream reports others without an index.
fn mutating_operations(checker: &mut Checker<'_>, node: Option<&Node<'_>>, path: &Path<'_>) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
    let path = path.field("resourceRules");
    for rule in node.map_or(&[][..], |node| node.list("resourceRules")) {
        for operation in rule.list("operations") {
            if !OPERATIONS.contains(&operation.as_str()) {
                checker.unsupported(&path.field("operations"), operation.as_str(), OPERATIONS);
            }
        }
    }
}

fn mutating_policy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match_constraints(checker, node, path);
    mutating_operations(checker, node.get("matchConstraints"), &path.field("matchConstraints"));
    if node.list("mutations").is_empty() {
        checker.required(&path.field("mutations"), "mutations must contain at least one item");
    }
}

fn validation(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.str("expression").trim().is_empty() {
        checker.required(&path.field("expression"), "expression is not specified");
    }
    for field in ["messageExpression", "message"] {
        let own = node.str(field);
        if !own.is_empty() && own.trim().is_empty() {
            checker.invalid(&path.field(field), own, "must be non-empty if specified");
        } else if field == "message" && own.trim().contains('\n') {
            checker.invalid(&path.field(field), own, "must not contain line breaks");
        }
    }
}

fn variable(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let name = node.str("name");
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if name.trim().is_empty() {
        checker.required(&path.field("name"), "name is not specified");
    } else if !word(name) || matches!(name, "true" | "false" | "null" | "in") {
        checker.invalid(&path.field("name"), name, "must be a valid CEL identifier");
    }
    if node.str("expression").trim().is_empty() {
        checker.required(&path.field("expression"), "expression is not specified");
    }
}

fn mutation(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (own, other) = match node.str("patchType") {
        "" => return checker.required(&path.field("patchType"), ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        kind => return checker.unsupported(&path.field("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    match node.get(own) {
        None => checker.required(&path.field(own), "must be specified for this patchType"),
        Some(body) if body.str("expression").trim().is_empty() => {
            checker.required(&path.field(own).field("expression"), "");
        }
        Some(_) => {}
    }
    if node.has(other) {
        checker.invalid(&path.field(other), other, "must not be specified for this patchType");
    }
}

fn validating_binding(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("validationActions");
    let actions = node.list("validationActions");
    if actions.is_empty() {
        checker.required(&path, "at least one validation action is required");
    }
    for (index, action) in actions.iter().enumerate() {
        let name = action.as_str();
        if actions[..index].contains(action) {
            checker.duplicate(&path.index(index), name);
        }
        if !matches!(name, "Audit" | "Deny" | "Warn") {
            checker.unsupported(&path.index(index), name, &["Audit", "Deny", "Warn"]);
        }
    }
    let has = |name: &str| actions.iter().any(|action| action.as_str() == name);
    if has("Deny") && has("Warn") {
        checker.invalid(
            &path,
            "",
            "must not contain both Deny and Warn (repeating the same validation failure information)",
        );
    }
}

fn mutating_binding(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    mutating_operations(checker, node.get("matchResources"), &path.field("matchResources"));
}
