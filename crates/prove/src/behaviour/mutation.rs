//! The behaviours of policies that change objects: which requests they match, and whether they change the object, leave it as
//! it is, skip it or fail.
//!
//! The match part is that of a policy which validates the same requests ([`matching_as`]), so that matching is described once.
//! What becomes of a request is what the mutating webhooks make of it.
//!
//! No upstream counterpart. Known limits: exceptions to MutatingPolicies count in the outcome only, native counterparts are not
//! compared, and rules for existing objects have no behaviours.

use serde_json::{Value as Json, json};

use super::{
    Behaviours, Search, Seen, explored,
    review::{Mutation, Reviewed, Reviewer},
};
use crate::{
    Options, Target,
    body::mutation::{MutatingSide, parts},
    candidates::Plans,
    mutation::{Phases, Prepared},
    server::{Data, Server},
    sides::LoweredSides,
    solver::Solver,
    universe,
    witness::Scenario,
};
use kyvtest_cel::host::{Host, Mocks};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{diagnostic::Sources, yaml};
use kyvtest_model::{
    compare::Divergence,
    kube::{Discovery, Environment, Request, RequestClass, World},
    policy::{self, Loaded, Metadata, Policy, Purpose},
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// How many outcomes of a group are searched for.
const WANTED: usize = 4;

/// Finds the behaviours of a policy that changes objects, and which of them requests exercise.
pub fn mutating_behaviours(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    tried: &[Request],
    world: &World,
    host: &dyn Host,
) -> Behaviours {
    let mut found = Behaviours::default();
    let loaded = Loaded {
        policies: vec![original.clone()],
        exceptions: exceptions.classic.to_vec(),
        cel_exceptions: exceptions.cel.to_vec(),
        ..Loaded::default()
    };
    let Some(matching) = matching_as(original).filter(|_| MutatingSide::concerns(&loaded)) else {
        return found;
    };
    let universe = universe::with_unknown(discovery);
    let side = match MutatingSide::new(loaded, &universe, options.layer) {
        Ok(side) => side,
        Err(message) => {
            found.note = message;
            return found;
        }
    };
    let target = Target::default();
    let sides = LoweredSides::new(
        &matching,
        exceptions,
        &target,
        &options.config,
        options.layer,
        &universe,
    );
    if let Some(first) = sides.inexact.first() {
        found.note.clone_from(first);
    }
    let engine = Engine {
        side,
        server: Server::new(&universe, Vec::new()).without_service_accounts(),
        discovery: &universe,
    };
    let mut solver = Solver::default();
    // Mutating webhooks do not get every operation.
    let sees = |cell: &RequestClass<'_>| engine.side.may_see(cell, &universe);
    let explored = explored((&sides, &sees), &universe, &mut solver, options, &mut found.note);
    let seen: Vec<Seen<'_>> = tried
        .iter()
        .map(|request| {
            let environment = Environment::new(world, discovery, host);
            let fate = engine.evaluate(request, environment).fate(super::Side::Kyverno);
            Seen::new(request, (&sides, &sees), &universe, world, (fate, None))
        })
        .collect();
    let parts = seeds(original, &engine.side);
    let search = Search {
        solver,
        reviewer: &engine,
        sides: &sides,
        explored: &explored,
        has_native: false,
        plans: Plans::new(&matching, &sides.bodies),
        seeds: None,
        parts: &parts,
        prover: None,
        proofs: 0,
        made: 0,
    };
    search.list(&seen, &mut found);
    found
}

/// The webhooks that change objects.
struct Engine<'u> {
    side: MutatingSide,
    server: Server,
    discovery: &'u Discovery,
}

impl Engine<'_> {
    fn evaluate(&self, request: &Request, environment: Environment<'_>) -> Reviewed {
        let prepared = Prepared::new(&self.server, request, Data::Raw);
        let phases = Phases {
            server: &self.server,
            prepared: &prepared,
            environment,
        };
        let (verdict, object, changed) = self.side.review(phases);
        Reviewed {
            kyverno: verdict,
            native: Verdict {
                status: Status::NoMatch,
                effect: Effect::Admit,
                message: String::new(),
                trace: Trace::of(Part::Match),
            },
            mutation: Some(Mutation { changed, object }),
        }
    }
}

impl Reviewer for Engine<'_> {
    fn review(&self, scenario: &Scenario) -> Reviewed {
        let mocks = Mocks::new();
        let environment = Environment::new(&scenario.world, self.discovery, &mocks);
        self.evaluate(&scenario.request, environment)
    }

    fn divergence(&self, _: &Scenario, _: &Reviewed) -> Option<Divergence> {
        None
    }

    fn mutates(&self) -> bool {
        true
    }

    fn wanted(&self) -> Option<usize> {
        Some(WANTED)
    }
}

/// Parts of objects that the policy is about.
fn seeds(original: &Policy, side: &MutatingSide) -> Vec<Json> {
    let mut seeds: Vec<Json> = match original {
        Policy::Classic(policy) => policy.spec.rules.iter().flat_map(parts).collect(),
        _ => Vec::new(),
    };
    // Labels and annotations with the words of the policy.
    let mut words = Vec::new();
    for source in side.sources() {
        conditions(&source, &mut words);
    }
    for key in words.iter().take(KEYS) {
        for value in words.iter().take(VALUES) {
            for map in ["labels", "annotations"] {
                seeds.push(json!({"metadata": {map: {key.as_str(): value}}}));
            }
        }
    }
    seeds
}

/// How many words of a policy are tried as keys and as values.
const KEYS: usize = 12;
const VALUES: usize = 8;

/// Words that lead to labels and annotations, and are none.
const STRUCTURE: [&str; 12] = [
    "object",
    "Object",
    "oldObject",
    "request",
    "metadata",
    "labels",
    "annotations",
    "spec",
    "orValue",
    "has",
    "name",
    "namespace",
];

/// The words of everything that decides whether and what a policy changes.
fn conditions(source: &Json, words: &mut Vec<String>) {
    match source {
        Json::Array(items) => items.iter().for_each(|item| conditions(item, words)),
        Json::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "preconditions" | "matchConditions" | "mutate" | "mutations" | "variables" => texts(value, words),
                    _ => conditions(value, words),
                }
            }
        }
        _ => {}
    }
}

/// The words in the texts of a part of a policy, each once.
fn texts(source: &Json, words: &mut Vec<String>) {
    match source {
        Json::String(text) => {
            let of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            for word in text.split(|c| !of_word(c)) {
                let known = STRUCTURE.contains(&word) || words.iter().any(|known| known == word);
                let usable = word.len() < 64 && word.starts_with(|c: char| c.is_ascii_alphanumeric());
                if usable && !known {
                    words.push(word.to_owned());
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| texts(item, words)),
        Json::Object(fields) => fields.values().for_each(|value| texts(value, words)),
        _ => {}
    }
}

/// A validation that always holds, and is evaluated: a constant one decides nothing.
const NEVER_CONSTANT: &str = "request.operation != 'NONE'";

/// A policy that validates the requests that a policy changes; `None` if it changes none.
fn matching_as(original: &Policy) -> Option<Policy> {
    let (api_version, kind, spec, metadata) = match original {
        Policy::Classic(policy) => {
            let mut spec = policy.spec.source.document().root().to_serde();
            let rules = spec["rules"].as_array_mut()?;
            rules.retain(|rule| rule["mutate"].is_object() && rule["mutate"]["targets"].is_null());
            if rules.is_empty() {
                return None;
            }
            for rule in rules {
                let fields = rule.as_object_mut()?;
                fields.remove("mutate");
                // Nothing is denied: the outcome is that of the mutation.
                let never = json!({"key": "a", "operator": "Equals", "value": "b"});
                let validate = json!({"message": "matched", "deny": {"conditions": {"any": [never]}}});
                fields.insert("validate".to_owned(), validate);
            }
            ("kyverno.io/v1", policy.kind.name(), spec, &policy.metadata)
        }
        Policy::Mutating(policy) => {
            let own = policy.spec.source.document().root().to_serde();
            let mut spec = json!({"validations": [{"expression": NEVER_CONSTANT}]});
            for key in ["matchConstraints", "matchConditions", "failurePolicy"] {
                if let Some(value) = own.get(key) {
                    spec[key] = value.clone();
                }
            }
            if let Some(controllers) = own["autogen"].get("podControllers") {
                spec["autogen"] = json!({"podControllers": controllers});
            }
            if let Some(admission) = own["evaluation"].get("admission") {
                spec["evaluation"] = json!({"admission": admission});
            }
            let kind = if policy.namespaced {
                "NamespacedValidatingPolicy"
            } else {
                "ValidatingPolicy"
            };
            ("policies.kyverno.io/v1", kind, spec, &policy.metadata)
        }
        _ => return None,
    };
    let object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata_of(metadata),
        "spec": spec,
    });
    read(&object)
}

fn metadata_of(metadata: &Metadata) -> Json {
    let annotations = metadata.annotations.iter();
    let annotations = annotations.map(|(key, value)| (key.value.clone(), Json::from(value.value.as_str())));
    let mut object = json!({
        "name": metadata.name.value,
        "annotations": annotations.collect::<serde_json::Map<_, _>>(),
    });
    if let Some(namespace) = &metadata.namespace {
        object["namespace"] = namespace.value.as_str().into();
    }
    object
}

fn read(object: &Json) -> Option<Policy> {
    let text = object.to_string();
    let file = Sources::new().add("policy.json", text.as_str());
    let mut loaded = Loaded::default();
    let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
    policy::load(stream, file, Purpose::Policies, &mut loaded);
    loaded.policies.pop()
}
