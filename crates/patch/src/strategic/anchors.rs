//! Anchors of a strategic merge patch: resolved against the resource, which leaves a plain patch.
//!
//! Upstream counterpart: `pkg/engine/mutate/patch/strategicPreprocessing.go` (Kyverno 1.19). Only `(k)`, `<(k)` and `+(k)`
//! are anchors here; `=(k)`, `X(k)` and `^(k)` are ordinary keys and end up in the resource, as upstream's do.
//!
//! Known deviation: where upstream panics, the result is an error.

use std::borrow::Cow;

use kyvtest_go_compat::value::Data;
use kyvtest_pattern::{Anchor, AnchorKind, match_pattern};

use super::{
    Stop,
    node::{Arena, Body, Id, Kind},
};

/// Resolves the anchors of `pattern` in place.
pub(super) fn resolve(arena: &mut Arena<'_>, pattern: Id, resource: Id) -> Result<(), Stop> {
    walk(arena, pattern, Some(resource))?;
    delete_at_top(arena, pattern)
}

fn is_condition(kind: AnchorKind) -> bool {
    matches!(kind, AnchorKind::Condition | AnchorKind::Global)
}

fn is_anchor(kind: AnchorKind) -> bool {
    is_condition(kind) || kind == AnchorKind::AddIfNotPresent
}

/// An anchor of a map: its text without surrounding blanks, and its key.
struct AnchorEntry {
    text: String,
    key: String,
}

fn anchors(arena: &Arena<'_>, pattern: Id, is_wanted: impl Fn(AnchorKind) -> bool) -> Vec<AnchorEntry> {
    let entries = arena.entries(pattern).iter();
    entries
        .filter_map(|(name, _)| Anchor::parse(name))
        .filter(|anchor| is_wanted(anchor.kind))
        .map(|anchor| AnchorEntry {
            text: anchor.with_key(anchor.key),
            key: anchor.key.to_owned(),
        })
        .collect()
}

fn field(arena: &Arena<'_>, resource: Option<Id>, key: &str) -> Option<Id> {
    arena.field(resource?, key)
}

fn walk(arena: &mut Arena<'_>, pattern: Id, resource: Option<Id>) -> Result<(), Stop> {
    match arena.kind(pattern) {
        Kind::Map => walk_map(arena, pattern, resource),
        Kind::List => walk_list(arena, pattern, resource),
        Kind::Scalar => Ok(()),
    }
}

fn walk_map(arena: &mut Arena<'_>, pattern: Id, resource: Option<Id>) -> Result<(), Stop> {
    resolve_additions(arena, pattern, resource);
    check_conditions(arena, pattern, resource, AnchorKind::Global)
        .map_err(|stop| stop.within_condition(Stop::Global))?;
    check_conditions(arena, pattern, resource, AnchorKind::Condition)
        .map_err(|stop| stop.within_condition(Stop::Condition))?;
    let plain: Vec<Cow<'_, str>> = arena
        .entries(pattern)
        .iter()
        .filter(|(name, _)| Anchor::parse(name).is_none_or(|anchor| !is_anchor(anchor.kind)))
        .map(|(name, _)| name.clone())
        .collect();
    for key in plain {
        // A key that occurs twice leads to its first value each time.
        if let Some(value) = arena.field(pattern, &key) {
            walk(arena, value, field(arena, resource, &key))?;
        }
    }
    Ok(())
}

/// Removes `+(k)` if the resource has `k`, and the parentheses if it does not. Returns how many there were.
fn resolve_additions(arena: &mut Arena<'_>, pattern: Id, resource: Option<Id>) -> usize {
    let found = anchors(arena, pattern, |kind| kind == AnchorKind::AddIfNotPresent);
    for anchor in &found {
        if field(arena, resource, &anchor.key).is_some() {
            arena.clear(pattern, &anchor.text);
        } else {
            arena.rename(pattern, &anchor.text, anchor.key.clone());
        }
    }
    found.len()
}

/// Checks the conditions of one kind. [`Stop::Condition`] means that one does not hold, regardless of its kind.
fn check_conditions(arena: &mut Arena<'_>, pattern: Id, resource: Option<Id>, kind: AnchorKind) -> Result<(), Stop> {
    for anchor in anchors(arena, pattern, |other| other == kind) {
        let actual = field(arena, resource, &anchor.key).ok_or(Stop::Condition)?;
        let expected = arena.field(pattern, &anchor.text).ok_or_else(Stop::nil_pointer)?;
        if resolve_additions(arena, expected, Some(actual)) > 0 {
            continue;
        }
        let (Ok(expected), Ok(actual)) = (comparable(arena, expected), comparable(arena, actual)) else {
            return Err(Stop::Condition);
        };
        match_pattern(&actual, &expected).map_err(|_| Stop::Condition)?;
    }
    Ok(())
}

/// A node as patterns see it: a scalar is its text, numbers inside lists and maps are doubles.
fn comparable(arena: &Arena<'_>, id: Id) -> Result<Data, String> {
    match arena.kind(id) {
        Kind::Scalar => Ok(Data::from(arena.text(id))),
        _ => arena.data(id).map(|data| data.with_doubles()),
    }
}

fn walk_list(arena: &mut Arena<'_>, pattern: Id, resource: Option<Id>) -> Result<(), Stop> {
    let elements = arena.items(pattern).to_vec();
    if elements.first().is_none_or(|&first| arena.kind(first) != Kind::Map) {
        return Ok(());
    }
    arena.expect(resource, Kind::List)?;
    for element in elements {
        if has_anchors(arena, element, is_anchor) {
            walk_element(arena, pattern, element, resource)?;
        }
    }
    Ok(())
}

/// Applies one anchored element of a patch list to each element of the resource's list.
fn walk_element(arena: &mut Arena<'_>, pattern: Id, element: Id, resource: Option<Id>) -> Result<(), Stop> {
    let is_global = has_anchors(arena, element, |kind| kind == AnchorKind::Global);
    // INVARIANT: one copy serves all elements of the resource; what one of them resolves stays so for the next.
    let copy = arena.copy(element);
    let actual = resource.map_or_else(Vec::new, |resource| arena.items(resource).to_vec());
    let mut passed = false;
    let mut failed = None;
    for actual in actual {
        match walk(arena, copy, Some(actual)) {
            Ok(()) if is_global => passed = true,
            Ok(()) => append_named(arena, pattern, copy, actual)?,
            Err(Stop::Condition) => {}
            Err(Stop::Global) => failed = Some(Stop::Global),
            Err(stop) => return Err(stop),
        }
    }
    if resource.is_none() {
        match walk(arena, copy, None) {
            Ok(()) => passed |= is_global,
            Err(Stop::Condition) => return Ok(()),
            Err(stop) => return Err(stop),
        }
    }
    match failed {
        Some(stop) if !passed => Err(stop),
        _ => Ok(()),
    }
}

/// Adds the element without its anchors to the patch, under the name of the resource's element. Elements without a name
/// cannot be addressed and are left out.
fn append_named(arena: &mut Arena<'_>, pattern: Id, element: Id, actual: Id) -> Result<(), Stop> {
    let Some(name) = arena.field(actual, "name").filter(|&name| !arena.is_empty(name)) else {
        return Ok(());
    };
    let copy = arena.copy(element);
    if delete(arena, copy, true)? {
        return Ok(());
    }
    let name = arena.copy(name);
    arena.set_field(copy, "name", name)?;
    arena.append(pattern, copy);
    Ok(())
}

/// Whether a node contains a wanted anchor at any depth. A scalar counts if its text looks like a condition.
fn has_anchors(arena: &Arena<'_>, id: Id, is_wanted: impl Fn(AnchorKind) -> bool + Copy) -> bool {
    match arena.body(id) {
        Body::Scalar { text, .. } => Anchor::parse(text).is_some_and(|anchor| is_condition(anchor.kind)),
        Body::List(items) => items.iter().any(|&item| has_anchors(arena, item, is_wanted)),
        Body::Map(entries) => entries.iter().any(|(name, _)| {
            Anchor::parse(name).is_some_and(|anchor| is_wanted(anchor.kind))
                || arena
                    .field(id, name)
                    .is_some_and(|value| !arena.is_empty(value) && has_anchors(arena, value, is_wanted))
        }),
    }
}

fn delete_at_top(arena: &mut Arena<'_>, pattern: Id) -> Result<(), Stop> {
    arena.expect(Some(pattern), Kind::Map)?;
    for key in keys(arena, pattern) {
        let is_condition = Anchor::parse(&key).is_some_and(|anchor| is_condition(anchor.kind));
        let value = arena.field(pattern, &key).ok_or_else(Stop::nil_pointer)?;
        if delete(arena, value, is_condition)? {
            arena.clear(pattern, &key);
        }
    }
    Ok(())
}

fn keys<'a>(arena: &Arena<'a>, id: Id) -> Vec<Cow<'a, str>> {
    arena.entries(id).iter().map(|(name, _)| name.clone()).collect()
}

/// Deletes the anchors below a node. Returns whether nothing is left, so that the node should go as well.
fn delete(arena: &mut Arena<'_>, id: Id, scalars_go: bool) -> Result<bool, Stop> {
    match arena.kind(id) {
        Kind::Map => delete_in_map(arena, id),
        Kind::List => delete_in_list(arena, id),
        Kind::Scalar => Ok(scalars_go),
    }
}

fn delete_in_map(arena: &mut Arena<'_>, id: Id) -> Result<bool, Stop> {
    let mut some_stay = false;
    for anchor in anchors(arena, id, is_condition) {
        let value = arena.field(id, &anchor.text).ok_or_else(Stop::nil_pointer)?;
        if delete(arena, value, true)? {
            arena.clear(id, &anchor.text);
        } else {
            some_stay = true;
        }
    }
    if some_stay {
        for anchor in anchors(arena, id, is_condition) {
            arena.rename(id, &anchor.text, anchor.key);
        }
    }
    let mut nothing_left = true;
    for key in keys(arena, id) {
        let value = arena.field(id, &key).ok_or_else(Stop::nil_pointer)?;
        if delete(arena, value, false)? {
            arena.clear(id, &key);
        } else {
            nothing_left = false;
        }
    }
    Ok(nothing_left)
}

fn delete_in_list(arena: &mut Arena<'_>, id: Id) -> Result<bool, Stop> {
    let elements = arena.items(id).to_vec();
    for (i, &element) in elements.iter().enumerate() {
        if has_anchors(arena, element, is_anchor) || delete(arena, element, false)? {
            // Upstream does not adjust the index after a deletion, so a later one hits the wrong element or none.
            arena.remove_item(id, i)?;
        }
    }
    Ok(arena.items(id).is_empty() && !elements.is_empty())
}
