//! `matchConstraints` and `matchResources`: rules, selectors, names.
//!
//! Upstream counterpart: that of the parent module, and `k8s.io/apimachinery/pkg/apis/meta/v1/validation`.

use std::collections::BTreeSet;

use super::{field::Errors, items, present, text, texts};
use kyvtest_go_compat::{
    text::label::{Wording, key_problems, value_problems},
    value::{Map, Value},
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Checks a block. Absent selectors and the match policy have defaults.
pub(super) fn check_block(block: Value<'_>, path: &str, errors: &mut Errors) {
    if let Some(policy) = present(block, "matchPolicy").and_then(Value::as_str) {
        errors.supported(&format!("{path}.matchPolicy"), policy, &["Equivalent", "Exact"]);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = present(block, field) {
            check_selector(selector, &format!("{path}.{field}"), errors);
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in items(block, field).into_iter().enumerate() {
            check_rule(rule, &format!("{path}.{field}[{i}]"), errors);
        }
    }
}

/// Checks a label selector.
pub(super) fn check_selector(selector: Value<'_>, path: &str, errors: &mut Errors) {
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_map) {
        check_labels(labels, &format!("{path}.matchLabels"), errors);
    }
    for (i, requirement) in items(selector, "matchExpressions").into_iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let values = texts(requirement, "values");
        let field = format!("{path}.values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&field, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(
                    &field,
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => errors.invalid(&format!("{path}.operator"), operator, "not a valid selector operator"),
        }
        let mut problems = Vec::new();
        let key = text(requirement, "key");
        key_problems(key, Wording::LabelKey, &mut problems);
        errors.all_invalid(&format!("{path}.key"), key, &mut problems);
        for (i, value) in values.into_iter().enumerate() {
            value_problems(value, Wording::LabelKey, &mut problems);
            errors.all_invalid(&format!("{field}[{i}]"), value, &mut problems);
        }
    }
}

/// Checks keys and values of labels; both are reported for the map.
pub(super) fn check_labels(labels: Map<'_>, path: &str, errors: &mut Errors) {
    let mut problems = Vec::new();
    for (key, value) in labels.iter() {
        key_problems(key.text(), Wording::LabelKey, &mut problems);
        errors.all_invalid(path, key.text(), &mut problems);
        let value = value.as_str().unwrap_or_default();
        value_problems(value, Wording::LabelKey, &mut problems);
        errors.all_invalid(path, value, &mut problems);
    }
}

/// Checks a name that becomes part of a path.
pub(super) fn check_path_segment(name: &str, path: &str, errors: &mut Errors) {
    if name == "." || name == ".." {
        errors.invalid(path, name, &format!("may not be '{name}'"));
        return;
    }
    for part in ['/', '%'] {
        if name.contains(part) {
            errors.invalid(path, name, &format!("may not contain '{part}'"));
        }
    }
}

fn check_rule(rule: Value<'_>, path: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (i, name) in texts(rule, "resourceNames").into_iter().enumerate() {
        let path = format!("{path}.resourceNames[{i}]");
        check_path_segment(name, &path, errors);
        if !names.insert(name) {
            errors.duplicate(&path, name);
        }
    }
    let operations = texts(rule, "operations");
    let field = format!("{path}.operations");
    alone(&operations, &field, "operations", errors);
    for (i, operation) in operations.iter().enumerate() {
        errors.supported(&format!("{field}[{i}]"), operation, &OPERATIONS);
    }
    alone(
        &texts(rule, "apiGroups"),
        &format!("{path}.apiGroups"),
        "API groups",
        errors,
    );
    let versions = texts(rule, "apiVersions");
    let field = format!("{path}.apiVersions");
    alone(&versions, &field, "API versions", errors);
    for (i, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
        errors.required(&format!("{field}[{i}]"), "");
    }
    check_resources(&texts(rule, "resources"), &format!("{path}.resources"), errors);
    if let Some(scope) = present(rule, "scope").and_then(Value::as_str) {
        errors.supported(&format!("{path}.scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

/// Checks that a list is not empty, and that `*` is its only entry if present.
fn alone(list: &[&str], path: &str, what: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.required(path, "");
    }
    if list.len() > 1 && list.contains(&"*") {
        errors.invalid_list(path, list, &format!("if '*' is present, must not specify other {what}"));
    }
}

fn check_resources(resources: &[&str], path: &str, errors: &mut Errors) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut all_subresources, mut all_resources) = (BTreeSet::new(), BTreeSet::new());
    // As upstream, only the last of the entries without a subresource counts.
    let mut main = false;
    for (i, entry) in resources.iter().enumerate() {
        let field = format!("{path}[{i}]");
        if entry.is_empty() {
            errors.required(&field, "");
            continue;
        }
        let Some((resource, subresource)) = entry.split_once('/') else {
            main = *entry != "*";
            continue;
        };
        for (seen, present) in [
            (all_subresources.contains(resource), format!("{resource}/*")),
            (all_resources.contains(subresource), format!("*/{subresource}")),
        ] {
            if seen {
                let detail = format!("if '{present}' is present, must not specify {entry}");
                errors.invalid(&field, entry, &detail);
            }
        }
        if subresource == "*" {
            all_subresources.insert(resource);
        }
        if resource == "*" {
            all_resources.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid_list(path, resources, detail);
    }
    if main && resources.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid_list(path, resources, detail);
    }
}
