//! The native counterparts of a suite's policies, evaluated alongside in the default lens.

mod mutating;

use std::{sync::Arc, time::Duration};

use super::{CaseVerdict, Divergence, NativeCaseVerdict, Note, Response, Settings, cluster::SuiteCluster};
use crate::suite::Suite;
use kyvtest_cel::observe::Observer;
use kyvtest_convert::Exceptions;
use kyvtest_model::{
    kube::{Discovery, Environment, Request},
    verdict::Verdict,
};
use kyvtest_prove::pair::Pair;
use mutating::MutatingPair;

/// The verdict of a policy's native counterpart, and the divergence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterpart {
    /// `None` if there is no native policy.
    pub native: Option<Arc<NativeCaseVerdict>>,
    pub divergence: Option<Arc<Divergence>>,
    /// The trace, if enabled.
    pub trace: Vec<String>,
}

/// The policies of a suite with their native counterparts.
#[derive(Default)]
pub(super) struct Counterparts {
    pairs: Vec<Pair>,
    mutating: Vec<MutatingPair>,
}

impl Counterparts {
    /// Converts all policies.
    pub(super) fn new(suite: &Suite, settings: &Settings, discovery: &Discovery) -> Self {
        let exceptions = Exceptions {
            classic: &suite.exceptions.exceptions,
            cel: &suite.exceptions.cel_exceptions,
        };
        let loaded = &suite.policies;
        let pair = |original| Pair::new(original, exceptions, discovery, settings.now);
        let compared = loaded
            .policies
            .iter()
            .filter(|policy| policy.validates() && !policy.is_for_payloads());
        let mutating = loaded.mutating();
        Self {
            pairs: compared.cloned().map(pair).collect(),
            mutating: mutating
                .map(|policy| MutatingPair::new(policy, exceptions, discovery, settings.now))
                .collect(),
        }
    }

    /// Notes on the comparisons.
    pub(super) fn notes(&self) -> Vec<(String, Note)> {
        let of = |pair: &Pair| {
            let name = pair.original().name().to_owned();
            pair.notes().into_iter().map(move |note| (name.clone(), note))
        };
        let mutating = self.mutating.iter().flat_map(MutatingPair::notes);
        self.pairs.iter().flat_map(of).chain(mutating).collect()
    }

    /// Sends a request as written through each MutatingPolicy and its counterpart, and adds the results to the
    /// responses.
    pub(super) fn compare_mutations(
        &self,
        written: &Request,
        cluster: &SuiteCluster,
        environment: Environment<'_>,
        responses: &mut [Response],
    ) {
        for pair in &self.mutating {
            let mut own = responses
                .iter_mut()
                .filter(|response| *response.policy == *pair.id())
                .peekable();
            if own.peek().is_none() {
                continue;
            }
            let counterpart = Arc::new(pair.evaluate(written, cluster, environment));
            for response in own {
                response.counterpart = Some(Arc::clone(&counterpart));
            }
        }
    }

    /// Evaluates the counterparts of the policies that responded to a request, and adds their verdicts to the
    /// responses.
    pub(super) fn compare(
        &self,
        request: &Request,
        environment: Environment<'_>,
        responses: &mut [Response],
        watch: Option<fn() -> Duration>,
    ) {
        for pair in &self.pairs {
            let id = pair.original().id();
            let mut own: Vec<&mut Response> = responses.iter_mut().filter(|response| *response.policy == id).collect();
            let verdicts: Vec<Verdict> = own
                .iter()
                .flat_map(|response| response.rules.iter().map(|rule| rule.verdict(response.scored)))
                .collect();
            if own.is_empty() || verdicts.iter().any(|verdict| verdict.status.is_undecided()) {
                continue;
            }
            let begin = watch.map(|watch| watch());
            let counterpart = Arc::new(evaluate(pair, verdicts, request, environment));
            let mut took = watch
                .map(|watch| watch())
                .zip(begin)
                .map(|(end, begin)| end.saturating_sub(begin));
            for response in &mut own {
                response.counterpart = Some(Arc::clone(&counterpart));
                // The time is charged to the first of several responses of a policy, so that times add up.
                response.elapsed = response
                    .elapsed
                    .map(|elapsed| elapsed + took.take().unwrap_or_default());
            }
        }
    }
}

fn evaluate(pair: &Pair, verdicts: Vec<Verdict>, request: &Request, environment: Environment<'_>) -> Counterpart {
    let kyverno = Verdict::strongest(verdicts);
    let native = pair.native(request, environment);
    let trace = native.as_ref().map(|native| native.answer.trace(environment));
    let divergence = pair.compare(&kyverno, native.as_ref(), request, environment);
    // The comparison may evaluate the policy again: discard that trace.
    if let Some(trace) = environment.host.observer().and_then(Observer::trace) {
        trace.take();
    }
    let native = native
        .zip(pair.names())
        .map(|(native, (policy, binding))| NativeCaseVerdict {
            answer: CaseVerdict {
                status: native.verdict.status,
                effect: native.verdict.effect,
                message: native.verdict.message,
            },
            policy: policy.to_owned(),
            binding: binding.to_owned(),
        })
        .map(Arc::new);
    Counterpart {
        native,
        divergence: divergence.map(Arc::new),
        trace: trace.unwrap_or_default(),
    }
}
