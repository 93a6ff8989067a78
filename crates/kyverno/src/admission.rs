//! The admission controller: all policies of a cluster, asked about one request, and what the client gets.
//!
//! Upstream counterpart: `pkg/webhooks/resource/validation`, `pkg/webhooks/policies/validation` and `pkg/webhooks/utils/warning.go`
//! (1.19), between the API server's webhook plugin and the engine.
//!
//! Known deviation: policies are asked in the given order, where a cluster has none.

use std::sync::Arc;

use super::{
    classic_policy::CompiledPolicy,
    config::Config,
    exception::CompiledException,
    input::Input,
    lens::Lens,
    refusal::{Answered, Refusal},
    validating_policy::{Answer, CompiledValidatingPolicy},
    webhook::{Call, Registration, Webhook},
};
use kyvtest_cel::host::Host;
use kyvtest_model::{
    kube::{Discovery, Request, World},
    policy::{
        CelPolicyException, Policy, PolicyException, PolicyId, ValidatingPolicy, ValidationAction, validate_exception,
    },
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The policies and exceptions of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Installed<'p> {
    /// ClusterPolicies and Policies.
    pub policies: &'p [Arc<Policy>],
    /// Exceptions of kyverno.io.
    pub exceptions: &'p [Arc<PolicyException>],
    /// ValidatingPolicies and NamespacedValidatingPolicies.
    pub validating_policies: &'p [Arc<ValidatingPolicy>],
    /// Exceptions of policies.kyverno.io.
    pub cel_exceptions: &'p [Arc<CelPolicyException>],
}

/// An admission controller with its policies.
#[derive(Debug)]
pub struct Controller {
    classic: Vec<CompiledPolicy>,
    exceptions: Vec<CompiledException>,
    validating: Vec<Validating>,
    registration: Registration,
    config: Config,
}

#[derive(Debug)]
struct Validating {
    id: PolicyId,
    name: String,
    /// The policy and what autogen makes of it.
    variants: Vec<CompiledValidatingPolicy>,
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

impl Controller {
    /// A controller with these policies. Exceptions that a cluster refuses do not count; of a ValidatingPolicy that cannot be
    /// compiled, name and reason are answered besides.
    pub fn new(installed: Installed<'_>, config: Config, discovery: &Discovery) -> (Self, Vec<(String, String)>) {
        let mut refused = Vec::new();
        let mut validating = Vec::new();
        let mut accepted: Vec<&ValidatingPolicy> = Vec::new();
        for policy in installed.validating_policies {
            let exceptions = installed.cel_exceptions.iter().map(|exception| &**exception);
            let name = policy.metadata.name.value.clone();
            match CompiledValidatingPolicy::compile_all(policy, exceptions) {
                Ok(variants) => {
                    accepted.push(policy);
                    let id = policy.id();
                    validating.push(Validating { id, name, variants });
                }
                Err(error) => refused.push((name, error.to_string())),
            }
        }
        let policies: Vec<&Policy> = installed.policies.iter().map(|policy| &**policy).collect();
        let controller = Self {
            registration: Registration::new(&policies, &accepted, discovery),
            classic: installed
                .policies
                .iter()
                .map(|policy| CompiledPolicy::new(Arc::clone(policy)))
                .collect(),
            exceptions: installed
                .exceptions
                .iter()
                .filter(|exception| validate_exception(exception).is_none())
                .map(|exception| CompiledException::new(exception))
                .collect(),
            validating,
            config,
        };
        (controller, refused)
    }

    /// Why the API server refuses the webhooks; Kyverno then sees no request.
    pub fn registration_problem(&self) -> Option<&str> {
        self.registration.problem()
    }

    /// Judges a request.
    pub fn review(&self, request: &Request, world: &World, discovery: &Discovery, host: &dyn Host) -> Review {
        let mut review = Review {
            answers: Vec::new(),
            refusal: None,
            warnings: Vec::new(),
            silent: Vec::new(),
        };
        let deliver = |webhook: &Webhook| {
            let input = Input::new(request, world, discovery, Lens::CLUSTER);
            let delivery = webhook.delivers(&request.cell(), discovery, &mut input.facts());
            let delivered = delivery.of(request)?;
            // Kyverno's filters see the request as it arrives, converted to the listed version.
            let judged = self
                .config
                .judges(&Input::new(&delivered, world, discovery, Lens::CLUSTER));
            judged.then_some(delivered)
        };
        for (number, policy) in self.classic.iter().enumerate() {
            let name = &policy.policy().metadata.name.value;
            let id = policy.policy().id();
            let webhook = self.registration.classic(number);
            let Some((webhook, delivered)) = webhook.and_then(|webhook| Some((webhook, deliver(webhook)?))) else {
                review.silent.push((id, Part::Match));
                continue;
            };
            let input = Input::new(&delivered, world, discovery, Lens::CLUSTER);
            let input = input.converted_from(Arc::clone(&request.resource));
            if !review.called(webhook, &input, host, &id) {
                continue;
            }
            let decided = policy.decide(&input, &self.exceptions, host);
            if decided.rules.is_empty() {
                let part = decided.unmatched.last().map_or(Part::Match, |(_, part)| *part);
                review.silent.push((id.clone(), part));
            }
            review
                .answers
                .extend(decided.rules.into_iter().map(|response| Answered {
                    webhook: webhook.name().to_owned(),
                    id: id.clone(),
                    policy: name.clone(),
                    is_cel_policy: false,
                    response,
                }));
        }
        for (number, Validating { id, name, variants }) in self.validating.iter().enumerate() {
            let webhook = self.registration.validating(number);
            let Some((webhook, delivered)) = webhook.and_then(|webhook| Some((webhook, deliver(webhook)?))) else {
                review.silent.push((id.clone(), Part::Match));
                continue;
            };
            let input = Input::new(&delivered, world, discovery, Lens::CLUSTER);
            let input = input.converted_from(Arc::clone(&request.resource));
            if !review.called(webhook, &input, host, id) {
                continue;
            }
            let before = review.answers.len();
            let mut last = Part::Match;
            for policy in variants {
                match policy.decide(&input, host) {
                    Answer::NoMatch(part) => last = last_part(last, part),
                    Answer::Rule(response) => {
                        if policy.actions().contains(&ValidationAction::Warn) {
                            let word = match response.status {
                                Status::Fail => Some("failed"),
                                Status::Error => Some("error"),
                                _ => None,
                            };
                            let warning = word.map(|word| format!("Policy {name} {word}: {}", response.message));
                            review.warnings.extend(warning);
                        }
                        review.answers.push(Answered {
                            webhook: webhook.name().to_owned(),
                            id: id.clone(),
                            policy: policy.name().to_owned(),
                            is_cel_policy: true,
                            response,
                        });
                    }
                }
            }
            if review.answers.len() == before {
                review.silent.push((id.clone(), last));
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
            let emits = self.classic.iter().any(|policy| {
                let policy = policy.policy();
                policy.spec.emit_warning && policy.id() == answered.id
            });
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
    /// Whether the API server asks Kyverno about a request that a webhook lists.
    fn called(&mut self, webhook: &Webhook, input: &Input<'_>, host: &dyn Host, policy: &PolicyId) -> bool {
        match webhook.call(input, host) {
            Call::Made => return true,
            Call::NotMade(condition) => {
                let part = condition.map_or(Part::Match, Part::WebhookCondition);
                self.silent.push((policy.clone(), part));
            }
            Call::Refused(error) => {
                self.silent.push((policy.clone(), Part::WebhookCondition(0)));
                self.refusal
                    .get_or_insert_with(|| Refusal::by_condition(input.request, &error));
            }
        }
        false
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
