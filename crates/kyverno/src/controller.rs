//! The admission controller: all policies of a cluster, evaluated on one request, and what the client gets.
//!
//! Upstream counterpart: `pkg/webhooks/resource/validation`, `pkg/webhooks/policies/validation` and `pkg/webhooks/utils/warning.go`
//! (1.19), between the API server's webhook plugin and the engine. With [`Lens::CLI`] it is the policy processor of
//! `kyverno test`, which has no webhooks.
//!
//! Known deviation: policies are evaluated in the given order, where a cluster has none.

use std::{borrow::Cow, sync::Arc};

use super::{
    cel_policy::CompileErrors,
    classic::values::Values,
    config::Config,
    exception::CompiledException,
    input::Input,
    lens::{Lens, Route},
    lowered::{EngineResponse, Lowered},
    refusal::{Refusal, RuleReview},
    select::Selection,
    webhook::{Call, Delivery, Registration, Webhook},
};
use kyvtest_cel::observe::Observer;
use kyvtest_model::{
    kube::{Discovery, Environment, Facts, Request, RequestClass},
    policy::{
        CelPolicyException, ClassicPolicy, Policy, PolicyException, PolicyId, ValidatingPolicy, validate_exception,
    },
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The policies and exceptions of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Installed<'p> {
    /// Policies; kinds that do not validate are ignored.
    pub policies: &'p [Policy],
    /// Exceptions of kyverno.io.
    pub exceptions: &'p [Arc<PolicyException>],
    /// Exceptions of policies.kyverno.io.
    pub cel_exceptions: &'p [Arc<CelPolicyException>],
}

/// An admission controller with its policies.
#[derive(Debug)]
pub struct Controller {
    policies: Vec<Lowered>,
    exceptions: Vec<CompiledException>,
    registration: Registration,
    config: Config,
    lens: Lens,
}

/// A CEL policy that Kyverno rejects because an expression does not compile.
#[derive(Debug)]
pub struct RejectedPolicy {
    pub id: PolicyId,
    /// What does not compile.
    pub errors: CompileErrors,
}

/// The controller's review of a request.
#[derive(Debug, Clone)]
pub struct Review {
    /// The responses of all rules and CEL policies that match, by policy in the given order.
    pub responses: Vec<RuleReview>,
    /// The refusal; `None` if the request is admitted.
    pub refusal: Option<Refusal>,
    /// The warnings that the client gets.
    pub warnings: Vec<String>,
    /// The policies without a response, with the last part that was evaluated.
    pub silent: Vec<(PolicyId, Part)>,
}

/// The result of one policy for a request.
#[derive(Debug, Clone)]
pub enum Evaluation {
    /// Kyverno does not get the request, because of this part.
    NotCalled(Part, Vec<String>),
    /// The API server denies the request: it cannot evaluate a match condition of the webhook.
    Denied(String, Vec<String>),
    /// The engine's responses: one, or one for the CEL policy and each policy that autogen makes of it.
    Evaluated(Vec<EngineResponse>),
}

/// The trace of a request that no webhook delivers.
const UNDELIVERED: &str = "no webhook hands the request to Kyverno";

impl Controller {
    /// Returns a controller with these policies, and the policies that it rejects. In a cluster, exceptions that do not
    /// pass validation do not count.
    pub fn new(
        installed: Installed<'_>,
        config: Config,
        lens: Lens,
        discovery: &Discovery,
    ) -> (Self, Vec<RejectedPolicy>) {
        let classic: Vec<&Arc<ClassicPolicy>> = installed.policies.iter().filter_map(Policy::as_classic).collect();
        let mut policies: Vec<Lowered> = classic
            .iter()
            .enumerate()
            .map(|(number, policy)| Lowered::classic(Arc::clone(policy), number, lens))
            .collect();
        let mut rejected = Vec::new();
        let mut accepted: Vec<&ValidatingPolicy> = Vec::new();
        for policy in installed.policies.iter().filter_map(Policy::as_validating) {
            let exceptions = installed.cel_exceptions.iter().map(|exception| &**exception);
            match Lowered::validating(policy, exceptions, accepted.len(), lens) {
                Ok(lowered) => {
                    accepted.push(policy);
                    policies.push(lowered);
                }
                Err(errors) => rejected.push(RejectedPolicy {
                    id: policy.id(),
                    errors,
                }),
            }
        }
        let classic: Vec<&ClassicPolicy> = classic.into_iter().map(|policy| &**policy).collect();
        let usable =
            |exception: &&Arc<PolicyException>| lens.route == Route::Direct || validate_exception(exception).is_none();
        let controller = Self {
            policies,
            registration: Registration::new(&classic, &accepted, discovery, lens),
            exceptions: installed
                .exceptions
                .iter()
                .filter(usable)
                .map(|exception| CompiledException::new(exception))
                .collect(),
            config: if lens.configuration { config } else { Config::bare() },
            lens,
        };
        (controller, rejected)
    }

    /// Why the API server rejects the webhooks; Kyverno then sees no request.
    pub fn registration_problem(&self) -> Option<&str> {
        self.registration.problem()
    }

    /// The policies: ClusterPolicies and Policies, then CEL policies.
    pub fn policies(&self) -> &[Lowered] {
        &self.policies
    }

    /// The policy with an identity.
    pub fn policy(&self, id: &PolicyId) -> Option<&Lowered> {
        self.policies.iter().find(|policy| policy.id() == id)
    }

    /// The webhook of a policy, if Kyverno registers one for it.
    pub fn webhook(&self, policy: &Lowered) -> Option<&Webhook> {
        policy.webhook(&self.registration)
    }

    /// The request as Kyverno gets it for a policy; `None` if it does not get it.
    pub fn delivered<'r>(
        &self,
        policy: &Lowered,
        request: &'r Request,
        environment: Environment<'_>,
    ) -> Option<Cow<'r, Request>> {
        let Environment { world, discovery, .. } = environment;
        let input = Input::new(request, world, discovery, self.lens);
        let delivery = self.delivers(policy, &request.cell(), discovery, &mut input.facts(), Some(request));
        // Mutate rules come by the mutating webhook, which is not registered here.
        let mutated = || policy.mutates().then_some(Cow::Borrowed(request));
        delivery.of(request).or_else(mutated)
    }

    /// As what a policy gets the requests of a class: by the webhook's rules and selectors, then by Kyverno's configuration.
    /// Roles with wildcards in the configuration count only for a given request.
    fn delivers<'p, 'd>(
        &'p self,
        policy: &Lowered,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
        request: Option<&Request>,
    ) -> Delivery<'d> {
        let webhook = self.webhook(policy);
        let mut delivery = || webhook.map_or(Delivery::None, |webhook| webhook.delivers(cell, discovery, facts));
        match self.lens.route {
            Route::Direct => Delivery::AsIs,
            Route::Converted => match delivery() {
                Delivery::None => Delivery::AsIs,
                delivery => delivery,
            },
            Route::Webhooks => {
                let delivery = delivery();
                // Kyverno's filters see the request as it arrives, converted to the listed version.
                let arrived = delivery.of_cell(cell);
                match arrived.filter(|cell| self.config.judges(cell, facts, request)) {
                    Some(_) => delivery,
                    None => Delivery::None,
                }
            }
        }
    }

    /// Which parts of a policy decide about the requests of a class, and the class as Kyverno gets it; `None` if it does not
    /// get them.
    pub fn select<'p, 'd>(
        &'p self,
        policy: &'p Lowered,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Option<(RequestClass<'d>, Selection<'p, bool>)> {
        let delivered = self.delivers(policy, cell, discovery, facts, None).of_cell(cell)?;
        Some((delivered, self.selection(policy, &delivered, facts)))
    }

    /// Which parts of a policy decide about the requests of a class that Kyverno gets.
    fn selection<'p>(
        &'p self,
        policy: &'p Lowered,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
    ) -> Selection<'p, bool> {
        Selection {
            webhook: self.webhook(policy).filter(|_| self.lens.route == Route::Webhooks),
            ..policy.select(cell, facts, &self.exceptions, self.lens)
        }
    }

    /// Kyverno's configuration, as far as it counts.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Evaluates one of the policies on a request.
    ///
    /// `values` are what a suite gives to classic rules.
    pub fn evaluate(
        &self,
        policy: &Lowered,
        request: &Request,
        environment: Environment<'_>,
        values: Option<&dyn Values>,
    ) -> Evaluation {
        let Environment { world, discovery, host } = environment;
        let Some(delivered) = self.delivered(policy, request, environment) else {
            let trace = host.observer().and_then(Observer::trace);
            let trace = trace.map(|_| UNDELIVERED.to_owned());
            return Evaluation::NotCalled(Part::Match, trace.into_iter().collect());
        };
        let mut input = Input::new(&delivered, world, discovery, self.lens);
        if self.lens.route != Route::Converted {
            input = input.converted_from(Arc::clone(&request.resource));
        }
        if let Some(values) = values {
            input = input.with_values(values);
        }
        let selection = self.selection(policy, &delivered.cell(), &mut policy.facts(&input));
        let (call, responses) = policy.evaluate(selection, &input, &self.exceptions, host);
        match call {
            Call::Made => Evaluation::Evaluated(responses),
            Call::NotMade(condition) => {
                let part = condition.map_or(Part::Match, Part::WebhookCondition);
                Evaluation::NotCalled(part, policy.trace(&input, host))
            }
            Call::Refused(error) => Evaluation::Denied(error, policy.trace(&input, host)),
        }
    }

    /// Evaluates all policies on a request.
    pub fn review(&self, request: &Request, environment: Environment<'_>) -> Review {
        let mut review = Review {
            responses: Vec::new(),
            refusal: None,
            warnings: Vec::new(),
            silent: Vec::new(),
        };
        for policy in &self.policies {
            match self.evaluate(policy, request, environment, None) {
                Evaluation::NotCalled(part, _) => review.silent.push((policy.id().clone(), part)),
                Evaluation::Denied(error, _) => {
                    review.silent.push((policy.id().clone(), Part::WebhookCondition(0)));
                    review
                        .refusal
                        .get_or_insert_with(|| Refusal::by_condition(request, &error));
                }
                Evaluation::Evaluated(responses) => {
                    let webhook = self.webhook(policy).map_or("", Webhook::name);
                    review.add(policy, webhook, responses);
                }
            }
        }
        if review.refusal.is_none() {
            review.refusal = Refusal::of(request, &review.responses);
        }
        self.warn(&mut review);
        review
    }

    /// Adds warnings for violations of classic rules that do not deny the request, unless their webhook denies it for
    /// another violation.
    fn warn(&self, review: &mut Review) {
        let mut warnings = Vec::new();
        for reviewed in review.responses.iter().filter(|reviewed| !reviewed.is_cel_policy) {
            let response = &reviewed.response;
            let emits = self.policy(&reviewed.id).is_some_and(Lowered::emits_warnings);
            let denies =
                |other: &RuleReview| other.webhook == reviewed.webhook && other.response.effect == Effect::Deny;
            // An error that an enforced rule ignores always warns; a reported violation warns if the policy has
            // `emitWarning`.
            let warns = match (response.status, response.effect) {
                (Status::Error, Effect::Warn) => true,
                (Status::Fail | Status::Error | Status::Warn, _) => emits,
                _ => false,
            };
            if warns && !review.responses.iter().any(denies) {
                let RuleReview { policy, response, .. } = reviewed;
                warnings.push(format!("policy {policy}.{}: {}", response.rule, response.message));
            }
        }
        warnings.append(&mut review.warnings);
        review.warnings = warnings;
    }
}

/// Of several variants of a policy, keep the part of the one that got furthest.
fn last_part(before: Part, part: Part) -> Part {
    if part == Part::Match { before } else { part }
}

impl Review {
    /// Adds the responses of a policy that was called.
    fn add(&mut self, policy: &Lowered, webhook: &str, responses: Vec<EngineResponse>) {
        let before = self.responses.len();
        let mut last = Part::Match;
        for response in responses {
            last = last_part(last, response.part);
            for rule in response.rules {
                let word = match rule.status {
                    Status::Fail => Some("failed"),
                    Status::Error => Some("error"),
                    _ => None,
                };
                if let Some(word) = word.filter(|_| response.warns) {
                    let warning = format!("Policy {} {word}: {}", policy.name(), rule.message);
                    self.warnings.push(warning);
                }
                self.responses.push(RuleReview {
                    webhook: webhook.to_owned(),
                    id: policy.id().clone(),
                    policy: response.policy.clone(),
                    is_cel_policy: policy.is_cel(),
                    response: rule,
                    generated: Vec::new(),
                });
            }
        }
        if self.responses.len() == before {
            self.silent.push((policy.id().clone(), last));
        }
    }

    /// The combined verdict of all policies.
    pub fn verdict(&self) -> Verdict {
        let responses = self.responses.iter();
        let mut verdict = Verdict::strongest(responses.map(|reviewed| reviewed.response.verdict(true)).collect());
        if let Some(refusal) = &self.refusal
            && verdict.effect != Effect::Deny
        {
            verdict.effect = Effect::Deny;
            verdict.status = Status::Error;
            verdict.trace.erred = true;
            verdict.message.clone_from(&refusal.message);
        }
        verdict
    }

    /// The combined verdict of one policy: the strongest effect and status of its rules, and the messages with that
    /// effect.
    pub fn of_policy(&self, policy: &PolicyId, scored: bool) -> Verdict {
        let own: Vec<Verdict> = self
            .responses
            .iter()
            .filter(|reviewed| reviewed.id == *policy)
            .map(|reviewed| reviewed.response.verdict(scored))
            .collect();
        if own.is_empty() {
            let part = self.silent.iter().find(|(id, _)| id == policy);
            let part = part.map_or(Part::Match, |(_, part)| *part);
            if let (Part::WebhookCondition(_), Some(refusal)) = (part, &self.refusal)
                && refusal.code == 403
            {
                return Verdict {
                    status: Status::Error,
                    effect: Effect::Deny,
                    message: refusal.message.clone(),
                    trace: Trace::error(part),
                };
            }
            return Verdict {
                status: Status::NoMatch,
                effect: Effect::Admit,
                message: String::new(),
                trace: Trace::of(part),
            };
        }
        Verdict::strongest(own)
    }
}
