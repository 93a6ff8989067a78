//! What classic rules look up outside of a request, if the values of a suite replace it: the objects, lists, entries of the global
//! context and images, each with the expression that reads it and the value that the suite gives.
//!
//! Upstream counterpart: `pkg/engine/context/loaders` and `cmd/cli/kubectl-kyverno/store/contextloader.go` (Kyverno 1.19). Contexts of
//! a rule and of its loops are entered as a rule is evaluated, so that names and namespaces may come from the resource.

use std::sync::Arc;

use kyvtest_cel::host::NoHost;
use kyvtest_go_compat::value::Data;
use kyvtest_kyverno::{
    autogen,
    classic::{
        context::{ApiPath, Context, Entry, NoOutside, Source},
        values::Values as _,
        variables::{substitute_all, substitute_string},
    },
    offline::GivenValues,
};
use kyvtest_migrate::Replaced;
use kyvtest_model::{kube::Operation, policy::ClassicPolicy};
use serde_json::Value as Json;

use super::{decisions::partners, inverse};
use crate::{
    run::given_values,
    suite::{Resource, Row, Suite},
};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Object {
        api_version: String,
        resource: String,
        namespace: String,
        name: String,
    },
    List {
        api_version: String,
        resource: String,
        namespace: String,
    },
    /// An entry of the global context.
    Global(String),
    Image(String),
}

/// Something that a rule looks up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lookup {
    pub(super) target: Target,
    /// The expression on what is found there.
    pub(super) path: String,
    /// The value that the suite gives it.
    pub(super) value: Json,
}

/// The lookups of the rules that a row is about, and of those that share a policy with them, on its resources.
pub(super) fn of_row(suite: &Suite, row: &Row, policies: &[Replaced]) -> Vec<Lookup> {
    let mut classic = suite.policies.classic();
    let Some(policy) =
        classic.find(|policy| row.policy.value.rsplit('/').next() == Some(policy.metadata.name.value.as_str()))
    else {
        return Vec::new();
    };
    let named = |resource: &&Resource| {
        let mut names = row.resources.iter().flatten();
        names.any(|name| match name.value.rsplit_once('/') {
            Some((namespace, name)) => resource.name == name && resource.namespace == namespace,
            None => resource.name == name.value,
        })
    };
    let mut resources: Vec<&Resource> = suite.resources.iter().filter(named).collect();
    if resources.is_empty() {
        resources = suite.resources.iter().collect();
    }
    let rules = row.rule.as_ref().map(|rule| {
        let replaced = policies.iter().find(|replaced| replaced.key == row.policy.value);
        let mut rules = replaced.map_or_else(Vec::new, |replaced| partners(&replaced.migration, &rule.value));
        rules.push(rule.value.clone());
        rules
    });
    let values = given_values(suite, true);
    let mut found: Vec<Lookup> = Vec::new();
    for lookup in resources
        .into_iter()
        .flat_map(|resource| of_resource(&values, policy, rules.as_deref(), resource))
    {
        if !found.contains(&lookup) {
            found.push(lookup);
        }
    }
    found
}

fn of_resource(
    values: &GivenValues,
    policy: &ClassicPolicy,
    names: Option<&[String]>,
    resource: &Resource,
) -> Vec<Lookup> {
    let values = values.of(&resource.name, Operation::Create);
    let policy_name = policy.metadata.name.value.as_str();
    let mut found = Vec::new();
    for rule in autogen::rules_for(policy, &resource.kind) {
        let own = rule.name.value.as_str();
        let plain = own.strip_prefix("autogen-").unwrap_or(own);
        let plain = plain.strip_prefix("cronjob-").unwrap_or(plain);
        let is_meant = |names: &[String]| names.iter().any(|name| name == own || name == plain);
        if !names.is_none_or(is_meant) {
            continue;
        }
        let outside = values.outside(policy_name, own, "", &NoHost);
        let mut variables = values.variables(policy_name);
        variables.extend(outside.rule_values().iter().cloned());
        let mut given = Context::new(&NoOutside);
        let mut context = Context::new(&NoOutside);
        context.add_map(&request(resource));
        context.add_images(Data::from(resource.object.root()));
        for (key, value) in &variables {
            // A key that is not well formed is an error of the suite.
            let _ = given.add_variable(key, value);
            let _ = context.add_variable(key, value);
        }
        let mut search = Search {
            given: given.data().clone(),
            context,
            found: Vec::new(),
        };
        search.rule(&Data::from(rule.source.document().root()));
        found.append(&mut search.found);
    }
    found
}

/// What a rule sees of a request to create a resource.
fn request(resource: &Resource) -> Data {
    let text = |key: &str, text: &str| (Arc::from(key), Data::from(text));
    let request = Data::from_iter([
        text("operation", "CREATE"),
        text("name", &resource.name),
        text("namespace", &resource.namespace),
        (Arc::from("object"), Data::from(resource.object.root()).with_doubles()),
    ]);
    Data::from_iter([(Arc::from("request"), request)])
}

/// The search for lookups in a rule.
struct Search {
    /// The values of the suite.
    given: Data,
    context: Context<'static>,
    found: Vec<Lookup>,
}

impl Search {
    fn rule(&mut self, rule: &Data) {
        self.entries(rule.get("context"));
        for part in ["validate", "mutate", "generate"] {
            let Some(part) = rule.get(part) else { continue };
            for part in [Some(part), part.get("validate")].into_iter().flatten() {
                self.loops(part.get("foreach"), 0);
            }
        }
    }

    fn loops(&mut self, loops: Option<&Data>, nesting: usize) {
        for one in loops.and_then(Data::as_list).unwrap_or_default() {
            let list = one.get("list").and_then(Data::as_str).unwrap_or_default();
            let elements = self.context.query(list).unwrap_or_default();
            for (index, element) in elements.as_list().unwrap_or_default().iter().enumerate() {
                self.context.checkpoint();
                self.context.add_element(element, index, nesting);
                self.entries(one.get("context"));
                self.loops(one.get("foreach"), nesting + 1);
                self.context.restore();
            }
        }
    }

    fn entries(&mut self, entries: Option<&Data>) {
        let entries = entries.map(Entry::read_all).unwrap_or_default();
        // Entries other than variables have no source here: the values replace them.
        let _ = self.context.load_entries(&entries);
        for entry in &entries {
            let Some(value) = self.given.get(&entry.name).cloned() else {
                continue;
            };
            let Some((target, path)) = self.target(&entry.source) else {
                continue;
            };
            let value = inverse::with_integers(value.to_document().root().to_serde());
            if path.is_empty() {
                leaves(&target, "", &value, &mut self.found);
            } else {
                self.found.push(Lookup { target, path, value });
            }
        }
    }

    fn text(&mut self, text: &str) -> Option<String> {
        let text = substitute_string(text, &mut self.context).ok()?;
        text.as_str().map(str::to_owned)
    }

    /// What an entry reads, and by which expression, which is empty for all of it; `None` if a test file cannot describe it.
    fn target(&mut self, source: &Source) -> Option<(Target, String)> {
        match source {
            Source::Variable { .. } => None,
            Source::ConfigMap { name, namespace } => {
                let namespace = self.text(namespace).filter(|namespace| !namespace.is_empty());
                let target = Target::Object {
                    api_version: "v1".to_owned(),
                    resource: "configmaps".to_owned(),
                    namespace: namespace.unwrap_or_else(|| "default".to_owned()),
                    name: self.text(name)?,
                };
                Some((target, String::new()))
            }
            Source::ApiCall { call, jmes_path, .. } => {
                let call = substitute_all(call, &mut self.context).ok()?;
                let text = |key: &str| call.get(key).and_then(Data::as_str).unwrap_or_default();
                if text("method") == "POST" || call.get("service").is_some_and(|service| !service.is_null()) {
                    return None;
                }
                let path = ApiPath::parse(text("urlPath"))?;
                let (api_version, resource) = (path.api_version.clone(), path.resource.to_lowercase());
                let namespace = path.namespace.to_owned();
                let target = match path.name {
                    "" => Target::List {
                        api_version,
                        resource,
                        namespace,
                    },
                    name => Target::Object {
                        api_version,
                        resource,
                        namespace,
                        name: name.to_owned(),
                    },
                };
                Some((target, self.text(jmes_path)?))
            }
            Source::GlobalReference(reference) => {
                let text = |key: &str| reference.get(key).and_then(Data::as_str).unwrap_or_default();
                // A projection is part of an entry that the suite would have to describe as a whole.
                let name = Some(text("name")).filter(|name| !name.is_empty() && !name.contains('.'))?;
                Some((Target::Global(name.to_owned()), self.text(text("jmesPath"))?))
            }
            Source::ImageRegistry { reference, jmes_path } => {
                Some((Target::Image(self.text(reference)?), self.text(jmes_path)?))
            }
        }
    }
}

/// Each member of a value by its own path, so that rules may read different members of one object.
fn leaves(target: &Target, path: &str, value: &Json, found: &mut Vec<Lookup>) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            let dot = if path.is_empty() { "" } else { "." };
            for (key, value) in members {
                leaves(
                    target,
                    &format!("{path}{dot}{}", Json::from(key.as_str())),
                    value,
                    found,
                );
            }
        }
        _ => found.push(Lookup {
            target: target.clone(),
            path: if path.is_empty() {
                "@".to_owned()
            } else {
                path.to_owned()
            },
            value: value.clone(),
        }),
    }
}
