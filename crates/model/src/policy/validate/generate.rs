//! `generate` of a rule: the generated object is named, and has one source.
//!
//! Upstream counterpart: `Generation.Validate` and `GeneratePattern.Validate` in `api/kyverno/v1`, without a cluster,
//! so that every kind counts as namespaced.

use super::{Errors, has, json};
use crate::policy::{ClassicPolicy, PolicyKind, Rule};
use kyvtest_go_compat::{
    text::variable::has_variable,
    yaml::{Items, Node},
};

fn text<'t>(node: Node<'t>, name: &str) -> &'t str {
    node.get(name).and_then(Node::as_str).unwrap_or_default()
}

fn kinds(node: Node<'_>) -> usize {
    let list = node.get("cloneList").and_then(|list| list.get("kinds"));
    list.and_then(Node::as_seq).map_or(0, |kinds| kinds.iter().count())
}

/// Checks the fields of a written rule.
pub(super) fn fields(policy: &ClassicPolicy, rule: &Rule, path: &str, errors: &mut Errors, warnings: &mut Vec<String>) {
    let Some(node) = rule.generate.as_ref().map(|part| part.node()) else {
        return;
    };
    let there = |name: &str| node.get(name).is_some_and(|part| !part.is_null());
    let clones = node
        .get("clone")
        .and_then(Node::as_map)
        .is_some_and(|clone| !clone.is_empty());
    let ways = [there("data"), clones, kinds(node) > 0, there("foreach")];
    if ways.into_iter().filter(|way| *way).count() > 1 {
        let text = "only one of generate patterns(data, clone, cloneList and foreach) can be specified";
        errors.forbidden(path, text);
        return;
    }
    match node.get("foreach").filter(|foreach| !foreach.is_null()) {
        Some(foreach) => {
            for (i, entry) in foreach.as_seq().into_iter().flat_map(Items::iter).enumerate() {
                pattern(policy, entry, &format!("{path}.foreach[{i}]"), errors, warnings);
            }
        }
        None => pattern(policy, node, path, errors, warnings),
    }
}

fn pattern(policy: &ClassicPolicy, node: Node<'_>, path: &str, errors: &mut Errors, warnings: &mut Vec<String>) {
    let synchronized = ["apiVersion", "kind", "clone", "cloneList"];
    let mut synchronized = synchronized.iter().filter_map(|name| node.get(name));
    if synchronized.any(|part| has_variable(&json::value(part))) {
        warnings.push(format!(
            "variables in {path}.clone/cloneList would lead to incorrect synchronization behavior"
        ));
    }
    let own = policy
        .metadata
        .namespace
        .as_ref()
        .map_or("", |name| name.value.as_str());
    let namespaced = policy.kind == PolicyKind::Policy;
    let clone = node.get("clone");
    let (namespace, kind) = (text(node, "namespace"), text(node, "kind"));
    let place = format!("{path}.namespace");
    if namespaced {
        let from = clone
            .filter(|clone| !text(*clone, "name").is_empty())
            .map(|clone| text(clone, "namespace"));
        let wrong = if namespace == own {
            from.filter(|from| *from != own)
                .map(|from| ("a namespaced policy cannot clone resources from other namespaces", from))
        } else {
            Some((
                "a namespaced policy cannot generate resources in other namespaces",
                namespace,
            ))
        };
        if let Some((what, received)) = wrong {
            let detail = format!("target resource scope mismatched: {what}, expected: {own}, received: {received} ");
            errors.forbidden(&place, &detail);
        }
    }
    if !kind.is_empty() && namespace.is_empty() {
        errors.forbidden(&place, "target namespace must be set for a namespaced resource");
    }
    if kinds(node) == 0 {
        for field in ["kind", "name", "apiVersion"] {
            if text(node, field).is_empty() {
                errors.forbidden(&format!("{path}.{field}"), &format!("{field} can not be empty"));
            }
        }
        return;
    }
    let list = node.get("cloneList");
    let from = list.map_or("", |list| text(list, "namespace"));
    let place = format!("{path}.cloneList.namespace");
    if namespaced && from != own {
        let detail = format!(
            "a namespaced policy cannot clone resources from other namespace, expected: {own}, received: {from}"
        );
        for _ in 0..kinds(node) {
            errors.forbidden(&place, &detail);
        }
    }
    if from.is_empty() {
        errors.forbidden(&place, "namespace is required for namespaced target resources");
    }
}

/// Checks an effective rule.
///
/// # Errors
/// With upstream's message.
pub(super) fn check(rule: &Rule) -> Result<(), String> {
    let Some(node) = rule.generate.as_ref().map(|part| part.node()) else {
        return Ok(());
    };
    let kind = text(node, "kind");
    let own = &rule.matches.inline.resources.kinds;
    if own.iter().any(|own| own.text == kind) {
        return Err("generation kind and match resource kind should not be the same".to_owned());
    }
    Ok(())
}

/// The reason why the `generate` section of a rule cannot be decoded as an object, which `kyverno test` tries for rules
/// without `cloneList`; `None` if it can, or if the rule has no such section or only an empty one.
pub fn undecodable(rule: &Rule) -> Option<String> {
    let node = rule.generate.as_ref().filter(|_| has(rule, "generate"))?.node();
    let is_object = !text(node, "kind").is_empty() && text(node, "apiVersion").matches('/').count() < 2;
    if kinds(node) > 0 || is_object {
        return None;
    }
    Some(format!("Object 'Kind' is missing in '{}'", json::generate(node)))
}
