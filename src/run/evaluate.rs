//! Evaluates every policy of a suite on every resource.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Settings, analysis, authorization, coverage,
    engines::{Engines, PolicyResponse},
    lens, native_mutation, offline, payloads,
    requests::{SuiteRequest, default_operation, keys, requests},
    response::{Key, Response, ResponseObjects, Responses},
};
use crate::suite::{ExpectedFile, Resource, Suite};
use kyvtest_cel::{
    host::{Host, Wrapped},
    observe::Observer,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::Document,
};
use kyvtest_kyverno::{classic_policy::CompiledClassicPolicy, lowered::Lowered, offline::Stage};
use kyvtest_model::{
    kube::{Operation, Request},
    policy::{ClassicPolicy, PolicyId, PolicyKind},
};

/// Evaluates all policies on all resources, or only on those that `only` names: once with the suite's own operation, and once
/// with each operation that rows name.
pub(super) fn evaluate(suite: &Suite, settings: &Settings, only: Option<BTreeSet<Key>>) -> Responses {
    evaluate_with(suite, settings, only, &[])
}

/// Like [`evaluate`], with operations in addition to those of the rows.
pub(super) fn evaluate_with(
    suite: &Suite,
    settings: &Settings,
    only: Option<BTreeSet<Key>>,
    operations: &[Operation],
) -> Responses {
    let mut responses = Responses::on(only);
    let engines = Engines::new(suite, settings, &mut responses);
    responses.notes = engines.counterparts.notes();
    responses.keys = keys(suite, settings, &engines.keys);
    responses.targets = suite.targets.iter().map(Key::of).collect();
    for file in &suite.expected {
        let objects = file.objects.iter().map(|resource| Resource {
            object: Arc::new(engines.cluster.decoded(&resource.object)),
            ..resource.clone()
        });
        responses.expected.push(ExpectedFile {
            objects: objects.collect(),
            ..file.clone()
        });
    }
    let observer = Observer::with_trace();
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
    payloads::evaluate_beside(&engines, host, &mut responses);
    authorization::evaluate(&engines, host, &mut responses);
    if settings.extras.coverage {
        responses.coverage = Some(coverage::observe(&engines, &responses.list));
    }
    if settings.extras.behaviours {
        responses.behaviours = analysis::all_behaviours(&engines, host);
    }
    if settings.extras.proofs {
        responses.proofs = analysis::proofs(&engines);
    }
    responses.index();
    responses.resources = engines.keys;
    responses
}

/// Evaluates the policies on the resources; returns false if the run was cancelled.
fn resources(engines: &Engines<'_>, operations: &[Operation], host: &dyn Host, responses: &mut Responses) -> bool {
    let Engines { suite, settings, .. } = *engines;
    let rows = lens::Rows::of(suite);
    for mut suite_request in requests(engines, operations) {
        if settings.is_stopped() {
            return false;
        }
        let resource = suite_request.resource;
        let key = suite_request.key;
        if !responses.is_wanted(key) {
            continue;
        }
        let operation = suite_request.run.unwrap_or_else(|| default_operation(suite, resource));
        let written = engines
            .cluster
            .written(suite, resource, operation, suite_request.old.take());
        let seen = engines.cluster.seen(written);
        let request = &seen.request;
        if let Some(refused) = &seen.refused {
            let warning = lens::refusal(suite, resource, refused, settings);
            if !responses.diagnostics.contains(&warning) {
                responses.diagnostics.push(warning);
                responses.refusals.push((key.clone(), refused.clone()));
            }
        }
        let before = responses.list.len();
        let check = Subject {
            engines,
            suite_request: &suite_request,
            operation,
            key,
            host,
        };
        if let Err(error) = check.evaluate(request, &mut responses.list) {
            let message = format!("failed to apply policies on resource {} ({error})", resource.name);
            let start = Span::point(resource.origin.file, resource.origin.span.start);
            responses
                .diagnostics
                .push(Diagnostic::at(Code::UpstreamCrash, start, message));
            responses.aborts = true;
            return true;
        }
        // Mutated objects are compared during validation.
        if engines.offline.is_none() {
            let environment = engines.environment(host);
            engines
                .counterparts
                .compare(request, environment, &mut responses.list[before..], settings.watch);
            lens::note_differences(engines, &rows, &seen, resource, &mut responses.list[before..]);
        }
    }
    true
}

/// A resource of a run.
struct Subject<'s, 'e> {
    engines: &'s Engines<'e>,
    suite_request: &'s SuiteRequest<'e>,
    operation: Operation,
    key: &'s Key,
    host: &'s dyn Host,
}

impl Subject<'_, '_> {
    /// Evaluates all policies.
    ///
    /// # Errors
    /// The message with which `kyverno test` ends.
    fn evaluate(&self, request: &Request, list: &mut Vec<Response>) -> Result<(), String> {
        let Some(offline) = &self.engines.offline else {
            self.validate(Stage::Classic, request, list);
            self.validate(Stage::Cel, request, list);
            return Ok(());
        };
        let Engines { suite, controller, .. } = self.engines;
        let resource = self.suite_request.resource;
        let sent = self.engines.cluster.decoded(&resource.object);
        let classic = controller.policies().iter().filter_map(Lowered::as_classic);
        let accepted: Vec<&Arc<ClassicPolicy>> = classic.map(CompiledClassicPolicy::policy).collect();
        let before = list.len();
        let mut validated: Vec<(usize, Vec<Response>)> = Vec::new();
        let mut validate = |stage: Stage, object: &mut Document, before: usize| {
            let current = Resource {
                object: Arc::new(object.clone()),
                ..resource.clone()
            };
            let written = self.engines.cluster.written(suite, &current, self.operation, None);
            if stage == Stage::NativeMutation {
                let responses = native_mutation::evaluate(self.engines, &written, resource, self.host, object);
                let responses = responses.into_iter().map(|made| {
                    let mut response = self.response(&made.policy, None, made.response, None);
                    response.objects = Some(Arc::new(made.objects));
                    response
                });
                validated.push((before, responses.collect()));
                return;
            }
            let is_empty = self.policies(stage).next().is_none() && self.engines.server.policies().is_empty();
            if is_empty {
                return;
            }
            let request = self.engines.cluster.seen(written).request;
            let mut own = Vec::new();
            self.validate(stage, &request, &mut own);
            let Engines {
                counterparts, settings, ..
            } = self.engines;
            counterparts.compare(&request, self.engines.environment(self.host), &mut own, settings.watch);
            let objects = Arc::new(ResponseObjects {
                resource: object.clone(),
                patched: None,
                rules: Vec::new(),
            });
            for response in &mut own {
                response.objects = Some(Arc::clone(&objects));
            }
            validated.push((before, own));
        };
        let made = offline.pass(
            (resource, &sent),
            self.suite_request.run,
            &accepted,
            self.host,
            &mut validate,
        )?;
        let mut rules = made.iter().flat_map(|response| &response.rules);
        if let (true, Some(rule)) = (self.engines.settings.compat, rules.find(|rule| rule.response.panics)) {
            return Err(format!("`kyverno test` panics: {}", rule.response.message));
        }
        let mut validated = validated.into_iter().peekable();
        let mut unverified = Vec::new();
        // Classic policies get what the classic policies before them made of the object, all others the object that was sent.
        let mut current = sent.clone();
        for (number, mut response) in made.into_iter().enumerate() {
            while let Some((_, own)) = validated.next_if(|(before, _)| *before <= number) {
                list.extend(own);
            }
            if !self.engines.settings.compat {
                response.mark_undecided(&mut unverified);
            }
            let is_classic = [PolicyKind::ClusterPolicy, PolicyKind::Policy]
                .iter()
                .any(|kind| kind.name() == response.kind);
            let mut objects = offline::objects(&mut response, if is_classic { &current } else { &sent });
            if let Some(patched) = objects.patched.as_ref().filter(|_| is_classic) {
                current.clone_from(patched);
            }
            let decoded = |object: &Document| self.engines.cluster.decoded(object);
            objects.patched = objects.patched.as_ref().map(decoded);
            for rule in &mut objects.rules {
                rule.target = rule.target.as_ref().map(decoded);
                rule.generated = rule.generated.iter().map(decoded).collect();
            }
            list.push(self.made(response, objects));
        }
        list.extend(validated.flat_map(|(_, own)| own));
        let Engines {
            cluster, counterparts, ..
        } = self.engines;
        let written = cluster.written(suite, resource, self.operation, None);
        counterparts.compare_mutations(
            &written,
            cluster,
            self.engines.environment(self.host),
            &mut list[before..],
        );
        Ok(())
    }

    /// The Kyverno policies of a stage of validation, with the rules that count if not all of them do.
    fn policies(&self, stage: Stage) -> impl Iterator<Item = (&Lowered, Option<&BTreeSet<String>>)> {
        let is_of_stage = move |policy: &&Lowered| match stage {
            Stage::Classic => !policy.is_cel(),
            Stage::Cel => policy.is_cel(),
            Stage::NativeMutation => false,
        };
        let policies = self.engines.controller.policies().iter().filter(is_of_stage);
        policies.filter_map(|policy| match &self.engines.offline {
            // If there are other stages, only validating rules count here.
            Some(offline) if !policy.is_cel() => Some((policy, Some(offline.validating_rules(policy.id())?))),
            _ => Some((policy, None)),
        })
    }

    /// Evaluates the policies of a stage of validation.
    fn validate(&self, stage: Stage, request: &Request, list: &mut Vec<Response>) {
        let server = &self.engines.server;
        let watch = Stopwatch(self.engines.settings.watch);
        let resource = self.suite_request.resource;
        for (policy, rules) in self.policies(stage) {
            let begin = watch.time();
            let evaluated = self.engines.kyverno(policy, request, resource, self.host);
            // The time is charged to the first of several responses of a policy, so that times add up.
            let mut elapsed = watch.since(begin);
            for response in evaluated {
                let mut response = self.response(policy.id(), Some(policy), response, elapsed);
                if let Some(rules) = rules {
                    response.rules.retain(|rule| rules.contains(&rule.rule));
                }
                response.rules.shrink_to_fit();
                list.push(response);
                elapsed = elapsed.map(|_| Duration::ZERO);
            }
        }
        for policy in server.policies().iter().filter(|_| stage == Stage::Cel) {
            let begin = watch.time();
            let response = self.engines.native(policy, request, resource, self.host);
            let id = super::engines::native_id(policy.name());
            list.push(self.response(&id, None, response, watch.since(begin)));
        }
    }

    fn response(
        &self,
        policy: &PolicyId,
        lowered: Option<&Lowered>,
        response: PolicyResponse,
        elapsed: Option<Duration>,
    ) -> Response {
        Response {
            run: self.suite_request.run,
            check_id: self.suite_request.check_id,
            operation: self.operation,
            scored: lowered.is_none_or(Lowered::is_scored),
            has_rules: lowered.is_some_and(|policy| !policy.is_cel()),
            rules: response.rules,
            elapsed,
            trace: response.trace,
            ..Response::new(self.key.clone(), self.engines.shared_id(policy))
        }
    }

    /// The response of a stage that does not validate.
    fn made(&self, made: offline::Made, objects: ResponseObjects) -> Response {
        let is_classic = matches!(made.kind, "ClusterPolicy" | "Policy");
        let group = if is_classic || made.kind.ends_with("CleanupPolicy") {
            "kyverno.io"
        } else {
            "policies.kyverno.io"
        };
        let id = PolicyId {
            group,
            kind: made.kind,
            namespace: made.policy_namespace,
            name: made.policy,
        };
        let rules = made.rules.into_iter().map(|rule| rule.response);
        let response = PolicyResponse {
            rules: rules.collect(),
            trace: Vec::new(),
        };
        let mut response = self.response(&id, None, response, None);
        response.has_rules = is_classic;
        response.objects = Some(Arc::new(objects));
        response
    }
}

/// Evaluates the policies for JSON payloads on the payloads.
fn payloads(engines: &Engines<'_>, host: &dyn Host, responses: &mut Responses) {
    let watch = Stopwatch(engines.settings.watch);
    for payload in &engines.suite.json_payloads {
        let key = Key::named(&payload.path.value);
        let policies = engines.controller.policies().iter();
        for policy in policies.filter(|policy| policy.is_for_payloads()) {
            let begin = watch.time();
            for response in policy.evaluate_payload(payload.document.root(), host) {
                responses.list.push(Response {
                    scored: policy.is_scored(),
                    rules: response.rules,
                    elapsed: watch.since(begin),
                    trace: response.trace,
                    ..Response::new(key.clone(), engines.shared_id(policy.id()))
                });
            }
        }
    }
}

/// The clock by which cases are timed, if enabled.
pub(super) struct Stopwatch(pub(super) Option<fn() -> Duration>);

impl Stopwatch {
    pub(super) fn time(&self) -> Option<Duration> {
        self.0.map(|watch| watch())
    }

    pub(super) fn since(&self, begin: Option<Duration>) -> Option<Duration> {
        Some(self.time()?.saturating_sub(begin?))
    }
}
