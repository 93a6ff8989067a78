//! Files that a rewritten test file needs because the new policies see more of a request than the rules did.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (Kyverno 1.19). Without a user, `kyverno test` leaves
//! subjects of `match` out for a ClusterPolicy, and a ValidatingPolicy sees a request whose user has no name. Without a description of
//! the namespace, `validate.cel` sees its name, and a ValidatingPolicy sees null.

use std::{collections::BTreeSet, io};

use kyvtest_go_compat::{text::path::clean, value::Document, yaml};
use serde_json::{Value as Json, json};

use super::folder;
use crate::suite::{Files, Suite};

/// A file next to the test file, and the field of the test file that names it.
#[derive(Debug, Clone)]
pub(super) struct Companion {
    pub(super) field: &'static str,
    pub(super) name: &'static str,
    pub(super) text: String,
}

impl Companion {
    fn new(field: &'static str, name: &'static str, object: &Json) -> Self {
        let text = Document::from(object).root().to_yaml();
        Self { field, name, text }
    }
}

/// Objects that the new policies look up.
pub(super) fn context(resources: &[Json]) -> Companion {
    let context = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Context",
        "metadata": {"name": "context"},
        "spec": {"resources": resources},
    });
    Companion::new("context", "context-migrated.yaml", &context)
}

/// A user without special rights; `None` if the suite describes one.
pub(super) fn user(suites: &[Suite]) -> Option<Companion> {
    let described = |suite: &Suite| suite.test.as_ref().is_some_and(|test| test.userinfo.is_some());
    if suites.iter().any(described) {
        return None;
    }
    let user = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "UserInfo",
        "metadata": {"name": "user-info"},
        "userInfo": {"username": "test-user", "groups": ["system:authenticated"]},
    });
    Some(Companion::new("userinfo", "user-info-migrated.yaml", &user))
}

/// The values of the suite with the namespaces of its resources; `None` if they describe namespaces, or are part of the test file.
pub(super) fn namespaces(files: &dyn Files, test: &str, suites: &[Suite]) -> io::Result<Option<Companion>> {
    let [suite] = suites else { return Ok(None) };
    let Some(document) = suite.test.as_ref().filter(|test| test.values.is_none()) else {
        return Ok(None);
    };
    let mut values = match &document.variables {
        None => json!({"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Values", "metadata": {"name": "values"}}),
        Some(path) => {
            let text = files.read(&clean(&format!("{}/{}", folder(test), path.value)))?;
            let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
            let tree = stream.documents().first().and_then(|document| document.tree().ok());
            match tree.map(|tree| Document::from(tree.root()).root().to_serde()) {
                Some(values) if values.is_object() => values,
                _ => return Ok(None),
            }
        }
    };
    if ["namespaces", "namespaceSelector"]
        .iter()
        .any(|key| values.get(key).is_some())
    {
        return Ok(None);
    }
    let names: BTreeSet<&str> = suite
        .resources
        .iter()
        .map(|resource| match resource.namespace.as_str() {
            "" => "default",
            name => name,
        })
        .collect();
    let described = names.iter().map(|name| {
        let labels = json!({"kubernetes.io/metadata.name": name});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    });
    values["namespaces"] = described.collect();
    Ok(Some(Companion::new("variables", "values-migrated.yaml", &values)))
}

/// The data of all images of the suite, if values replace what a rule reads from a registry; `None` if the suite has a context file.
pub(super) fn images(suites: &[Suite]) -> Option<Companion> {
    let [suite] = suites else { return None };
    suite.test.as_ref().filter(|test| test.context.is_none())?;
    let mut data = json!({});
    for policy in suite.policies.classic() {
        let values = suite.values.policies.iter();
        let values = values.filter(|values| values.name.value == policy.metadata.name.value);
        for values in values.flat_map(|values| &values.rules) {
            let mut rules = policy.spec.rules.iter();
            let Some(rule) = rules.find(|rule| rule.name.value == values.name.value) else {
                continue;
            };
            let source = rule.source.document().root().to_serde();
            for (key, value) in &values.values {
                let mut steps = key.value.split('.');
                let (Some(entry), Some(part)) = (steps.next(), steps.next()) else {
                    continue;
                };
                let part = match part {
                    "configData" => "config",
                    "manifest" => "manifest",
                    _ => continue,
                };
                if reads_registry(&source, entry) {
                    let place = steps.fold(&mut data[part], |place, step| &mut place[step]);
                    *place = value.value.root().to_serde();
                }
            }
        }
    }
    if data.as_object().is_some_and(serde_json::Map::is_empty) {
        return None;
    }
    let mut names = BTreeSet::new();
    for resource in &suite.resources {
        image_names(&resource.object.root().to_serde(), &mut names);
    }
    let images = names.into_iter().map(|name| {
        let mut image = json!({"image": name});
        image.as_object_mut()?.extend(data.as_object()?.clone());
        Some(image)
    });
    let context = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Context",
        "metadata": {"name": "context"},
        "spec": {"images": images.collect::<Option<Vec<_>>>()?},
    });
    Some(Companion::new("context", "context-migrated.yaml", &context))
}

/// Whether a rule has a context entry of this name that is all the data of an image.
fn reads_registry(rule: &Json, name: &str) -> bool {
    match rule {
        Json::Object(map) => {
            let registry = map
                .get("imageRegistry")
                .filter(|_| map.get("name").is_some_and(|own| own == name));
            registry.is_some_and(|registry| registry.get("jmesPath").is_none())
                || map.values().any(|value| reads_registry(value, name))
        }
        Json::Array(items) => items.iter().any(|item| reads_registry(item, name)),
        _ => false,
    }
}

/// Collects the values of `image` in an object.
fn image_names(object: &Json, names: &mut BTreeSet<String>) {
    match object {
        Json::Object(map) => {
            for (key, value) in map {
                match value {
                    Json::String(name) if key == "image" => {
                        names.insert(name.clone());
                    }
                    _ => image_names(value, names),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| image_names(item, names)),
        _ => {}
    }
}
