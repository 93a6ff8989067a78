//! Patterns of a rule: the permitted anchors, and string values of labels and annotations.
//!
//! Upstream counterpart: `pkg/policy/common/validate_pattern.go`, `isLabelAndAnnotationsString` in
//! `pkg/validation/policy/validate.go`.
//!
//! Known deviation: upstream visits maps in random order; here the source order counts.

use crate::policy::{Anchor, AnchorKind, Rule};
use kyvtest_go_compat::yaml::{Entries, Items, Kind, Node};

/// Checks the anchors of a pattern.
///
/// # Errors
/// The path of the first invalid anchor, and the reason.
pub(super) fn anchors(node: Node<'_>, path: &str) -> Result<(), (String, String)> {
    match node.kind() {
        Kind::Map(entries) => {
            for entry in entries.iter() {
                let below = format!("{path}/{}", entry.key);
                match Anchor::parse(entry.key).map(|anchor| anchor.kind) {
                    Some(AnchorKind::AddIfNotPresent) => {
                        return Err((below, format!("unsupported anchor {}", entry.key)));
                    }
                    Some(AnchorKind::Existence) => match entry.value.as_seq().map(Items::is_empty) {
                        None => {
                            let reason = "existence anchor should have value of type list";
                            return Err((below, reason.to_owned()));
                        }
                        Some(true) => {
                            let reason = "existence anchor: should have at least one value";
                            return Err((below, reason.to_owned()));
                        }
                        Some(false) => {}
                    },
                    _ => {}
                }
                anchors(entry.value, &below)?;
            }
            Ok(())
        }
        Kind::Seq(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| anchors(item, &format!("{path}{i}/"))),
        _ => Ok(()),
    }
}

/// Rejects labels and annotations of patterns and patches whose values are not strings.
///
/// # Errors
/// With upstream's message.
pub(super) fn texts(rule: &Rule) -> Result<(), String> {
    let fits = match (&rule.validate, &rule.mutate) {
        (Some(validate), _) => {
            if let Some(foreach) = &validate.foreach {
                first_map(foreach.node(), "pattern").is_none_or(metadata)
            } else if let Some(pattern) = validate
                .pattern
                .as_ref()
                .filter(|pattern| pattern.node().as_map().is_some())
            {
                metadata(pattern.node())
            } else {
                let patterns = validate
                    .any_pattern
                    .as_ref()
                    .and_then(|patterns| patterns.node().as_seq());
                patterns.into_iter().flat_map(Items::iter).all(metadata)
            }
        }
        (None, Some(mutate)) => {
            let patch = match mutate.node().get("foreach").filter(|node| !node.is_null()) {
                Some(foreach) => first_map(foreach, "patchStrategicMerge"),
                None => mutate.node().get("patchStrategicMerge"),
            };
            patch.is_none_or(metadata)
        }
        (None, None) => true,
    };
    if fits {
        return Ok(());
    }
    let text = "labels and annotations supports only string values, \"use double quotes around the non string values\"";
    Err(text.to_owned())
}

/// The first section of that name in a loop that is a map: like upstream, ignores the others.
fn first_map<'t>(foreach: Node<'t>, part: &str) -> Option<Node<'t>> {
    let entries = foreach.as_seq().into_iter().flat_map(Items::iter);
    entries
        .filter_map(|entry| entry.get(part))
        .find(|part| part.as_map().is_some())
}

/// Checks `metadata`, or that of the template if there is a `spec`: only one of the two.
fn metadata(pattern: Node<'_>) -> bool {
    for entry in pattern.as_map().into_iter().flat_map(Entries::iter) {
        match entry.key {
            "metadata" if entry.value.as_map().is_some() => return labels(entry.value),
            "spec" => {
                let template = entry
                    .value
                    .get("template")
                    .and_then(|template| template.get("metadata"));
                return template.is_none_or(labels);
            }
            _ => {}
        }
    }
    true
}

fn labels(metadata: Node<'_>) -> bool {
    ["labels", "annotations"].iter().all(|tag| {
        let entries = metadata.get(tag).and_then(Node::as_map);
        let mut entries = entries.into_iter().flat_map(Entries::iter);
        entries.all(|entry| entry.value.as_str().is_some())
    })
}
