//! What a run may find out about the policies of a suite for all requests: labels of proofs, and behaviours.

use super::{
    coverage::Watch,
    engines::Engines,
    requests::{default_operation, requests},
};
use kyvtest_cel::host::Host;
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::diagnostic::FileId;
use kyvtest_kyverno::lowered::Lowered;
use kyvtest_model::policy::Policy;
use kyvtest_model::{policy::Mode, verdict::Verdict};
use kyvtest_prove::{
    self, Options,
    behaviour::{Behaviours, Tried, behaviours},
};

pub use kyvtest_prove::{
    Label, Proof,
    behaviour::{Behaviour, Fate, Shown},
};

/// How many paths are followed for one policy of a suite.
const PATHS: u64 = 200_000;

/// A policy by its place, and what was found.
#[derive(Debug, Clone)]
pub struct Found<T> {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its file.
    pub file: FileId,
    /// Its document there.
    pub doc: usize,
    /// What was found.
    pub found: T,
}

/// The policies of a suite that have a native twin, or could have one, in the order of the files.
fn originals(engines: &Engines<'_>) -> Vec<Policy> {
    let loaded = &engines.suite.policies;
    let evaluated = |policy: &&Policy| match policy {
        Policy::Classic(policy) => engines.controller.policy(&policy.id()).is_some(),
        _ => policy.validates(),
    };
    let mut all: Vec<Policy> = loaded.policies.iter().filter(evaluated).cloned().collect();
    all.sort_by_key(|policy| (policy.origin().file, policy.origin().document));
    all
}

fn each<T>(engines: &Engines<'_>, find: impl Fn(&Policy, Exceptions<'_>, &Options<'_>) -> T) -> Vec<Found<T>> {
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
    let found = originals(engines).into_iter().map(|policy| Found {
        found: find(&policy, exceptions, &options),
        name: policy.name().to_owned(),
        kind: policy.id().kind,
        file: policy.origin().file,
        doc: policy.origin().document,
    });
    found.collect()
}

/// The label of each policy.
pub(super) fn proofs(engines: &Engines<'_>) -> Vec<Found<Proof>> {
    each(engines, |original, exceptions, options| {
        kyvtest_prove::prove(original, exceptions, None, &engines.cluster.cluster.discovery, options)
    })
}

/// The behaviours of each policy that rows or cases are about, and which of them they exercise.
pub(super) fn all_behaviours(engines: &Engines<'_>, host: &dyn Host) -> Vec<Found<Behaviours>> {
    let watch = Watch::new(engines.suite);
    let mut found = each(engines, |original, exceptions, options| {
        // Behaviours are about requests.
        if let Policy::Validating(policy) = original
            && policy.spec.evaluation.mode != Mode::Kubernetes
        {
            return Behaviours::default();
        }
        let tried = tried(engines, &watch, original, host);
        let cluster = &engines.cluster.cluster;
        behaviours(
            original,
            exceptions,
            &cluster.discovery,
            options,
            &tried,
            &cluster.world,
            host,
        )
    });
    found.retain(|policy| !policy.found.list.is_empty() || !policy.found.note.is_empty());
    found
}

/// The requests that rows and cases name for a policy, with its verdicts.
fn tried(engines: &Engines<'_>, watch: &Watch<'_>, original: &Policy, host: &dyn Host) -> Vec<Tried> {
    let (suite, settings) = (engines.suite, engines.settings);
    let id = original.id();
    let policy = engines.controller.policy(&id);
    let mut tried = Vec::new();
    for mut asked in requests(suite, settings, &[]) {
        if !watch.is_asked(&id, &asked) {
            continue;
        }
        let resource = asked.resource;
        let operation = asked.run.unwrap_or_else(|| default_operation(suite, resource));
        let request = engines.cluster.request(suite, resource, operation, asked.old.take());
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
