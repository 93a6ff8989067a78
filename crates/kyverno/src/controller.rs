//! The admission controller: all policies of a cluster, evaluated on one request, and what the client gets.
//!
//! Upstream counterpart: `pkg/webhooks/resource/validation`, `pkg/webhooks/policies/validation` and `pkg/webhooks/utils/warning.go`
//! (1.19), between the API server's webhook plugin and the engine. With [`Lens::CLI`] it is the policy processor of
//! `kyverno test`, which has no webhooks.
//!
//! Known deviation: policies are evaluated in the given order, where a cluster has none.

use std::{borrow::Cow, sync::Arc};

use super::{
    classic::values::Values,
    config::Config,
    exception::CompiledException,
    input::Input,
    lens::{Lens, Route},
    lowered::{EngineResponse, Lowered},
    refusal::{Answered, Refusal},
    select::Selection,
    validating_policy::CompileErrors,
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
    /// Policies; those that Kyverno does not validate with are passed over.
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

/// A CEL policy that Kyverno refuses because an expression does not compile.
#[derive(Debug)]
pub struct RefusedPolicy {
    /// The policy.
    pub id: PolicyId,
    /// What does not compile.
    pub errors: CompileErrors,
}

/// What the controller says about a request.
#[derive(Debug, Clone)]
pub struct Review {
    /// The answers of all rules and CEL policies that match, by policy in the given order.
    pub answers: Vec<Answered>,
    /// The refusal; `None` if the request is admitted.
    pub refusal: Option<Refusal>,
    /// The warnings that the client gets.
    pub warnings: Vec<String>,
    /// The policies that gave no answer, with the last part that was evaluated.
    pub silent: Vec<(PolicyId, Part)>,
}

/// What one policy says about a request.
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
    /// A controller with these policies, and those that it refuses. In a cluster, exceptions that do not pass validation do
    /// not count.
    pub fn new(
        installed: Installed<'_>,
        config: Config,
        lens: Lens,
        discovery: &Discovery,
    ) -> (Self, Vec<RefusedPolicy>) {
        let classic: Vec<&Arc<ClassicPolicy>> = installed.policies.iter().filter_map(Policy::as_classic).collect();
        let mut policies: Vec<Lowered> = classic
            .iter()
            .enumerate()
            .map(|(number, policy)| Lowered::classic(Arc::clone(policy), number, lens))
            .collect();
        let mut refused = Vec::new();
        let mut accepted: Vec<&ValidatingPolicy> = Vec::new();
        for policy in installed.policies.iter().filter_map(Policy::as_validating) {
            let exceptions = installed.cel_exceptions.iter().map(|exception| &**exception);
            match Lowered::validating(policy, exceptions, accepted.len(), lens) {
                Ok(lowered) => {
                    accepted.push(policy);
                    policies.push(lowered);
                }
                Err(errors) => refused.push(RefusedPolicy {
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
        (controller, refused)
    }

    /// Why the API server refuses the webhooks; Kyverno then sees no request.
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

    /// What one of the policies says about a request.
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
            answers: Vec::new(),
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
            review.refusal = Refusal::of(request, &review.answers);
        }
        self.warn(&mut review);
        review
    }

    /// Violations of classic rules that do not refuse warn, unless their webhook refuses for another one.
    fn warn(&self, review: &mut Review) {
        let mut warnings = Vec::new();
        for answered in review.answers.iter().filter(|answered| !answered.is_cel_policy) {
            let response = &answered.response;
            let emits = self.policy(&answered.id).is_some_and(Lowered::emits_warnings);
            let refuses = |other: &Answered| other.webhook == answered.webhook && other.response.effect == Effect::Deny;
            // An error that an enforced rule ignores always warns; what is only reported warns where the policy asks for it.
            let warns = match (response.status, response.effect) {
                (Status::Error, Effect::Warn) => true,
                (Status::Fail | Status::Error | Status::Warn, _) => emits,
                _ => false,
            };
            if warns && !review.answers.iter().any(refuses) {
                let Answered { policy, response, .. } = answered;
                warnings.push(format!("policy {policy}.{}: {}", response.rule, response.message));
            }
        }
        warnings.append(&mut review.warnings);
        review.warnings = warnings;
    }
}

/// A later variant of a policy that got further says more.
fn last_part(before: Part, part: Part) -> Part {
    if part == Part::Match { before } else { part }
}

impl Review {
    /// Adds what a policy that was called said.
    fn add(&mut self, policy: &Lowered, webhook: &str, responses: Vec<EngineResponse>) {
        let before = self.answers.len();
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
                self.answers.push(Answered {
                    webhook: webhook.to_owned(),
                    id: policy.id().clone(),
                    policy: response.policy.clone(),
                    is_cel_policy: policy.is_cel(),
                    response: rule,
                    generated: Vec::new(),
                });
            }
        }
        if self.answers.len() == before {
            self.silent.push((policy.id().clone(), last));
        }
    }

    /// What all policies say together.
    pub fn verdict(&self) -> Verdict {
        let answers = self.answers.iter();
        let mut verdict = Verdict::strongest(answers.map(|answered| answered.response.verdict(true)).collect());
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

    /// What one policy says, all of its rules together: the strongest effect and status, and the texts of what has that effect.
    pub fn of_policy(&self, policy: &PolicyId, scored: bool) -> Verdict {
        let own: Vec<Verdict> = self
            .answers
            .iter()
            .filter(|answered| answered.id == *policy)
            .map(|answered| answered.response.verdict(scored))
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
