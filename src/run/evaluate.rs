//! Evaluates every policy of a suite on every resource.

use std::time::Duration;

use super::{
    Settings, coverage,
    engines::{Engines, PolicyResponse},
    found,
    requests::{default_operation, keys, requests},
    response::{Key, Response, Responses},
};
use crate::suite::Suite;
use kyvtest_cel::{
    host::{Host, Wrapped},
    observe::Observer,
};
use kyvtest_kyverno::lowered::Lowered;
use kyvtest_model::{kube::Operation, policy::PolicyId};

/// Evaluates all policies on all resources: once with the suite's own operation, and once with each operation that rows
/// name.
pub(super) fn evaluate(suite: &Suite, settings: &Settings) -> Responses {
    evaluate_with(suite, settings, &[])
}

/// The same with more operations than the rows name.
pub(super) fn evaluate_with(suite: &Suite, settings: &Settings, operations: &[Operation]) -> Responses {
    let mut responses = Responses::default();
    let engines = Engines::new(suite, settings, &mut responses);
    responses.notes = engines.counterparts.notes();
    responses.keys = keys(suite);
    let observer = Observer::with_story();
    let observed = Wrapped::observed(&engines.cluster.cluster.mocks, &observer);
    let host: &dyn Host = if settings.trace {
        &observed
    } else {
        &engines.cluster.cluster.mocks
    };
    if !resources(&engines, operations, host, &mut responses) {
        return responses;
    }
    payloads(&engines, host, &mut responses);
    if settings.extras.coverage {
        responses.coverage = Some(coverage::observe(&engines));
    }
    if settings.extras.behaviours {
        responses.behaviours = found::all_behaviours(&engines, host);
    }
    if settings.extras.proofs {
        responses.proofs = found::proofs(&engines);
    }
    responses.index();
    responses
}

/// Evaluates the policies on the resources; answers whether the run was not cancelled.
fn resources(engines: &Engines<'_>, operations: &[Operation], host: &dyn Host, responses: &mut Responses) -> bool {
    let Engines { suite, settings, .. } = *engines;
    let watch = Watch(settings.watch);
    for mut asked in requests(suite, settings, operations) {
        if settings.is_stopped() {
            return false;
        }
        let resource = asked.resource;
        let operation = asked.run.unwrap_or_else(|| default_operation(suite, resource));
        let request = engines.cluster.request(suite, resource, operation, asked.old.take());
        let key = Key::of(resource);
        let before = responses.list.len();
        let mut add = |policy: &PolicyId, lowered: Option<&Lowered>, response: PolicyResponse, elapsed| {
            responses.list.push(Response {
                run: asked.run,
                asker: asked.asker,
                operation,
                key: key.clone(),
                policy: policy.clone(),
                scored: lowered.is_none_or(Lowered::is_scored),
                has_rules: lowered.is_some_and(|policy| !policy.is_cel()),
                rules: response.rules,
                counterpart: None,
                elapsed,
                trace: response.trace,
            });
        };
        for policy in engines.controller.policies() {
            let begin = watch.time();
            let evaluated = engines.kyverno(policy, &request, resource, host);
            // Of several responses of a policy, the first has the time.
            let mut elapsed = watch.since(begin);
            for response in evaluated {
                add(policy.id(), Some(policy), response, elapsed);
                elapsed = elapsed.map(|_| Duration::ZERO);
            }
        }
        for policy in engines.server.policies() {
            let begin = watch.time();
            let response = engines.native(policy, &request, resource, host);
            add(
                &super::engines::native_id(policy.name()),
                None,
                response,
                watch.since(begin),
            );
        }
        let environment = engines.environment(host);
        engines
            .counterparts
            .compare(&request, environment, &mut responses.list[before..], settings.watch);
    }
    true
}

/// Evaluates the policies for JSON payloads on the payloads.
fn payloads(engines: &Engines<'_>, host: &dyn Host, responses: &mut Responses) {
    let watch = Watch(engines.settings.watch);
    for payload in &engines.suite.json_payloads {
        let key = Key {
            name: payload.path.value.clone(),
            ..Key::default()
        };
        let policies = engines.controller.policies().iter();
        for policy in policies.filter(|policy| policy.is_for_payloads()) {
            let begin = watch.time();
            for response in policy.evaluate_payload(payload.document.root(), host) {
                responses.list.push(Response {
                    run: None,
                    asker: None,
                    operation: Operation::Create,
                    key: key.clone(),
                    policy: policy.id().clone(),
                    scored: policy.is_scored(),
                    has_rules: false,
                    rules: response.rules,
                    counterpart: None,
                    elapsed: watch.since(begin),
                    trace: response.trace,
                });
            }
        }
    }
}

/// The clock by which cases are timed, if they are.
struct Watch(Option<fn() -> Duration>);

impl Watch {
    fn time(&self) -> Option<Duration> {
        self.0.map(|watch| watch())
    }

    fn since(&self, begin: Option<Duration>) -> Option<Duration> {
        Some(self.time()?.saturating_sub(begin?))
    }
}
