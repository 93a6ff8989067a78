//! `validate.cel` of a classic rule.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_cel.go` (1.19), which runs the API server's validator
//! with no failure policy: an evaluation error is a `fail` with the error's message, and a rule that does not compile
//! fails each request. `authorizer` checks the kind of the request and the name of the user; the group, resource and
//! path of a check are ignored.

use super::{input::Input, params::Params, response::RuleResponse};
use kyvtest_cel::{
    admission::{Cause, Decision as Decided, Declarations, Outcome, Parts, ValidationText, Validator},
    context::Scratch,
    host::{Attributes, Authorizing, Decision, Host},
    observe::Place,
    profile::Profile,
    program::Program,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::Access,
    policy::{Cel, MatchCondition, Rule, Validate},
    verdict::{Part, Status, Trace},
};

/// A rule's expressions, compiled.
#[derive(Debug)]
pub struct CompiledRule {
    name: String,
    validator: Validator,
    params: Option<Params>,
}

impl CompiledRule {
    /// Compiles the `validate.cel` of a rule; `None` if it has none.
    pub fn compile(rule: &Rule) -> Option<Self> {
        let validate = rule.validate.as_ref()?;
        let cel = validate.cel.as_ref()?;
        let declarations = Declarations {
            params: cel.param_kind.is_some(),
            authorizer: true,
            variables: true,
        };
        let parts = parts(validate, cel, &rule.cel_preconditions);
        Some(Self {
            name: rule.name.value.clone(),
            validator: Validator::compile(Profile::kyverno_classic(), declarations, &parts),
            params: cel
                .param_kind
                .as_ref()
                .map(|kind| Params::new(kind, cel.param_ref.as_ref())),
        })
    }

    /// The programs of the rule, for observers.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        self.validator.programs()
    }

    /// Evaluates the rule on a request that it matches, without exceptions.
    pub fn decide(&self, input: &Input<'_>, host: &dyn Host) -> RuleResponse {
        let Some(params) = &self.params else {
            let decided = self.validate(input, Value::Null, host);
            return decided.unwrap_or_else(|| self.pass());
        };
        match params.collect(input) {
            Ok(found) => found
                .into_iter()
                .find_map(|param| self.validate(input, param.root(), host))
                .unwrap_or_else(|| self.pass()),
            Err(error) => {
                let message = format!("error in parameterized resource: {error}");
                RuleResponse::new(&self.name, Status::Error, message, Trace::error(Part::Params))
            }
        }
    }

    fn pass(&self) -> RuleResponse {
        let message = format!("Validation rule '{}' passed.", self.name);
        RuleResponse::new(&self.name, Status::Pass, message, Trace::of(Part::All))
    }

    /// Evaluates the rule with one parameter; `None` if all validations pass.
    fn validate(&self, input: &Input<'_>, params: Value<'_>, host: &dyn Host) -> Option<RuleResponse> {
        let inputs = input.classic().inputs(params);
        let attributes = input.resource_attributes();
        let rbac = |attributes: &Attributes| authorize(attributes, input);
        let cluster = Authorizing {
            host,
            authorize: &rbac,
            user: &input.request.user.username,
        };
        let host = Review {
            host: if input.lens.rbac { &cluster } else { host },
            resource: &attributes,
        };
        let decisions = match self.validator.validate(&inputs, &attributes, &host, &Scratch::new()) {
            Outcome::Unmatched(condition) => {
                let trace = Trace::of(Part::Precondition(condition.index));
                let message = "cel preconditions not met";
                return Some(RuleResponse::new(&self.name, Status::Skip, message, trace));
            }
            Outcome::Decided { decisions, .. } => decisions,
        };
        decisions.into_iter().find_map(|decision| {
            let (message, trace) = match decision {
                Decided::Admit => return None,
                Decided::Deny { index, message } => (message, Trace::of(Part::Validation(index))),
                Decided::Error { cause, message } => (message, Trace::error(part(cause))),
            };
            Some(RuleResponse::new(&self.name, Status::Fail, message, trace))
        })
    }
}

fn parts<'t>(validate: &'t Validate, cel: &'t Cel, conditions: &'t [MatchCondition]) -> Parts<'t> {
    let fallback = validate.message.as_ref().map_or("", |message| message.value.as_str());
    Parts {
        match_conditions: conditions
            .iter()
            .map(|condition| (condition.name.value.as_str(), condition.expression.text()))
            .collect(),
        variables: cel
            .variables
            .iter()
            .map(|variable| (variable.name.value.as_str(), variable.expression.text()))
            .collect(),
        validations: cel
            .expressions
            .iter()
            .map(|validation| ValidationText {
                expression: validation.expression.text(),
                message: match &validation.message {
                    Some(message) if !message.is_empty() => message.value.as_str(),
                    _ => fallback,
                },
                message_expression: validation.message_expression.as_ref().map_or("", |text| text.text()),
            })
            .collect(),
        audit_annotations: cel
            .audit_annotations
            .iter()
            .map(|annotation| (annotation.key.value.as_str(), annotation.value_expression.text()))
            .collect(),
    }
}

fn part(cause: Cause) -> Part {
    match cause {
        Cause::MatchCondition(index) => Part::Precondition(index),
        Cause::Validation(index) => Part::Validation(index),
        Cause::Budget => Part::Budget,
    }
}

/// Authorizes a user by name with the cluster's RBAC objects: Kyverno does not send the groups to the API server.
fn authorize(attributes: &Attributes, input: &Input<'_>) -> Decision {
    let authorized = input.world.authorize(&Access {
        user: &attributes.user,
        groups: &[],
        verb: &attributes.verb,
        path: None,
        group: &attributes.group,
        resource: &attributes.resource,
        subresource: &attributes.subresource,
        namespace: &attributes.namespace,
        name: &attributes.name,
    });
    Decision {
        allowed: authorized.allowed,
        reason: authorized.reason,
        error: None,
    }
}

/// Forwards authorizer checks to the host with the attributes that Kyverno sends instead of those in the expression.
#[derive(Clone, Copy)]
struct Review<'h> {
    host: &'h dyn Host,
    resource: &'h Attributes,
}

impl Host for Review<'_> {
    fn ambient(&self) -> Option<&dyn Host> {
        Some(self.host)
    }

    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        self.host.authorize(&Attributes {
            service_account: attributes.service_account.clone(),
            verb: attributes.verb.clone(),
            namespace: attributes.namespace.clone(),
            subresource: attributes.subresource.clone(),
            group: self.resource.group.clone(),
            resource: self.resource.resource.clone(),
            ..Attributes::default()
        })
    }
}
