//! Guided search: requests made from the words and constants of both sides, from their patches and from objects of the user, put
//! to the engines of both sides. Nothing is shared with the proofs but the engines.

use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{Operation, RequestClass},
    policy::{Anchor, AnchorKind, Rule},
};
use serde_json::{Map, Value as Json, json};

use super::{Both, MutatingSide};
use crate::{
    body::{Counterexample, hunt::samples},
    seeds::{merge, seeds},
    shrink::smallest,
    witness::Scenario,
};

/// How many times more requests are made than are tried: a server refuses many of them.
const MORE: u64 = 4;

/// What requests are made from.
pub(super) struct Hunt {
    sources: Vec<Json>,
    /// Objects of the user.
    given: Vec<Json>,
    /// Parts of objects that mutate rules are about.
    parts: Vec<Json>,
}

impl Hunt {
    pub(super) fn new(sides: [&MutatingSide; 2], given: &[Json]) -> Self {
        let rules = || sides.iter().flat_map(|side| side.rules());
        let parts: Vec<Json> = rules().flat_map(parts).collect();
        Self {
            sources: sides.iter().flat_map(|side| side.sources()).collect(),
            given: given.to_vec(),
            parts,
        }
    }

    /// Tries requests of a class; one that a side changed is tried again with the new object.
    pub(super) fn search(
        &mut self,
        both: &mut Both<'_>,
        cell: &RequestClass<'_>,
        tries: u64,
    ) -> Option<Counterexample> {
        let mut made = samples(&self.sources, cell, tries.saturating_mul(MORE));
        let kind = &cell.resource.object_kind;
        let own = self.given.iter().filter(|object| {
            object["kind"] == kind.kind.as_str() && object["apiVersion"] == kind.api_version().as_str()
        });
        let mut given = Vec::new();
        if cell.resource.subresource.is_empty() {
            for (object, scenario) in own.zip(&made) {
                given.extend(with_object(scenario, object));
            }
        }
        for (number, scenario) in made.iter_mut().enumerate() {
            let chosen = self.parts.iter().enumerate();
            let chosen = chosen.filter(|(at, _)| (number >> (at % 6)) & 1 == 1);
            let part = chosen.fold(
                Json::Null,
                |all, (_, part)| if all.is_null() { part.clone() } else { merge(&all, part) },
            );
            if part.is_object() && number % 4 != 3 {
                let mut object = merge(&scenario.request.object.root().to_serde(), &part);
                if number % 4 == 1 {
                    put_other_first(&mut object, &part);
                }
                if let Some(shaped) = with_object(scenario, &object) {
                    *scenario = shaped;
                }
            }
        }
        let until = both.requests + tries;
        for scenario in given.into_iter().chain(made) {
            if both.options.is_stopped() || both.requests >= until {
                return None;
            }
            if let Some(found) = both.replay(&scenario) {
                return Some(found);
            }
        }
        None
    }
}

/// Parts of objects that a mutate rule is about: what its conditions and the anchors of its patches ask for, and what it writes.
pub fn parts(rule: &Rule) -> Vec<Json> {
    let mut parts = seeds(rule);
    let mutate = rule.mutate.as_ref().map(|mutate| mutate.document().root().to_serde());
    let mutate = mutate.unwrap_or_default();
    let blocks = mutate["foreach"].as_array().into_iter().flatten();
    let patches = blocks.map(|block| &block["patchStrategicMerge"]);
    for patch in patches.chain([&mutate["patchStrategicMerge"]]) {
        parts.extend([met(patch), filled(patch)]);
    }
    parts.retain(|part| part.as_object().is_some_and(|map| !map.is_empty()));
    parts
}

/// Puts an element with another name before those that a part is about: patches may change the order of a list.
fn put_other_first(object: &mut Json, part: &Json) {
    match (object, part) {
        (Json::Object(fields), Json::Object(parts)) => {
            for (key, part) in parts {
                if let Some(field) = fields.get_mut(key) {
                    put_other_first(field, part);
                }
            }
        }
        (Json::Array(items), Json::Array(_)) => {
            if let Some(mut other) = items.first().filter(|item| item["name"].is_string()).cloned() {
                other["name"] = json!("other");
                items.insert(0, other);
            }
        }
        _ => {}
    }
}

/// The request with another object that keeps its name; on an UPDATE the stored object keeps what it has.
fn with_object(scenario: &Scenario, object: &Json) -> Option<Scenario> {
    if scenario.request.operation == Operation::Delete || !object.is_object() {
        return None;
    }
    let mut scenario = scenario.clone();
    let before = scenario.request.object.root().to_serde();
    let mut object = object.clone();
    for key in ["name", "namespace"] {
        let own = before["metadata"][key].clone();
        if own.is_null() {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove(key);
            }
        } else {
            object["metadata"][key] = own;
        }
    }
    scenario.request.object = Document::from(&object);
    Some(scenario)
}

/// The smallest request with a difference of the same class.
pub(super) fn shrink(both: &mut Both<'_>, found: Counterexample) -> Counterexample {
    let class = found.class();
    let who = |found: &Counterexample| (found.objects().each_ref().map(Option::is_some), found.changed);
    let wanted = who(&found);
    let sent = smallest(found.scenario().clone(), &mut |tried: &Scenario| {
        both.replay(tried)
            .is_some_and(|smaller| smaller.class() == class && who(&smaller) == wanted)
    });
    both.replay(&sent).unwrap_or(found)
}

/// A text that a pattern matches.
fn example(pattern: &str) -> String {
    let one = pattern.split(['|', '&']).next().unwrap_or_default().trim();
    let one = one.trim_start_matches(['>', '<', '=', '!', ' ']);
    one.replace("?*", "x").replace('*', "x").replace('?', "y")
}

/// An object that meets the conditions of a patch.
fn met(patch: &Json) -> Json {
    match patch {
        Json::Object(map) => {
            let mut met = Map::new();
            for (written, value) in map {
                match Anchor::parse(written).map(|anchor| (anchor.kind, anchor.key.to_owned())) {
                    Some((AnchorKind::Condition | AnchorKind::Global, key)) => {
                        met.insert(key, filled(value));
                    }
                    Some(_) => {}
                    None => {
                        let inner = self::met(value);
                        if !inner.is_null() {
                            met.insert(written.clone(), inner);
                        }
                    }
                }
            }
            if met.is_empty() { Json::Null } else { Json::Object(met) }
        }
        Json::Array(items) => {
            let met: Vec<Json> = items.iter().map(met).filter(|item| !item.is_null()).collect();
            if met.is_empty() { Json::Null } else { Json::Array(met) }
        }
        _ => Json::Null,
    }
}

/// A patch as an object that has all of its fields.
fn filled(patch: &Json) -> Json {
    match patch {
        Json::Object(map) => {
            let fields = map.iter().filter(|(key, _)| !key.contains("{{"));
            let fields = fields.map(|(written, value)| {
                let key = Anchor::parse(written).map_or(written.as_str(), |anchor| anchor.key);
                (key.to_owned(), filled(value))
            });
            Json::Object(fields.filter(|(_, value)| !value.is_null()).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(filled).collect()),
        Json::String(text) if text.contains("{{") => Json::Null,
        Json::String(text) => json!(example(text)),
        other => other.clone(),
    }
}
