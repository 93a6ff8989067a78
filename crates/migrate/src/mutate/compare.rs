//! A mutate rule and its translation on the same requests: the objects after both must be equal.
//!
//! Upstream counterpart: `pkg/webhooks/resource/mutation/mutation.go` for the classic side, whose errors refuse the request unless
//! the failure policy is `Ignore`; the other side is `kyvtest_kyverno::mutating_controller`. Requests are made from the words
//! and constants of both sides, and from the object that the rule itself makes of them.

use std::sync::Arc;

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{input::Input, lens::Lens, mutate::CompiledMutation, mutating_controller::MutatingController};
use kyvtest_model::{
    kube::{Discovery, Environment, Operation, Request, RequestClass, Resource},
    policy::{ClassicPolicy, FailurePolicy, MutatingPolicy, Rule},
    verdict::Status,
};
use kyvtest_prove::{server::Server, universe, witness::Scenario};
use serde_json::Value as Json;

use super::load;
use crate::{
    MigratedRule, Options, Refusal, RefusalCode, RuleLabel, kinds,
    samples::{self, all_rules, requests},
};

/// How many requests of each kind and operation are made.
const TRIES: u64 = 60;

/// How many requests the rule should have changed; below, more of them are made.
const ENOUGH: u64 = 10;
const MORE: u64 = 8;

/// Of how many request classes more requests are made: the first ones, as a rule is the same for all controllers of Pods.
const CLASSES: usize = 4;

/// How much smaller the number of requests is for a kind that is matched by the same rules as one before it.
const ALIKE: u64 = 3;

/// How many kinds are tried for a rule that matches more than it names.
const KINDS: usize = 12;

/// What a side makes of a request.
enum After {
    /// With the message, which differs between the sides.
    Refused(String),
    Object(Document),
}

/// The same, with the object as the API server completes it.
#[derive(Debug)]
enum Completed {
    Refused(String),
    Object(Json),
}

impl Completed {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused(_), Self::Refused(_)) => true,
            (Self::Object(ours), Self::Object(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

/// Both sides in one cluster.
struct Match<'m> {
    rule: CompiledMutation,
    fails: bool,
    new: MutatingController,
    discovery: &'m Discovery,
    server: Server,
    mocks: Mocks,
    requests: u64,
    /// How many of them were changed.
    changed: u64,
}

/// Compares a policy with one rule with its translation, and counts the requests.
///
/// # Errors
/// A request with different objects.
pub(super) fn rule(
    only: &ClassicPolicy,
    objects: &[Json],
    discovery: &Discovery,
    options: &Options,
) -> Result<u64, Refusal> {
    let universe = universe::with_unknown(discovery);
    let mut both = Match::new(only, objects, &universe)?;
    let tries = TRIES.min(options.proof.tries.max(1) * 2);
    both.search(only, objects, tries, usize::MAX)?;
    // Some rules are about few objects.
    if both.changed < ENOUGH {
        both.search(only, objects, tries * MORE, CLASSES)?;
    }
    if both.changed == 0 {
        let reason = "no request was found that the rule changes, so nothing shows that the translation is right";
        return Err(Refusal::new(RefusalCode::Untested, reason));
    }
    Ok(both.requests)
}

/// Takes back the translations of all rules that change objects if together they make other objects.
pub(crate) fn whole(policy: &ClassicPolicy, migrated: &mut [MigratedRule], discovery: &Discovery, options: &Options) {
    let pairs = policy.spec.rules.iter().zip(migrated.iter());
    let (rules, done): (Vec<&Rule>, Vec<&MigratedRule>) = pairs
        .filter(|(rule, migrated)| super::is_about(rule) && !migrated.objects.is_empty())
        .unzip();
    if rules.len() < 2 {
        return;
    }
    let objects: Vec<Json> = done.iter().flat_map(|rule| rule.objects.iter().cloned()).collect();
    let universe = universe::with_unknown(discovery);
    let compared = |objects: &[Json]| -> Result<(), Refusal> {
        let only = kinds::with_rules(policy, &rules, discovery)?;
        Match::new(&only, objects, &universe)?.search(&only, objects, 20.min(options.proof.tries), usize::MAX)
    };
    if let Err(refusal) = compared(&objects) {
        for rule in migrated.iter_mut().filter(|rule| {
            rule.objects.iter().any(|object| {
                object["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.ends_with("MutatingPolicy"))
            })
        }) {
            rule.label = RuleLabel::NotMigrated(RefusalCode::Refuted);
            rule.reason = format!("all rules together: {}", refusal.reason);
            rule.rejected = std::mem::take(&mut rule.objects);
            rule.variants.clear();
        }
        return;
    }
    let reversed: Vec<Json> = objects.iter().rev().cloned().collect();
    if compared(&reversed).is_err() {
        let note =
            "the rules build on each other: the new policies must be evaluated in the order in which they are written";
        for rule in migrated.iter_mut().filter(|rule| !rule.objects.is_empty()) {
            rule.notes.push(note.to_owned());
        }
    }
}

impl<'m> Match<'m> {
    fn new(only: &ClassicPolicy, objects: &[Json], discovery: &'m Discovery) -> Result<Self, Refusal> {
        let loaded = load(objects)?;
        let policies: Vec<Arc<MutatingPolicy>> = loaded.mutating().cloned().collect();
        let (new, refused) = MutatingController::new(&policies, &[]);
        if let Some((_, errors)) = refused.first() {
            let reason = format!("the translation is not a valid policy: {errors}");
            return Err(Refusal::new(RefusalCode::Refuted, reason));
        }
        let Some(rule) = CompiledMutation::new(&Arc::new(only.clone())) else {
            return Err(Refusal::new(RefusalCode::RuleType, "the rule does not mutate"));
        };
        let webhook = only.spec.webhook.as_ref().and_then(|webhook| webhook.failure_policy);
        let failure = webhook.or(only.spec.failure_policy);
        Ok(Self {
            rule,
            fails: !failure.is_some_and(|failure| failure.value == FailurePolicy::Ignore),
            new,
            discovery,
            server: Server::new(discovery, Vec::new()).without_service_accounts(),
            mocks: Mocks::new(),
            requests: 0,
            changed: 0,
        })
    }

    /// Tries requests of every kind that either side is about, of so many classes.
    fn search(&mut self, only: &ClassicPolicy, objects: &[Json], tries: u64, classes: usize) -> Result<(), Refusal> {
        let mut sources: Vec<Json> = objects.iter().map(|object| object["spec"].clone()).collect();
        sources.push(only.spec.source.document().root().to_serde());
        let rules = all_rules(only);
        let rules: Vec<&Rule> = rules.iter().map(|rule| &**rule).collect();
        let discovery = self.discovery;
        // The API server sends its own admission settings to no webhook.
        let mut cells: Vec<RequestClass<'_>> = universe::cells(discovery)
            .into_iter()
            .filter(|cell| {
                matches!(cell.operation, Operation::Create | Operation::Update)
                    && cell.resource.subresource.is_empty()
                    && cell.resource.group != "admissionregistration.k8s.io"
                    && objects.iter().any(|object| names(object, cell))
            })
            .collect();
        if cells.len() > 2 * KINDS {
            // Some of everything, the unknown kinds at the end included.
            let step = cells.len().div_ceil(2 * KINDS);
            let last = cells.last().copied();
            cells = cells.into_iter().step_by(step).chain(last).collect();
        }
        let mut first: Vec<(Vec<&str>, &Resource)> = Vec::new();
        for cell in cells.into_iter().take(classes) {
            let own = samples::matching(&rules, cell.resource).map(|rule| rule.name.value.as_str());
            let own: Vec<&str> = own.collect();
            let known = first.iter().find(|(names, _)| *names == own).map(|(_, kind)| *kind);
            let tries = match known {
                Some(kind) if kind != cell.resource && classes != CLASSES => tries.div_ceil(ALIKE),
                _ => tries,
            };
            if known.is_none() {
                first.push((own, cell.resource));
            }
            for scenario in requests(&sources, &rules, &cell, tries) {
                // What the rule made of the object, once more.
                if let Some(after) = self.compare(scenario)? {
                    self.compare(after)?;
                }
                if classes == CLASSES && self.changed >= ENOUGH {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Evaluates a request on both sides. Returns the same request with the new object, if the rule changed it. A request
    /// that the API server rejects anyway is left out.
    fn compare(&mut self, scenario: Scenario) -> Result<Option<Scenario>, Refusal> {
        let mut sent = scenario.request.clone();
        if self.server.admit(&mut sent).is_err() {
            return Ok(None);
        }
        let mut request = scenario.request.clone();
        if self.server.prepare(&mut request).is_err() {
            return Ok(None);
        }
        self.requests += 1;
        let environment = Environment::new(&scenario.world, self.discovery, &self.mocks);
        let ours = self.classic(&request, environment);
        let theirs = self.mutating(&request, environment);
        let is_request = |after: &After| matches!(after, After::Object(object) if *object == request.object);
        if is_request(&ours) && is_request(&theirs) {
            return Ok(None);
        }
        let before = self.completed(&request, &request.object);
        let [ours, theirs] = [ours, theirs].map(|after| match after {
            After::Refused(message) => Completed::Refused(message),
            After::Object(object) if object == request.object => Completed::Object(before.clone()),
            After::Object(object) => Completed::Object(self.completed(&request, &object)),
        });
        if !ours.is_same(&theirs) {
            return Err(different(&request, &ours, &theirs));
        }
        Ok(match ours {
            Completed::Object(object) if object != before => {
                self.changed += 1;
                let mut again = scenario;
                again.request.object = Document::from(&object);
                Some(again)
            }
            _ => None,
        })
    }

    fn completed(&self, request: &Request, object: &Document) -> Json {
        let complete = self.server.patched(request, object);
        complete.unwrap_or_else(|_| object.clone()).root().to_serde()
    }

    fn classic(&self, request: &Request, environment: Environment<'_>) -> After {
        let input = Input::new(request, environment.world, environment.discovery, Lens::CLUSTER);
        let response = self.rule.evaluate(&input, &[], None, environment.host);
        let mut results = response.rules.iter().map(|result| &result.response);
        if let Some(erred) = results.find(|response| response.status == Status::Error) {
            return if self.fails {
                After::Refused(erred.message.clone())
            } else {
                After::Object(request.object.clone())
            };
        }
        After::Object(response.patched.clone())
    }

    fn mutating(&self, request: &Request, environment: Environment<'_>) -> After {
        let complete = |object: &Document| Ok(object.clone());
        let review = self.new.review(request, environment, &complete);
        if let Some(refusal) = review.refusal {
            return After::Refused(refusal.message);
        }
        After::Object(review.object.clone())
    }
}

/// Whether a new policy names the resource of a class.
fn names(object: &Json, cell: &RequestClass<'_>) -> bool {
    let rules = object["spec"]["matchConstraints"]["resourceRules"].as_array();
    rules.into_iter().flatten().any(|rule| {
        let has = |key: &str, text: &str| {
            let list = rule[key].as_array();
            list.is_some_and(|list| list.iter().any(|own| own == text || own == "*" || own == "*/*"))
        };
        has("apiGroups", &cell.resource.group)
            && has("apiVersions", &cell.resource.version)
            && has("resources", &cell.resource.plural)
    })
}

/// The refusal of a translation that makes another object.
fn different(request: &Request, ours: &Completed, theirs: &Completed) -> Refusal {
    let shown = match (ours, theirs) {
        (Completed::Refused(message), Completed::Object(_)) => {
            format!("the rule fails ({message}) and the translation does not")
        }
        (Completed::Object(_), Completed::Refused(message)) => {
            format!("the translation fails ({message}) and the rule does not")
        }
        (Completed::Object(ours), Completed::Object(theirs)) => {
            let (path, ours, theirs) = first_difference(ours, theirs, String::new());
            format!("at `{path}` the rule leaves {ours}, the translation {theirs}")
        }
        (Completed::Refused(_), Completed::Refused(_)) => String::new(),
    };
    let object = request.object.root().to_serde();
    let reason = format!(
        "the translation makes another object of a {} ({}): {shown}; it is not written. The object: {object}",
        request.resource.object_kind.kind, request.operation
    );
    Refusal::new(RefusalCode::Refuted, reason)
}

fn first_difference(ours: &Json, theirs: &Json, path: String) -> (String, String, String) {
    match (ours, theirs) {
        (Json::Object(a), Json::Object(b)) => {
            let keys = a.keys().chain(b.keys());
            for key in keys {
                let (left, right) = (a.get(key), b.get(key));
                if left != right {
                    let path = format!("{path}/{key}");
                    return first_difference(left.unwrap_or(&Json::Null), right.unwrap_or(&Json::Null), path);
                }
            }
            (path, String::new(), String::new())
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            let differs = a
                .iter()
                .zip(b)
                .position(|(left, right)| left != right)
                .unwrap_or_default();
            let path = format!("{path}/{differs}");
            first_difference(&a[differs], &b[differs], path)
        }
        (a, b) => (path, a.to_string(), b.to_string()),
    }
}
