//! Files of resources.

use super::{Loader, Missing, is_yaml};
use crate::suite::{
    Resource, Upstream,
    files::{join, resolve},
    resource::{Fallback, list_items, resource},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Span},
    value::{Document, Value},
    yaml::{Mode, Node},
};
use kyvtest_model::policy::{Origin, Text, decode::name_of, place};

impl Loader<'_> {
    /// Reads files of resources. The first path decides: if it is a directory, its files are read and the other paths
    /// ignored.
    pub(super) fn resources(&mut self, paths: &[Text]) -> Vec<Resource> {
        let mut resources = Vec::new();
        let Some(first) = paths.first() else {
            return resources;
        };
        let path = resolve(&self.directory, &first.value);
        match self.files.is_directory(&path) {
            Ok(true) => {
                for other in paths.iter().skip(1) {
                    let message = format!("`{}` is not read: the first path is a directory", other.value);
                    let diagnostic = Diagnostic::at(Code::IgnoredValue, other.span, message);
                    self.say(diagnostic.with_label(first.span, "only the files in this directory are read"));
                }
                let names = self.files.list(&path).unwrap_or_default();
                for (name, _) in names.into_iter().filter(|(name, _)| is_yaml(name)) {
                    let file = join(&path, &name);
                    self.resource_file(first, &file, Missing::GoesOn, &mut resources);
                }
                if resources.is_empty() && !self.suite.has_errors() {
                    self.holds_nothing(first, "no resource");
                }
            }
            Ok(false) | Err(_) => {
                for (number, at) in paths.iter().enumerate() {
                    let path = resolve(&self.directory, &at.value);
                    let missing = if number == 0 { Missing::Aborts } else { Missing::GoesOn };
                    let (before, found) = (self.suite.diagnostics.len(), resources.len());
                    self.resource_file(at, &path, missing, &mut resources);
                    if resources.len() == found && self.suite.diagnostics.len() == before {
                        self.holds_nothing(at, "no resource");
                    }
                }
            }
        }
        resources
    }

    pub(super) fn resource_file(&mut self, at: &Text, path: &str, missing: Missing, resources: &mut Vec<Resource>) {
        let Some(bytes) = self.bytes(at.span, path, &at.value) else {
            if missing == Missing::Aborts {
                self.stop(Upstream::Aborts);
            }
            return;
        };
        let (split, file) = self.split(&bytes, path);
        drop(bytes);
        if let Some(error) = split.error() {
            let diagnostic = Diagnostic::from_yaml(file, error);
            self.say(diagnostic);
            self.stop(Upstream::Aborts);
            return;
        }
        for (number, document) in split.documents(Mode::Lax).enumerate() {
            let tree = match document.into_tree() {
                Ok(tree) => tree,
                Err(error) => {
                    self.say(Diagnostic::from_yaml(file, &error));
                    self.stop(Upstream::Aborts);
                    continue;
                }
            };
            let origin = Origin {
                file,
                document: number,
                span: place(file, tree.root().span()),
            };
            self.object(tree.root(), origin, resources);
        }
    }

    /// Adds an object, or the items of a list.
    fn object(&mut self, node: Node<'_>, origin: Origin, resources: &mut Vec<Resource>) {
        let Some((items, fallback)) = list_items(node) else {
            return self.single(node, None, origin, resources);
        };
        let start = Span::point(origin.file, origin.span.start);
        let kind = node.get("kind").and_then(Node::as_str).unwrap_or_default();
        let message = format!("`{kind}` is a list: kyvtest uses its items, but `kyverno test` panics");
        self.say(Diagnostic::at(Code::ListKind, start, message).with_help("write each item as a separate document"));
        self.stop(Upstream::Panics);
        for item in items {
            let span = place(origin.file, item.span());
            self.single(item, fallback, Origin { span, ..origin }, resources);
        }
    }

    fn single(
        &mut self,
        node: Node<'_>,
        fallback: Option<Fallback<'_>>,
        origin: Origin,
        resources: &mut Vec<Resource>,
    ) {
        let start = Span::point(origin.file, origin.span.start);
        if node.as_map().is_none() {
            let message = "expected an object with `apiVersion` and `kind`";
            self.say(Diagnostic::at(Code::WrongType, start, message));
            self.stop(Upstream::Aborts);
            return;
        }
        for (severity, span, message) in metadata_problems(node) {
            let span = place(origin.file, span);
            self.say(Diagnostic::at(Code::WrongType, span, message).with_severity(severity));
        }
        let scopes = self.options.scopes;
        let own = if self.options.own_crds {
            self.crds.as_slice()
        } else {
            &[]
        };
        let cluster_wide = |group: &str, kind: &str| {
            let own = own.iter().find(|crd| crd.0 == group && crd.1 == kind);
            own.map_or_else(|| scopes.is_cluster_wide(group, kind), |crd| crd.2)
        };
        match resource(node, fallback, &cluster_wide, origin) {
            Some(resource) => {
                if resource.api_version.is_empty() {
                    let message = format!("this `{}` has no `apiVersion`", resource.kind);
                    self.say(Diagnostic::at(Code::MissingField, start, message));
                    self.stop(Upstream::Aborts);
                }
                resources.push(resource);
            }
            None => {
                let diagnostic = match node
                    .get("kind")
                    .filter(|kind| !kind.is_null() && kind.as_str().is_none())
                {
                    Some(kind) => {
                        let message = format!("`kind` must be a string, not {}", name_of(kind));
                        Diagnostic::at(Code::WrongType, place(origin.file, kind.span()), message)
                    }
                    None => Diagnostic::at(Code::MissingField, start, "this resource has no `kind`"),
                };
                self.say(diagnostic);
                self.stop(Upstream::Aborts);
            }
        }
    }

    /// Removes repetitions: the first of each group, kind, namespace and name counts.
    pub(super) fn distinct(&mut self, resources: Vec<Resource>) -> Vec<Resource> {
        let mut distinct: Vec<Resource> = Vec::with_capacity(resources.len());
        let mut seen = rustc_hash::FxHashMap::default();
        for resource in resources {
            let key = (
                resource.group().to_owned(),
                resource.kind.clone(),
                resource.namespace.clone(),
                resource.name.clone(),
            );
            if let Some(first) = seen.get(&key) {
                let first: &Span = first;
                let message = format!(
                    "duplicate {} `{}`: only the first one is used",
                    resource.kind,
                    display_name(&resource)
                );
                let start = Span::point(resource.origin.file, resource.origin.span.start);
                let diagnostic = Diagnostic::at(Code::DuplicateResource, start, message);
                self.say(diagnostic.with_label(Span::point(first.file, first.start), "first defined here"));
                continue;
            }
            seen.insert(key, resource.origin.span);
            distinct.push(resource);
        }
        distinct
    }

    /// Reports objects that the suite gives twice, which make Kyverno's fake client panic. Repetitions among `resources` are removed
    /// before.
    pub(super) fn collisions(&mut self) {
        let lists = [
            ("resources", &self.suite.resources),
            ("targetResources", &self.suite.targets),
            ("paramResources", &self.suite.params),
        ];
        let start = |span: Span| Span::point(span.file, span.start);
        let mut given: Vec<(String, Span, &str)> = Vec::new();
        for (list, objects) in lists {
            given.extend(objects.iter().map(|object| (object.key(), object.origin.span, list)));
        }
        for object in self.suite.cluster.iter().flat_map(|cluster| &cluster.resources) {
            given.push((stored_key(&object.value), object.span, "clusterResources"));
        }
        let mut found = Vec::new();
        let mut seen = rustc_hash::FxHashMap::default();
        for (key, span, list) in &given {
            let Some((first, before)) = seen.get(key) else {
                seen.insert(key, (*span, *list));
                continue;
            };
            let first: &Span = first;
            let places = if before == list {
                format!("twice in `{list}`")
            } else {
                format!("in both `{before}` and `{list}`")
            };
            let message = format!("the object `{key}` is {places}: `kyverno test` panics");
            found.push(
                Diagnostic::at(Code::DuplicateResource, start(*span), message)
                    .with_label(start(*first), "the first one is here"),
            );
        }
        if !found.is_empty() {
            self.stop(Upstream::Panics);
            self.suite.diagnostics.extend(found);
        }
    }
}

/// The key of an object in a cluster, as [`Resource::key`] has it.
fn stored_key(object: &Document) -> String {
    let text = |path: &[&str]| object.root().at(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
    format!("{api_version},{kind},{namespace},{name}")
}

/// Metadata that an API server would reject. Kyverno's command line ignores the parts that it cannot read.
fn metadata_problems(node: Node<'_>) -> Vec<(Severity, kyvtest_go_compat::yaml::Span, String)> {
    let mut problems = Vec::new();
    let mut say = |severity, node: Node<'_>, path: &str, wanted: &str| {
        let message = format!("`{path}` must be {wanted}, not {}", name_of(node));
        problems.push((severity, node.span(), message));
    };
    let Some(metadata) = node.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return problems;
    };
    if metadata.as_map().is_none() {
        say(Severity::Error, metadata, "metadata", "a map");
        return problems;
    }
    let given = |key: &str| metadata.get(key).filter(|value| !value.is_null());
    for key in ["name", "generateName", "namespace"] {
        if let Some(value) = given(key).filter(|value| value.as_str().is_none()) {
            say(Severity::Error, value, &format!("metadata.{key}"), "a string");
        }
    }
    for key in ["labels", "annotations"] {
        let Some(value) = given(key) else { continue };
        match value.as_map() {
            None => say(Severity::Error, value, &format!("metadata.{key}"), "a map"),
            Some(entries) => {
                for entry in entries.iter().filter(|entry| entry.value.as_str().is_none()) {
                    let path = format!("metadata.{key}.{}", entry.key);
                    say(Severity::Warning, entry.value, &path, "a string");
                }
            }
        }
    }
    problems
}

/// The name of a resource as rows write it.
fn display_name(resource: &Resource) -> String {
    if resource.namespace.is_empty() {
        resource.name.clone()
    } else {
        format!("{}/{}", resource.namespace, resource.name)
    }
}
