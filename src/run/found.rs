//! What a run may find out about the policies of a suite for all requests: labels of proofs, and behaviours.

use super::{
    asking::Asking,
    coverage::Watch,
    edit::edited,
    respond::{default_operation, requests},
};
use crate::suite::Resource;
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::diagnostic::FileId;
use kyvtest_kyverno::classic_policy::CompiledPolicy;
use kyvtest_model::{
    kube::Request,
    policy::{Mode, Origin},
    verdict::Verdict,
};
use kyvtest_prove::{
    self, Options,
    behaviour::{Behaviours, Tried, behaviours},
    pair::Original,
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
fn originals(asking: Asking<'_>) -> Vec<(Original, Origin)> {
    let loaded = &asking.suite.policies;
    let classic = asking.policies.classic.iter().map(CompiledPolicy::policy);
    let classic = classic.map(|policy| (Original::Policy(policy.clone()), policy.origin));
    let validating = loaded.validating_policies.iter();
    let validating = validating.map(|policy| (Original::ValidatingPolicy(policy.clone()), policy.origin));
    let mut all: Vec<(Original, Origin)> = classic.chain(validating).collect();
    all.sort_by_key(|(_, origin)| (origin.file, origin.document));
    all
}

fn each<T>(asking: Asking<'_>, find: impl Fn(&Original, Exceptions<'_>, &Options<'_>) -> T) -> Vec<Found<T>> {
    let exceptions = Exceptions {
        classic: &asking.suite.exceptions.exceptions,
        cel: &asking.suite.exceptions.cel_exceptions,
    };
    let resources = asking.suite.resources.iter();
    let samples: Vec<serde_json::Value> = resources.map(|resource| resource.object.root().to_serde()).collect();
    let options = Options {
        now: asking.settings.now,
        samples: &samples,
        paths: PATHS,
        stop: asking.settings.extras.stop,
        ..Options::default()
    };
    let found = originals(asking).into_iter().map(|(original, origin)| Found {
        found: find(&original, exceptions, &options),
        name: original.name().to_owned(),
        kind: original.kind(),
        file: origin.file,
        doc: origin.document,
    });
    found.collect()
}

/// The label of each policy.
pub(super) fn proofs(asking: Asking<'_>) -> Vec<Found<Proof>> {
    each(asking, |original, exceptions, options| {
        kyvtest_prove::prove(
            original,
            exceptions,
            None,
            &asking.surroundings.cluster.discovery,
            options,
        )
    })
}

/// The behaviours of each policy that rows or cases are about, and which of them they exercise.
pub(super) fn all_behaviours(asking: Asking<'_>) -> Vec<Found<Behaviours>> {
    let watch = Watch::new(asking.suite);
    let mut found = each(asking, |original, exceptions, options| {
        // Behaviours are about requests.
        if let Original::ValidatingPolicy(policy) = original
            && policy.spec.evaluation.mode != Mode::Kubernetes
        {
            return Behaviours::default();
        }
        let tried = tried(asking, &watch, original);
        let surroundings = asking.surroundings;
        behaviours(
            original,
            exceptions,
            &surroundings.cluster.discovery,
            options,
            &tried,
            &surroundings.cluster.world,
            asking.host,
        )
    });
    found.retain(|policy| !policy.found.list.is_empty() || !policy.found.note.is_empty());
    found
}

/// The requests that rows and cases ask a policy about, with its answers.
fn tried(asking: Asking<'_>, watch: &Watch<'_>, original: &Original) -> Vec<Tried> {
    let (suite, settings) = (asking.suite, asking.settings);
    let mut tried = Vec::new();
    for mut asked in requests(suite, settings, &[]) {
        if !watch.is_asked(original.name(), &asked) {
            continue;
        }
        let operation = asked.run.unwrap_or_else(|| default_operation(suite, asked.resource));
        let old = asked.old.take();
        let request = asking.surroundings.request(suite, asked.resource, operation, old);
        let (request, verdicts) = answer(asking, original, request, asked.resource);
        tried.push(Tried {
            request,
            kyverno: Verdict::strongest(verdicts),
        });
    }
    tried
}

fn answer(asking: Asking<'_>, original: &Original, request: Request, resource: &Resource) -> (Request, Vec<Verdict>) {
    let mut verdicts = Vec::new();
    match original {
        Original::Policy(policy) => {
            let name = &policy.metadata.name.value;
            let mut classic = asking.policies.classic();
            if let Some((compiled, webhook)) = classic.find(|(compiled, _)| compiled.policy().origin == policy.origin) {
                let scored = compiled.is_scored();
                let answers = asking.classic(compiled, webhook, &request, resource);
                verdicts.extend(answers.iter().map(|answer| answer.verdict(scored)));
            }
            let edited = edited(asking.suite, name, resource, &request);
            (edited.unwrap_or(request), verdicts)
        }
        Original::ValidatingPolicy(policy) => {
            let name = policy.metadata.name.value.as_str();
            let variants = asking.policies.validating.iter();
            for variant in variants.filter(|one| one.kind == policy.kind() && one.compiled.name() == name) {
                let scored = variant.compiled.is_scored();
                let answers = asking.validating(variant, &request, resource).unwrap_or_default();
                verdicts.extend(answers.iter().map(|answer| answer.verdict(scored)));
            }
            (request, verdicts)
        }
    }
}
