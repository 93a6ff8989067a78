//! An AdmissionRequest as the API server sends it to webhooks, parsed verbatim.

use std::sync::Arc;

use super::{
    Discovery, GroupVersionKind, GroupVersionResource, Operation, Request, Resource, UserInfo, request::texts,
};
use kyvtest_go_compat::value::{Document, Value};

impl Request {
    /// Parses an AdmissionRequest. The resource is looked up by its name; an unknown one is derived from the request
    /// itself. Roles are not part of it; `roles` and `clusterRoles` next to `userInfo` are read if given.
    ///
    /// # Errors
    /// If a field is missing or malformed.
    pub fn from_value(value: Value<'_>, discovery: &Discovery) -> Result<Self, String> {
        let text = |path: &[&str]| value.at(path).and_then(Value::as_str).unwrap_or_default();
        let needed = |path: &[&str]| match text(path) {
            "" => Err(format!("`{}` is missing or not a string", path.join("."))),
            text => Ok(text),
        };
        let operation: Operation = needed(&["operation"])?
            .parse()
            .map_err(|error: super::UnknownOperation| error.to_string())?;
        let name = GroupVersionResource::new(
            text(&["resource", "group"]),
            needed(&["resource", "version"])?,
            needed(&["resource", "resource"])?,
        );
        let subresource = text(&["subResource"]);
        let resource = match discovery.by_resource(&name, subresource) {
            Some(resource) => Arc::clone(resource),
            None => {
                let kind = GroupVersionKind::new(
                    text(&["kind", "group"]),
                    needed(&["kind", "version"])?,
                    needed(&["kind", "kind"])?,
                );
                Arc::new(unlisted(
                    discovery,
                    &name,
                    subresource,
                    kind,
                    !text(&["namespace"]).is_empty(),
                ))
            }
        };
        let document = |key: &str| value.get(key).map_or_else(Document::null, Value::to_document);
        let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        Ok(Self {
            operation,
            resource,
            name: text(&["name"]).to_owned(),
            namespace: text(&["namespace"]).to_owned(),
            object: document("object"),
            old_object: document("oldObject"),
            user: value.get("userInfo").map(UserInfo::from_value).unwrap_or_default(),
            roles: value.get("roles").and_then(texts),
            cluster_roles: value.get("clusterRoles").and_then(texts),
            dry_run: flag("dryRun"),
            options: document("options"),
            collection: flag("collection"),
        })
    }
}

/// A resource that is not in the table. The kind of a subresource's parent is looked up, if known.
fn unlisted(
    discovery: &Discovery,
    name: &GroupVersionResource,
    subresource: &str,
    object_kind: GroupVersionKind,
    namespaced: bool,
) -> Resource {
    let own = || GroupVersionKind::new(&*name.group, &*name.version, &*object_kind.kind);
    let main = match discovery.by_resource(name, "") {
        Some(parent) => Resource::clone(parent),
        None => Resource {
            guessed: true,
            ..Resource::main(&own(), &name.resource, namespaced)
        },
    };
    let resource = if subresource.is_empty() {
        main
    } else {
        main.sub(subresource, &object_kind.kind)
    };
    Resource {
        object_kind,
        ..resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_verbatim() {
        let read =
            |value: serde_json::Value| Request::from_value(Document::from(&value).root(), &Discovery::kubernetes());
        let request = read(serde_json::json!({
            "operation": "UPDATE", "name": "web", "namespace": "prod", "subResource": "scale",
            "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
            "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "object": {"kind": "Scale"}, "oldObject": null, "dryRun": true,
            "userInfo": {"username": "ann", "groups": []}, "roles": ["prod:edit"],
        }))
        .expect("a request");
        assert_eq!(
            (request.resource.kind.as_str(), request.resource.guessed),
            ("Deployment", false)
        );
        assert!(request.cell().namespaced && !request.cell().anonymous && request.dry_run);
        assert_eq!(request.user.groups, Some(Vec::new()));
        assert_eq!(request.roles, Some(vec!["prod:edit".to_owned()]));
        let unlisted = read(serde_json::json!({
            "operation": "CREATE", "resource": {"group": "x.io", "version": "v1", "resource": "widgets"},
            "kind": {"group": "x.io", "version": "v1", "kind": "Widget"},
        }))
        .expect("a request");
        assert!(unlisted.resource.guessed && !unlisted.resource.namespaced);
        assert_eq!(unlisted.cell().subject, None);
        let refused = |value| read(value).expect_err("refused");
        assert_eq!(refused(serde_json::json!({})), "`operation` is missing or not a string");
        assert_eq!(
            refused(serde_json::json!({"operation": "PATCH"})),
            "unknown operation `PATCH`"
        );
    }
}
