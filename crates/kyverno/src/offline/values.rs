//! The `values` block of a test file, as classic rules and matching read it.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/{variables/variables.go,store/contextloader.go}` (1.19). Values are put into
//! the context in order of their paths; upstream's order is random.

use std::collections::BTreeMap;

use crate::classic::{
    context::{Given, Outside, SuiteSources},
    values::Values,
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Data, Document, List, Value};
use kyvtest_model::kube::{Namespace, Operation, World};

/// The `values` block for one resource and operation.
#[derive(Debug, Clone)]
pub struct GivenValues {
    block: Document,
    given: Given,
    /// The name of the resource, by which its values are found.
    pub resource: String,
    /// The operation of the run, which replaces `request.operation`.
    pub operation: Operation,
}

fn items<'v>(value: Value<'v>, key: &str) -> impl Iterator<Item = Value<'v>> {
    value.get(key).and_then(Value::as_list).into_iter().flat_map(List::iter)
}

fn text<'v>(value: Value<'v>, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn entries(value: Option<Value<'_>>) -> Vec<(String, Data)> {
    let entries = value.and_then(Value::as_map);
    let entries = entries.into_iter().flat_map(kyvtest_go_compat::value::Map::iter);
    entries
        .map(|(key, value)| (key.text().to_owned(), Data::from(value)))
        .collect()
}

/// The name without the namespace.
fn bare(policy: &str) -> &str {
    policy.rsplit('/').next().unwrap_or(policy)
}

impl GivenValues {
    /// Takes the block, or null.
    pub fn new(block: Value<'_>, given: Given) -> Self {
        Self {
            block: block.to_document(),
            given,
            resource: String::new(),
            operation: Operation::Create,
        }
    }

    /// The values for a resource and an operation.
    #[must_use]
    pub fn of(&self, resource: &str, operation: Operation) -> Self {
        Self {
            resource: resource.to_owned(),
            operation,
            ..self.clone()
        }
    }

    /// The values for a resource in a run for an operation; `None` leaves the operation to the values, else it is CREATE.
    pub(super) fn for_resource(&self, resource: &str, operation: Option<Operation>) -> Self {
        let mut values = self.clone();
        resource.clone_into(&mut values.resource);
        values.operation = operation.or_else(|| values.operation()).unwrap_or(Operation::Create);
        values
    }

    /// The global `request.operation` if it is not an operation, which ends the run.
    pub(super) fn unknown_operation(&self) -> Option<String> {
        let values = entries(self.block.root().get("globalValues"));
        let (_, value) = values.into_iter().find(|(key, _)| key == "request.operation")?;
        let text = value.as_str()?;
        let known = ["", "CREATE", "UPDATE", "DELETE", "CONNECT"];
        (!known.contains(&text)).then(|| text.to_owned())
    }

    /// The operation that the values ask for, if any.
    pub fn operation(&self) -> Option<Operation> {
        let operation = |values: Option<Value<'_>>| {
            let values = entries(values);
            let value = values.iter().find(|(key, _)| key == "request.operation");
            value.and_then(|(_, value)| value.as_str()?.parse().ok())
        };
        let root = self.block.root();
        let own = items(root, "policies").flat_map(|policy| items(policy, "resources"));
        let mut own = own.filter(|entry| text(*entry, "name") == self.resource);
        let own = own.find_map(|entry| operation(entry.get("values")));
        own.or_else(|| operation(root.get("globalValues")))
    }

    /// Takes the described namespaces into a cluster.
    pub(crate) fn describe_namespaces(&self, world: &mut World) {
        for entry in items(self.block.root(), "namespaceSelector") {
            let labels = entries(entry.get("labels"));
            let labels = labels
                .iter()
                .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
            world.add_namespace(Namespace::with_labels(text(entry, "name"), labels));
        }
        for entry in items(self.block.root(), "namespaces") {
            let mut object = entry.to_serde();
            if let Some(fields) = object.as_object_mut() {
                fields.insert("apiVersion".to_owned(), "v1".into());
                fields.insert("kind".to_owned(), "Namespace".into());
                for key in ["spec", "status"] {
                    fields
                        .entry(key.to_owned())
                        .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
                }
            }
            world.add_namespace(Namespace {
                object: Document::from(&object),
            });
        }
    }

    /// The kind that a kind is a subresource of: its group, version, kind and plural, and the name of the subresource.
    pub(crate) fn parent_of(&self, api_version: &str, kind: &str) -> Option<([String; 4], String, bool)> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let root = self.block.root();
        let mut entries = items(root, "subresources");
        let entry = entries.find(|entry| {
            let own = entry.get("subresource").unwrap_or(Value::Null);
            text(own, "group") == group && text(own, "version") == version && text(own, "kind") == kind
        })?;
        let parent = entry.get("parentResource").unwrap_or(Value::Null);
        let name = text(entry.get("subresource").unwrap_or(Value::Null), "name");
        let name = name.split_once('/').map_or("", |(_, name)| name);
        let parts = ["group", "version", "kind", "name"].map(|key| text(parent, key).to_owned());
        let namespaced = parent.get("namespaced").and_then(Value::as_bool) == Some(true);
        Some((parts, name.to_owned(), namespaced))
    }
}

impl Values for GivenValues {
    fn variables(&self, policy: &str) -> Vec<(String, Data)> {
        let root = self.block.root();
        let mut all: BTreeMap<String, Data> = entries(root.get("globalValues")).into_iter().collect();
        for entry in items(root, "policies").filter(|entry| text(*entry, "name") == bare(policy)) {
            for own in items(entry, "resources").filter(|own| text(*own, "name") == self.resource) {
                all.extend(entries(own.get("values")));
            }
        }
        let operation = Data::from(self.operation.as_str());
        all.insert("request.operation".to_owned(), operation);
        all.into_iter().collect()
    }

    fn outside<'a>(
        &'a self,
        policy: &str,
        rule: &str,
        namespace: &'a str,
        host: &'a dyn Host,
    ) -> Box<dyn Outside + 'a> {
        let root = self.block.root();
        let policies = items(root, "policies").filter(|entry| text(*entry, "name") == bare(policy));
        let mut rules = policies.flat_map(|entry| items(entry, "rules"));
        let found = rules.find(|entry| {
            let name = text(*entry, "name");
            rule == name
                || rule.strip_prefix("autogen-") == Some(name)
                || rule.strip_prefix("autogen-cronjob-") == Some(name)
        });
        let mut values = found.map_or_else(Vec::new, |rule| entries(rule.get("values")));
        // Upstream never moves on to the next element.
        let foreach = found.map_or_else(Vec::new, |rule| entries(rule.get("foreachValues")));
        let first = |(key, list): (String, Data)| Some((key, list.as_list()?.first()?.clone()));
        values.extend(foreach.into_iter().filter_map(first));
        Box::new(SuiteSources {
            host,
            values,
            namespace,
            given: self.given,
        })
    }
}
