//! The native twins of a suite's policies, asked beside them in the default lens.

use std::{sync::Arc, time::Duration};

use super::{Answer, Divergence, Engine, NativeAnswer, Note, Response, Settings, surroundings::Surroundings, told};
use crate::suite::Suite;
use kyvtest_cel::{host::Host, observe::Observer};
use kyvtest_convert::Exceptions;
use kyvtest_model::{
    kube::{Cluster, Request},
    verdict::{Status, Verdict},
};
use kyvtest_prove::pair::{Original, Pair};

/// What the native policy says that stands for a policy, and how that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// What it says; `None` where there is no native policy.
    pub native: Option<NativeAnswer>,
    /// How the two differ.
    pub divergence: Option<Divergence>,
    /// How it came to what it says, where that is told.
    pub told: Vec<String>,
}

/// The policies of a suite with their twins.
#[derive(Default)]
pub(super) struct Twins {
    pairs: Vec<Pair>,
}

impl Twins {
    /// Converts all policies. `kyverno test` knows nothing of native twins.
    pub(super) fn new(suite: &Suite, settings: &Settings, surroundings: &Surroundings) -> Self {
        if settings.compat || settings.engine == Engine::Kyverno {
            return Self::default();
        }
        let exceptions = Exceptions {
            classic: &suite.exceptions.exceptions,
            cel: &suite.exceptions.cel_exceptions,
        };
        let loaded = &suite.policies;
        let classic = loaded.policies.iter().cloned().map(Original::Policy);
        let validating = loaded
            .validating_policies
            .iter()
            .cloned()
            .map(Original::ValidatingPolicy);
        let pair = |original| Pair::new(original, exceptions, &surroundings.cluster.discovery, settings.now);
        let compared = classic.chain(validating).filter(|original| !original.is_for_payloads());
        Self {
            pairs: compared.map(pair).collect(),
        }
    }

    /// What is to be known about the comparisons.
    pub(super) fn notes(&self) -> Vec<(String, Note)> {
        let of = |pair: &Pair| {
            let name = pair.original().name().to_owned();
            pair.notes().into_iter().map(move |note| (name.clone(), note))
        };
        self.pairs.iter().flat_map(of).collect()
    }

    /// Asks the twins of the policies that answered a request, and puts what they say beside the answers.
    pub(super) fn ask(
        &self,
        request: &Request,
        surroundings: &Surroundings,
        host: &dyn Host,
        answers: &mut [Response],
        watch: Option<fn() -> Duration>,
    ) {
        let Cluster { world, discovery, .. } = &surroundings.cluster;
        for pair in &self.pairs {
            let id = pair.original().id();
            let own = |response: &Response| response.policy == id;
            let rules = answers.iter().filter(|response| own(response));
            let verdicts: Vec<Verdict> = rules
                .flat_map(|response| response.rules.iter().map(|rule| rule.verdict(response.scored)))
                .collect();
            if !answers.iter().any(own) || verdicts.iter().any(|verdict| verdict.status == Status::Unsupported) {
                continue;
            }
            let begin = watch.map(|watch| watch());
            let kyverno = Verdict::strongest(verdicts);
            let native = pair.native(request, world, discovery, host);
            let mut lines = Vec::new();
            if let (Some(story), Some(native)) = (host.observer().and_then(Observer::story), &native) {
                lines.extend(told::evaluations(story.take()));
                lines.extend(told::bindings(&native.answer));
            }
            let divergence = pair.compare(&kyverno, native.as_ref(), request, world, discovery, host);
            // The comparison may evaluate the policy once more: discard that trace.
            if let Some(story) = host.observer().and_then(Observer::story) {
                story.take();
            }
            let native = native
                .zip(pair.names())
                .map(|(native, (policy, binding))| NativeAnswer {
                    answer: Answer {
                        status: native.verdict.status,
                        effect: native.verdict.effect,
                        message: native.verdict.message,
                    },
                    policy: policy.to_owned(),
                    binding: binding.to_owned(),
                });
            let twin = Arc::new(Twin {
                native,
                divergence,
                told: lines,
            });
            let mut took = watch
                .map(|watch| watch())
                .zip(begin)
                .map(|(end, begin)| end.saturating_sub(begin));
            for response in answers.iter_mut().filter(|response| own(response)) {
                response.twin = Some(Arc::clone(&twin));
                // Of several variants of a policy, the first has the time.
                response.elapsed = response
                    .elapsed
                    .map(|elapsed| elapsed + took.take().unwrap_or_default());
            }
        }
    }
}
