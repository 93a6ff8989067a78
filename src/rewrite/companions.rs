//! Files that a rewritten test file needs because the new policies see more of a request than the rules did.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (Kyverno 1.19). Without a user, `kyverno test` leaves
//! subjects of `match` out for a ClusterPolicy, and a ValidatingPolicy sees a request whose user has no name. Without a description of
//! the namespace, `validate.cel` sees its name, and a ValidatingPolicy sees null.

use std::{collections::BTreeSet, io};

use kyvtest_go_compat::{text::path::clean, value::Document, yaml};
use serde_json::{Value as Json, json};

use super::directory;
use crate::suite::{Files, Suite};

/// The name of the file with the objects and images that new policies look up.
pub(super) const CONTEXT: &str = "context-migrated.yaml";

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

/// Objects and images that the new policies look up.
pub(super) fn context(resources: &[Json], images: &[Json]) -> Companion {
    let mut spec = json!({});
    for (key, list) in [("resources", resources), ("images", images)] {
        if !list.is_empty() {
            spec[key] = json!(list);
        }
    }
    let context = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Context",
        "metadata": {"name": "context"},
        "spec": spec,
    });
    Companion::new("context", CONTEXT, &context)
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
            let text = files.read(&clean(&format!("{}/{}", directory(test), path.value)))?;
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
