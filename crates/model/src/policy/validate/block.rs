//! The fields of `match` and `exclude`.

use super::{Errors, json};
use crate::policy::{MatchResources, ResourceFilter, Rule};
use kyvtest_go_compat::{
    text::{quote::quote, wildcard},
    yaml::{Items, Node},
};

/// The checks of the API types' methods on a block.
pub(super) fn fields(
    rule: &Rule,
    section: &str,
    block: Option<&MatchResources>,
    path: &str,
    namespaced: bool,
    errors: &mut Errors,
) {
    let Some((block, node)) = block.zip(rule.source.node().get(section)) else {
        return;
    };
    let path = format!("{path}.{section}");
    for (list, filters) in [("any", &block.any), ("all", &block.all)] {
        let items = node.get(list).and_then(Node::as_seq);
        let items = items.into_iter().flat_map(Items::iter);
        for (i, (filter, item)) in filters.iter().zip(items).enumerate() {
            one(filter, item, &format!("{path}.{list}[{i}]"), namespaced, errors);
        }
    }
    one(&block.inline, node, &path, namespaced, errors);
}

fn one(filter: &ResourceFilter, node: Node<'_>, path: &str, namespaced: bool, errors: &mut Errors) {
    user(filter, path, errors);
    let wanted = &filter.resources;
    if let Some(selector) = &wanted.selector
        && !selector.requirements().iter().any(|requirement| {
            let texts = requirement.values.iter().chain([&requirement.key]);
            requirement.is_pair && texts.into_iter().any(|text| wildcard::has_wildcard(text))
        })
    {
        let written = node.get("resources").and_then(|node| node.get("selector"));
        let value = written.map(json::selector).unwrap_or_default();
        let path = format!("{path}.selector");
        if let Some(error) = selector.error() {
            errors.invalid(&path, &value, error);
        } else if selector.is_empty() {
            errors.invalid(&path, &value, "The requirements are not specified in selector");
        }
    }
    if namespaced && !wanted.namespaces.is_empty() {
        errors.forbidden(
            &format!("{path}.namespaces"),
            "Filtering namespaces not allowed in namespaced policies",
        );
    }
}

fn user(filter: &ResourceFilter, path: &str, errors: &mut Errors) {
    for (i, subject) in filter.user.subjects.iter().flatten().enumerate() {
        let entry = format!("{path}.subjects[{i}]");
        let kind = subject.kind.as_str();
        if kind.is_empty() {
            errors.required(&format!("{entry}.kind"), "");
        } else if !["Group", "ServiceAccount", "User"].contains(&kind) {
            errors.invalid(
                &format!("{entry}.kind"),
                &quote(kind),
                "kind must be 'User', 'Group', or 'ServiceAccount'",
            );
        }
        if subject.name.is_empty() {
            errors.required(&format!("{entry}.name"), "");
        }
        if kind == "ServiceAccount" && subject.namespace.is_empty() {
            errors.required(
                &format!("{entry}.namespace"),
                "namespace is required when Kind is ServiceAccount",
            );
        }
    }
    for (i, role) in filter.user.roles.iter().flatten().enumerate() {
        if role.value.split(':').count() != 2 {
            errors.invalid(
                &format!("{path}.roles[{i}]"),
                &quote(&role.value),
                "Role is expected to be in namespace:name format",
            );
        }
    }
}

/// Whether a block has constraints in the older form, even if only an empty list.
fn describes(node: Option<Node<'_>>) -> bool {
    let resources = node.and_then(|node| node.get("resources"));
    resources
        .map(json::reflected)
        .and_then(|value| value.as_object().map(|map| !map.is_empty()))
        .unwrap_or(false)
}

/// Checks the blocks of an effective rule.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(rule: &Rule, i: usize) -> Result<(), String> {
    let source = rule.source.node();
    let path = format!("path: spec.rules[{i}]");
    if let Some(exclude) = &rule.exclude {
        let mut errors = Errors::default();
        user(&exclude.inline, &format!("spec.rules[{i}].exclude"), &mut errors);
        errors.finish().map_err(|error| format!("{path}.exclude: {error}"))?;
        let listed = !exclude.any.is_empty() || !exclude.all.is_empty();
        if listed && describes(source.get("exclude")) {
            return Err(format!(
                "{path}.exclude.: can't specify any/all together with exclude resources"
            ));
        }
        if !exclude.any.is_empty() && !exclude.all.is_empty() {
            return Err(format!("{path}.match.: can't specify any and all together"));
        }
    }
    let matches = &rule.matches;
    let node = source.get("match");
    if (!matches.any.is_empty() || !matches.all.is_empty()) && describes(node) {
        return Err(format!(
            "{path}.match.: can't specify any/all together with match resources"
        ));
    }
    let list = if !matches.any.is_empty() {
        Some("any")
    } else if !matches.all.is_empty() {
        Some("all")
    } else {
        None
    };
    let all_described = match list {
        Some(list) => {
            let items = node.and_then(|node| node.get(list)).and_then(Node::as_seq);
            items.is_some_and(|items| items.iter().all(|item| describes(Some(item))))
        }
        None => describes(node),
    };
    if !all_described {
        return Err(format!("{path}.match.resources.: match resources not specified"));
    }
    Ok(())
}
