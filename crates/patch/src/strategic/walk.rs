//! The merge of a plain patch into a resource.
//!
//! Upstream counterpart: kyaml v0.21.1 `yaml/walk/{walk,map}.go`, `yaml/merge2/{merge2,smpdirective}.go`, called with the
//! list direction "prepend" and without inference of merge keys.

use super::{
    Stop,
    list::{self, Selector},
    node::{Arena, Body, Id, Kind},
    schema::Schema,
};

const DIRECTIVE: &str = "$patch";

/// The result of a walk; `None` removes the value.
pub(super) type Walked = Option<Id>;

/// Merges `patch` into `target`, both of which are changed. `None` if the patch deletes the resource.
pub(super) fn merge(arena: &mut Arena<'_>, target: Id, patch: Id) -> Result<Walked, Stop> {
    Ok(walk(arena, None, Some(target), Some(patch))?.map(|(id, _)| id))
}

/// The demand of a `$patch` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directive {
    Merge,
    Replace,
    Delete,
}

fn present(arena: &Arena<'_>, id: Option<Id>) -> Option<Id> {
    id.filter(|&id| !arena.is_null(id))
}

/// Walks two counterparts. The flag of the result distinguishes a null that stays from one that removes its field.
pub(super) fn walk(
    arena: &mut Arena<'_>,
    schema: Option<Schema>,
    dest: Option<Id>,
    origin: Option<Id>,
) -> Result<Option<(Id, bool)>, Stop> {
    let schema = schema.or_else(|| {
        [dest, origin]
            .into_iter()
            .find_map(|source| resource_schema(arena, present(arena, source)?))
    });
    let first = present(arena, dest).or_else(|| present(arena, origin));
    let Some(kind) = first.map(|id| arena.kind(id)) else {
        return walk_map(arena, schema, dest, origin);
    };
    arena.expect(dest, kind)?;
    arena.expect(origin, kind)?;
    match kind {
        Kind::Map => walk_map(arena, schema, dest, origin),
        Kind::Scalar => Ok(origin.or(dest).map(|id| (id, false))),
        Kind::List => match schema {
            Some(Schema::List { merge: Some(keys), .. }) => {
                let Some(dest) = visit_list(arena, dest, origin)? else {
                    return Ok(None);
                };
                let elements = schema.and_then(Schema::elements);
                let merged = list::merge(arena, &keys.names(), elements, dest, origin)?;
                Ok(Some((merged, false)))
            }
            _ => Ok(origin.or(dest).map(|id| (id, false))),
        },
    }
}

/// The schema of a map that is a resource by itself.
fn resource_schema(arena: &Arena<'_>, id: Id) -> Option<Schema> {
    let text = |key: &str| {
        let value = arena.field(id, key).filter(|&value| !arena.is_empty(value))?;
        Some(arena.text(value)).filter(|text| !text.is_empty())
    };
    Schema::of_resource(text("apiVersion")?, text("kind")?)
}

fn walk_map(
    arena: &mut Arena<'_>,
    schema: Option<Schema>,
    dest: Option<Id>,
    origin: Option<Id>,
) -> Result<Option<(Id, bool)>, Stop> {
    let Some((target, keep)) = visit_map(arena, dest, origin)? else {
        return Ok(None);
    };
    let mut keys: Vec<_> = arena.entries(target).iter().map(|(key, _)| key.clone()).collect();
    if let Some(origin) = origin.filter(|&origin| origin != target) {
        keys.extend(arena.entries(origin).iter().map(|(key, _)| key.clone()));
    }
    keys.sort();
    keys.dedup();
    for key in keys {
        let schema = schema.and_then(|schema| schema.field(&key));
        let theirs = origin.and_then(|origin| arena.field(origin, &key));
        let walked = walk(arena, schema, arena.field(target, &key), theirs)?;
        match walked {
            // An empty key is an error of the setter, regardless of the value.
            _ if key.is_empty() => arena.set_field(target, &key, target)?,
            Some((value, keep)) if keep || !arena.is_null(value) => arena.set_field(target, &key, value)?,
            _ => arena.clear(target, &key),
        }
    }
    Ok(Some((target, keep)))
}

/// Chooses the map that the fields are merged into.
fn visit_map(arena: &mut Arena<'_>, dest: Option<Id>, origin: Option<Id>) -> Result<Option<(Id, bool)>, Stop> {
    let Some(target) = present(arena, dest) else {
        if directive(arena, origin) == Ok(Directive::Delete) {
            return Ok(None);
        }
        // A null of the resource without a counterpart stays.
        return Ok(origin.map(|id| (id, false)).or(dest.map(|id| (id, true))));
    };
    if origin.is_some_and(|origin| arena.is_null(origin)) {
        return Ok(None);
    }
    let target = match directive(arena, origin)? {
        Directive::Delete => return Ok(None),
        Directive::Replace => origin.unwrap_or(target),
        Directive::Merge => target,
    };
    Ok(Some((target, false)))
}

/// Chooses the list that elements are merged into.
fn visit_list(arena: &mut Arena<'_>, dest: Option<Id>, origin: Option<Id>) -> Result<Walked, Stop> {
    let Some(target) = present(arena, dest) else {
        return Ok(origin);
    };
    if origin.is_some_and(|origin| arena.is_null(origin)) {
        return Ok(None);
    }
    Ok(match directive(arena, origin)? {
        Directive::Delete => None,
        Directive::Replace => origin,
        Directive::Merge => Some(target),
    })
}

/// Reads and removes the directive of a patch map, or of a patch list: there, an element with nothing else.
fn directive(arena: &mut Arena<'_>, patch: Option<Id>) -> Result<Directive, Stop> {
    let Some(patch) = patch else {
        return Ok(Directive::Merge);
    };
    let holder = match arena.body(patch) {
        Body::Map(_) => Some(patch),
        Body::List(items) => {
            let mut items = items.iter().copied();
            let first = items.find(|&item| arena.field(item, DIRECTIVE).is_some());
            first.filter(|&item| arena.entries(item).len() == 1)
        }
        Body::Scalar { .. } => return Err(Stop::Other("no implemented strategic merge patch strategy".to_owned())),
    };
    let Some(value) = holder.and_then(|holder| arena.field(holder, DIRECTIVE)) else {
        return Ok(Directive::Merge);
    };
    let text = arena.shared_text(value);
    let directive = match text.as_ref() {
        "merge" => Directive::Merge,
        "replace" => Directive::Replace,
        "delete" => Directive::Delete,
        other => return Err(Stop::Other(format!("unknown patch strategy '{other}'"))),
    };
    if arena.kind(patch) == Kind::Map {
        arena.clear(patch, DIRECTIVE);
    } else {
        let selector = Selector {
            keys: &[DIRECTIVE],
            values: &[text],
        };
        list::set_element(arena, patch, selector, None)?;
    }
    Ok(directive)
}
