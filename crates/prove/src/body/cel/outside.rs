//! Lookups outside of the request: objects, entries of the global context, services.
//!
//! Upstream counterpart: the libraries `resource`, `globalContext` and `http` of Kyverno's CEL. Classic context entries and
//! parameters of policies find the same unknowns.

use std::sync::Arc;

use kyvtest_model::kube::{Discovery, GroupVersionResource};

use super::unknown;
use crate::body::{
    formula::{Arena, Formula},
    lookup::{Lookup, Source},
    shape::{Inner, Kind, Shape},
    value::{Result, Sym, Value, unsupported},
};

/// What a lookup outside of the request finds: anything, but the same for the same lookup, however it is written. `args` begin
/// with the receiver of CEL's function.
pub(in crate::body) fn lookup(arena: &mut Arena, name: &str, args: &[Sym]) -> Result<Value> {
    lookup_as(arena, name, args, None)
}

/// A lookup of an object whose kind is known.
fn lookup_as(arena: &mut Arena, name: &str, args: &[Sym], own_kind: Option<&str>) -> Result<Value> {
    let [Sym::Constant(receiver), rest @ ..] = args else {
        return unknown(arena, name, args, Shape::any());
    };
    let (shape, source) = match (&**receiver, name, rest) {
        ("resource", "Get", [Sym::Text(version), Sym::Text(plural), namespace, name]) => {
            let (mut shape, kind) = kind_of(version, plural);
            // An object that is not there is null.
            shape.kinds = shape.kinds.with(Kind::Null);
            let source = Source::Object {
                api_version: Arc::clone(version),
                kind: own_kind.map_or(kind, Arc::from),
                namespace: namespace.clone(),
                name: name.clone(),
            };
            (shape, Some(source))
        }
        ("resource", "List", [Sym::Text(version), Sym::Text(plural), namespace]) => {
            let (object, kind) = kind_of(version, plural);
            let items = Shape::of(Kind::List, Inner::List(Box::new(object)));
            let source = Source::List {
                api_version: Arc::clone(version),
                kind,
                namespace: namespace.clone(),
            };
            let record = Inner::Record(Arc::from([("items", items, false)]));
            (Shape::of(Kind::Map, record), Some(source))
        }
        ("globalContext", "Get", [Sym::Text(name), Sym::Text(projection)]) => {
            let source = Source::Global {
                name: Arc::clone(name),
                projection: Arc::clone(projection),
            };
            (Shape::any(), Some(source))
        }
        ("http", "Get", [url, ..]) => (Shape::any(), Some(Source::Service { url: url.clone() })),
        _ => (Shape::any(), None),
    };
    let value = unknown(arena, name, args, shape)?;
    if let (Some(source), Some((fine, Sym::At(place)))) = (source, value.0.first()) {
        let (fine, place) = (*fine, *place);
        arena.note_lookup(Lookup { place, fine, source });
    }
    Ok(value)
}

/// The object that a name means for everyone who looks it up, with the condition that it exists. Where a lookup fails for one,
/// it fails for all.
pub(in crate::body) fn object(
    arena: &mut Arena,
    (api_version, plural, kind): (&str, &str, &str),
    namespace: Sym,
    name: &str,
) -> Result<(Formula, Value)> {
    let args = [
        Sym::Constant(Arc::from("resource")),
        Sym::Text(Arc::from(api_version)),
        Sym::Text(Arc::from(plural)),
        namespace,
        Sym::Text(Arc::from(name)),
    ];
    let found = lookup_as(arena, "Get", &args, Some(kind))?;
    let Some((fine, Sym::At(place))) = found.0.first() else {
        return unsupported("an object that is looked up");
    };
    let (fine, place) = (*fine, *place);
    let absent = arena.is_kind(place, Kind::Null);
    let present = arena.not(absent);
    Ok((arena.and([fine, present]), Value::of(Sym::At(place))))
}

/// What is known of the objects of a resource that is looked up, and their kind if it is built in.
pub(in crate::body) fn kind_of(version: &str, plural: &str) -> (Shape, Arc<str>) {
    let (group, version_alone) = version.split_once('/').unwrap_or(("", version));
    let name = GroupVersionResource {
        group: group.to_owned(),
        version: version_alone.to_owned(),
        resource: plural.to_owned(),
    };
    match Discovery::kubernetes().by_resource(&name, "") {
        Some(resource) => (
            Shape::object(version, &resource.kind),
            Arc::from(resource.kind.as_str()),
        ),
        None => (Shape::of(Kind::Map, Inner::Custom), Arc::from("Sample")),
    }
}

/// The resource of a built-in kind that policies look up.
pub(in crate::body) fn plural_of(version: &str, kind: &str) -> Option<String> {
    let discovery = Discovery::kubernetes();
    discovery
        .by_object(version, kind)
        .map(|resource| resource.plural.clone())
}
