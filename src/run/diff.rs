//! Compares two sets of policies on the same requests, pair by pair.
//!
//! Each side is a list of suites; their policies are paired by name or by a mapping. Every resource of a suite of
//! either policy is evaluated on both sides, with every operation that one of their rows names, even if no row tests
//! it: conversions go wrong on untested resources.
//!
//! Upstream counterpart: none.

use super::{CaseVerdict, Key, Response, Responses, Settings, evaluate::evaluate_with, lens};
use crate::suite::{Resource, Suite};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, Severity},
    value::Document,
};
use kyvtest_model::policy::{Loaded, Policy};
use kyvtest_model::{
    compare::{self, Divergence},
    kube::Operation,
    policy::PolicyId,
    verdict::{Effect, Status, Verdict},
};
use kyvtest_prove::server::Refused;

/// Two policies that should decide alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPair {
    /// `namespace/name` if it has a namespace.
    pub from: String,
    /// `namespace/name` if it has a namespace.
    pub to: String,
    pub kinds: (&'static str, &'static str),
    /// The verdicts, by resource and operation.
    pub cases: Vec<DiffCase>,
    /// Whether the `to` side is a native policy that warns the client about violations that Kyverno only audits.
    pub audit_warnings: bool,
}

/// One request on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffCase {
    pub resource: Key,
    pub operation: Operation,
    pub from: CaseVerdict,
    pub to: CaseVerdict,
    /// `weaker` if the `to` side admits more.
    pub divergence: Option<Divergence>,
    /// The status of a side that is not decided.
    pub undecided: Option<Status>,
}

/// The comparison of two sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Sorted by the name of the `from` policy.
    pub pairs: Vec<PolicyPair>,
    /// Policies of the `from` side without a partner.
    pub only_from: Vec<String>,
    /// Policies of the `to` side without a partner.
    pub only_to: Vec<String>,
    /// Policies that Kyverno or the API server rejects; their pairs have no cases.
    pub refused: Vec<RejectedPolicy>,
    /// Warnings about resources that the API server rejects: both sides see them as written.
    pub refusals: Vec<Diagnostic>,
}

/// A policy that cannot be stored, so that there is nothing to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPolicy {
    /// Whether it is on the `from` side.
    pub from: bool,
    pub policy: String,
    pub reason: String,
}

/// Compares two sets. `mapping` pairs policies of different names.
pub fn diff(from: &mut [Suite], to: &mut [Suite], mapping: &[(String, String)], settings: &Settings) -> Diff {
    let (ours, theirs) = (ids(from), ids(to));
    let (our_names, their_names) = (names(&ours), names(&theirs));
    let mut found = Diff {
        pairs: Vec::new(),
        only_from: Vec::new(),
        only_to: Vec::new(),
        refused: Vec::new(),
        refusals: Vec::new(),
    };
    let mut objects: Vec<(Key, Refused)> = Vec::new();
    let mut paired = Vec::new();
    for name in &our_names {
        let mapped = mapping.iter().find(|(from, _)| is_named(name, from));
        let wanted = mapped.map_or(name.as_str(), |(_, to)| to);
        let Some(partner) = partner(wanted, &their_names) else {
            found.only_from.push(name.clone());
            continue;
        };
        paired.push(partner);
        let kind = |ids: &[PolicyId], name: &str| ids.iter().find(|id| qualified(id) == name).map_or("", |id| id.kind);
        let mut pair = PolicyPair {
            kinds: (kind(&ours, name), kind(&theirs, partner)),
            from: name.clone(),
            to: partner.clone(),
            cases: Vec::new(),
            audit_warnings: false,
        };
        compare_policies(from, to, &mut pair, (&mut found.refused, &mut objects), settings);
        pair.audit_warnings = warns_beside_audit(from, to, &pair);
        found.pairs.push(pair);
    }
    let unpaired = their_names.iter().filter(|name| !paired.contains(name));
    found.only_to = unpaired.cloned().collect();
    let refusals = objects.iter();
    found.refusals = refusals.map(|(key, refused)| refusal(key, refused, settings)).collect();
    found
}

fn refusal(key: &Key, refused: &Refused, settings: &Settings) -> Diagnostic {
    let name = [key.namespace.as_str(), key.name.as_str()];
    let name: Vec<&str> = name.into_iter().filter(|part| !part.is_empty()).collect();
    let diagnostic = lens::refused_object(&format!("{} `{}`", key.kind, name.join("/")), refused);
    let diagnostic = diagnostic.with_note("both sides see the object as written (`data=raw`)");
    if settings.strict_resources {
        diagnostic.with_severity(Severity::Error)
    } else {
        diagnostic
    }
}

/// The name of a policy, with its namespace if it has one.
fn qualified(id: &PolicyId) -> String {
    if id.namespace.is_empty() {
        id.name.clone()
    } else {
        format!("{}/{}", id.namespace, id.name)
    }
}

/// Whether a reference names a policy: its qualified name, or the name alone.
fn is_named(qualified: &str, reference: &str) -> bool {
    qualified == reference || qualified.rsplit('/').next() == Some(reference)
}

/// The policy of the same name; one in another namespace only if no other has its name.
fn partner<'n>(wanted: &str, names: &'n [String]) -> Option<&'n String> {
    let exact = names.iter().find(|name| *name == wanted);
    exact.or_else(|| {
        let bare = wanted.rsplit('/').next()?;
        let mut same = names.iter().filter(|name| is_named(name, bare));
        same.next().filter(|_| same.next().is_none())
    })
}

/// Whether both sides audit a request, and a native binding of the `to` side also warns the client.
fn warns_beside_audit(from: &[Suite], to: &[Suite], pair: &PolicyPair) -> bool {
    let audits = |case: &DiffCase| case.from.effect == Effect::Audit && case.to.effect == Effect::Audit;
    let mut classic = from.iter().flat_map(|suite| suite.policies.classic());
    let is_silent = classic.any(|policy| qualified(&policy.id()) == pair.from && !policy.spec.emit_warning);
    let mut bindings = to.iter().flat_map(|suite| &suite.policies.bindings);
    let warns = bindings.any(|binding| {
        let has = |wanted: &str| binding.validation_actions.iter().any(|action| action.value == wanted);
        binding.policy_name.value == pair.to && has("Audit") && has("Warn")
    });
    is_silent && warns && pair.cases.iter().any(audits)
}

/// The policies of a name with their bindings and exceptions, and the suite that they come from.
pub fn policies_named<'s>(suites: &'s [Suite], name: &str) -> Option<(Loaded, &'s Suite)> {
    let suite = suites
        .iter()
        .find(|suite| policy_ids(suite).iter().any(|id| qualified(id) == name))?;
    let mut own = Loaded {
        policies: suite.policies.policies.clone(),
        bindings: suite.policies.bindings.clone(),
        mutating_bindings: suite.policies.mutating_bindings.clone(),
        exceptions: suite.exceptions.exceptions.clone(),
        cel_exceptions: suite.exceptions.cel_exceptions.clone(),
        ..Loaded::default()
    };
    own.policies.retain(|policy| {
        let is_compared = policy.validates() || policy.as_mutating().is_some() || policy.is_native();
        is_compared && qualified(&policy.id()) == name
    });
    own.bindings
        .retain(|binding| is_named(name, &binding.policy_name.value));
    own.mutating_bindings
        .retain(|binding| is_named(name, &binding.policy_name.value));
    Some((own, suite))
}

fn ids(suites: &[Suite]) -> Vec<PolicyId> {
    suites.iter().flat_map(policy_ids).collect()
}

/// The distinct names of policies, sorted; policies of different kinds that share a name are compared together.
fn names(ids: &[PolicyId]) -> Vec<String> {
    let mut names: Vec<String> = ids.iter().map(qualified).collect();
    names.sort();
    names.dedup();
    names
}

fn policy_ids(suite: &Suite) -> Vec<PolicyId> {
    let compared = |policy: &&Policy| policy.validates() || policy.as_mutating().is_some() || policy.is_native();
    let policies = suite.policies.policies.iter().filter(compared);
    policies.map(Policy::id).collect()
}

fn compare_policies(
    from: &mut [Suite],
    to: &mut [Suite],
    pair: &mut PolicyPair,
    (refused, objects): (&mut Vec<RejectedPolicy>, &mut Vec<(Key, Refused)>),
    settings: &Settings,
) {
    let having = |suites: &[Suite], name: &str| -> Vec<usize> {
        let has = |suite: &Suite| policy_ids(suite).iter().any(|id| qualified(id) == name);
        (0..suites.len()).filter(|&i| suites.get(i).is_some_and(has)).collect()
    };
    let (ours, theirs) = (having(from, &pair.from), having(to, &pair.to));
    let (Some(&first), Some(&second)) = (ours.first(), theirs.first()) else {
        return;
    };
    let involved = || {
        let ours = ours.iter().filter_map(|&i| from.get(i));
        ours.chain(theirs.iter().filter_map(|&i| to.get(i)))
    };
    let mut operations: Vec<Operation> = involved()
        .flat_map(Suite::rows)
        .filter_map(|row| row.operation.map(|operation| operation.value))
        .collect();
    operations.sort();
    operations.dedup();
    let layers = layers(involved().flat_map(|suite| &suite.resources));
    let (Some(left), Some(right)) = (from.get_mut(first), to.get_mut(second)) else {
        return;
    };
    // A rejected policy shows even without resources.
    let empty = evaluate(left, Vec::new(), &[], settings);
    let other = evaluate(right, Vec::new(), &[], settings);
    let before = refused.len();
    for (is_from, name, responses) in [(true, &pair.from, &empty), (false, &pair.to, &other)] {
        let reasons = responses.refused.iter().filter(|(policy, _)| is_named(name, policy));
        refused.extend(reasons.map(|(_, reason)| RejectedPolicy {
            from: is_from,
            policy: name.clone(),
            reason: reason.clone(),
        }));
    }
    if refused.len() > before {
        return;
    }
    let cases = &mut pair.cases;
    for layer in layers {
        let ours = evaluate(left, layer.clone(), &operations, settings);
        let theirs = evaluate(right, layer, &operations, settings);
        for refusal in ours.refusals.iter().chain(&theirs.refusals) {
            if !objects.contains(refusal) {
                objects.push(refusal.clone());
            }
        }
        let (from_list, to_list) = (ours.list, theirs.list);
        for (key, run) in requests(&from_list) {
            let (ours, operation) = verdict(&from_list, &key, run, &pair.from);
            let (theirs, _) = verdict(&to_list, &key, run, &pair.to);
            let undecided = [&ours, &theirs].into_iter().map(|verdict| verdict.status);
            let undecided = undecided.filter(|status| status.is_undecided()).max();
            let objects =
                [(&from_list, &pair.from), (&to_list, &pair.to)].map(|(list, name)| mutated(list, &key, run, name));
            let divergence = compare_sides(&ours, &theirs, &objects).filter(|_| undecided.is_none());
            let case = DiffCase {
                divergence,
                resource: key,
                operation,
                from: answer(ours),
                to: answer(theirs),
                undecided,
            };
            // A row may also name the suite's own operation.
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
}

/// The resources of both sides, each once. Two different objects of the same name are put into separate layers, so that
/// both sides always evaluate the same objects.
fn layers<'r>(resources: impl Iterator<Item = &'r Resource>) -> Vec<Vec<Resource>> {
    let mut layers: Vec<Vec<Resource>> = Vec::new();
    'next: for resource in resources {
        for layer in &mut layers {
            match layer.iter().find(|other| is_called_like(other, resource)) {
                None => {
                    layer.push(resource.clone());
                    continue 'next;
                }
                Some(other) if other.object == resource.object => continue 'next,
                Some(_) => {}
            }
        }
        layers.push(vec![resource.clone()]);
    }
    layers
}

fn is_called_like(one: &Resource, other: &Resource) -> bool {
    one.api_version == other.api_version
        && one.kind == other.kind
        && one.namespace == other.namespace
        && one.name == other.name
}

/// Evaluates a suite's policies on resources.
fn evaluate(suite: &mut Suite, resources: Vec<Resource>, operations: &[Operation], settings: &Settings) -> Responses {
    let own = std::mem::replace(&mut suite.resources, resources);
    let responses = evaluate_with(suite, settings, None, operations);
    suite.resources = own;
    responses
}

/// The evaluated requests, each once.
fn requests(responses: &[Response]) -> Vec<(Key, Option<Operation>)> {
    let mut requests: Vec<(Key, Option<Operation>)> = Vec::new();
    for response in responses.iter().filter(|response| response.check_id.is_none()) {
        let request = (response.key.clone(), response.run);
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    requests.sort();
    requests
}

/// The combined verdict of a policy, and the operation of the request.
fn verdict(responses: &[Response], key: &Key, run: Option<Operation>, policy: &str) -> (Verdict, Operation) {
    let own: Vec<&Response> = responses
        .iter()
        .filter(|response| response.check_id.is_none() && response.key == *key && response.run == run)
        .collect();
    let operation = own.first().map_or(Operation::Create, |response| response.operation);
    let rules = own.iter().filter(|response| qualified(&response.policy) == policy);
    let verdicts = rules
        .flat_map(|response| response.rules.iter().map(|rule| rule.verdict(response.scored)))
        .collect();
    (Verdict::strongest(verdicts), operation)
}

/// The objects before and after a mutating policy.
struct Mutated<'r> {
    before: &'r Document,
    /// `None` if an error lost it.
    after: Option<&'r Document>,
}

fn mutated<'r>(responses: &'r [Response], key: &Key, run: Option<Operation>, policy: &str) -> Option<Mutated<'r>> {
    let own = responses.iter().filter(|response| {
        response.check_id.is_none()
            && response.key == *key
            && response.run == run
            && qualified(&response.policy) == policy
    });
    let mut objects = own.filter_map(|response| response.objects.as_deref());
    let last = objects.rfind(|objects| objects.patched.is_some())?;
    Some(Mutated {
        before: &last.resource,
        after: last.patched.as_ref().filter(|object| !object.root().is_null()),
    })
}

/// Compares two policies on a request: mutating ones by their objects.
fn compare_sides(ours: &Verdict, theirs: &Verdict, objects: &[Option<Mutated<'_>>; 2]) -> Option<Divergence> {
    let Some(given) = objects.iter().flatten().map(|mutated| mutated.before).next() else {
        return compare::compare(ours, theirs, &[]);
    };
    // A policy without a response leaves the object unchanged; one that loses it denies the request.
    let after = objects
        .each_ref()
        .map(|side| side.as_ref().map_or(Some(given), |mutated| mutated.after));
    let sides = [(ours, after[0]), (theirs, after[1])].map(|(verdict, object)| compare::Mutation {
        verdict,
        object,
        changed: object != Some(given),
    });
    let mut divergence = compare::compare_mutations(sides[0], sides[1], &[])?;
    if let [Some(left), Some(right)] = after {
        let places = kyvtest_prove::mutation::named_places(left, right, ["first side", "other side"]);
        divergence.cause = format!("the objects differ{places}");
    }
    Some(divergence)
}

fn answer(verdict: Verdict) -> CaseVerdict {
    CaseVerdict {
        status: verdict.status,
        effect: verdict.effect,
        message: verdict.message,
    }
}
