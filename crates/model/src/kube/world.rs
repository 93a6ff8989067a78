//! The objects of a cluster: namespaces, bindings, parameters, other objects.

use std::collections::BTreeMap;

use super::{Access, Authorized, Binding, Role, Roles, UserInfo, authorize::authorize};
use kyvtest_go_compat::value::{Builder, Document, Map, Value};

/// The label that the API server puts on every namespace: its name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    pub object: Document,
}

impl Namespace {
    /// A namespace with only these labels.
    pub fn with_labels<'a>(name: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut builder = Builder::new();
        builder.begin_map();
        builder.key("apiVersion");
        builder.string("v1");
        builder.key("kind");
        builder.string("Namespace");
        builder.key("metadata");
        builder.begin_map();
        builder.key("name");
        builder.string(name);
        builder.key("labels");
        builder.begin_map();
        for (key, value) in labels {
            builder.key(key);
            builder.string(value);
        }
        builder.end();
        builder.end();
        builder.end();
        Self {
            object: builder.finish(),
        }
    }

    /// A namespace of which only the name is known: it has just the label that the API server adds.
    pub fn minimal(name: &str) -> Self {
        Self::with_labels(name, [(NAME_LABEL, name)])
    }

    /// Adds the label that the API server puts on every namespace, replacing any other value.
    pub fn labelled(&self) -> Self {
        Self {
            object: with_name_label(self.object.root()),
        }
    }

    pub fn name(&self) -> &str {
        let name = self.object.root().at(&["metadata", "name"]);
        name.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn labels(&self) -> Option<Map<'_>> {
        string_map(self.object.root(), "labels")
    }
}

/// A Namespace object with the label that the API server puts on it.
pub fn with_name_label(object: Value<'_>) -> Document {
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str);
    let label = object.at(&["metadata", "labels", NAME_LABEL]).and_then(Value::as_str);
    let (Some(name), Some(map)) = (name.filter(|name| !name.is_empty()), object.as_map()) else {
        return object.to_document();
    };
    if label == Some(name) {
        return object.to_document();
    }
    let mut builder = Builder::new();
    builder.begin_map();
    for (key, value) in map.iter() {
        builder.key(key.text());
        let metadata = value.as_map().filter(|_| key.text() == "metadata");
        let Some(metadata) = metadata else {
            builder.value(value);
            continue;
        };
        builder.begin_map();
        for (key, value) in metadata.iter().filter(|(key, _)| key.text() != "labels") {
            builder.key(key.text());
            builder.value(value);
        }
        builder.key("labels");
        builder.begin_map();
        let labels = metadata.get("labels").and_then(Value::as_map);
        for (key, value) in labels.iter().flat_map(|labels| labels.iter()) {
            if key.text() != NAME_LABEL {
                builder.key(key.text());
                builder.value(value);
            }
        }
        builder.key(NAME_LABEL);
        builder.string(name);
        builder.end();
        builder.end();
    }
    builder.end();
    builder.finish()
}

/// A map of strings in an object's metadata. As upstream: if one value is not a string, there is no map.
pub(super) fn string_map<'v>(object: Value<'v>, field: &str) -> Option<Map<'v>> {
    let map = object.at(&["metadata", field])?.as_map()?;
    map.iter().all(|(_, value)| value.as_str().is_some()).then_some(map)
}

#[derive(Debug, Clone, Default)]
pub struct World {
    namespaces: BTreeMap<String, Namespace>,
    /// Namespaces of which only the name is known, built once for many requests.
    minimal: BTreeMap<String, Namespace>,
    bindings: Vec<Binding>,
    roles: Vec<Role>,
    /// Parameters of policies.
    pub params: Vec<Document>,
    /// All objects, namespaces and bindings included.
    pub objects: Vec<Document>,
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    /// A new cluster with the bindings that every API server creates.
    pub(crate) fn with_default_bindings() -> Self {
        let bindings = [
            ("cluster-admin", "system:masters"),
            ("system:basic-user", "system:authenticated"),
            ("system:discovery", "system:authenticated"),
            ("system:public-info-viewer", "system:authenticated"),
            ("system:public-info-viewer", "system:unauthenticated"),
        ];
        Self {
            bindings: bindings.map(|(role, group)| Binding::of_group(role, group)).into(),
            roles: Role::of_new_cluster(),
            ..Self::default()
        }
    }

    /// Adds an object; recognises namespaces and bindings.
    pub fn add(&mut self, object: Document) {
        let root = object.root();
        let text = |key: &str| root.get(key).and_then(Value::as_str);
        if text("kind") == Some("Namespace") && text("apiVersion") == Some("v1") {
            self.add_namespace(Namespace { object: object.clone() });
        }
        self.bindings.extend(Binding::from_value(root));
        self.roles.extend(Role::from_value(root));
        self.objects.push(object);
    }

    /// Adds a namespace; replaces one of the same name.
    pub fn add_namespace(&mut self, namespace: Namespace) {
        self.namespaces.insert(namespace.name().to_owned(), namespace);
    }

    /// A namespace by name, if it is known.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Builds the namespace of which only the name is known, for the requests to come.
    pub fn prepare_namespace(&mut self, name: &str) {
        if !name.is_empty() && !self.minimal.contains_key(name) {
            self.minimal.insert(name.to_owned(), Namespace::minimal(name));
        }
    }

    /// A namespace of which only the name is known.
    pub fn minimal_namespace(&self, name: &str) -> Namespace {
        let prepared = self.minimal.get(name).cloned();
        prepared.unwrap_or_else(|| Namespace::minimal(name))
    }

    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Evaluates an access against the cluster's RBAC objects.
    pub fn authorize(&self, access: &Access<'_>) -> Authorized {
        authorize(&self.bindings, &self.roles, access)
    }

    /// The roles of a user for a request in a namespace.
    pub fn roles(&self, user: &UserInfo, namespace: &str) -> Roles {
        Roles::resolve(&self.bindings, user, namespace)
    }
}
