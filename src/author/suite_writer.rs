//! The files of written suites, and their common parts.

use serde_json::{Map, Value as Json, json};

use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{Request, Resource},
    verdict::Status,
};

/// The name of written test files.
pub(super) const TEST: &str = "kyverno-test.yaml";

/// The API version of the files that `kyverno test` reads.
const API: &str = "cli.kyverno.io/v1alpha1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: &'static str,
    pub text: String,
}

impl File {
    pub(super) fn of(name: &'static str, object: &Json) -> Self {
        Self {
            name,
            text: yaml(object),
        }
    }

    /// A file with several objects.
    pub(super) fn with_all(name: &'static str, objects: impl IntoIterator<Item = Json>) -> Self {
        let texts: Vec<String> = objects.into_iter().map(|object| yaml(&object)).collect();
        Self {
            name,
            text: texts.join("---\n"),
        }
    }
}

/// A value as YAML, with a line break at the end.
pub(super) fn yaml(value: &Json) -> String {
    let mut text = Document::from(value).root().to_yaml();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn object(kind: &str, name: &str) -> Json {
    json!({"apiVersion": API, "kind": kind, "metadata": {"name": name}})
}

/// A test file without rows.
pub(super) fn test(name: &str) -> Json {
    object("Test", name)
}

/// Objects of the cluster, for lookups.
pub(super) fn cluster(name: &str, objects: &[Json]) -> Json {
    let mut cluster = object("ClusterResource", name);
    cluster["spec"] = json!({"resources": objects});
    cluster
}

/// An empty sidecar.
pub(super) fn sidecar() -> Json {
    json!({"apiVersion": "kyvtest.dev/v1", "kind": "Sidecar"})
}

pub(super) fn user_info(name: &str, request: &Request) -> Json {
    let mut info = object("UserInfo", name);
    for (key, list) in [("roles", &request.roles), ("clusterRoles", &request.cluster_roles)] {
        if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
            info[key] = json!(list);
        }
    }
    info["userInfo"] = json!({"username": request.user.username, "groups": request.user.groups()});
    info
}

/// Namespace labels and subresources.
pub(super) fn values(name: &str, namespaces: &[(String, Json)], subresource: Option<&Resource>) -> Json {
    let mut values = object("Values", name);
    if !namespaces.is_empty() {
        let namespaces = namespaces.iter();
        let selectors = namespaces.map(|(name, labels)| json!({"name": name, "labels": labels}));
        values["namespaceSelector"] = selectors.collect();
    }
    if let Some(resource) = subresource {
        let own = &resource.object_kind;
        values["subresources"] = json!([{
            "subresource": {"name": resource.name(), "kind": own.kind, "group": own.group, "version": own.version},
            "parentResource": {
                "name": resource.plural, "kind": resource.kind, "group": resource.group, "version": resource.version,
            },
        }]);
    }
    values
}

/// Labels as a map.
pub(super) fn labels(labels: &[(String, String)]) -> Json {
    let entries = labels.iter().map(|(key, value)| (key.clone(), json!(value)));
    Json::Object(entries.collect::<Map<String, Json>>())
}

/// The reference to a resource in a row.
pub(super) fn reference(object: &Json) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// The value of `result`: `skip` if nothing matches.
pub(super) const fn result(status: Status) -> &'static str {
    match status {
        Status::NoMatch => "skip",
        status => status.as_str(),
    }
}
