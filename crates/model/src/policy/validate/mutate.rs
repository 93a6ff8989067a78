//! `mutate` of a rule: readable patches, and only one kind of them.
//!
//! Upstream counterpart: `pkg/policy/mutate/validate.go`, `validateJSONPatchPathForForwardSlash` in
//! `pkg/validation/policy/validate.go`, `github.com/evanphx/json-patch/v5`.

use super::{Errors, variables::without_variables};
use crate::policy::{ClassicPolicy, Rule};
use kyvtest_go_compat::{
    text::{quote::quote, variable::has_variable},
    value::{Data, Document, go_json},
    yaml::{self, Items, Node},
};

/// Checks the JSON patches of an effective rule.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn patches(rule: &Rule, i: usize) -> Result<(), String> {
    let text = rule
        .mutate
        .as_ref()
        .and_then(|mutate| mutate.node().get("patchesJson6902"));
    let Some(text) = text.and_then(Node::as_str).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let text = without_variables(text, "kyvernojsonpatchvariable");
    let tree = yaml::read_first(&text, yaml::Mode::Lax, &yaml::Limits::default()).map_err(|error| {
        let error = error.go_text();
        format!("path must begin with a forward slash: spec.rules[{i}]: {error}")
    })?;
    let patches = Data::from(Document::from(tree.root()).root());
    decodes(&patches).map_err(|error| format!("path must begin with a forward slash: spec.rules[{i}]: {error}"))?;
    for patch in patches.as_list().unwrap_or_default() {
        operation(patch).map_err(|error| {
            let json = patch.to_json();
            format!("path must begin with a forward slash: spec.rules[{i}]: invalid operation {json}: {error}")
        })?;
    }
    for patch in patches.as_list().unwrap_or_default() {
        let path = patch.get("path").and_then(Data::as_str).unwrap_or_default();
        if !path.starts_with('/') {
            return Err(format!("path must begin with a forward slash: spec.rules[{i}]: {path}"));
        }
    }
    let tests = |patch: &&Data| patch.get("op").and_then(Data::as_str) == Some("test");
    let mut tests = patches.as_list().unwrap_or_default().iter().filter(tests);
    if tests.any(|patch| patch.get("value").is_none()) {
        return Err(format!(
            "invalid value: spec.rules[{i}]: operation, missing value field: missing value"
        ));
    }
    Ok(())
}

/// Whether all paths of a JSON patch are below the metadata. Upstream reads the text as JSON here: patches in YAML are not seen.
pub(super) fn only_metadata(text: &str) -> bool {
    let Ok(document) = go_json::read(text) else {
        return true;
    };
    let patches = Data::from(document.root());
    let patches = patches.as_list().unwrap_or_default();
    let is_operation = |patch: &Data| *patch == Data::Null || patch.as_map().is_some();
    let path = |patch: &Data| patch.get("path").and_then(Data::as_str).unwrap_or_default().to_owned();
    !patches.iter().all(is_operation) || patches.iter().all(|patch| path(patch).starts_with("/metadata"))
}

/// Whether a readable JSON patch has variables in a path.
pub(super) fn has_variables_in_paths(rule: &Rule) -> bool {
    let text = rule
        .mutate
        .as_ref()
        .and_then(|mutate| mutate.node().get("patchesJson6902"));
    let Some(Ok(tree)) = text
        .and_then(Node::as_str)
        .map(|text| yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default()))
    else {
        return false;
    };
    let patches = Data::from(Document::from(tree.root()).root());
    let patches = patches.as_list().unwrap_or_default();
    if patches.iter().any(|patch| operation(patch).is_err()) {
        return false;
    }
    let mut paths = patches
        .iter()
        .filter_map(|patch| patch.get("path").and_then(Data::as_str));
    paths.any(has_variable)
}

/// Whether an effective rule patches Pods by path, in a block without `any` and `all`.
pub(super) fn patches_pods(rule: &Rule) -> bool {
    let kinds = &rule.matches.inline.resources.kinds;
    rule.mutate.as_ref().is_some_and(|mutate| has_json(mutate.node())) && kinds.iter().any(|kind| kind.text == "Pod")
}

/// A rule's `mutateExistingOnPolicyUpdate`.
pub(super) fn existing(rule: &Rule) -> Option<bool> {
    let mutate = rule.mutate.as_ref()?.node();
    mutate.get("mutateExistingOnPolicyUpdate").and_then(Node::as_bool)
}

/// Checks that the targets of a namespaced policy are in its namespace.
pub(super) fn target_namespaces(policy: &ClassicPolicy, rule: &Rule, path: &str, errors: &mut Errors) {
    let own = policy.metadata.namespace.as_ref();
    let own = own.map_or("", |namespace| namespace.value.as_str());
    let targets = rule.mutate.as_ref().and_then(|mutate| mutate.node().get("targets"));
    let targets = targets.and_then(Node::as_seq).into_iter().flat_map(Items::iter);
    for (i, target) in targets.enumerate() {
        let namespace = target.get("namespace").and_then(Node::as_str).unwrap_or_default();
        if !namespace.is_empty() && namespace != own {
            let detail =
                "This field can be ignored or should have value of the namespace where the policy is being created";
            errors.invalid(&format!("{path}.targets[{i}].namespace"), &quote(namespace), detail);
        }
    }
}

/// A policy's `mutateExistingOnPolicyUpdate`.
pub(super) fn all_existing(policy: &ClassicPolicy) -> bool {
    let spec = policy.spec.source.node();
    spec.get("mutateExistingOnPolicyUpdate").and_then(Node::as_bool) == Some(true)
}

/// Whether Go decodes a value as a list of operations, each of them a map.
fn decodes(patches: &Data) -> Result<(), String> {
    let wrong = |value: &Data, wanted: &str| {
        let found = match value {
            Data::Null => return Ok(()),
            Data::Bool(_) => "bool",
            Data::String(_) => "string",
            Data::List(_) => "array",
            Data::Map(_) => "object",
            _ => "number",
        };
        Err(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.{wanted}"
        ))
    };
    let Some(operations) = patches.as_list() else {
        return wrong(patches, "Patch");
    };
    let mut others = operations.iter().filter(|operation| !matches!(operation, Data::Map(_)));
    others.try_for_each(|other| wrong(other, "Operation"))
}

/// Checks that an operation is complete.
fn operation(patch: &Data) -> Result<(), String> {
    let text = |key: &str| patch.get(key).is_some_and(|value| value.as_str().is_some());
    match patch.get("op").and_then(Data::as_str).unwrap_or_default() {
        "add" | "replace" if patch.get("value").is_none() => {
            return Err("failed to decode 'value': operation, missing value field: missing value".to_owned());
        }
        "move" | "copy" if !text("from") => {
            return Err("failed to decode 'from': operation, missing from field: missing value".to_owned());
        }
        "add" | "replace" | "move" | "copy" | "remove" | "test" => {}
        _ => return Err("unsupported operation".to_owned()),
    }
    if text("path") {
        Ok(())
    } else {
        Err("failed to decode 'path': operation missing path field: missing value".to_owned())
    }
}

/// Checks that an effective rule has one kind of patch.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(rule: &Rule, i: usize) -> Result<(), String> {
    const ONE: &str = "only one of `patchStrategicMerge` or `patchesJson6902` is allowed";
    let Some(mutate) = rule.mutate.as_ref().map(|mutate| mutate.node()) else {
        return Ok(());
    };
    let error = |place: &str, text: &str| Err(format!("path: spec.rules[{i}].mutate.{place}.: {text}"));
    let loops = mutate
        .get("foreach")
        .and_then(Node::as_seq)
        .filter(|loops| !loops.is_empty());
    let (merge, json) = (has_merge(mutate), has_json(mutate));
    if loops.is_some() {
        if merge || json {
            let text = "only one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` is allowed";
            return error("foreach", text);
        }
        let entries = mutate.get("foreach");
        return entries.map_or(Ok(()), |entries| {
            foreach(entries, String::new(), 0).or_else(|(place, text)| error(&place, text))
        });
    }
    if merge && json {
        return error("foreach", ONE);
    }
    let conditions = rule.source.node().get("celPreconditions");
    if conditions.is_some_and(|list| !list.is_null()) {
        return error("", "celPrecondition can only be used with validate.cel");
    }
    Ok(())
}

fn has_merge(node: Node<'_>) -> bool {
    node.get("patchStrategicMerge").is_some_and(|patch| !patch.is_null())
}

fn has_json(node: Node<'_>) -> bool {
    node.get("patchesJson6902")
        .and_then(Node::as_str)
        .is_some_and(|text| !text.is_empty())
}

fn foreach(entries: Node<'_>, mut place: String, depth: usize) -> Result<(), (String, &'static str)> {
    for (i, entry) in entries.as_seq().into_iter().flat_map(Items::iter).enumerate() {
        place = format!("{place}foreach[{i}]");
        let nested = entry
            .get("foreach")
            .filter(|nested| nested.as_seq().is_some_and(|list| !list.is_empty()));
        if let Some(nested) = nested.filter(|_| depth < 32) {
            let there = |name: &&&str| entry.get(name).is_some_and(|part| !part.is_null());
            if has_json(entry)
                || ["context", "preconditions", "patchStrategicMerge"]
                    .iter()
                    .any(|name| there(&name))
            {
                return Err((place, "a nested foreach cannot contain other declarations"));
            }
            return foreach(nested, place, depth + 1);
        }
        if has_merge(entry) == has_json(entry) {
            return Err((
                place,
                "only one of `patchStrategicMerge` or `patchesJson6902` is allowed",
            ));
        }
    }
    Ok(())
}
