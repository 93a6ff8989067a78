//! The admission controller's mutating webhooks: the mutate rules of all ClusterPolicies and Policies of a cluster, then all
//! MutatingPolicies, on one request.
//!
//! Upstream counterpart: `pkg/webhooks/resource/{mutation,mpol}` and `pkg/cel/policies/mpol/engine` (1.19), between the API
//! server's webhook plugin and the engine.
//!
//! Known deviations: policies are evaluated in the given order, each through its own webhook; a cluster has no order;
//! the API server completes the object after each policy that changes it, upstream after each webhook. Webhooks are not
//! called again after others have changed the object (`reinvocationPolicy`).

use std::sync::Arc;

use super::{
    cel_policy::CompileErrors,
    exception::CompiledException,
    input::Input,
    lens::Lens,
    mutate::CompiledMutation,
    mutating_policy::CompiledMutatingPolicy,
    refusal::{Refusal, RuleReview},
    webhook::{Call, Webhook},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{Discovery, Environment, Request, convert},
    policy::{CelPolicyException, ClassicPolicy, MutatingPolicy, PolicyException, PolicyId, validate_exception},
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The policies of a cluster that change objects.
#[derive(Debug, Default)]
pub struct MutatingController {
    policies: Vec<Installed>,
    exceptions: Vec<CompiledException>,
}

#[derive(Debug)]
struct Installed {
    id: PolicyId,
    webhook: Webhook,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// The mutate rules of a policy, those for pod controllers included.
    Rules(Box<CompiledMutation>),
    /// A MutatingPolicy, then what autogen makes of it.
    Policies(Vec<CompiledMutatingPolicy>),
}

/// The result of all mutating webhooks.
#[derive(Debug, Clone)]
pub struct MutationReview {
    /// The object after all webhooks; if the request is denied, after the last one that was called.
    pub object: Document,
    /// Why the request is denied.
    pub refusal: Option<Refusal>,
    /// The responses of the policies that match.
    pub responses: Vec<RuleReview>,
}

/// Completes an object that a webhook has patched, as the API server does.
///
/// # Errors
/// The server's error message.
pub(crate) type Complete<'c> = &'c dyn Fn(&Document) -> Result<Document, String>;

impl MutatingController {
    /// Returns a controller with these policies, and the policies that Kyverno rejects.
    pub fn new(
        policies: &[Arc<MutatingPolicy>],
        exceptions: &[Arc<CelPolicyException>],
    ) -> (Self, Vec<(Arc<MutatingPolicy>, CompileErrors)>) {
        let mut controller = Self::default();
        let mut rejected = Vec::new();
        for policy in policies {
            let exceptions = exceptions.iter().map(|exception| &**exception);
            let stored = policy.as_stored();
            match CompiledMutatingPolicy::compile_all(&stored, exceptions) {
                Ok(compiled) => controller.policies.push(Installed {
                    id: policy.id(),
                    webhook: Webhook::of_mutating_policy(&stored),
                    body: Body::Policies(compiled),
                }),
                Err(errors) => rejected.push((Arc::clone(policy), errors)),
            }
        }
        (controller, rejected)
    }

    /// The same with the mutate rules of ClusterPolicies and Policies, which come first.
    #[must_use]
    pub fn with_rules(
        mut self,
        policies: &[Arc<ClassicPolicy>],
        exceptions: &[Arc<PolicyException>],
        discovery: &Discovery,
    ) -> Self {
        let installed = policies.iter().filter_map(|policy| {
            Some(Installed {
                id: policy.id(),
                webhook: Webhook::of_mutate_rules(policy, discovery)?,
                body: Body::Rules(Box::new(CompiledMutation::new(policy)?)),
            })
        });
        let mut all: Vec<Installed> = installed.collect();
        all.append(&mut self.policies);
        self.policies = all;
        let usable = exceptions
            .iter()
            .filter(|exception| validate_exception(exception).is_none());
        self.exceptions = usable.map(|exception| CompiledException::new(exception)).collect();
        self
    }

    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Sends a request through all webhooks.
    pub fn review(&self, request: &Request, environment: Environment<'_>, complete: Complete<'_>) -> MutationReview {
        let mut review = MutationReview {
            object: request.object.clone(),
            refusal: None,
            responses: Vec::new(),
        };
        let mut errors: Vec<(&Installed, String)> = Vec::new();
        for policy in &self.policies {
            let current = Request {
                object: review.object.clone(),
                ..request.clone()
            };
            match policy.call(&current, environment, &self.exceptions, &mut review.responses) {
                Called::Unchanged => {}
                Called::Refused(error) => {
                    review.refusal = Some(Refusal::by_condition(request, &error));
                    return review;
                }
                Called::Failed(message) => errors.push((policy, message)),
                Called::Denied(message) => {
                    let webhook = policy.webhook.name();
                    review.refusal = Some(Refusal {
                        code: 400,
                        message: format!("admission webhook \"{webhook}\" denied the request: {message}"),
                    });
                    return review;
                }
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

/// The result of one policy.
enum Called {
    Unchanged,
    /// The API server cannot evaluate a condition of the webhook.
    Refused(String),
    /// The policy fails, and failures deny the request.
    Failed(String),
    /// A rule fails, and failures deny the request at once.
    Denied(String),
    Patched(Document),
}

impl Installed {
    fn call(
        &self,
        request: &Request,
        environment: Environment<'_>,
        exceptions: &[CompiledException],
        responses: &mut Vec<RuleReview>,
    ) -> Called {
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
        let called = match &self.body {
            Body::Rules(rules) => self.evaluate_rules(rules, &input, exceptions, host, responses),
            Body::Policies(policies) => self.evaluate(policies, &input, &delivered.object, host, responses),
        };
        match called {
            // The patch is for the version that the webhook lists.
            Called::Patched(object) if delivered.resource != request.resource => {
                Called::Patched(convert(object.root(), &delivered.resource, &request.resource))
            }
            called => called,
        }
    }

    /// Evaluates the mutate rules of a policy. An error discards all changes of the policy.
    fn evaluate_rules(
        &self,
        rules: &CompiledMutation,
        input: &Input<'_>,
        exceptions: &[CompiledException],
        host: &dyn Host,
        responses: &mut Vec<RuleReview>,
    ) -> Called {
        let evaluated = rules.evaluate(input, exceptions, None, host);
        let mut failed = Vec::new();
        for result in evaluated.rules {
            let mut response = result.response;
            if response.status == Status::Error {
                failed.push(format!("{}: {}", response.rule, response.message));
                if self.webhook.fails() {
                    response.effect = Effect::Deny;
                }
            }
            responses.push(RuleReview {
                webhook: self.webhook.name().to_owned(),
                id: self.id.clone(),
                policy: self.id.name.clone(),
                is_cel_policy: false,
                response,
                generated: Vec::new(),
            });
        }
        if failed.is_empty() {
            let object = evaluated.patched;
            return if object.root().is_null() || object == input.request.object {
                Called::Unchanged
            } else {
                Called::Patched(object)
            };
        }
        if !self.webhook.fails() {
            return Called::Unchanged;
        }
        let (name, failed) = (&self.id.name, failed.join(" "));
        Called::Denied(format!(
            "mutation policy {name} error: failed to apply policy {name} rules [{failed}]"
        ))
    }

    fn evaluate(
        &self,
        policies: &[CompiledMutatingPolicy],
        input: &Input<'_>,
        object: &Document,
        host: &dyn Host,
        responses: &mut Vec<RuleReview>,
    ) -> Called {
        let mut current = object.clone();
        for policy in policies {
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
            responses.push(RuleReview {
                webhook: self.webhook.name().to_owned(),
                id: self.id.clone(),
                policy: self.id.name.clone(),
                is_cel_policy: true,
                response: evaluated.response,
                generated: Vec::new(),
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
    /// The combined verdict of all policies.
    pub fn verdict(&self) -> Verdict {
        let responses = self.responses.iter();
        let mut verdict = Verdict::strongest(responses.map(|reviewed| reviewed.response.verdict(true)).collect());
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
        if self.responses.is_empty() && self.refusal.is_none() {
            verdict.trace = Trace::of(Part::Match);
        }
        verdict
    }
}
