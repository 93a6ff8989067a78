//! Evaluates the policies of a suite again, with an observer.
//!
//! A plain run has no extra cost: this is a second pass, over the requests that rows and cases name.

use super::{
    Coverage, PolicyCoverage,
    items::{Programs, all},
    recorder::{CoverageRecorder, constraints_select},
};
use crate::run::{
    Key, Response,
    engines::{Engines, native_id, native_mutating_id},
    requests::{SuiteRequest, default_operation, requests},
};
use kyvtest_apiserver::matching::{Match, matches};
use kyvtest_cel::host::{Host, Wrapped};
use kyvtest_kyverno::{
    constraints, input::Input, lowered::Lowered, observe::Selected, offline::RuleType, response::RuleResponse,
};
use kyvtest_model::{
    kube::Request,
    policy::{MatchConstraints, PolicyId},
};

/// Records the coverage of a suite's policies.
///
/// `responses` are those of the run, which has evaluated the mutating policies.
pub(in crate::run) fn observe(engines: &Engines<'_>, responses: &[Response]) -> Coverage {
    let suite = engines.suite;
    let watch = CoverageRecorder::new(suite);
    let host = Wrapped::observed(&engines.cluster.cluster.mocks, &watch.observer);
    for mut suite_request in requests(engines, &[]) {
        let operation = suite_request
            .run
            .unwrap_or_else(|| default_operation(suite, suite_request.resource));
        let old = suite_request.old.take();
        let request = engines.cluster.request(suite, suite_request.resource, operation, old);
        for policy in engines.controller.policies() {
            if watch.tests(policy.id(), &suite_request) {
                kyverno(engines, policy, &watch, &suite_request, &request, &host);
            }
        }
        natives(engines, &watch, &suite_request, &request, &host);
        mutations(engines, &watch, &suite_request, &request, responses);
    }
    payloads(engines, &watch, &host);
    let lowered = engines.controller.policies().iter();
    let classic =
        lowered.filter_map(|policy| Some(watch.classic(policy.as_classic()?, engines.controller.webhook(policy))));
    let validating = suite.policies.validating().filter_map(|policy| {
        let own = engines.controller.policy(&policy.id())?;
        let programs: Vec<Programs<'_>> = own.variants().iter().map(|variant| variant.programs()).collect();
        Some(watch.validating(policy, &programs))
    });
    let native = suite.policies.native().filter_map(|policy| {
        let mut compiled = engines.server.policies().iter();
        let own = compiled.find(|compiled| compiled.name() == policy.metadata.name.value)?;
        Some(watch.native(policy, &native_id(own.name()), own.programs()))
    });
    let policies = classic.chain(validating).chain(native).chain(mutating(engines, &watch));
    all(suite, policies.collect())
}

/// The observations of mutating policies without rules.
fn mutating(engines: &Engines<'_>, watch: &CoverageRecorder<'_>) -> Vec<PolicyCoverage> {
    let policies = &engines.suite.policies;
    let own = policies.mutating().map(|policy| {
        let place = (policy.metadata.name.span, policy.origin);
        let constraints = policy.spec.match_constraints.as_ref();
        let may_skip = !policy.spec.match_conditions.is_empty();
        watch.mutating(&policy.id(), place, constraints, may_skip)
    });
    let native = policies.native_mutating().map(|policy| {
        let place = (policy.metadata.name.span, policy.origin);
        let id = native_mutating_id(&policy.metadata.name.value);
        let constraints = policy.match_constraints.as_ref();
        watch.mutating(&id, place, constraints, !policy.match_conditions.is_empty())
    });
    own.chain(native).collect()
}

/// Counts the results of mutating policies for a request in the run.
fn mutations(
    engines: &Engines<'_>,
    watch: &CoverageRecorder<'_>,
    suite_request: &SuiteRequest<'_>,
    request: &Request,
    responses: &[Response],
) {
    let policies = &engines.suite.policies;
    let key = suite_request.key;
    let answers = |id: &PolicyId| -> Vec<RuleResponse> {
        let own = responses.iter().filter(|response| {
            *response.policy == *id
                && response.key == *key
                && response.run == suite_request.run
                && response.check_id == suite_request.check_id
        });
        own.flat_map(|response| {
            let made = response.objects.as_deref().map_or(&[][..], |objects| &objects.rules);
            let rules = response.rules.iter().zip(made);
            rules.filter(|(_, made)| made.rule_type == RuleType::Mutation)
        })
        .map(|(rule, _)| rule.clone())
        .collect()
    };
    for policy in policies.classic() {
        let id = policy.id();
        let rules = policy.spec.rules.iter().filter(|rule| rule.mutate.is_some());
        let mut rules = rules.map(|rule| rule.name.value.as_str()).peekable();
        if rules.peek().is_some() && watch.tests(&id, suite_request) {
            watch.mutations(&id, rules, &answers(&id));
        }
    }
    let cluster = &engines.cluster.cluster;
    let input = Input::new(request, &cluster.world, &cluster.discovery, engines.lens());
    let cell = request.cell();
    for policy in policies.mutating() {
        let id = policy.id();
        if !watch.tests(&id, suite_request) {
            continue;
        }
        watch.mutations(&id, std::iter::once(""), &answers(&id));
        if let Some(block) = &policy.spec.match_constraints {
            let found = constraints_select(block, |part| {
                constraints::applies(part, &cell, &mut input.facts()).unwrap_or(true)
            });
            watch.selected(&id, &found);
        }
    }
    for policy in policies.native_mutating() {
        let id = native_mutating_id(&policy.metadata.name.value);
        if !watch.tests(&id, suite_request) {
            continue;
        }
        watch.mutations(&id, std::iter::once(""), &answers(&id));
        if let Some(block) = &policy.match_constraints {
            watch.selected(&id, &natively_selected(engines, block, request));
        }
    }
}

fn kyverno(
    engines: &Engines<'_>,
    policy: &Lowered,
    watch: &CoverageRecorder<'_>,
    suite_request: &SuiteRequest<'_>,
    request: &Request,
    host: &dyn Host,
) {
    let responses = engines.kyverno(policy, request, suite_request.resource, host);
    let answers: Vec<_> = responses.into_iter().flat_map(|response| response.rules).collect();
    watch.answers(policy.id(), policy.rule_names().into_iter(), &answers);
    if policy.is_for_payloads() {
        return;
    }
    let edited = engines.edited(policy, request, suite_request.resource);
    let request = edited.as_ref().unwrap_or(request);
    // The filters of a policy are counted even if its webhook is not called.
    let environment = engines.environment(host);
    let delivered = engines.controller.delivered(policy, request, environment);
    let delivered = delivered.as_deref().unwrap_or(request);
    let input = Input::new(delivered, environment.world, environment.discovery, engines.lens());
    let selected: Vec<Selected> = match policy.as_classic() {
        Some(classic) => classic.selected(&input),
        None => {
            let cell = input.request.cell();
            let blocks = policy.variants().iter().filter_map(|variant| variant.constraints());
            blocks
                .flat_map(|block| {
                    constraints_select(block, |part: &MatchConstraints| {
                        constraints::applies(part, &cell, &mut input.facts()).unwrap_or(true)
                    })
                })
                .collect()
        }
    };
    watch.selected(policy.id(), &selected);
}

fn natives(
    engines: &Engines<'_>,
    watch: &CoverageRecorder<'_>,
    suite_request: &SuiteRequest<'_>,
    request: &Request,
    host: &dyn Host,
) {
    for policy in engines.server.policies() {
        let id = native_id(policy.name());
        if !watch.tests(&id, suite_request) {
            continue;
        }
        let response = engines.native(policy, request, suite_request.resource, host);
        watch.answers(&id, std::iter::once(""), &response.rules);
        let Some(constraints) = policy.constraints() else {
            continue;
        };
        watch.selected(&id, &natively_selected(engines, constraints, request));
    }
}

/// The parts of a native policy's match block that select a request.
fn natively_selected(engines: &Engines<'_>, constraints: &MatchConstraints, request: &Request) -> Vec<Selected> {
    let cluster = &engines.cluster.cluster;
    let input = Input::new(request, &cluster.world, &cluster.discovery, engines.lens());
    let cell = request.cell();
    let equivalents = cluster.discovery.equivalents(&request.resource);
    let equivalents: Vec<_> = equivalents.map(|found| &**found).collect();
    constraints_select(constraints, |part| {
        let matched = matches(part, &cell, &equivalents, &mut input.facts());
        matches!(matched, Ok(Match::Yes(_)) | Err(_))
    })
}

fn payloads(engines: &Engines<'_>, watch: &CoverageRecorder<'_>, host: &dyn Host) {
    for payload in &engines.suite.json_payloads {
        let key = Key::named(&payload.path.value);
        for policy in engines.controller.policies() {
            if policy.is_for_payloads() && watch.tests_payload(policy.id(), &key) {
                let responses = policy.evaluate_payload(payload.document.root(), host);
                let answers: Vec<_> = responses.into_iter().flat_map(|response| response.rules).collect();
                watch.answers(policy.id(), std::iter::once(""), &answers);
            }
        }
    }
}
