//! The decision on one request: every policy with every binding and every parameter.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`. Nothing ends early: what comes
//! after a refusal still warns and writes annotations.

use std::cell::OnceCell;

use super::{
    audit::{Audit, OfPolicy},
    input::{Documents, Input},
    params,
    policy::{Binding, CompiledNativePolicy, Failure},
    response::{AdmissionResponse, Denial, PolicyVerdict},
    select::{Selector, Step as PolicyStep, by_name},
    warning::Warnings,
};
use kyvtest_cel::{
    admission::{Annotation, Cause, Decision as Decided, Inputs, Outcome},
    context::Scratch,
    host::{self, Attributes, Authorizing, Host},
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Access, Discovery, Request, Resource, World},
    policy::ValidationAction,
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// Evaluates a request as an API server with these policies and bindings does.
///
/// `world` holds namespaces, parameters and RBAC objects, and `discovery` the served resources. The authorizer decides
/// by `host` if it returns a decision, else by the RBAC objects. A binding whose policy is missing has no effect.
pub(super) fn decide(
    policies: &[CompiledNativePolicy],
    bindings: &[Binding],
    request: &Request,
    world: &World,
    discovery: &Discovery,
    host: &dyn Host,
) -> AdmissionResponse {
    let mut response = AdmissionResponse::admitted(request);
    if !request.resource.reaches_native_policies() {
        return response;
    }
    let input = Input::new(request, world, discovery);
    let authorize = |attributes: &Attributes| authorize(attributes, &input);
    let host = Authorizing {
        host,
        authorize: &authorize,
        user: &request.user.username,
    };
    let mut dispatch = Dispatch {
        input: &input,
        host: &host,
        selector: Selector::new(input.request.cell(), discovery),
        denials: Vec::new(),
        warnings: Warnings::default(),
        audit: Audit::default(),
        verdicts: Vec::new(),
    };
    let bindings = by_name(bindings, Binding::name);
    for policy in by_name(policies, CompiledNativePolicy::name) {
        let own = bindings.iter().copied().filter(|binding| binding.policy == policy.name);
        dispatch.policy(policy, &own.collect::<Vec<_>>());
    }
    let Dispatch {
        denials,
        warnings,
        audit,
        verdicts,
        ..
    } = dispatch;
    (response.warnings, response.lost_warnings) = warnings.finish();
    response.audit = audit.finish();
    response.verdicts = verdicts;
    response.summarise();
    if let Some(first) = denials.first() {
        response.deny(&input.request, first);
    }
    response
}

/// Authorizes by the RBAC objects of the cluster. A service account has none of the groups that a login would give it.
pub(super) fn authorize(attributes: &Attributes, input: &Input<'_>) -> host::Decision {
    let user = &input.request.user;
    let groups = match &attributes.service_account {
        Some((namespace, _)) => vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        None => user.groups().to_vec(),
    };
    let authorized = input.world.authorize(&Access {
        user: &attributes.user,
        groups: &groups,
        verb: &attributes.verb,
        path: attributes.path.as_deref(),
        group: &attributes.group,
        resource: &attributes.resource,
        subresource: &attributes.subresource,
        namespace: &attributes.namespace,
        name: &attributes.name,
    });
    host::Decision {
        allowed: authorized.allowed,
        reason: authorized.reason,
        error: None,
    }
}

/// One decision on its way into a verdict.
struct Step {
    status: Status,
    effect: Effect,
    message: String,
    part: Part,
}

struct Dispatch<'i> {
    input: &'i Input<'i>,
    host: &'i dyn Host,
    selector: Selector<'i>,
    denials: Vec<Denial>,
    warnings: Warnings,
    audit: Audit,
    verdicts: Vec<PolicyVerdict>,
}

impl Dispatch<'_> {
    fn policy(&mut self, policy: &CompiledNativePolicy, bindings: &[&Binding]) {
        let bindings = bindings.iter().copied();
        let steps = policy.select(bindings, &self.selector, &mut self.input.facts());
        let converted = OnceCell::new();
        let mut annotations = OfPolicy::default();
        for step in steps {
            match step {
                PolicyStep::Unselected(binding, part) => self.silent(policy, binding, Status::NoMatch, part),
                PolicyStep::Misconfigured(binding, error, part) => self.misconfigured(policy, binding, &error, part),
                PolicyStep::Bound {
                    binding,
                    matched,
                    params,
                } => {
                    // All bindings of a policy match as the same resource.
                    let documents = if *matched == *self.input.request.resource {
                        self.input.own()
                    } else {
                        converted.get_or_init(|| self.input.documents(matched))
                    };
                    match params::collect(params, binding.params.as_ref(), self.input) {
                        Err(error) => self.misconfigured(policy, Some(binding), &error, Part::Params),
                        Ok(params) if params.is_empty() => {
                            self.silent(policy, Some(binding), Status::Skip, Part::Params);
                        }
                        Ok(params) => {
                            for param in params {
                                self.evaluate(policy, binding, param.as_ref(), (documents, matched), &mut annotations);
                            }
                        }
                    }
                }
            }
        }
        self.audit.publish(&policy.name, annotations);
    }

    /// Records a policy that does not match.
    fn silent(&mut self, policy: &CompiledNativePolicy, binding: Option<&Binding>, status: Status, part: Part) {
        self.say(policy, binding, None, Verdict::silent(status, part));
    }

    fn say(
        &mut self,
        policy: &CompiledNativePolicy,
        binding: Option<&Binding>,
        param: Option<&Document>,
        verdict: Verdict,
    ) {
        let param = param.map(params::label);
        self.verdicts.push(PolicyVerdict {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            param,
            verdict,
        });
    }

    /// Denies the request because policy or binding cannot be used, regardless of the binding's actions, unless errors
    /// are ignored.
    fn misconfigured(&mut self, policy: &CompiledNativePolicy, binding: Option<&Binding>, error: &str, part: Part) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = match &policy.failure_policy {
            Failure::Unknown(word) => format!("unrecognized failure policy: '{word}'"),
            Failure::Fail | Failure::Ignore => format!("failed to configure {what}: {error}"),
        };
        let effect = policy.misconfiguration_effect();
        if effect == Effect::Deny {
            self.deny(policy, binding, None, &message);
        }
        let verdict = Verdict {
            status: Status::Error,
            effect,
            message,
            trace: Trace::error(part),
        };
        self.say(policy, binding, None, verdict);
    }

    fn deny(&mut self, policy: &CompiledNativePolicy, binding: Option<&Binding>, reason: Option<&str>, message: &str) {
        self.denials.push(Denial {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            reason: reason.map(str::to_owned),
            message: message.to_owned(),
        });
    }

    fn evaluate(
        &mut self,
        policy: &CompiledNativePolicy,
        binding: &Binding,
        param: Option<&Document>,
        (documents, matched): (&Documents, &Resource),
        collected: &mut OfPolicy,
    ) {
        let (request, condition_request) = if policy.validator.reads_request() {
            documents.requests(self.input, matched)
        } else {
            (Value::Null, Value::Null)
        };
        let inputs = Inputs {
            object: documents.object.root(),
            old_object: documents.old_object.root(),
            request,
            condition_request,
            namespace: documents.namespace.root(),
            params: param.map_or(Value::Null, Document::root),
        };
        let attributes = self.input.attributes();
        let outcome = policy
            .validator
            .validate(&inputs, &attributes, self.host, &Scratch::new());
        let (decisions, annotations) = match outcome {
            Outcome::Unmatched(condition) => {
                let verdict = Verdict {
                    status: Status::Skip,
                    effect: Effect::Admit,
                    message: String::new(),
                    trace: Trace::of(Part::Precondition(condition.index)),
                };
                return self.say(policy, Some(binding), param, verdict);
            }
            Outcome::Decided { decisions, annotations } => (decisions, annotations),
        };
        let decisions = decisions.into_iter().enumerate();
        let mut steps: Vec<Step> = decisions
            .map(|(index, decision)| self.act(policy, binding, index, decision))
            .collect();
        for (index, annotation) in annotations.into_iter().enumerate() {
            let Annotation { key, value } = annotation;
            match value {
                Ok(None) => {}
                Ok(Some(value)) => collected.add(&key, &value),
                Err(message) => {
                    let ignored = policy.failure_policy == Failure::Ignore;
                    if !ignored {
                        self.deny(policy, Some(binding), None, &message);
                    }
                    steps.push(Step {
                        status: Status::Error,
                        effect: if ignored { Effect::Admit } else { Effect::Deny },
                        message,
                        part: Part::AuditAnnotation(index),
                    });
                }
            }
        }
        let verdict = summary(steps);
        self.say(policy, Some(binding), param, verdict);
    }

    /// Carries out the binding's actions for a decision.
    fn act(&mut self, policy: &CompiledNativePolicy, binding: &Binding, index: usize, decision: Decided) -> Step {
        let (status, reason, message, part) = match decision {
            Decided::Admit => {
                return Step {
                    status: Status::Pass,
                    effect: Effect::Admit,
                    message: String::new(),
                    part: Part::All,
                };
            }
            Decided::Deny { index, message } => {
                let reason = policy.reasons.get(index).and_then(Option::as_deref);
                (Status::Fail, reason, message, Part::Validation(index))
            }
            Decided::Error { cause, message } => {
                let part = match cause {
                    Cause::MatchCondition(index) => Part::Precondition(index),
                    Cause::Validation(index) => Part::Validation(index),
                    Cause::Budget => Part::Budget,
                };
                if policy.failure_policy == Failure::Ignore {
                    return Step {
                        status: Status::Error,
                        effect: Effect::Admit,
                        message,
                        part,
                    };
                }
                (Status::Error, None, message, part)
            }
        };
        let mut effect = Effect::Admit;
        for action in &binding.actions {
            effect = effect.max(match action {
                ValidationAction::Deny => {
                    self.deny(policy, Some(binding), reason, &message);
                    Effect::Deny
                }
                ValidationAction::Audit => {
                    let names = [binding.policy.as_str(), binding.name.as_str()];
                    self.audit.violation(&message, names, index, &binding.actions);
                    Effect::Audit
                }
                ValidationAction::Warn => {
                    self.warnings.add(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    ));
                    Effect::Warn
                }
            });
        }
        Step {
            status,
            effect,
            message,
            part,
        }
    }
}

/// One verdict of all steps: the first of those with the strongest effect decides; an error is one also where another
/// step has the word.
fn summary(steps: Vec<Step>) -> Verdict {
    let effect = steps.iter().map(|step| step.effect).max().unwrap_or(Effect::Admit);
    let erred = steps.iter().any(|step| step.status == Status::Error);
    let decisive = steps
        .into_iter()
        .find(|step| step.effect == effect && (effect != Effect::Admit || step.status != Status::Pass));
    match decisive {
        Some(step) => Verdict {
            status: if erred { Status::Error } else { step.status },
            effect,
            message: step.message,
            trace: Trace { part: step.part, erred },
        },
        None => Verdict {
            status: Status::Pass,
            effect: Effect::Admit,
            message: String::new(),
            trace: Trace::of(Part::All),
        },
    }
}
