//! Wildcards in the keys of `metadata.labels` and `metadata.annotations` of a pattern.
//!
//! Upstream counterpart: `pkg/engine/wildcards/wildcards.go` `ExpandInMetadata`.
//!
//! Known deviation: if several keys of the resource match, upstream takes a random one; this takes the first in order.

use std::{collections::BTreeMap, sync::Arc};

use super::Anchor;
use kyvtest_go_compat::{text::wildcard, value::Data};

type Entries = BTreeMap<Arc<str>, Data>;

/// Replaces wildcards by the resource's keys. The pattern stays changed: other elements of the same list are compared
/// with the result for the first one.
pub(super) fn expand(pattern: &mut Entries, resource: &Entries) {
    let Some(actual) = resource.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return;
    };
    let Some(key) = find(pattern, "metadata") else { return };
    let Some(Data::Map(metadata)) = pattern.get_mut(&key) else {
        return;
    };
    for tag in ["labels", "annotations"] {
        let Some(key) = find(metadata, tag) else { continue };
        let (Some(Data::Map(wanted)), Some(Data::Map(actual))) = (metadata.get(&key), tagged(actual, tag)) else {
            continue;
        };
        let expanded = keys(wanted, actual);
        Arc::make_mut(metadata).insert(key, Data::Map(Arc::new(expanded)));
    }
}

/// The key of an entry, plain or in an anchor.
fn find(entries: &Entries, tag: &str) -> Option<Arc<str>> {
    let names = |key: &&Arc<str>| key.as_ref() == tag || Anchor::parse(key).is_some_and(|anchor| anchor.key == tag);
    entries.keys().find(names).cloned()
}

fn tagged<'d>(metadata: &'d Data, tag: &str) -> Option<&'d Data> {
    let entries = metadata.as_map()?;
    entries.get(&find(entries, tag)?)
}

fn keys(wanted: &Entries, actual: &Entries) -> Entries {
    let matching = |pattern: &str| -> Option<Arc<str>> {
        let strings = actual.iter().filter(|(_, value)| value.as_str().is_some());
        let mut keys = strings.map(|(key, _)| key);
        keys.find(|key| wildcard::matches(pattern, key)).cloned()
    };
    let mut expanded = Entries::new();
    for (key, value) in wanted {
        if value.as_str().is_none() {
            continue;
        }
        let key = if !wildcard::has_wildcard(key) {
            Arc::clone(key)
        } else if let Some(anchor) = Anchor::parse(key) {
            let found = matching(anchor.key);
            anchor.with_key(found.as_deref().unwrap_or(anchor.key)).into()
        } else {
            matching(key).unwrap_or_else(|| Arc::clone(key))
        };
        expanded.insert(key, value.clone());
    }
    expanded
}
