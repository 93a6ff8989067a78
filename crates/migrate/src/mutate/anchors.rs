//! Anchors of patches: which keys have them, what they ask, and the tree without them.
//!
//! Upstream counterpart: `pkg/engine/anchor` (Kyverno 1.19). Patches know conditions, global conditions and additions.

use kyvtest_go_compat::value::Data;
use kyvtest_pattern::{Anchor, AnchorKind};

use super::overlay::{Entries, refused};
use crate::Refusal;

pub(super) fn is_added(key: &str) -> bool {
    Anchor::parse(key).is_some_and(|anchor| anchor.kind == AnchorKind::AddIfNotPresent)
}

/// The key without its anchor.
pub(super) fn loop_key(key: &str) -> &str {
    Anchor::parse(key).map_or(key, |anchor| anchor.key)
}

/// Whether a name is that of the element of `foreach`.
pub(super) fn loop_name(item: &Data) -> Option<()> {
    let entries = item.as_map()?;
    let (_, name) = entries.iter().find(|(key, _)| loop_key(key) == "name")?;
    let inner = name.as_str()?.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (inner.trim() == "element.name").then_some(())
}

/// Whether a tree has an anchor of a kind, at any depth.
pub(super) fn has_anchor(data: &Data, kind: AnchorKind) -> bool {
    any_anchor(data, &|found| found == kind)
}

pub(super) fn has_any_anchor(data: &Data) -> bool {
    any_anchor(data, &|_| true)
}

pub(super) fn has_condition(data: &Data) -> bool {
    any_anchor(data, &|kind| matches!(kind, AnchorKind::Condition | AnchorKind::Global))
}

fn any_anchor(data: &Data, wanted: &dyn Fn(AnchorKind) -> bool) -> bool {
    match data {
        Data::Map(entries) => entries.iter().any(|(key, value)| {
            Anchor::parse(key).is_some_and(|anchor| wanted(anchor.kind)) || any_anchor(value, wanted)
        }),
        Data::List(items) => items.iter().any(|item| any_anchor(item, wanted)),
        _ => false,
    }
}

/// The conditions of a map outside of lists, each as a pattern of its own.
pub(super) fn conditions_of(data: &Data) -> Result<Vec<Data>, Refusal> {
    let mut found = Vec::new();
    let Some(entries) = data.as_map() else { return Ok(found) };
    for (written, value) in entries {
        let anchor = Anchor::parse(written);
        let condition = anchor.filter(|anchor| matches!(anchor.kind, AnchorKind::Condition | AnchorKind::Global));
        if let Some(condition) = condition {
            match value {
                Data::Map(inner) if !inner.is_empty() => {
                    return refused(format!(
                        "the condition `{written}` on a map, which Kyverno also writes into the object"
                    ));
                }
                Data::List(_) => return refused(format!("the condition `{written}` on a list")),
                _ => {}
            }
            found.push(Data::Map(Entries::from([(condition.key.into(), value.clone())]).into()));
        } else if anchor.is_none() {
            for inner in conditions_of(value)? {
                found.push(Data::Map(Entries::from([(written.clone(), inner)]).into()));
            }
        } else if has_condition(value) {
            return refused(format!("a condition inside `{written}`"));
        }
    }
    Ok(found)
}

/// A tree with its keys as they are written into the object.
pub(super) fn plain_tree(data: &Data) -> Data {
    match data {
        Data::Map(entries) => {
            let mut plain = Entries::new();
            for (key, value) in entries.iter() {
                let anchor = Anchor::parse(key);
                match anchor.map(|anchor| (anchor.kind, anchor.key)) {
                    Some((AnchorKind::AddIfNotPresent, key)) => plain.insert(key.into(), plain_tree(value)),
                    Some(_) => None,
                    None => plain.insert(key.clone(), plain_tree(value)),
                };
            }
            Data::Map(plain.into())
        }
        Data::List(items) => Data::List(items.iter().map(plain_tree).collect::<Vec<_>>().into()),
        other => other.clone(),
    }
}
