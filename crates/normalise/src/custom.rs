//! Custom resources: pruning and defaulting by the structural schema of their definition.
//!
//! Upstream counterpart: `pkg/apiserver/{customresource_handler.go,schema/{pruning,defaulting,objectmeta}}` of
//! apiextensions-apiserver 0.36.

use std::{borrow::Cow, sync::Arc};

use kyvtest_go_compat::value::{Document, List, Value};

use crate::{
    decode::{Decoder, raw},
    input::{Input, View},
    node::Node,
    step::Kind,
    table::{TABLE, TypeId},
};

pub(crate) mod check;
mod format;
pub(crate) mod rules;

/// A served version of a custom kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Custom<'a> {
    /// `group/version`
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespaced: bool,
    /// Whether it has the subresource `status`.
    pub(crate) status: bool,
    /// `openAPIV3Schema`; `None` if the definition has none, so that every field is kept.
    pub(crate) schema: Option<Value<'a>>,
}

fn text<'v>(value: Value<'v>, path: &[&str]) -> &'v str {
    value.at(path).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn flag(schema: Value<'_>, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// Finds the definition of a kind.
pub(crate) fn find<'a>(definitions: &'a [Arc<Document>], kind: Kind<'a>) -> Option<Custom<'a>> {
    let (group, version) = kind.api_version.split_once('/')?;
    definitions.iter().find_map(|definition| {
        let definition = definition.root();
        let spec = definition.get("spec")?;
        if text(spec, &["group"]) != group || text(spec, &["names", "kind"]) != kind.name {
            return None;
        }
        let versions = spec.get("versions").and_then(Value::as_list)?;
        let own = versions.iter().find(|own| text(*own, &["name"]) == version)?;
        Some(Custom {
            api_version: kind.api_version,
            kind: kind.name,
            resource: text(spec, &["names", "plural"]),
            namespaced: text(spec, &["scope"]) != "Cluster",
            status: own.at(&["subresources", "status"]).is_some(),
            schema: own.at(&["schema", "openAPIV3Schema"]),
        })
    })
}

/// The type of `metadata`.
pub(crate) fn metadata_type() -> TypeId {
    TABLE
        .id("meta.v1.ObjectMeta")
        .expect("the table has the type of metadata")
}

/// Decodes metadata, prunes unknown fields and applies defaults.
pub(crate) fn decode<'a, I: Input<'a>>(custom: Custom<'a>, input: I) -> Result<Node<'a>, String> {
    let mut node = match raw(input) {
        Node::Null => Node::EMPTY,
        node => node,
    };
    if let View::Map(entries) = input.view() {
        for (_, metadata) in entries.filter(|(key, _)| key.text() == "metadata") {
            node.set("metadata", Decoder::default().object(metadata_type(), metadata, None)?);
        }
    }
    Ok(complete(custom, node))
}

/// Like [`decode`], but drops the fields of metadata that do not fit their types.
///
/// Upstream: `objectmeta.GetObjectMetaWithOptions` with `DropMalformedFields`.
pub(crate) fn decode_stored<'a>(custom: Custom<'a>, value: Value<'a>) -> Node<'a> {
    let mut node = Node::of(value);
    if let Some(metadata) = value.get("metadata") {
        node.set("metadata", Decoder::default().fitting(metadata_type(), metadata));
    }
    complete(custom, node)
}

fn complete<'a>(custom: Custom<'a>, mut node: Node<'a>) -> Node<'a> {
    node.set("apiVersion", Node::Text(Cow::Borrowed(custom.api_version)));
    node.set("kind", Node::Text(Cow::Borrowed(custom.kind)));
    if let Some(schema) = custom.schema {
        prune(schema, &mut node, true);
        default(schema, &mut node, true);
    }
    node
}

/// Drops fields that the schema does not know. `resource` keeps `apiVersion`, `kind` and `metadata`.
fn prune(schema: Value<'_>, node: &mut Node<'_>, resource: bool) {
    let resource = resource || flag(schema, "x-kubernetes-embedded-resource");
    let keep = flag(schema, "x-kubernetes-preserve-unknown-fields");
    match node {
        Node::Map(entries) => {
            let properties = schema.get("properties");
            let more = schema.get("additionalProperties");
            entries.retain_mut(|(key, value)| {
                if resource && matches!(key.as_ref(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                if let Some(own) = properties.and_then(|properties| properties.get(key)) {
                    prune(own, value, false);
                    return true;
                }
                match more {
                    Some(own @ Value::Map(_)) => {
                        prune(own, value, false);
                        true
                    }
                    Some(Value::Bool(true)) => true,
                    _ => keep,
                }
            });
        }
        Node::List(items) => {
            if let Some(own) = schema.get("items") {
                for item in items {
                    prune(own, item, false);
                }
            }
        }
        _ => {}
    }
}

/// The default of a schema; null is none.
fn preset(schema: Value<'_>) -> Option<Value<'_>> {
    schema.get("default").filter(|value| !value.is_null())
}

fn is_forbidden_null(schema: Value<'_>, node: &Node<'_>) -> bool {
    matches!(node, Node::Null) && !flag(schema, "nullable")
}

/// Sets missing fields that have a default, and removes nulls that the schema does not allow.
pub(crate) fn default<'a>(schema: Value<'a>, node: &mut Node<'a>, root: bool) {
    match node {
        Node::Map(entries) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_map) {
                for (name, own) in properties.iter() {
                    if root && matches!(name.text(), "apiVersion" | "kind" | "metadata") {
                        continue;
                    }
                    let position = entries.iter().position(|(key, _)| key == name.text());
                    let missing = position.is_none_or(|at| is_forbidden_null(own, &entries[at].1));
                    match (preset(own), position) {
                        (Some(value), Some(at)) if missing => entries[at].1 = Node::of(value),
                        (Some(value), None) => entries.push((Cow::Borrowed(name.text()), Node::of(value))),
                        (None, Some(at)) if missing => {
                            entries.remove(at);
                        }
                        _ => {}
                    }
                }
            }
            let properties = schema.get("properties");
            let more = schema
                .get("additionalProperties")
                .filter(|more| more.as_map().is_some());
            let known = |key: &str| properties.and_then(|properties| properties.get(key));
            if let Some(own) = more.filter(|own| preset(*own).is_none()) {
                entries.retain(|(key, value)| known(key).is_some() || !is_forbidden_null(own, value));
            }
            for (key, value) in entries {
                match (known(key), more) {
                    (Some(own), _) => default(own, value, false),
                    (None, Some(own)) => {
                        if is_forbidden_null(own, value)
                            && let Some(fallback) = preset(own)
                        {
                            *value = Node::of(fallback);
                        }
                        default(own, value, false);
                    }
                    (None, None) => {}
                }
            }
        }
        Node::List(items) => {
            let Some(own) = schema.get("items") else { return };
            for item in items {
                if is_forbidden_null(own, item)
                    && let Some(fallback) = preset(own)
                {
                    *item = Node::of(fallback);
                }
                default(own, item, false);
            }
        }
        _ => {}
    }
}

/// The elements of a list of texts.
pub(crate) fn texts<'v>(value: Value<'v>, field: &str) -> impl Iterator<Item = &'v str> {
    let list = value.get(field).and_then(Value::as_list);
    list.into_iter().flat_map(List::iter).filter_map(Value::as_str)
}
