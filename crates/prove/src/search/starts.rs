//! Objects that a search starts from: what rules that are not CEL are about, and resources that the user has.
//!
//! A suite's resources and the parts of objects that `init` fills in show differences that constants of expressions miss, such as a
//! list in which only the second item is wrong. Every object is only a guess: the engines decide what becomes of it.
//!
//! No upstream counterpart.

use kyvtest_model::policy::Policy;
use serde_json::{Map, Value as Json, json};

use super::{REGIONS, Search, TRIES};
use crate::{Kind, Proof, replay::Replayed, seeds::seeds, solver::Solver, universe, witness::Witness};
use kyvtest_kyverno::{autogen, lens::Lens};
use kyvtest_model::kube::{RequestClass, Resource};

/// How many objects are given for one resource.
const LIMIT: usize = 240;

/// The prefixes of generated rules: those for CronJobs and those for other pod controllers.
const CRON: &str = "autogen-cronjob-";
const CONTROLLERS: &str = "autogen-";

/// Objects to start from, by what they are about.
pub(super) struct Starts<'p> {
    /// The user's resources.
    samples: &'p [Json],
    /// The name of each classic rule, generated ones included, with parts of objects that it is about.
    rules: Vec<(String, Vec<Json>)>,
}

impl<'p> Starts<'p> {
    pub(super) fn new(original: &Policy, lens: Lens, samples: &'p [Json]) -> Self {
        let rules = match original {
            Policy::Classic(policy) => autogen::rules_at(policy, lens)
                .iter()
                .map(|rule| (rule.name.value.clone(), seeds(rule)))
                .collect(),
            _ => Vec::new(),
        };
        Self { samples, rules }
    }

    /// The objects to start from for a resource, without names: the user's own first.
    pub(super) fn of(&self, resource: &Resource) -> Vec<Json> {
        let mut all: Vec<Json> = Vec::new();
        let samples = self.samples.iter().filter_map(|sample| fitted(sample, resource));
        let rules = self.rules.iter();
        let rules = rules.filter(|(name, _)| is_about(name, resource));
        // A server accepts a completed object more often; what is missing may be what matters, though.
        let seeds = rules.flat_map(|(_, seeds)| seeds).flat_map(|seed| {
            let mut whole = seed.clone();
            complete(&mut whole);
            [whole, seed.clone()]
        });
        for object in samples.chain(seeds) {
            if all.len() >= LIMIT {
                break;
            }
            if !all.contains(&object) {
                all.push(object);
            }
        }
        all
    }
}

/// Whether a rule may be about a resource: generated rules are about pod controllers only.
fn is_about(rule: &str, resource: &Resource) -> bool {
    let path = template(&resource.object_kind.kind).map_or(0, <[&str]>::len);
    if rule.starts_with(CRON) {
        path == CRON_JOB.len()
    } else if rule.starts_with(CONTROLLERS) {
        path == CONTROLLER.len()
    } else {
        true
    }
}

const CONTROLLER: [&str; 2] = ["spec", "template"];
const CRON_JOB: [&str; 4] = ["spec", "jobTemplate", "spec", "template"];

/// The path of the pod template of a pod controller; that of a Pod is empty.
fn template(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Pod" => Some(&[]),
        "CronJob" => Some(&CRON_JOB),
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            Some(&CONTROLLER)
        }
        _ => None,
    }
}

/// A sample as an object of a resource: itself if the kinds are the same, its Pod in the place of another Pod if both have one.
fn fitted(sample: &Json, resource: &Resource) -> Option<Json> {
    let kind = sample["kind"].as_str()?;
    let own = &resource.object_kind;
    if kind == own.kind && sample["apiVersion"] == json!(own.api_version()) {
        return Some(unnamed(sample.clone()));
    }
    let (from, to) = (template(kind)?, template(&own.kind)?);
    let mut pod = from.iter().try_fold(sample, |value, key| value.get(*key))?.clone();
    if from.is_empty() {
        pod = unnamed(pod);
    }
    // Controllers differ in which policy they allow; the least object has one that fits.
    if let Some(spec) = pod.get_mut("spec").and_then(Json::as_object_mut) {
        spec.remove("restartPolicy");
    }
    let whole = to.iter().rev().fold(pod, |inner, key| {
        let mut map = Map::new();
        map.insert((*key).to_owned(), inner);
        Json::Object(map)
    });
    Some(whole)
}

/// Adds what a Pod needs to be accepted: names in lists, images, ports and keys.
fn complete(value: &mut Json) {
    match value {
        Json::Object(map) => {
            for (key, inner) in map.iter_mut() {
                complete(inner);
                let needs: &[(&str, &str)] = match key.as_str() {
                    "containers" | "initContainers" | "ephemeralContainers" => &[("name", ""), ("image", "nginx")],
                    "volumes" | "env" => &[("name", "")],
                    "volumeMounts" => &[("name", ""), ("mountPath", "/x")],
                    "ports" => &[("containerPort", "80")],
                    "secretKeyRef" | "configMapKeyRef" => &[("name", "x"), ("key", "x")],
                    _ => continue,
                };
                match inner {
                    Json::Array(items) => {
                        for (number, item) in items.iter_mut().enumerate() {
                            add(item, needs, number);
                        }
                    }
                    one => add(one, needs, 0),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(complete),
        _ => {}
    }
}

/// Adds missing fields to an object. An empty value is a numbered name, digits are a number.
fn add(object: &mut Json, needs: &[(&str, &str)], number: usize) {
    let Some(map) = object.as_object_mut() else { return };
    for (key, value) in needs {
        let value = match value.parse::<u16>() {
            Ok(port) => json!(port),
            Err(_) if value.is_empty() => json!(format!("x{number}")),
            Err(_) => json!(value),
        };
        map.entry(*key).or_insert(value);
    }
}

/// An object without what names it.
fn unnamed(mut object: Json) -> Json {
    if let Some(map) = object.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        map.remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Json::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
    }
    object
}

impl<'p> Search<'p, '_> {
    /// Reviews the user's resources as they are, with every operation on them; a difference becomes a region.
    pub(super) fn try_samples(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) {
        let until = self.requests + TRIES;
        for at in 0..self.explored.len() {
            let Some((cell, _)) = self.explored.get(at) else { break };
            let cell = *cell;
            for sample in self.options.samples {
                if self.requests >= until || proof.regions.len() >= REGIONS {
                    return;
                }
                if let Some(found) = self.try_sample(solver, &cell, sample) {
                    let names = vec![universe::name(&cell)];
                    let region = self.region(found, "a resource of a suite".to_owned(), names, &[]);
                    proof.regions.push(region);
                    break;
                }
            }
        }
    }

    fn try_sample(&mut self, solver: &mut Solver<'p>, cell: &RequestClass<'_>, sample: &Json) -> Option<Replayed> {
        let kind = &cell.resource.object_kind;
        let is_same = sample["kind"] == json!(kind.kind) && sample["apiVersion"] == json!(kind.api_version());
        if !is_same || !cell.resource.subresource.is_empty() {
            return None;
        }
        let metadata = &sample["metadata"];
        let witness = Witness::new(solver, cell, &[])?;
        let witness = witness.with_names(metadata["name"].as_str(), metadata["namespace"].as_str(), None);
        self.requests += 1;
        let body = unnamed(sample.clone());
        let found = self.engines.replay(witness.scenario(cell, &body, &body))?;
        (Kind::of(found.class()) != Kind::Applicability).then_some(found)
    }
}
