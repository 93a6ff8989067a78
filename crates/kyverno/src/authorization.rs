//! ValidatingPolicies on HTTP requests and on Envoy's check requests.
//!
//! Upstream counterpart: kyverno-authz `pkg/engine/compiler`, and `cmd/cli/kubectl-kyverno/processor/authz_processor.go`
//! (Kyverno 1.19). The first validation whose result is not null decides. There are no exceptions: the command line does
//! not pass them.
//!
//! Known deviation: a response that neither allows nor denies, which only a structure literal can be, is an error here;
//! upstream gives it no status.

use crate::{
    cel_policy::{
        FieldError,
        compile::{typed, variables},
        evaluate::Run,
    },
    response::RuleResponse,
};
use kyvtest_cel::{
    composite::{Composite, Composition},
    context::Scratch,
    env::Env,
    host::Host,
    library::{
        self,
        authorization::{
            Mode, envoy, http,
            message::{Item, Message},
        },
    },
    program::Program,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    policy::{self, FailurePolicy, PolicyId, ValidatingPolicy},
    verdict::{Part, Status, Trace},
};

/// A request that policies decide about.
#[derive(Debug, Clone)]
pub struct Request(Message);

impl Request {
    /// Reads an HTTP request from the JSON of a payload file.
    ///
    /// # Errors
    /// Go's text.
    pub fn http(text: &str) -> Result<Self, String> {
        http::read(text).map(Self)
    }

    /// Reads a check request from protobuf's JSON.
    ///
    /// # Errors
    /// protojson's text without the position.
    pub fn envoy(value: Value<'_>) -> Result<Self, String> {
        envoy::read(value).map(Self)
    }
}

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct AuthorizationPolicy {
    id: PolicyId,
    mode: Mode,
    ignores_errors: bool,
    env: Env,
    object: u32,
    variables: u32,
    match_conditions: Vec<Program>,
    composite: Composite,
    validations: Vec<Program>,
}

impl AuthorizationPolicy {
    /// Compiles a policy. `None` for one of another mode, and for one of a namespace, which the command line takes for a
    /// policy on admission requests.
    ///
    /// # Errors
    /// The first expression that cannot be compiled.
    pub fn compile(policy: &ValidatingPolicy) -> Option<Result<Self, FieldError>> {
        let mode = match policy.spec.evaluation.mode {
            policy::Mode::Http => Mode::Http,
            policy::Mode::Envoy => Mode::Envoy,
            policy::Mode::Kubernetes | policy::Mode::Json | policy::Mode::Other(_) => return None,
        };
        (!policy.namespaced).then(|| Self::compile_for(policy, mode))
    }

    fn compile_for(policy: &ValidatingPolicy, mode: Mode) -> Result<Self, FieldError> {
        let spec = &policy.spec;
        let mut env = Env::new(mode.profile());
        let object = env.declare("object", Type::structure(mode.request_type()));
        let variables_slot = env.declare("variables", Type::Dyn);
        library::declare_variables(&mut env, false);
        Composition::Kyverno.declare(&mut env);
        let first = |mut errors: Vec<FieldError>| errors.swap_remove(0);
        // Conditions come before the variables: to them there are none.
        let refusal = "matchCondition output is expected to be of type bool";
        let match_conditions = spec.match_conditions.iter().enumerate().map(|(i, condition)| {
            let path = format!("spec.matchConditions[{i}].expression");
            typed(path, &condition.expression, &env, |found| {
                (*found == Type::Bool).then_some(()).ok_or_else(|| refusal.to_owned())
            })
        });
        let match_conditions = match_conditions.collect::<Result<Vec<_>, _>>()?;
        let composite = variables(&spec.variables, &mut env).map_err(first)?;
        let response = Type::structure(mode.response_type());
        let validations = spec.validations.iter().enumerate().map(|(i, validation)| {
            let path = format!("spec.validations[{i}].expression");
            typed(path, &validation.expression, &env, |found| {
                if *found == response || *found == Type::Null {
                    return Ok(());
                }
                let wanted = mode.response_type();
                Err(format!("rule response output is expected to be of type {wanted}"))
            })
        });
        let validations = validations.collect::<Result<Vec<_>, _>>()?;
        let failure_policy = spec.failure_policy.as_ref();
        Ok(Self {
            id: PolicyId {
                group: "policies.kyverno.io",
                kind: policy.kind(),
                namespace: String::new(),
                name: policy.metadata.name.value.clone(),
            },
            mode,
            ignores_errors: failure_policy.is_some_and(|word| word.value == FailurePolicy::Ignore),
            env,
            object,
            variables: variables_slot,
            match_conditions,
            composite,
            validations,
        })
    }

    pub fn id(&self) -> &PolicyId {
        &self.id
    }

    /// Which requests the policy decides about.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Decides about a request of the policy's mode.
    pub fn evaluate(&self, request: &Request, host: &dyn Host) -> RuleResponse {
        let scratch = Scratch::new();
        let mut values = self.env.initial_values();
        values[self.object as usize] = Some(Val::Opaque(&request.0));
        // Only validations see the variables.
        let condition_values = values.clone();
        values[self.variables as usize] = Some(Val::Variables);
        let lazy = self.composite.bind(&scratch, &values, host);
        let conditions = Run::new(&condition_values, &scratch, host).ignoring_errors(self.ignores_errors);
        match conditions.matches(&self.match_conditions) {
            Ok(None) => {}
            Ok(Some(index)) => return self.skipped(Trace::of(Part::Precondition(index))),
            Err((index, error)) => return self.failed(Part::Precondition(index), &error),
        }
        let run = Run {
            values: &values,
            variables: Some(&lazy),
            ..conditions
        };
        for (index, validation) in self.validations.iter().enumerate() {
            let part = Part::Validation(index);
            match run.value(validation) {
                Val::Null => {}
                Val::Error(error) => return self.failed(part, error),
                value => match value.downcast::<Message>() {
                    // The type is not registered, so that a literal is a message of another Go type.
                    Some(response) if response.is_literal && self.mode == Mode::Envoy => {
                        return self.failed(part, "rule result is expected to be *authv3.CheckResponse");
                    }
                    Some(response) => return self.decision(response, part),
                    None => return self.failed(part, "rule result is expected to be a response"),
                },
            }
        }
        self.skipped(Trace::of(Part::All))
    }

    fn response(&self, status: Status, message: impl Into<String>, trace: Trace) -> RuleResponse {
        RuleResponse::new(&self.id.name, status, message, trace)
    }

    fn skipped(&self, trace: Trace) -> RuleResponse {
        self.response(Status::Skip, "request does not match", trace)
    }

    /// An error, which the failure policy Ignore takes for no match.
    fn failed(&self, part: Part, error: &str) -> RuleResponse {
        if self.ignores_errors {
            self.skipped(Trace::error(part))
        } else {
            self.response(Status::Error, error, Trace::error(part))
        }
    }

    fn decision(&self, response: &Message, part: Part) -> RuleResponse {
        let [allowed, denied] = match self.mode {
            Mode::Http => ["ok", "denied"],
            Mode::Envoy => ["ok_response", "denied_response"],
        };
        if response.message(allowed).is_some() {
            return self.response(Status::Pass, "request allowed", Trace::of(part));
        }
        let Some(denied) = response.message(denied) else {
            return self.failed(part, "the response neither allows nor denies the request");
        };
        let message = match self.mode {
            Mode::Http => format!("request denied, reason: {}", denied.text("reason")),
            Mode::Envoy => {
                let code = match denied.message("status").and_then(|status| status.get("code")) {
                    Some(Item::Int(code)) => *code,
                    _ => 0,
                };
                format!("request denied with status code {code}")
            }
        };
        self.response(Status::Fail, message, Trace::of(part))
    }
}
