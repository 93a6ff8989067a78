//! An admission request.

use std::sync::Arc;

use super::{Operation, RequestClass, Resource, Side};
use kyvtest_cel::host::Attributes;
use kyvtest_go_compat::value::{Document, Value};

/// The sender of a request. A field that is present but empty differs from an absent one: Kyverno treats a user without
/// any field as no user.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserInfo {
    pub username: String,
    pub uid: String,
    /// The groups the user is in.
    pub groups: Option<Vec<String>>,
    /// Further attributes from the authenticator, each a list of strings.
    pub extra: Option<Vec<(String, Vec<String>)>>,
}

impl UserInfo {
    /// Parses the `userInfo` of an AdmissionRequest or of a user info file. Fields of another form are dropped.
    pub fn from_value(value: Value<'_>) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            username: text("username"),
            uid: text("uid"),
            groups: value.get("groups").and_then(texts),
            extra: value.get("extra").and_then(Value::as_map).map(|map| {
                map.iter()
                    .map(|(key, value)| (key.text().to_owned(), texts(value).unwrap_or_default()))
                    .collect()
            }),
        }
    }

    /// Whether nothing is known of the user.
    pub fn is_absent(&self) -> bool {
        *self == Self::default()
    }

    /// Empty if the field is absent.
    pub fn groups(&self) -> &[String] {
        self.groups.as_deref().unwrap_or_default()
    }
}

/// The strings of a list.
pub(super) fn texts(value: Value<'_>) -> Option<Vec<String>> {
    let list = value.as_list()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// An admission request, as the API server would send it.
#[derive(Debug, Clone)]
pub struct Request {
    pub operation: Operation,
    pub resource: Arc<Resource>,
    /// The name in the request's path; empty if it is to be generated, and for a collection delete.
    pub name: String,
    /// The namespace; a Namespace's own name; empty for other cluster-scoped objects.
    pub namespace: String,
    /// The new object, or null.
    pub object: Document,
    /// The old object, or null.
    pub old_object: Document,
    pub user: UserInfo,
    /// The user's roles, `namespace:name`.
    pub roles: Option<Vec<String>>,
    /// The user's cluster roles.
    pub cluster_roles: Option<Vec<String>>,
    /// A dry run: nothing is stored.
    pub dry_run: bool,
    /// The options of the operation, or null.
    pub options: Document,
    /// Whether this is one of the deletions of a collection delete.
    pub collection: bool,
}

impl Request {
    /// What `authorizer.requestResource` checks: the request as one about a resource.
    pub fn attributes(&self, resource: &Resource) -> Attributes {
        Attributes {
            group: resource.group.clone(),
            resource: resource.plural.clone(),
            subresource: resource.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..Attributes::default()
        }
    }

    /// A request without user and options: the object is the new one, except for DELETE. Name and namespace are the
    /// object's own.
    pub fn about(operation: Operation, resource: Arc<Resource>, object: Document) -> Self {
        let text = |key: &str| {
            let value = object.root().at(&["metadata", key]).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (name, namespace) = (text("name"), text("namespace"));
        let namespace = if is_core_namespace(&resource) {
            name.clone()
        } else {
            namespace
        };
        let (object, old_object) = if operation == Operation::Delete {
            (Document::null(), object)
        } else {
            (object, Document::null())
        };
        Self {
            operation,
            resource,
            name,
            namespace,
            object,
            old_object,
            user: UserInfo::default(),
            roles: None,
            cluster_roles: None,
            dry_run: false,
            options: Document::null(),
            collection: false,
        }
    }

    /// The object that Kyverno evaluates: the new one, else the old one, else `None`.
    pub fn subject(&self) -> Option<(Side, Value<'_>)> {
        let sides = [(Side::New, &self.object), (Side::Old, &self.old_object)];
        sides
            .into_iter()
            .map(|(side, document)| (side, document.root()))
            .find(|(_, value)| !value.is_null())
    }

    /// The finite part of the request.
    pub fn cell(&self) -> RequestClass<'_> {
        RequestClass {
            resource: &self.resource,
            operation: self.operation,
            collection: self.collection,
            namespaced: !self.namespace.is_empty() && !is_core_namespace(&self.resource),
            subject: self.subject().map(|(side, _)| side),
            anonymous: self.user.is_absent() && self.roles.is_none() && self.cluster_roles.is_none() && !self.dry_run,
        }
    }
}

fn is_core_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}
