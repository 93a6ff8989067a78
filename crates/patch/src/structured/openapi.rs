//! Types of a custom kind.
//!
//! Upstream counterpart: `kube-openapi/pkg/schemaconv/openapi.go`, on the document that the API server publishes for a CRD
//! (`apiextensions-apiserver/pkg/controller/openapi/builder`), which adds the fields of every object.

use std::sync::Arc;

use kyvtest_go_compat::value::{Data, Value};

use super::schema::{Atom, BOOLEAN, DEDUCED, ListKey, ListType, MapType, NUMBER, SCALAR, STRING, Schema, UNTYPED};

/// Adds the type of a custom kind and returns it.
pub(super) fn convert(schema: &mut Schema, open_api: Option<Value<'_>>) -> usize {
    let Some(open_api) = open_api else {
        return DEDUCED;
    };
    let mut map = object(
        schema,
        open_api,
        is_set(open_api, "x-kubernetes-preserve-unknown-fields"),
    );
    add_object_fields(schema, &mut map);
    if map.element == Some(DEDUCED) && !is_open(open_api) {
        map.element = None;
    }
    schema.push(Atom {
        map: Some(Arc::new(map)),
        ..Atom::default()
    })
}

/// Whether a root without properties stays free-form although the published one has properties.
fn is_open(open_api: Value<'_>) -> bool {
    is_set(open_api, "x-kubernetes-preserve-unknown-fields") || open_api.get("additionalProperties").is_some()
}

fn is_set(open_api: Value<'_>, key: &str) -> bool {
    open_api.get(key).and_then(Value::as_bool) == Some(true)
}

fn text<'a>(open_api: Value<'a>, key: &str) -> &'a str {
    open_api.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn add_object_fields(schema: &Schema, map: &mut MapType) {
    map.fields.insert("apiVersion".to_owned(), STRING);
    map.fields.insert("kind".to_owned(), STRING);
    map.fields.insert("metadata".to_owned(), schema.metadata());
}

fn ty(schema: &mut Schema, open_api: Value<'_>, preserve: bool) -> usize {
    let preserve = preserve || is_set(open_api, "x-kubernetes-preserve-unknown-fields");
    let mut atom = Atom::default();
    match text(open_api, "type") {
        "object" => atom.map = Some(Arc::new(object(schema, open_api, preserve))),
        "array" => atom.list = Some(Arc::new(list(schema, open_api, preserve))),
        "integer" | "number" => return NUMBER,
        "boolean" => return BOOLEAN,
        "string" if matches!(text(open_api, "format"), "" | "byte") => return STRING,
        "string" => return SCALAR,
        _ => {
            atom.scalar = Some(super::schema::Scalar::Any);
            atom.list = Some(Arc::new(list(schema, open_api, preserve)));
            atom.map = Some(Arc::new(object(schema, open_api, preserve)));
        }
    }
    schema.push(atom)
}

fn object(schema: &mut Schema, open_api: Value<'_>, preserve: bool) -> MapType {
    let mut map = MapType {
        is_atomic: text(open_api, "x-kubernetes-map-type") == "atomic",
        ..MapType::default()
    };
    let properties = open_api.get("properties").and_then(Value::as_map);
    for (key, property) in properties.iter().flat_map(|properties| properties.iter()) {
        let property = ty(schema, property, preserve);
        map.fields.insert(key.text().to_owned(), property);
    }
    if is_set(open_api, "x-kubernetes-embedded-resource") {
        add_object_fields(schema, &mut map);
    }
    map.element = match open_api.get("additionalProperties") {
        None => (preserve || map.fields.is_empty()).then_some(DEDUCED),
        Some(Value::Bool(allowed)) => allowed.then_some(DEDUCED),
        Some(additional) => Some(ty(schema, additional, preserve)),
    };
    map
}

fn list(schema: &mut Schema, open_api: Value<'_>, preserve: bool) -> ListType {
    let items = open_api.get("items");
    let key = |name: Value<'_>| {
        let name = name.as_str().unwrap_or_default();
        ListKey {
            name: name.to_owned(),
            default: items
                .and_then(|items| items.at(&["properties", name, "default"]))
                .map(Data::from),
        }
    };
    let list_type = text(open_api, "x-kubernetes-list-type");
    let keys = open_api.get("x-kubernetes-list-map-keys").and_then(Value::as_list);
    let keys = keys
        .filter(|_| list_type == "map")
        .iter()
        .flat_map(|keys| keys.iter())
        .map(key)
        .collect();
    ListType {
        item: items.map_or(UNTYPED, |items| ty(schema, items, preserve)),
        is_atomic: !matches!(list_type, "map" | "set"),
        keys,
    }
}
