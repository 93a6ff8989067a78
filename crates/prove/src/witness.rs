//! A request for a path: every question is answered by the smallest data that fits, and what no question is about looks
//! ordinary.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::{
    calls::Calls,
    solver::{Literal, Model, Solver},
    symbolic::{Group, Variables, of_group},
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::{
    Atom, NAME_LABEL, Namespace, Operation, Pairs, Request, RequestClass, Text, UserInfo, World,
};

/// The data of a path.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    name: String,
    request_name: String,
    namespace: String,
    user: UserInfo,
    roles: Vec<String>,
    cluster_roles: Vec<String>,
    new_labels: Vec<(String, String)>,
    old_labels: Vec<(String, String)>,
    namespace_labels: Vec<(String, String)>,
    new_annotations: Vec<(String, String)>,
    old_annotations: Vec<(String, String)>,
}

/// A request with the cluster around it.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub request: Request,
    /// The cluster.
    pub world: World,
    /// The labels of the request's namespace, where there is one.
    pub namespace_labels: Vec<(String, String)>,
    /// What the global context and services answer.
    pub calls: Calls,
}

impl Witness {
    /// The data of a path; `None` if the solver has none, which would be a bug.
    pub(crate) fn new<'p>(solver: &mut Solver<'p>, cell: &RequestClass<'_>, literals: &[Literal<'p>]) -> Option<Self> {
        let variables = Variables::new(cell);
        let mut text = |text: Text, usual: &str| -> Option<String> {
            let own = of_group(literals, Group::Text(text));
            let fits = |(atom, holds): &Literal<'p>| match atom {
                Atom::Text(_, pattern) => pattern.matches(usual) == *holds,
                _ => false,
            };
            if own.iter().all(fits) {
                return Some(usual.to_owned());
            }
            match solver.text_of(variables.text(text), &own) {
                Model::Yes(found) => Some(found),
                Model::No | Model::Incomplete => None,
            }
        };
        let name = text(Text::Name, "sample")?;
        let request_name = if cell.operation == Operation::Connect {
            text(Text::RequestName, "sample")?
        } else {
            name.clone()
        };
        let namespace = text(Text::Namespace, "apps")?;
        let username = text(Text::Username, "alice")?;
        let mut map = |pairs: Pairs| -> Option<Vec<(String, String)>> {
            match solver.map(variables.map(pairs), &of_group(literals, Group::Pairs(pairs))) {
                Model::Yes(found) => Some(found),
                Model::No | Model::Incomplete => None,
            }
        };
        let new_labels = map(Pairs::NewLabels)?;
        let new_annotations = map(Pairs::NewAnnotations)?;
        let same = cell.resource.subresource == "ephemeralcontainers";
        let old_labels = if same {
            new_labels.clone()
        } else {
            map(Pairs::OldLabels)?
        };
        let old_annotations = if same {
            new_annotations.clone()
        } else {
            map(Pairs::OldAnnotations)?
        };
        let namespace_labels = map(Pairs::NamespaceLabels)?;
        let groups = match solver.groups(&of_group(literals, Group::Groups)) {
            Model::Yes(groups) => groups,
            Model::No | Model::Incomplete => return None,
        };
        let roles = literals.iter().filter(|(_, holds)| *holds);
        let free = |is_role: bool| -> Vec<String> {
            let roles = roles.clone().filter_map(|(atom, _)| match atom {
                Atom::Role(role) if is_role => Some((*role).to_owned()),
                Atom::ClusterRole(role) if !is_role => Some((*role).to_owned()),
                _ => None,
            });
            roles.collect()
        };
        Some(Self {
            name,
            request_name,
            namespace,
            user: UserInfo {
                username,
                groups: Some(groups),
                ..UserInfo::default()
            },
            roles: free(true),
            cluster_roles: free(false),
            new_labels,
            old_labels,
            namespace_labels,
            new_annotations,
            old_annotations,
        })
    }

    /// The same with more labels and annotations, on all objects that have them.
    #[must_use]
    pub(crate) fn with_labels(&self, labels: &[(String, String)]) -> Self {
        let mut witness = self.clone();
        for map in [
            &mut witness.new_labels,
            &mut witness.old_labels,
            &mut witness.namespace_labels,
            &mut witness.new_annotations,
            &mut witness.old_annotations,
        ] {
            for (key, value) in labels {
                if map.iter().all(|(own, _)| own != key) {
                    map.push((key.clone(), value.clone()));
                }
            }
            map.sort();
        }
        witness
    }

    /// The same with other names; `None` keeps the one that there is.
    #[must_use]
    pub(crate) fn with_names(&self, name: Option<&str>, namespace: Option<&str>, username: Option<&str>) -> Self {
        let mut witness = self.clone();
        if let Some(name) = name {
            name.clone_into(&mut witness.name);
            name.clone_into(&mut witness.request_name);
        }
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut witness.namespace);
        }
        if let Some(username) = username {
            username.clone_into(&mut witness.user.username);
        }
        witness
    }

    fn object(
        &self,
        cell: &RequestClass<'_>,
        body: &Json,
        labels: &[(String, String)],
        annotations: &[(String, String)],
    ) -> Document {
        let kind = &cell.resource.object_kind;
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), json!(kind.api_version()));
        object.insert("kind".to_owned(), json!(kind.kind));
        if cell.operation == Operation::Connect {
            return Document::from(&Json::Object(object));
        }
        let mut metadata = body
            .get("metadata")
            .and_then(Json::as_object)
            .cloned()
            .unwrap_or_default();
        metadata.insert("name".to_owned(), json!(self.name));
        if cell.namespaced {
            metadata.insert("namespace".to_owned(), json!(self.namespace));
        }
        let mut labels = labels.to_vec();
        if is_namespace(cell) {
            labels.push((NAME_LABEL.to_owned(), self.name.clone()));
        }
        for (key, entries) in [("labels", labels.as_slice()), ("annotations", annotations)] {
            let map: Map<String, Json> = entries.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            if !map.is_empty() {
                metadata.insert(key.to_owned(), Json::Object(map));
            }
        }
        object.insert("metadata".to_owned(), Json::Object(metadata));
        for (key, value) in body.as_object().into_iter().flatten() {
            if !object.contains_key(key) {
                object.insert(key.clone(), value.clone());
            }
        }
        Document::from(&Json::Object(object))
    }

    /// The request with these objects, whose metadata come from the path.
    pub(crate) fn scenario(&self, cell: &RequestClass<'_>, new: &Json, old: &Json) -> Scenario {
        let has_new = cell.operation != Operation::Delete;
        let has_old = matches!(cell.operation, Operation::Update | Operation::Delete);
        let namespace = if is_namespace(cell) {
            self.name.clone()
        } else if cell.namespaced {
            self.namespace.clone()
        } else {
            String::new()
        };
        let mut labels = if is_namespace(cell) && has_old {
            self.old_labels.clone()
        } else {
            self.namespace_labels.clone()
        };
        let mut world = World::new();
        let stored = cell.namespaced || is_namespace(cell) && has_old;
        if stored {
            labels.push((NAME_LABEL.to_owned(), namespace.clone()));
            let entries = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            world.add_namespace(Namespace::with_labels(&namespace, entries));
        } else {
            labels.clear();
        }
        let document = |present: bool, make: &dyn Fn() -> Document| if present { make() } else { Document::null() };
        let request = Request {
            operation: cell.operation,
            resource: Arc::new(cell.resource.clone()),
            name: if cell.collection {
                String::new()
            } else {
                self.request_name.clone()
            },
            namespace,
            object: document(has_new, &|| {
                self.object(cell, new, &self.new_labels, &self.new_annotations)
            }),
            old_object: document(has_old, &|| {
                self.object(cell, old, &self.old_labels, &self.old_annotations)
            }),
            user: self.user.clone(),
            roles: Some(self.roles.clone()),
            cluster_roles: Some(self.cluster_roles.clone()),
            dry_run: false,
            options: Document::null(),
            collection: cell.collection,
        };
        Scenario {
            request,
            world,
            namespace_labels: labels,
            calls: Calls::default(),
        }
    }
}

fn is_namespace(cell: &RequestClass<'_>) -> bool {
    cell.resource.group.is_empty() && cell.resource.object_kind.kind == "Namespace"
}
