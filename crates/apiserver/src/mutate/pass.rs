//! One pass of the mutating phase: selection, then all invocations on one object.

use super::{DeniedBy, Foreign, Mutated, MutationDenial, MutationError, Reinvocation, foreign, patch::Patcher};
use crate::{
    decide::authorize,
    input::{Documents, Input},
    mutating::CompiledMutatingPolicy,
    params,
    policy::{Binding, Failure},
    response::PolicyVerdict,
    select::{Selector, Step, by_name},
};
use kyvtest_cel::{
    admission::{Cause, Inputs},
    context::Scratch,
    host::{Attributes, Authorizing},
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Environment, GroupVersionKind, Request, Resource, convert},
    verdict::{Effect, Part, Status, Trace, Verdict},
};
use kyvtest_normalise::{Cluster, settled};

/// The names of policy, binding and parameter.
pub(super) type Key = (String, String, Option<String>);

/// What a pass runs with.
#[derive(Clone, Copy)]
pub(super) struct Pass<'s> {
    pub(super) policies: &'s [CompiledMutatingPolicy],
    pub(super) bindings: &'s [Binding],
    pub(super) environment: Environment<'s>,
    pub(super) cluster: &'s Cluster,
    pub(super) second: bool,
}

/// A policy, one of its bindings, one of its parameters.
struct Invocation<'s, 'i> {
    policy: &'s CompiledMutatingPolicy,
    binding: &'s Binding,
    param: Option<Document>,
    matched: &'i Resource,
}

impl Invocation<'_, '_> {
    fn key(&self) -> Key {
        let param = self.param.as_ref().map(params::label);
        (self.policy.name.clone(), self.binding.name.clone(), param)
    }
}

/// An error with the policy that may ignore it.
struct PolicyError {
    ignored: bool,
    reason: &'static str,
    message: String,
}

/// The state of a pass.
struct Run<'r> {
    errors: Vec<PolicyError>,
    verdicts: Vec<PolicyVerdict>,
    changed: Vec<String>,
    reinvocation: &'r mut Reinvocation,
}

impl<'s> Pass<'s> {
    /// Runs the pass on the object of the request.
    pub(super) fn run(self, request: Request, reinvocation: &mut Reinvocation, outcome: &mut Mutated) {
        let Environment { world, discovery, .. } = self.environment;
        let input = Input::new(&request, world, discovery);
        let mut run = Run {
            errors: Vec::new(),
            verdicts: Vec::new(),
            changed: Vec::new(),
            reinvocation,
        };
        let invocations = self.invocations(&input, &mut run);
        let ran = self.invoke(&input, &invocations, &mut run);
        let Run {
            errors,
            mut verdicts,
            changed,
            ..
        } = run;
        if self.second {
            verdicts.retain(|verdict| verdict.verdict.status == Status::Error);
            outcome.changed_again = changed;
        }
        outcome.verdicts.append(&mut verdicts);
        match ran {
            Ok(Some(object)) => outcome.object = object,
            Ok(None) => {}
            Err(refusal) => {
                outcome.refusal = Some(refusal);
                return;
            }
        }
        let errors: Vec<PolicyError> = errors.into_iter().filter(|error| !error.ignored).collect();
        if let Some(first) = errors.first() {
            outcome.refusal = Some(MutationDenial {
                by: DeniedBy::Policy,
                code: 403,
                reason: first.reason.to_owned(),
                message: first.message.clone(),
                causes: errors.iter().map(|error| error.message.clone()).collect(),
            });
        }
    }

    /// Everything that is selected, before any mutation.
    fn invocations<'i>(self, input: &'i Input<'i>, run: &mut Run<'_>) -> Vec<Invocation<'s, 'i>> {
        let selector = Selector::new(input.request.cell(), input.discovery);
        let bindings = by_name(self.bindings, Binding::name);
        let mut invocations = Vec::new();
        for policy in by_name(self.policies, CompiledMutatingPolicy::name) {
            let own = bindings.iter().copied().filter(|binding| binding.policy == policy.name);
            let (constraints, param_kind) = (policy.constraints.as_ref(), policy.param_kind.as_ref());
            for step in selector.steps(constraints, param_kind, own, &mut input.facts()) {
                match step {
                    Step::Unselected(binding, part) => run.silent(policy, binding, Status::NoMatch, part),
                    Step::Misconfigured(binding, error, part) => run.misconfigured(policy, binding, &error, part),
                    Step::Bound {
                        binding,
                        matched,
                        params,
                    } => match params::collect(params, binding.params.as_ref(), input) {
                        Err(error) => run.misconfigured(policy, Some(binding), &error, Part::Params),
                        Ok(params) if params.is_empty() => {
                            run.silent(policy, Some(binding), Status::Skip, Part::Params);
                        }
                        Ok(params) => invocations.extend(params.into_iter().map(|param| Invocation {
                            policy,
                            binding,
                            param,
                            matched,
                        })),
                    },
                }
            }
        }
        invocations
    }

    /// Runs the invocations. Returns the object in the request's version, if a mutation was made.
    fn invoke(
        self,
        input: &Input<'_>,
        invocations: &[Invocation<'_, '_>],
        run: &mut Run<'_>,
    ) -> Result<Option<Document>, MutationDenial> {
        let authorize = |attributes: &Attributes| authorize(attributes, input);
        let host = Authorizing {
            host: self.environment.host,
            authorize: &authorize,
            user: &input.request.user.username,
        };
        let patcher = Patcher::new(self.cluster, &host);
        // One object for each version as which the request is matched.
        let mut versions: Vec<Version> = Vec::new();
        let mut last = None;
        for invocation in invocations {
            let kind = &invocation.matched.object_kind;
            let at = match versions.iter().position(|version| version.kind == *kind) {
                Some(at) => at,
                None => {
                    versions.push(Version {
                        kind: kind.clone(),
                        documents: input.documents(invocation.matched),
                        is_dirty: false,
                    });
                    versions.len() - 1
                }
            };
            if !self.is_due(input, invocation, &versions[at].documents, &host, run) {
                continue;
            }
            last = Some((at, invocation.matched));
            run_mutations(input, invocation, &mut versions[at], &patcher, run)?;
        }
        let Some((at, matched)) = last.filter(|(at, _)| versions[*at].is_dirty) else {
            return Ok(None);
        };
        run.reinvocation.require();
        run.reinvocation.requested = true;
        self.converted_back(&versions[at].documents.object, matched, &input.request)
            .map(Some)
    }

    /// Whether the conditions of an invocation hold, and it is to run in this pass.
    fn is_due(
        self,
        input: &Input<'_>,
        invocation: &Invocation<'_, '_>,
        documents: &Documents,
        host: &Authorizing<'_>,
        run: &mut Run<'_>,
    ) -> bool {
        let policy = invocation.policy;
        let inputs = inputs(input, invocation, documents);
        let unmatched = policy
            .mutator
            .unmatched(&inputs, &input.attributes(), host, &Scratch::new());
        match unmatched {
            Ok(None) => !self.second || run.reinvocation.due.contains(&invocation.key()),
            Ok(Some(condition)) => {
                let verdict = Verdict {
                    status: Status::Skip,
                    effect: Effect::Admit,
                    message: String::new(),
                    trace: Trace::of(Part::Precondition(condition.index)),
                };
                run.say(policy, Some(invocation.binding), invocation.param.as_ref(), verdict);
                false
            }
            Err((cause, error)) => {
                let part = match cause {
                    Cause::MatchCondition(index) => Part::Precondition(index),
                    Cause::Validation(_) | Cause::Budget => Part::Budget,
                };
                run.failed(invocation, &error, part);
                false
            }
        }
    }

    /// The object of the last invocation in the request's version.
    fn converted_back(
        self,
        object: &Document,
        matched: &Resource,
        request: &Request,
    ) -> Result<Document, MutationDenial> {
        let own = &*request.resource;
        let object = if matched.object_kind == own.object_kind || is_of(object.root(), &own.object_kind) {
            object.clone()
        } else {
            convert(object.root(), matched, own)
        };
        match foreign(object.root(), request, self.cluster) {
            Foreign::No => {
                let api_version = own.object_kind.api_version();
                let kind = kyvtest_normalise::Kind {
                    api_version: &api_version,
                    name: &own.object_kind.kind,
                };
                Ok(settled(kind, &object))
            }
            Foreign::Version => {
                let mut given = own.clone();
                let version = object
                    .root()
                    .get("apiVersion")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                given.object_kind = GroupVersionKind::from_api_version(version, &own.object_kind.kind);
                Ok(convert(object.root(), &given, own))
            }
            Foreign::Invalid(message) => Err(MutationDenial {
                by: DeniedBy::Later,
                code: 422,
                reason: "Invalid".to_owned(),
                causes: vec![message.clone()],
                message,
            }),
            Foreign::Inconvertible(error) => Err(MutationDenial::server(&error)),
        }
    }
}

/// Makes the mutations of an invocation in order, each on what the one before left.
fn run_mutations(
    input: &Input<'_>,
    invocation: &Invocation<'_, '_>,
    version: &mut Version,
    patcher: &Patcher<'_>,
    run: &mut Run<'_>,
) -> Result<(), MutationDenial> {
    let policy = invocation.policy;
    let before = version.documents.object.clone();
    let failed_before = run.verdicts.len();
    for index in 0..policy.mutator.mutations().len() {
        if version.documents.object.root().is_null() {
            continue;
        }
        let inputs = inputs(input, invocation, &version.documents);
        let attributes = input.attributes();
        match patcher.mutate((policy, index), &inputs, &attributes, &version.kind) {
            Ok(object) => {
                version.documents.object = in_request_version(object, invocation.matched, &input.request);
                version.is_dirty = true;
            }
            Err(MutationError::Evaluation(error)) => run.failed(invocation, &error, Part::Mutation(index)),
            Err(MutationError::Server(error)) => {
                run.verdict_of_error(invocation, &error, Part::Mutation(index), Effect::Deny);
                return Err(MutationDenial::server(&error));
            }
            Err(MutationError::Panic(error)) => {
                let refusal = MutationDenial::panic(&error);
                run.verdict_of_error(invocation, &refusal.message, Part::Mutation(index), Effect::Deny);
                return Err(refusal);
            }
        }
    }
    if version.documents.object != before {
        run.reinvocation.require();
        run.reinvocation.requested = true;
        run.changed.push(policy.name.clone());
    }
    if policy.reinvocable {
        run.reinvocation.invoked.insert(invocation.key());
    }
    if run.verdicts.len() == failed_before {
        let verdict = Verdict {
            status: Status::Pass,
            effect: Effect::Admit,
            message: String::new(),
            trace: Trace::of(Part::All),
        };
        run.say(policy, Some(invocation.binding), invocation.param.as_ref(), verdict);
    }
    Ok(())
}

/// The object in one of the versions as which the request is matched.
struct Version {
    kind: GroupVersionKind,
    documents: Documents,
    /// Whether a mutation was made.
    is_dirty: bool,
}

fn is_of(object: Value<'_>, kind: &GroupVersionKind) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    text("apiVersion") == kind.api_version() && text("kind") == kind.kind
}

/// Built-in objects go back to the request's version after each mutation; custom ones stay untyped.
fn in_request_version(object: Document, matched: &Resource, request: &Request) -> Document {
    let own = &*request.resource;
    let text = |key: &str| object.root().get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = kyvtest_normalise::Kind {
        api_version: text("apiVersion"),
        name: text("kind"),
    };
    let is_matched = is_of(object.root(), &matched.object_kind) && matched.object_kind != own.object_kind;
    if is_matched && kyvtest_normalise::is_known(kind) {
        convert(object.root(), matched, own)
    } else {
        object
    }
}

fn inputs<'d>(input: &Input<'_>, invocation: &'d Invocation<'_, '_>, documents: &'d Documents) -> Inputs<'d> {
    let (request, condition_request) = if invocation.policy.mutator.reads_request() {
        documents.requests(input, invocation.matched)
    } else {
        (Value::Null, Value::Null)
    };
    Inputs {
        object: documents.object.root(),
        old_object: documents.old_object.root(),
        request,
        condition_request,
        namespace: documents.namespace.root(),
        params: invocation.param.as_ref().map_or(Value::Null, Document::root),
    }
}

impl Run<'_> {
    fn say(
        &mut self,
        policy: &CompiledMutatingPolicy,
        binding: Option<&Binding>,
        param: Option<&Document>,
        verdict: Verdict,
    ) {
        self.verdicts.push(PolicyVerdict {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            param: param.map(params::label),
            verdict,
        });
    }

    /// The policy does nothing.
    fn silent(&mut self, policy: &CompiledMutatingPolicy, binding: Option<&Binding>, status: Status, part: Part) {
        self.say(policy, binding, None, Verdict::silent(status, part));
    }

    /// Policy or binding cannot be used.
    fn misconfigured(&mut self, policy: &CompiledMutatingPolicy, binding: Option<&Binding>, error: &str, part: Part) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let error = format!("failed to configure {what}: {error}");
        let effect = self.error(policy, binding, "Forbidden", &error);
        let verdict = Verdict {
            status: Status::Error,
            effect,
            message: error,
            trace: Trace::error(part),
        };
        self.say(policy, binding, None, verdict);
    }

    /// A condition or a mutation cannot be evaluated.
    fn failed(&mut self, invocation: &Invocation<'_, '_>, error: &str, part: Part) {
        let effect = self.error(invocation.policy, Some(invocation.binding), "Invalid", error);
        self.verdict_of_error(invocation, error, part, effect);
    }

    fn verdict_of_error(&mut self, invocation: &Invocation<'_, '_>, error: &str, part: Part, effect: Effect) {
        let verdict = Verdict {
            status: Status::Error,
            effect,
            message: error.to_owned(),
            trace: Trace::error(part),
        };
        let (policy, param) = (invocation.policy, invocation.param.as_ref());
        self.say(policy, Some(invocation.binding), param, verdict);
    }

    fn error(
        &mut self,
        policy: &CompiledMutatingPolicy,
        binding: Option<&Binding>,
        reason: &'static str,
        error: &str,
    ) -> Effect {
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!(
                "policy '{name}' with binding '{}' denied request: {error}",
                binding.name
            ),
            None => format!("policy \"{name}\" denied request: {error}"),
        };
        let ignored = policy.failure_policy == Failure::Ignore;
        self.errors.push(PolicyError {
            ignored,
            reason,
            message,
        });
        if ignored { Effect::Admit } else { Effect::Deny }
    }
}
