//! Analyses of a suite's policies for all requests: proof labels, and behaviours.

use std::sync::Arc;

use super::{
    coverage::CoverageRecorder,
    engines::Engines,
    requests::{default_operation, requests},
};
use kyvtest_cel::host::Host;
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::diagnostic::FileId;
use kyvtest_kyverno::lowered::Lowered;
use kyvtest_model::{
    kube::{Cluster, Request},
    policy::{Loaded, Mode, Policy, ValidatingAdmissionPolicyBinding},
    verdict::{Effect, Verdict},
};
use kyvtest_prove::{
    self, Layer, Options, Stats, World,
    behaviour::{Behaviours, Tried, behaviours, mutating_behaviours},
    body::{self, Side, compare_sides},
};

pub use kyvtest_prove::{
    Label, Proof,
    behaviour::{Behaviour, RequestOutcome, Shown},
};

/// The path limit for one policy of a suite.
const PATHS: u64 = 200_000;

/// A policy by its location, and the result of its analysis.
#[derive(Debug, Clone)]
pub struct PolicyAnalysis<T> {
    pub name: String,
    pub kind: &'static str,
    pub file: FileId,
    pub doc: usize,
    pub found: T,
}

/// The policies of a suite that validate requests, and if wanted those that change them, in the order of the files.
fn originals(engines: &Engines<'_>, with_mutating: bool) -> Vec<Policy> {
    let loaded = &engines.suite.policies;
    let evaluated = |policy: &&Policy| match policy {
        Policy::Classic(policy) => engines.controller.policy(&policy.id()).is_some(),
        Policy::Mutating(_) => with_mutating,
        _ => policy.validates(),
    };
    let mut all: Vec<Policy> = loaded.policies.iter().filter(evaluated).cloned().collect();
    all.sort_by_key(|policy| (policy.origin().file, policy.origin().document));
    all
}

fn each<T>(
    engines: &Engines<'_>,
    with_mutating: bool,
    find: impl Fn(&Policy, Exceptions<'_>, &Options<'_>) -> T,
) -> Vec<PolicyAnalysis<T>> {
    let exceptions = Exceptions {
        classic: &engines.suite.exceptions.exceptions,
        cel: &engines.suite.exceptions.cel_exceptions,
    };
    let resources = engines.suite.resources.iter();
    let samples: Vec<serde_json::Value> = resources.map(|resource| resource.object.root().to_serde()).collect();
    let options = Options {
        now: engines.settings.now,
        samples: &samples,
        paths: PATHS,
        stop: engines.settings.extras.stop,
        ..Options::default()
    };
    let found = originals(engines, with_mutating)
        .into_iter()
        .map(|policy| PolicyAnalysis {
            found: find(&policy, exceptions, &options),
            name: policy.name().to_owned(),
            kind: policy.id().kind,
            file: policy.origin().file,
            doc: policy.origin().document,
        });
    found.collect()
}

/// The label of each policy.
pub(super) fn proofs(engines: &Engines<'_>) -> Vec<PolicyAnalysis<Proof>> {
    let discovery = &engines.cluster.cluster.discovery;
    each(engines, false, |original, exceptions, options| {
        match &engines.settings.extras.to {
            None => kyvtest_prove::prove(original, exceptions, None, discovery, options),
            Some(to) => compared(original, to, engines),
        }
    })
}

/// Proves a policy against the policies of the same name in another set.
fn compared(original: &Policy, to: &Loaded, engines: &Engines<'_>) -> Proof {
    let discovery = &engines.cluster.cluster.discovery;
    let options = body::Options {
        data: engines.settings.data,
        now: engines.settings.now,
        ..body::Options::default()
    };
    let mut proof = Proof {
        label: Label::Unknown,
        reason: String::new(),
        world: World {
            kyverno: "1.19",
            kube: "1.36",
            discovery: if discovery.is_extended() { "ga+2+crds" } else { "ga+2" }.to_owned(),
            layer: Layer::Policy,
            data: options.data.name(),
            delete: "named,collection",
        },
        regions: Vec::new(),
        notes: Vec::new(),
        stats: Stats::default(),
        fault: false,
    };
    let exceptions = &engines.suite.exceptions;
    let side = |policies: Vec<Policy>, bindings: &[Arc<ValidatingAdmissionPolicyBinding>]| {
        let bindings = bindings
            .iter()
            .filter(|binding| binding.policy_name.value == original.name());
        let loaded = Loaded {
            policies,
            bindings: bindings.cloned().collect(),
            exceptions: exceptions.exceptions.clone(),
            cel_exceptions: exceptions.cel_exceptions.clone(),
            ..Loaded::default()
        };
        Side::new(loaded, Vec::new(), discovery)
    };
    let partners = to.policies.iter().filter(|policy| policy.name() == original.name());
    let partners: Vec<Policy> = partners.cloned().collect();
    if partners.is_empty() {
        "`--to` has no policy of this name".clone_into(&mut proof.reason);
        return proof;
    }
    match (side(vec![original.clone()], &[]), side(partners, &to.bindings)) {
        (Ok(a), Ok(b)) => {
            let found = compare_sides(&a, &b, discovery, &options);
            if let (Label::Refuted(_), Some(example)) = (&found.label, &found.counterexample) {
                let [first, second] = example.verdicts();
                let request = &example.scenario().request;
                proof.reason = format!(
                    "{}: {} of {} is {} before and {} after; `kyvtest prove A --to B` explains it",
                    example.class(),
                    request.operation.as_str(),
                    request.resource.name(),
                    word(first.effect),
                    word(second.effect),
                );
            } else {
                proof.reason = found.reason;
            }
            proof.label = found.label;
            proof.fault = found.fault;
            proof.stats.requests = found.requests;
        }
        (Err(reason), _) | (_, Err(reason)) => proof.reason = reason,
    }
    proof
}

const fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Deny => "denied",
        Effect::Audit => "audited",
        Effect::Warn => "warned about",
        Effect::Admit => "admitted",
    }
}

/// The behaviours of each policy that rows or cases test, and which of them they exercise.
pub(super) fn all_behaviours(engines: &Engines<'_>, host: &dyn Host) -> Vec<PolicyAnalysis<Behaviours>> {
    let watch = CoverageRecorder::new(engines.suite);
    let mut found = each(engines, true, |original, exceptions, options| {
        // Only policies on requests have behaviours.
        if let Policy::Validating(policy) = original
            && policy.spec.evaluation.mode != Mode::Kubernetes
        {
            return Behaviours::default();
        }
        let tried = tried(engines, &watch, original, host);
        let Cluster { discovery, world, .. } = &engines.cluster.cluster;
        let requests: Vec<Request> = tried.iter().map(|tried| tried.request.clone()).collect();
        let mut found = mutating_behaviours(original, exceptions, discovery, options, &requests, world, host);
        if let Some(validating) = validating(original) {
            let validation = behaviours(&validating, exceptions, discovery, options, &tried, world, host);
            found.list.extend(validation.list);
            if found.note.is_empty() {
                found.note = validation.note;
            }
        }
        found
    });
    found.retain(|policy| !policy.found.list.is_empty() || !policy.found.note.is_empty());
    found
}

/// The policy with the rules that validate; `None` if there is none.
fn validating(original: &Policy) -> Option<Policy> {
    let Policy::Classic(policy) = original else {
        return original.validates().then(|| original.clone());
    };
    let mut own = (**policy).clone();
    own.spec.rules.retain(|rule| rule.validate.is_some());
    (!own.spec.rules.is_empty()).then(|| Policy::Classic(Arc::new(own)))
}

/// The requests that rows and cases name for a policy, with its verdicts.
fn tried(engines: &Engines<'_>, watch: &CoverageRecorder<'_>, original: &Policy, host: &dyn Host) -> Vec<Tried> {
    let suite = engines.suite;
    let id = original.id();
    let policy = engines.controller.policy(&id);
    let mut tried = Vec::new();
    for mut suite_request in requests(engines, &[]) {
        if !watch.tests(&id, &suite_request) {
            continue;
        }
        let resource = suite_request.resource;
        let operation = suite_request.run.unwrap_or_else(|| default_operation(suite, resource));
        let request = engines
            .cluster
            .request(suite, resource, operation, suite_request.old.take());
        let mut verdicts = Vec::new();
        for response in policy
            .into_iter()
            .flat_map(|policy| engines.kyverno(policy, &request, resource, host))
        {
            let scored = policy.is_none_or(Lowered::is_scored);
            verdicts.extend(response.rules.iter().map(|rule| rule.verdict(scored)));
        }
        let edited = policy.and_then(|policy| engines.edited(policy, &request, resource));
        tried.push(Tried {
            request: edited.unwrap_or(request),
            kyverno: Verdict::strongest(verdicts),
        });
    }
    tried
}
