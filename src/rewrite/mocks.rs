//! The objects, entries and images that a rewritten test file describes in place of values, and which rows can share them.
//!
//! Upstream counterpart: none; what `kyverno test` makes of the result is in `pkg/cel/libs/fake_context.go` (Kyverno 1.19): an object is
//! found by its exact namespace, a list ignores label selectors and is an error if no object of its type is described anywhere.

use std::collections::{BTreeMap, BTreeSet};

use kyvtest_migrate::Replaced;
use kyvtest_model::kube::{Discovery, GroupVersionKind, GroupVersionResource};
use serde_json::{Value as Json, json};

use super::{
    inverse,
    lookups::{self, Lookup, Target},
};
use crate::suite::Suite;

/// How texts in values are read where a rule may take them for another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As texts, if that is possible.
    Texts,
    /// As what is written in them, if that is possible.
    Values,
}

/// What rows look up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Mocks {
    lookups: Vec<Lookup>,
    found: BTreeMap<Target, Json>,
}

/// Rows whose lookups one test document can describe.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Group {
    pub(super) rows: BTreeSet<usize>,
    pub(super) mocks: Mocks,
}

/// Divides the rows of a suite by what they look up; the first group has the rows that look nothing up.
pub(super) fn groups(suite: &Suite, policies: &[Replaced], reading: Reading) -> Vec<Group> {
    let mut groups = vec![Group::default()];
    for (index, row) in suite.rows().iter().enumerate() {
        let lookups = lookups::of_row(suite, row, policies);
        let fits = groups
            .iter()
            .position(|group| group.mocks.with(&lookups, reading).is_some());
        let alone = || Mocks::default().with(&lookups, reading);
        match fits {
            Some(at) => {
                if let (Some(group), false) = (groups.get_mut(at), lookups.is_empty()) {
                    group.mocks = group.mocks.with(&lookups, reading).unwrap_or_default();
                }
                groups[at].rows.insert(index);
            }
            None => match alone() {
                Some(mocks) => groups.push(Group {
                    rows: BTreeSet::from([index]),
                    mocks,
                }),
                None => {
                    groups[0].rows.insert(index);
                }
            },
        }
    }
    groups.retain(|group| !group.rows.is_empty());
    groups
}

impl Mocks {
    /// With more lookups; `None` if they contradict each other, or no data is found for one.
    fn with(&self, lookups: &[Lookup], reading: Reading) -> Option<Self> {
        let mut mocks = self.clone();
        lookups.iter().all(|lookup| mocks.add(lookup, reading)).then_some(mocks)
    }

    fn add(&mut self, lookup: &Lookup, reading: Reading) -> bool {
        let target = &lookup.target;
        let start = self.found.get(target).cloned().unwrap_or_else(|| match target {
            Target::List { .. } => json!({"items": []}),
            _ => json!({}),
        });
        let mut values = match target {
            // ConfigMaps hold texts only.
            Target::Object { resource, .. } if resource == "configmaps" => match &lookup.value {
                Json::Number(_) | Json::Bool(_) => vec![json!(lookup.value.to_string())],
                value => vec![value.clone()],
            },
            _ => inverse::meanings(&lookup.value),
        };
        if reading == Reading::Values && values.len() > 1 {
            values.rotate_left(1);
        }
        for value in values {
            let Some(document) = inverse::document(&lookup.path, &value, &start).filter(Json::is_object) else {
                continue;
            };
            let mut others = self.lookups.iter().filter(|other| other.target == *target);
            if others.all(|other| inverse::holds(&other.path, &other.value, &document)) {
                self.found.insert(target.clone(), document);
                self.lookups.push(Lookup {
                    value,
                    ..lookup.clone()
                });
                return true;
            }
        }
        false
    }

    /// The objects.
    ///
    /// # Errors
    /// The resource whose kind Kyverno's command line does not know.
    pub(super) fn objects(&self) -> Result<Vec<Json>, String> {
        let discovery = Discovery::kubernetes();
        let mut objects = Vec::new();
        for (target, found) in &self.found {
            let (api_version, resource, namespace) = match target {
                Target::Object {
                    api_version,
                    resource,
                    namespace,
                    ..
                }
                | Target::List {
                    api_version,
                    resource,
                    namespace,
                } => (api_version, resource, namespace),
                Target::Global(_) | Target::Image(_) => continue,
            };
            let kind = GroupVersionKind::from_api_version(api_version, "");
            let name = GroupVersionResource {
                group: kind.group,
                version: kind.version,
                resource: resource.clone(),
            };
            let served = discovery.by_resource(&name, "").ok_or_else(|| resource.clone())?;
            let object = |found: &Json, namespace: &str, name: &str| {
                let mut object = json!({"apiVersion": api_version, "kind": served.kind, "metadata": {"name": name}});
                if !namespace.is_empty() {
                    object["metadata"]["namespace"] = json!(namespace);
                }
                merge(&mut object, found);
                object
            };
            match target {
                Target::Object { name, .. } => objects.push(object(found, namespace, name)),
                _ => {
                    let items = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                    if items.is_empty() {
                        // A list of a type that is not described at all is an error.
                        objects.push(object(&json!({}), "elsewhere", "elsewhere"));
                    }
                    for (index, item) in items.iter().enumerate() {
                        objects.push(object(item, namespace, &format!("{resource}-{}", index + 1)));
                    }
                }
            }
        }
        Ok(objects)
    }

    /// The images, as a context file describes them.
    pub(super) fn images(&self) -> Vec<Json> {
        let images = self.found.iter().filter_map(|(target, found)| {
            let Target::Image(reference) = target else { return None };
            let mut image = json!({"image": reference});
            for (classic, new) in [
                ("manifest", "manifest"),
                ("configData", "config"),
                ("manifestList", "imageIndex"),
            ] {
                if let Some(part) = found.get(classic) {
                    image[new] = part.clone();
                }
            }
            Some(image)
        });
        images.collect()
    }

    /// The entries of the global context.
    pub(super) fn globals(&self) -> Vec<Json> {
        let globals = self.found.iter().filter_map(|(target, found)| {
            let Target::Global(name) = target else { return None };
            Some(json!({"name": name, "data": found}))
        });
        globals.collect()
    }
}

/// Adds the members of an object to another.
fn merge(into: &mut Json, from: &Json) {
    match (into, from) {
        (Json::Object(into), Json::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Json::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
