//! The admission controller's mutating webhooks for MutatingPolicies: all policies of a cluster on one request.
//!
//! Upstream counterpart: `pkg/webhooks/resource/mpol` and `pkg/cel/policies/mpol/engine` (1.19), between the API server's
//! webhook plugin and the engine.
//!
//! Known deviations: policies are evaluated in the given order, each through a webhook of its own, where a cluster has no
//! order; the API server completes the object after each policy that changes it, upstream after each webhook.

use std::sync::Arc;

use super::{
    input::Input,
    lens::Lens,
    mutating_policy::{CompileErrors, CompiledMutatingPolicy},
    refusal::{Answered, Refusal},
    webhook::{Call, Webhook},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{Environment, Request, convert},
    policy::{CelPolicyException, MutatingPolicy, PolicyId},
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The MutatingPolicies of a cluster.
#[derive(Debug, Default)]
pub struct MutatingController {
    policies: Vec<Installed>,
}

#[derive(Debug)]
struct Installed {
    id: PolicyId,
    webhook: Webhook,
    /// The policy, then what autogen makes of it.
    compiled: Vec<CompiledMutatingPolicy>,
}

/// What the webhooks made of a request.
#[derive(Debug, Clone)]
pub struct MutationReview {
    /// The object after all webhooks; of a refused request, as far as they got.
    pub object: Document,
    /// Why the request is refused.
    pub refusal: Option<Refusal>,
    /// The responses of the policies that match.
    pub answers: Vec<Answered>,
}

/// Completes an object that a webhook has patched, as the API server does.
///
/// # Errors
/// The text of the server's error.
pub type Complete<'c> = &'c dyn Fn(&Document) -> Result<Document, String>;

impl MutatingController {
    /// A controller with these policies, and those that Kyverno refuses.
    pub fn new(
        policies: &[Arc<MutatingPolicy>],
        exceptions: &[Arc<CelPolicyException>],
    ) -> (Self, Vec<(Arc<MutatingPolicy>, CompileErrors)>) {
        let mut controller = Self::default();
        let mut refused = Vec::new();
        for policy in policies {
            let exceptions = exceptions.iter().map(|exception| &**exception);
            match CompiledMutatingPolicy::compile_all(policy, exceptions) {
                Ok(compiled) => controller.policies.push(Installed {
                    id: policy.id(),
                    webhook: Webhook::of_mutating_policy(policy),
                    compiled,
                }),
                Err(errors) => refused.push((Arc::clone(policy), errors)),
            }
        }
        (controller, refused)
    }

    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Sends a request through all webhooks.
    pub fn review(&self, request: &Request, environment: Environment<'_>, complete: Complete<'_>) -> MutationReview {
        let mut review = MutationReview {
            object: request.object.clone(),
            refusal: None,
            answers: Vec::new(),
        };
        let mut errors: Vec<(&Installed, String)> = Vec::new();
        for policy in &self.policies {
            let current = Request {
                object: review.object.clone(),
                ..request.clone()
            };
            match policy.call(&current, environment, &mut review.answers) {
                Called::Unchanged => {}
                Called::Refused(error) => {
                    review.refusal = Some(Refusal::by_condition(request, &error));
                    return review;
                }
                Called::Failed(message) => errors.push((policy, message)),
                Called::Patched(object) => match complete(&object) {
                    Ok(object) => review.object = object,
                    Err(error) => {
                        review.refusal = Some(Refusal {
                            code: 500,
                            message: format!("Internal error occurred: {error}"),
                        });
                        return review;
                    }
                },
            }
        }
        if let Some((first, _)) = errors.first() {
            let texts: Vec<String> = errors
                .iter()
                .map(|(policy, message)| format!("Policy {}: {message}", policy.id.name))
                .collect();
            let name = if request.namespace.is_empty() {
                request.name.clone()
            } else {
                format!("{}/{}", request.namespace, request.name)
            };
            review.refusal = Some(Refusal {
                code: 400,
                message: format!(
                    "admission webhook \"{}\" denied the request: Resource: {name}, Kind: {}, Errors: [{}]",
                    first.webhook.name(),
                    request.resource.object_kind.kind,
                    texts.join(", ")
                ),
            });
        }
        review
    }
}

/// What one policy made of a request.
enum Called {
    Unchanged,
    /// The API server cannot evaluate a condition of the webhook.
    Refused(String),
    /// The policy fails, and failures refuse the request.
    Failed(String),
    Patched(Document),
}

impl Installed {
    fn call(&self, request: &Request, environment: Environment<'_>, answers: &mut Vec<Answered>) -> Called {
        let Environment { world, discovery, host } = environment;
        let delivered = {
            let input = Input::new(request, world, discovery, Lens::CLUSTER);
            let delivery = self.webhook.delivers(&request.cell(), discovery, &mut input.facts());
            delivery.of(request)
        };
        let Some(delivered) = delivered else {
            return Called::Unchanged;
        };
        let input =
            Input::new(&delivered, world, discovery, Lens::CLUSTER).converted_from(Arc::clone(&request.resource));
        match self.webhook.call(&input, host) {
            Call::Made => {}
            Call::NotMade(_) => return Called::Unchanged,
            Call::Refused(error) => return Called::Refused(error),
        }
        match self.evaluate(&input, &delivered.object, host, answers) {
            // The patch is for the version that the webhook lists.
            Called::Patched(object) if delivered.resource != request.resource => {
                Called::Patched(convert(object.root(), &delivered.resource, &request.resource))
            }
            called => called,
        }
    }

    fn evaluate(&self, input: &Input<'_>, object: &Document, host: &dyn Host, answers: &mut Vec<Answered>) -> Called {
        let mut current = object.clone();
        for policy in &self.compiled {
            // Policies with targets change existing objects in the background.
            if policy.has_targets() {
                continue;
            }
            let Some(mut evaluated) = policy.evaluate(input, &current, host) else {
                continue;
            };
            let fails = evaluated.response.status == Status::Error;
            if fails && self.webhook.fails() {
                evaluated.response.effect = Effect::Deny;
            }
            let message = evaluated.response.message.clone();
            answers.push(Answered {
                webhook: self.webhook.name().to_owned(),
                id: self.id.clone(),
                policy: self.id.name.clone(),
                is_cel_policy: true,
                response: evaluated.response,
            });
            if fails {
                return if self.webhook.fails() {
                    Called::Failed(message)
                } else {
                    Called::Unchanged
                };
            }
            if let Some(patched) = evaluated.patched {
                current = patched;
            }
        }
        if current == *object {
            Called::Unchanged
        } else {
            Called::Patched(current)
        }
    }
}

impl MutationReview {
    /// What all policies say together.
    pub fn verdict(&self) -> Verdict {
        let answers = self.answers.iter();
        let mut verdict = Verdict::strongest(answers.map(|answered| answered.response.verdict(true)).collect());
        if let Some(refusal) = &self.refusal {
            verdict = Verdict {
                status: Status::Error,
                effect: Effect::Deny,
                message: refusal.message.clone(),
                trace: Trace {
                    erred: true,
                    ..verdict.trace
                },
            };
        }
        if self.answers.is_empty() && self.refusal.is_none() {
            verdict.trace = Trace::of(Part::Match);
        }
        verdict
    }
}
