//! Requests and namespaces as the expressions of both engines see them.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/cel/condition.go` (`CreateAdmissionRequest`,
//! `CreateNamespaceObject`), which Kyverno also links. Each engine selects the fields that it exposes.

use super::{GroupVersionKind, GroupVersionResource, Operation, Resource, UserInfo};
use kyvtest_go_compat::value::{Builder, Document, Value};

/// A namespace as expressions see it: always with `spec` and `status`, never with undeclared parts.
pub fn namespace_object(stored: Value<'_>) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("metadata");
    builder.begin_map();
    let metadata = stored.get("metadata").and_then(Value::as_map);
    for (key, value) in metadata.iter().flat_map(|map| map.iter()) {
        let undeclared = matches!(key.text(), "managedFields" | "ownerReferences" | "selfLink");
        // An empty map is dropped when the object is stored.
        if !undeclared && value.as_map().is_none_or(|map| !map.is_empty()) {
            builder.key(key.text());
            builder.value(value);
        }
    }
    builder.end();
    for part in ["spec", "status"] {
        builder.key(part);
        match stored.get(part) {
            Some(value @ Value::Map(_)) => builder.value(value),
            _ => {
                builder.begin_map();
                builder.end();
            }
        }
    }
    builder.end();
    builder.finish()
}

/// The parts of an AdmissionRequest.
#[derive(Debug, Clone)]
pub struct Description<'a> {
    /// `kind`
    pub kind: &'a GroupVersionKind,
    /// `None` leaves all three names empty.
    pub resource: Option<GroupVersionResource>,
    /// The requested resource, if it is another version.
    pub requested: Option<&'a Resource>,
    /// `subResource` and `requestSubResource`
    pub subresource: &'a str,
    /// `name`
    pub name: &'a str,
    /// `namespace`
    pub namespace: &'a str,
    /// `operation`
    pub operation: Operation,
    /// `userInfo`
    pub user: &'a UserInfo,
    /// `object` and `oldObject`
    pub objects: [Value<'a>; 2],
    /// `dryRun`
    pub dry_run: bool,
    /// `options`
    pub options: Value<'a>,
}

/// Builds an AdmissionRequest as Go writes it: empty fields are omitted unless they are structures.
pub fn describe(request: &Description<'_>) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    let text = |builder: &mut Builder, key: &str, value: &str| {
        builder.key(key);
        builder.string(value);
    };
    let optional = |builder: &mut Builder, key: &str, value: &str| {
        if !value.is_empty() {
            builder.key(key);
            builder.string(value);
        }
    };
    text(&mut builder, "uid", "");
    let delivered = (request.kind.clone(), request.resource.clone());
    let requested = match request.requested {
        Some(resource) => (resource.object_kind.clone(), Some(resource.gvr())),
        None => delivered.clone(),
    };
    for ((kind, resource), [of_kind, of_resource, subresource]) in [
        (delivered, ["kind", "resource", "subResource"]),
        (requested, ["requestKind", "requestResource", "requestSubResource"]),
    ] {
        builder.key(of_kind);
        builder.begin_map();
        text(&mut builder, "group", &kind.group);
        text(&mut builder, "version", &kind.version);
        text(&mut builder, "kind", &kind.kind);
        builder.end();
        let resource = resource.as_ref();
        builder.key(of_resource);
        builder.begin_map();
        text(&mut builder, "group", resource.map_or("", |resource| &resource.group));
        text(
            &mut builder,
            "version",
            resource.map_or("", |resource| &resource.version),
        );
        text(
            &mut builder,
            "resource",
            resource.map_or("", |resource| &resource.resource),
        );
        builder.end();
        optional(&mut builder, subresource, request.subresource);
    }
    optional(&mut builder, "name", request.name);
    optional(&mut builder, "namespace", request.namespace);
    text(&mut builder, "operation", request.operation.as_str());
    builder.key("userInfo");
    user(&mut builder, request.user);
    for (key, object) in ["object", "oldObject"].into_iter().zip(request.objects) {
        builder.key(key);
        builder.value(object);
    }
    builder.key("dryRun");
    builder.bool(request.dry_run);
    builder.key("options");
    builder.value(request.options);
    builder.end();
    builder.finish()
}

fn user(builder: &mut Builder, user: &UserInfo) {
    let list = |builder: &mut Builder, items: &[String]| {
        builder.begin_list();
        for item in items {
            builder.string(item);
        }
        builder.end();
    };
    builder.begin_map();
    for (key, value) in [("username", &user.username), ("uid", &user.uid)] {
        if !value.is_empty() {
            builder.key(key);
            builder.string(value);
        }
    }
    if !user.groups().is_empty() {
        builder.key("groups");
        list(builder, user.groups());
    }
    let extra = user.extra.as_deref().unwrap_or_default();
    if !extra.is_empty() {
        builder.key("extra");
        builder.begin_map();
        for (key, values) in extra {
            builder.key(key);
            list(builder, values);
        }
        builder.end();
    }
    builder.end();
}
