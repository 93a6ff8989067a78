//! Two sets of policies on the same requests: which pairs of policies decide alike, and where they do not.
//!
//! Each side is a list of suites; their policies are paired by name or as told. Every resource that a suite of either policy
//! has is asked about on both sides, with every operation that one of their rows names, whether a row is about it or not: the
//! resources that nobody wrote a row for are where conversions go wrong.

use super::{Answer, Key, Response, Settings, lens, respond};
use crate::suite::{Resource, Suite};
use kyvtest_go_compat::diagnostic::{Diagnostic, Severity};
use kyvtest_model::{
    compare::{self, Divergence},
    kube::Operation,
    verdict::{Effect, Status, Verdict},
};
use kyvtest_prove::server::Refused;

/// Two policies that shall decide alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPair {
    /// The policy on the one side.
    pub from: String,
    /// The policy on the other.
    pub to: String,
    /// What they answer, by resource and operation.
    pub cases: Vec<DiffCase>,
    /// Whether the other side is a native policy that warns the client on violations that Kyverno only audits.
    pub audit_warnings: bool,
}

/// One request on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffCase {
    /// The resource.
    pub resource: Key,
    /// The operation.
    pub operation: Operation,
    /// What the one side answers.
    pub from: Answer,
    /// What the other answers.
    pub to: Answer,
    /// How they differ: `weaker` if the other side admits more.
    pub divergence: Option<Divergence>,
    /// Whether one of the two cannot be decided.
    pub unsupported: bool,
}

/// What came of two sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The pairs, by name of the one side's policy.
    pub pairs: Vec<PolicyPair>,
    /// Policies of the one side without a partner.
    pub only_from: Vec<String>,
    /// Policies of the other side without a partner.
    pub only_to: Vec<String>,
    /// Warnings about resources that the API server refuses: both sides see them as written.
    pub refusals: Vec<Diagnostic>,
}

/// Compares two sets. `mapping` pairs policies of different names.
pub fn diff(from: &mut [Suite], to: &mut [Suite], mapping: &[(String, String)], settings: &Settings) -> Diff {
    let (ours, theirs) = (names(from), names(to));
    let partner = |name: &String| match mapping.iter().find(|(from, _)| from == name) {
        Some((_, to)) => theirs.contains(to).then(|| to.clone()),
        None => theirs.contains(name).then(|| name.clone()),
    };
    let paired: Vec<(String, String)> = ours
        .iter()
        .filter_map(|name| Some((name.clone(), partner(name)?)))
        .collect();
    let only_from = ours.iter().filter(|name| partner(name).is_none()).cloned().collect();
    let only_to = theirs
        .iter()
        .filter(|name| !paired.iter().any(|(_, to)| to == *name))
        .cloned()
        .collect();
    let mut refused: Vec<(Key, Refused)> = Vec::new();
    let pairs = paired
        .into_iter()
        .map(|(from_name, to_name)| {
            let cases = compare_policies(from, &from_name, to, &to_name, settings, &mut refused);
            PolicyPair {
                audit_warnings: warns_beside_audit(from, &from_name, to, &to_name, &cases),
                from: from_name,
                to: to_name,
                cases,
            }
        })
        .collect();
    Diff {
        pairs,
        only_from,
        only_to,
        refusals: refused
            .iter()
            .map(|(key, refused)| refusal(key, refused, settings))
            .collect(),
    }
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

/// Whether both sides audit a request, and a native binding of the other side warns the client where Kyverno does not.
fn warns_beside_audit(from: &[Suite], from_name: &str, to: &[Suite], to_name: &str, cases: &[DiffCase]) -> bool {
    let audits = |case: &DiffCase| case.from.effect == Effect::Audit && case.to.effect == Effect::Audit;
    let mut classic = from.iter().flat_map(|suite| &suite.policies.policies);
    let is_silent = classic.any(|policy| policy.metadata.name.value == from_name && !policy.spec.emit_warning);
    let mut bindings = to.iter().flat_map(|suite| &suite.policies.bindings);
    let warns = bindings.any(|binding| {
        let has = |wanted: &str| binding.validation_actions.iter().any(|action| action.value == wanted);
        binding.policy_name.value == to_name && has("Audit") && has("Warn")
    });
    is_silent && warns && cases.iter().any(audits)
}

fn names(suites: &[Suite]) -> Vec<String> {
    let mut names: Vec<String> = suites.iter().flat_map(policy_names).collect();
    names.sort();
    names.dedup();
    names
}

fn policy_names(suite: &Suite) -> Vec<String> {
    let loaded = &suite.policies;
    let classic = loaded.policies.iter().map(|policy| &policy.metadata);
    let validating = loaded.validating_policies.iter().map(|policy| &policy.metadata);
    let native = loaded.vaps.iter().map(|policy| &policy.metadata);
    let all = classic.chain(validating).chain(native);
    all.map(|metadata| metadata.name.value.clone()).collect()
}

fn compare_policies(
    from: &mut [Suite],
    from_name: &str,
    to: &mut [Suite],
    to_name: &str,
    settings: &Settings,
    refused: &mut Vec<(Key, Refused)>,
) -> Vec<DiffCase> {
    let having = |suites: &[Suite], name: &str| -> Vec<usize> {
        let has = |suite: &Suite| policy_names(suite).iter().any(|known| known == name);
        (0..suites.len()).filter(|&i| suites.get(i).is_some_and(has)).collect()
    };
    let (ours, theirs) = (having(from, from_name), having(to, to_name));
    let (Some(&first), Some(&second)) = (ours.first(), theirs.first()) else {
        return Vec::new();
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
        return Vec::new();
    };
    let mut cases: Vec<DiffCase> = Vec::new();
    for layer in layers {
        let ours = answers(left, layer.clone(), &operations, settings, refused);
        let theirs = answers(right, layer, &operations, settings, refused);
        for (key, run) in requests(&ours) {
            let (ours, operation) = verdict(&ours, &key, run, from_name);
            let (theirs, _) = verdict(&theirs, &key, run, to_name);
            let unsupported = [&ours, &theirs]
                .iter()
                .any(|verdict| verdict.status == Status::Unsupported);
            let case = DiffCase {
                divergence: compare::compare(&ours, &theirs, &[]).filter(|_| !unsupported),
                resource: key,
                operation,
                from: answer(ours),
                to: answer(theirs),
                unsupported,
            };
            // The suite's own operation may be one that a row names, too.
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

/// The resources of both sides, each once. Two of the same name that are not the same object come one after the other, so that
/// both sides are always asked about the same objects.
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

/// The answers of a suite's policies about resources.
fn answers(
    suite: &mut Suite,
    resources: Vec<Resource>,
    operations: &[Operation],
    settings: &Settings,
    refused: &mut Vec<(Key, Refused)>,
) -> Vec<Response> {
    let own = std::mem::replace(&mut suite.resources, resources);
    let responses = respond::respond_about(suite, settings, operations);
    suite.resources = own;
    for refusal in responses.refusals {
        if !refused.contains(&refusal) {
            refused.push(refusal);
        }
    }
    responses.list
}

/// The requests that were asked, each once.
fn requests(responses: &[Response]) -> Vec<(Key, Option<Operation>)> {
    let mut requests: Vec<(Key, Option<Operation>)> = Vec::new();
    for response in responses.iter().filter(|response| response.asker.is_none()) {
        let request = (response.key.clone(), response.run);
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    requests.sort();
    requests
}

/// What a policy says as a whole, and the operation of the request.
fn verdict(responses: &[Response], key: &Key, run: Option<Operation>, policy: &str) -> (Verdict, Operation) {
    let own: Vec<&Response> = responses
        .iter()
        .filter(|response| response.asker.is_none() && response.key == *key && response.run == run)
        .collect();
    let operation = own.first().map_or(Operation::Create, |response| response.operation);
    let rules = own.iter().filter(|response| response.policy.name == policy);
    let verdicts = rules
        .flat_map(|response| response.rules.iter().map(|rule| rule.verdict(response.scored)))
        .collect();
    (Verdict::strongest(verdicts), operation)
}

fn answer(verdict: Verdict) -> Answer {
    Answer {
        status: verdict.status,
        effect: verdict.effect,
        message: verdict.message,
    }
}
