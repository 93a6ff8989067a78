//! Checks of a rule's kinds and of its `validate` section.

use std::sync::LazyLock;

use super::{has, mutate, pattern};
use crate::policy::{Cel, Rule, Validate};
use kyvtest_go_compat::{
    regex::Regex,
    yaml::{Entries, Items, Kind, Node},
};

/// A variable of the request that is available for every kind.
static COMMON: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{\{\s*(request\.|serviceAccountName|serviceAccountNamespace)[^{}]*\}\}").ok());

const ONLY_METADATA: &str =
    "policy can only deal with the metadata field of the resource if the rule does not match any kind";

/// Checks the kinds of an effective rule: `*` must be the only one, and is not always supported.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn kinds(rule: &Rule, i: usize, background: bool) -> Result<(), String> {
    let blocks = [("match", Some(&rule.matches)), ("exclude", rule.exclude.as_ref())];
    for (name, block) in blocks {
        let Some(block) = block else { continue };
        for (place, filter) in block.located_filters() {
            let kinds: Vec<&str> = filter.resources.kinds.iter().map(|kind| kind.text.as_str()).collect();
            wildcard(rule, &kinds, background)
                .map_err(|error| format!("path: spec.rules[{i}].{name}{place}.kinds: {error}"))?;
        }
    }
    Ok(())
}

fn wildcard(rule: &Rule, kinds: &[&str], background: bool) -> Result<(), &'static str> {
    if !kinds.contains(&"*") {
        return Ok(());
    }
    if background {
        return Err(
            "wildcard policy not allowed in background mode. Set spec.background=false to disable background mode for \
             this policy rule ",
        );
    }
    if kinds.len() > 1 {
        return Err("wildcard policy can not deal with more than one kind");
    }
    let validate = rule.validate.as_ref();
    let loops = validate.is_some_and(|validate| validate.foreach.is_some());
    if has(rule, "generate") || has(rule, "verifyImages") || loops {
        return Err("wildcard policy does not support rule type");
    }
    let patterns = validate.is_some_and(|validate| validate.pattern.is_some() || validate.any_pattern.is_some());
    if (patterns || has(rule, "mutate")) && !only_metadata(rule) {
        return Err(ONLY_METADATA);
    }
    let deny = validate.and_then(|validate| validate.deny.as_ref());
    if deny.is_some_and(|deny| !only_common_keys(deny.node())) {
        return Err(ONLY_METADATA);
    }
    Ok(())
}

/// Whether the keys of a list of conditions, the old form, only use what every kind has: metadata, or a variable
/// outside the spec.
fn only_common_keys(deny: Node<'_>) -> bool {
    let conditions = deny.get("conditions").and_then(Node::as_seq);
    conditions.into_iter().flat_map(Items::iter).all(|condition| {
        let key = condition.get("key").and_then(Node::as_str).unwrap_or_default();
        let variable = COMMON.as_ref().is_some_and(|common| common.is_match(key));
        key.contains("request.object.metadata.") || (variable && !key.contains("request.object.spec"))
    })
}

/// The message about a rule with a filter without kinds.
pub(super) fn no_kind(rule: &Rule) -> String {
    if only_metadata(rule) {
        "at least one element must be specified in a kind block, the kind attribute is mandatory when working with the \
         resources element"
            .to_owned()
    } else {
        ONLY_METADATA.to_owned()
    }
}

/// Whether patterns and patches of a rule only use metadata.
fn only_metadata(rule: &Rule) -> bool {
    let metadata = |node: Node<'_>| {
        let entries = node.as_map().into_iter().flat_map(Entries::iter);
        entries.into_iter().all(|entry| entry.key == "metadata")
    };
    if let Some(mutate) = &rule.mutate
        && let Some(patch) = mutate.node().get("patchStrategicMerge")
        && !metadata(patch)
    {
        return false;
    }
    let patches = rule
        .mutate
        .as_ref()
        .and_then(|mutate| mutate.node().get("patchesJson6902"));
    if patches
        .and_then(Node::as_str)
        .is_some_and(|text| !mutate::only_metadata(text))
    {
        return false;
    }
    let Some(validate) = &rule.validate else {
        return true;
    };
    if validate
        .pattern
        .as_ref()
        .is_some_and(|pattern| !metadata(pattern.node()))
    {
        return false;
    }
    match &validate.any_pattern {
        None => true,
        Some(patterns) => patterns
            .node()
            .as_seq()
            .is_some_and(|patterns| patterns.iter().all(metadata)),
    }
}

/// Checks the `validate` section of an effective rule.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(rule: &Rule, i: usize) -> Result<(), String> {
    let Some(validate) = rule.validate.as_ref().filter(|_| has(rule, "validate")) else {
        return Ok(());
    };
    let manifests = validate.manifests.as_ref().is_some_and(|manifests| {
        let attestors = manifests.node().get("attestors").and_then(Node::as_seq);
        attestors.is_some_and(|attestors| !attestors.is_empty())
    });
    let parts = [
        validate.pattern.is_some(),
        validate.any_pattern.is_some(),
        validate.deny.is_some(),
        validate.foreach.is_some(),
        validate.pod_security.is_some(),
        validate.cel.is_some(),
        manifests,
    ];
    let path = format!("path: spec.rules[{i}].validate..");
    if parts.into_iter().filter(|part| *part).count() == 1
        && let Some(patterns) = &validate.any_pattern
        && let Some(found) = not_a_list(patterns.node())
    {
        return Err(format!(
            "path: spec.rules[{i}].validate.anyPattern.: failed to deserialize anyPattern, expect array: json: cannot \
             unmarshal {found} into Go value of type []interface {{}}"
        ));
    }
    let count = parts.into_iter().filter(|part| *part).count();
    if count == 1 {
        patterns(validate).map_err(|(place, error)| format!("path: spec.rules[{i}].validate.{place}.: {error}"))?;
        let loops = validate.foreach.as_ref().and_then(|foreach| foreach.node().as_seq());
        for entry in loops.into_iter().flat_map(Items::iter) {
            foreach(entry).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    let error = match count {
        0 => Err("one of pattern, anyPattern, deny, foreach, cel must be specified"),
        1 if validate.cel.is_none()
            && rule
                .source
                .node()
                .get("celPreconditions")
                .is_some_and(|list| !list.is_null()) =>
        {
            Err("celPrecondition can only be used with validate.cel")
        }
        1 => validate.cel.as_ref().map_or(Ok(()), cel),
        _ => Err("only one of pattern, anyPattern, deny, foreach, cel can be specified"),
    };
    error.map_err(|error| format!("{path}: {error}"))
}

/// The anchors of the patterns.
fn patterns(validate: &Validate) -> Result<(), (String, String)> {
    if let Some(part) = &validate.pattern {
        pattern::anchors(part.node(), "/").map_err(|(path, error)| (format!("pattern.{path}"), error))?;
    }
    let parts = validate.any_pattern.as_ref().and_then(|parts| parts.node().as_seq());
    for (i, part) in parts.into_iter().flat_map(Items::iter).enumerate() {
        pattern::anchors(part, "/").map_err(|(path, error)| (format!("anyPattern[{i}].{path}"), error))?;
    }
    Ok(())
}

/// An entry of a loop names its list, and has one type.
fn foreach(entry: Node<'_>) -> Result<(), &'static str> {
    if entry.get("list").and_then(Node::as_str).is_none_or(str::is_empty) {
        return Err("foreach.list is required");
    }
    let there = |name: &&&str| entry.get(name).is_some_and(|part| !part.is_null());
    let nested = entry
        .get("foreach")
        .and_then(Node::as_seq)
        .is_some_and(|nested| !nested.is_empty());
    let parts = ["pattern", "anyPattern", "deny"].iter().filter(there).count() + usize::from(nested);
    match parts {
        0 => Err("one of pattern, anyPattern, deny, or a nested foreach must be specified"),
        1 => Ok(()),
        _ => Err("only one of pattern, anyPattern, deny, or a nested foreach can be specified"),
    }
}

/// Go's name for the type of a value that is not a list.
fn not_a_list(node: Node<'_>) -> Option<&'static str> {
    match node.kind() {
        Kind::Seq(_) | Kind::Null => None,
        Kind::Map(_) => Some("object"),
        Kind::Str(_) => Some("string"),
        Kind::Bool(_) => Some("bool"),
        Kind::Int(_) | Kind::Uint(_) | Kind::Float(_) => Some("number"),
    }
}

fn cel(cel: &Cel) -> Result<(), &'static str> {
    if cel
        .expressions
        .iter()
        .any(|validation| validation.expression.text().is_empty())
    {
        return Err("cel.expressions.expression is required");
    }
    if let Some(kind) = &cel.param_kind {
        if kind.api_version.is_empty() {
            return Err("cel.paramKind.apiVersion is required");
        }
        if kind.kind.is_empty() {
            return Err("cel.paramKind.kind is required");
        }
        if cel.param_ref.is_none() {
            return Err("cel.paramRef is required");
        }
    }
    if let Some(reference) = &cel.param_ref {
        let named = reference.name.as_ref().is_some_and(|name| !name.is_empty());
        if named == reference.selector.is_some() {
            return Err("one of cel.paramRef.name or cel.paramRef.selector must be set");
        }
        if reference.parameter_not_found_action.is_none() {
            return Err("cel.paramRef.parameterNotFoundAction is required");
        }
        if cel.param_kind.is_none() {
            return Err("cel.paramKind is required");
        }
    }
    for annotation in &cel.audit_annotations {
        if annotation.key.is_empty() {
            return Err("cel.auditAnnotation.key is required");
        }
        if annotation.value_expression.text().is_empty() {
            return Err("cel.auditAnnotation.valueExpression is required");
        }
    }
    Ok(())
}
