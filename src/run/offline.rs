//! The stages of `kyverno test` other than validation: mutation, generation, deletion.
//!
//! Upstream counterpart: see [`kyvtest_kyverno::offline`].

use std::{collections::BTreeSet, sync::Arc};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};

use super::{
    cluster::SuiteCluster,
    response::{ResponseObjects, RuleObjects},
};
use crate::suite::{ApiResource, GlobalContextEntry, Named, Resource, Row, Suite, Values};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_kyverno::{
    autogen,
    classic::context::{Api, Given, global_value},
    offline::{Case, CloneSource, GivenValues, Stage, Surroundings, checks_images, pass, payload_pass},
};
use kyvtest_model::{
    kube::Operation,
    policy::{ClassicPolicy, Policy, PolicyId},
};

pub(super) use kyvtest_kyverno::offline::PolicyResponse as Made;

/// A suite as `kyverno test` runs it.
pub(super) struct Offline {
    case: Case,
    /// The validating rules, by classic policy; policies without one, and those that verify images, are absent.
    validating: FxHashMap<PolicyId, BTreeSet<String>>,
}

impl Offline {
    /// Prepares a suite; `None` if it only validates.
    pub(super) fn new(suite: &Suite, cluster: &SuiteCluster, compat: bool) -> Option<Self> {
        let beside = |policy: &Policy| match policy {
            Policy::Classic(policy) => policy.spec.rules.iter().any(|rule| rule.validate.is_none()),
            Policy::Validating(_) | Policy::Native(_) => false,
            _ => true,
        };
        suite.policies.policies.iter().any(beside).then(|| Self {
            case: case(suite, cluster, compat),
            validating: validating(suite),
        })
    }

    /// The names of the rules with which a classic policy takes part in validation; `None` if it does not.
    pub(super) fn validating_rules(&self, policy: &PolicyId) -> Option<&BTreeSet<String>> {
        self.validating.get(policy)
    }

    /// One pass over a resource, see [`pass`].
    ///
    /// # Errors
    /// The message with which `kyverno test` ends.
    pub(super) fn pass(
        &self,
        resource: (&Resource, &Document),
        operation: Option<Operation>,
        accepted: &[&Arc<ClassicPolicy>],
        host: &dyn Host,
        validate: &mut dyn FnMut(Stage, &mut Document, usize),
    ) -> Result<Vec<Made>, String> {
        pass(&self.case, resource, operation, accepted, host, validate)
    }

    /// One pass over a JSON payload, see [`payload_pass`].
    ///
    /// # Errors
    /// The message with which `kyverno test` ends.
    pub(super) fn payload_pass(&self, name: &str, payload: &Document, host: &dyn Host) -> Result<Vec<Made>, String> {
        payload_pass(&self.case, name, payload, host)
    }
}

fn validating(suite: &Suite) -> FxHashMap<PolicyId, BTreeSet<String>> {
    let policies = suite.policies.classic().filter(|policy| !checks_images(policy));
    let rules = policies.map(|policy| {
        let all = autogen::all_rules(policy);
        let own = all.iter().filter(|rule| rule.validate.is_some());
        let names: BTreeSet<String> = own.map(|rule| rule.name.value.clone()).collect();
        (policy.id(), names)
    });
    rules.filter(|(_, names)| !names.is_empty()).collect()
}

pub(super) fn objects(response: &mut Made, resource: &Document) -> ResponseObjects {
    let rules = response.rules.iter_mut().map(|rule| RuleObjects {
        rule_type: rule.rule_type,
        target: rule.target.take(),
        generated: std::mem::take(&mut rule.generated),
    });
    ResponseObjects {
        rules: rules.collect(),
        resource: resource.clone(),
        patched: response.patched.take(),
    }
}

fn case(suite: &Suite, cluster: &SuiteCluster, compat: bool) -> Case {
    let surroundings = surroundings(suite);
    let mut policies = suite.policies.clone();
    // The schema check took place when the suite was loaded.
    policies.refused = None;
    Case {
        file: "policy.yaml",
        applies: false,
        in_cluster: !compat,
        policies,
        exceptions: suite.exceptions.clone(),
        resources: suite.resources.clone(),
        payload: None,
        targets: suite.targets.clone(),
        clone_sources: clone_sources(suite),
        values: given_values(suite, compat),
        surroundings,
        operation: None,
        user: cluster.user.clone(),
        roles: cluster.roles.clone(),
        cluster_roles: cluster.cluster_roles.clone(),
    }
}

/// The values of a suite, and which parts of the world outside it describes.
pub(crate) fn given_values(suite: &Suite, compat: bool) -> GivenValues {
    let given = Given {
        cluster: suite.cluster.is_some(),
        api_calls: suite.test.iter().any(|test| !test.api_call_responses.is_empty()),
        global_context: !suite.global_context.is_empty(),
        images: suite.context.iter().any(|context| !context.images.is_empty()),
        api: if compat { Api::Fake } else { Api::Server },
    };
    GivenValues::new(Document::from(&values(&suite.values)).root(), given)
}

/// The files from which rules clone: the first row with a file that names policy and rule literally decides.
fn clone_sources(suite: &Suite) -> Vec<CloneSource> {
    let mut sources: Vec<CloneSource> = Vec::new();
    for policy in suite.policies.classic() {
        let id = policy.id();
        let name = match id.namespace.as_str() {
            "" => id.name.clone(),
            namespace => format!("{namespace}/{}", id.name),
        };
        for rule in autogen::all_rules(policy) {
            let names = |row: &&Row| {
                row.policy.value == name && row.rule.as_ref().is_some_and(|own| own.value == rule.name.value)
            };
            let row = suite.rows().iter().find(names);
            let path = row.and_then(|row| row.clone_source_resource.as_ref());
            if let Some(file) = path.and_then(|path| suite.expected(&path.value)) {
                let own = Some((id.clone(), rule.name.value.clone()));
                // Policies with one name share their sources.
                if sources.iter().any(|source| source.rule == own) {
                    continue;
                }
                sources.push(CloneSource {
                    rule: own,
                    objects: file.objects.clone(),
                });
            }
        }
    }
    sources
}

fn surroundings(suite: &Suite) -> Surroundings {
    let context = suite.context.as_ref();
    let described = context.into_iter().flat_map(|context| &context.resources);
    let images = context.into_iter().flat_map(|context| &context.images);
    let cluster = suite.cluster.as_ref().map(|cluster| {
        let objects = cluster.resources.iter();
        objects.map(|object| object.value.clone()).collect()
    });
    let crds = suite.cluster.iter().flat_map(|cluster| &cluster.crds);
    let calls = suite.test.iter().flat_map(|test| &test.api_call_responses);
    Surroundings {
        cluster,
        described: described.map(|object| object.value.clone()).collect(),
        images: images
            .map(|(reference, image)| (reference.value.clone(), image.value.clone()))
            .collect(),
        api_calls: calls.map(|call| (call.key(), call.answer())).collect(),
        globals: suite.global_context.iter().map(global).collect(),
        image_mocks: suite.image_mocks.clone(),
        definitions: crds.map(|definition| definition.value.clone()).collect(),
    }
}

fn global(entry: &GlobalContextEntry) -> (String, Result<Data, String>) {
    let name = entry.name.value.as_str();
    let data = entry.data();
    let path = entry.field_path.as_ref().map_or("", |path| path.value.as_str());
    let projections: Vec<(&str, &str)> = entry
        .projections
        .iter()
        .map(|(name, path)| (name.value.as_str(), path.value.as_str()))
        .collect();
    (name.to_owned(), global_value(name, &data, path, &projections))
}

/// The values in the format of a values file.
fn values(values: &Values) -> Json {
    let named = |values: &[Named]| -> Map<String, Json> {
        let pairs = values.iter();
        pairs
            .map(|(key, value)| (key.value.clone(), value.value.root().to_serde()))
            .collect()
    };
    let policies = values.policies.iter().map(|policy| {
        let resources = policy.resources.iter();
        let resources = resources.map(|entry| json!({"name": entry.name.value, "values": named(&entry.values)}));
        let rules = policy.rules.iter().map(|entry| {
            let foreach: Map<String, Json> = entry
                .foreach_values
                .iter()
                .map(|(key, list)| {
                    let list = list.iter().map(|value| value.value.root().to_serde());
                    (key.value.clone(), list.collect())
                })
                .collect();
            json!({"name": entry.name.value, "values": named(&entry.values), "foreachValues": foreach})
        });
        json!({
            "name": policy.name.value,
            "resources": resources.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
        })
    });
    let selectors = values.namespace_selectors.iter().map(|entry| {
        let labels = entry.labels.iter();
        let labels: Map<String, Json> = labels
            .map(|(key, value)| (key.value.clone(), value.value.as_str().into()))
            .collect();
        json!({"name": entry.name.value, "labels": labels})
    });
    let api = |resource: &ApiResource| {
        json!({
            "name": resource.name, "group": resource.group, "version": resource.version, "kind": resource.kind,
            "namespaced": resource.namespaced,
        })
    };
    let subresources = values.subresources.iter();
    let subresources =
        subresources.map(|entry| json!({"subresource": api(&entry.subresource), "parentResource": api(&entry.parent)}));
    json!({
        "globalValues": named(&values.global_values),
        "policies": policies.collect::<Vec<_>>(),
        "namespaceSelector": selectors.collect::<Vec<_>>(),
        "namespaces": values.namespaces.iter().map(|entry| entry.object.root().to_serde()).collect::<Vec<_>>(),
        "subresources": subresources.collect::<Vec<_>>(),
    })
}
