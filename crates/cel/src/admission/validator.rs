//! Evaluates the expressions of a validating policy to decisions for one request and one parameter.

use std::collections::BTreeSet;

use super::{
    Declarations, Environment, Inputs,
    condition::{
        Evaluated, Expression, MATCH_CONDITIONS_BUDGET, OUT_OF_BUDGET, RUNTIME_BUDGET, Returns, Spent, evaluate_all,
    },
};
use crate::{
    context::Scratch,
    host::{Attributes, Host},
    observe::Place,
    profile::Profile,
    program::Program,
    val::Val,
};

/// The size in bytes above which the result of a message expression is not used.
///
/// Upstream: `k8s.io/apiserver/pkg/apis/cel/config.go` `MaxEvaluatedMessageExpressionSizeBytes`.
const MAX_MESSAGE: usize = 5 * 1024;

/// The source expressions of a policy.
#[derive(Debug, Clone, Default)]
pub struct Parts<'t> {
    /// Match conditions: name and expression.
    pub match_conditions: Vec<(&'t str, &'t str)>,
    /// Variables: name and expression.
    pub variables: Vec<(&'t str, &'t str)>,
    pub validations: Vec<ValidationText<'t>>,
    /// Audit annotations: key and expression.
    pub audit_annotations: Vec<(&'t str, &'t str)>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ValidationText<'t> {
    pub expression: &'t str,
    /// May be empty.
    pub message: &'t str,
    /// The expression that computes the message; may be empty.
    pub message_expression: &'t str,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
}

/// A policy's compiled expressions.
#[derive(Debug)]
pub struct Validator {
    environment: Environment,
    match_conditions: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    audit_annotations: Vec<(String, Expression)>,
    reads_request: bool,
}

/// The match condition that is false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    pub index: usize,
    pub name: String,
}

/// The part of a policy that a decision comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    MatchCondition(usize),
    Validation(usize),
    /// The budget of the match conditions, the validations or the audit annotations.
    Budget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The validation holds.
    Admit,
    /// The validation does not hold.
    Deny { index: usize, message: String },
    /// The validation could not be evaluated.
    Error { cause: Cause, message: String },
}

/// The result of an audit annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub key: String,
    /// `None` if the annotation is omitted; `Err` is the error message.
    pub value: Result<Option<String>, String>,
}

/// The result of a policy for one request and one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A match condition is false.
    Unmatched(Unmatched),
    /// The decisions in the order of the validations, or a single one if evaluation ended early.
    Decided {
        decisions: Vec<Decision>,
        annotations: Vec<Annotation>,
    },
}

impl Outcome {
    fn error(cause: Cause, message: String) -> Self {
        Self::Decided {
            decisions: vec![Decision::Error { cause, message }],
            annotations: Vec::new(),
        }
    }

    fn spent() -> Self {
        Self::error(Cause::Budget, OUT_OF_BUDGET.to_owned())
    }
}

impl Validator {
    /// Compiles a policy. An expression that does not compile fails on each request.
    pub fn compile(profile: &'static Profile, declarations: Declarations, parts: &Parts<'_>) -> Self {
        let environment = Environment::new(profile, declarations, parts.variables.iter().copied());
        let compile = |text: &str, returns, authorizer| Expression::compile(text, &environment, returns, authorizer);
        let validations = parts
            .validations
            .iter()
            .map(|validation| Validation {
                expression: compile(validation.expression, Returns::Bool, true),
                message: validation.message.to_owned(),
                message_expression: (!validation.message_expression.is_empty())
                    .then(|| compile(validation.message_expression, Returns::String, false)),
            })
            .collect();
        let named = |list: &[(&str, &str)], returns| {
            list.iter()
                .map(|(name, text)| ((*name).to_owned(), compile(text, returns, true)))
                .collect()
        };
        let mut validator = Self {
            match_conditions: named(&parts.match_conditions, Returns::Bool),
            audit_annotations: named(&parts.audit_annotations, Returns::StringOrNull),
            validations,
            environment,
            reads_request: false,
        };
        validator.reads_request = validator.programs().iter().any(|(_, program)| program.reads("request"));
        validator
    }

    /// Reports whether an expression may read `request`.
    pub fn reads_request(&self) -> bool {
        self.reads_request
    }

    /// The programs of the policy with their locations; expressions that do not compile have none.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        let conditions = self.match_conditions.iter().enumerate();
        let conditions = conditions.map(|(i, (_, expression))| (Place::MatchCondition(i), expression.program()));
        let validations = self.validations.iter().enumerate().flat_map(|(i, validation)| {
            let message = validation.message_expression.as_ref().and_then(Expression::program);
            [
                (Place::Validation(i), validation.expression.program()),
                (Place::Message(i), message),
            ]
        });
        let annotations = self.audit_annotations.iter().enumerate();
        let annotations = annotations.map(|(i, (_, expression))| (Place::Annotation(i), expression.program()));
        let variables = self.environment.composite.places();
        let rest = conditions.chain(validations).chain(annotations);
        let rest = rest.filter_map(|(place, program)| Some((place, program?)));
        variables.chain(rest).collect()
    }

    /// Evaluates a request. `resource` has the attributes of `authorizer.requestResource`.
    pub fn validate(&self, inputs: &Inputs<'_>, resource: &Attributes, host: &dyn Host, scratch: &Scratch) -> Outcome {
        let environment = &self.environment;
        let conditions_inputs = Inputs {
            namespace: kyvtest_go_compat::value::Value::Null,
            request: inputs.condition_request,
            ..*inputs
        };
        if !self.match_conditions.is_empty() {
            let values = environment.values(&conditions_inputs, scratch, host, Some(resource));
            match first_unmatched(&self.match_conditions, environment, &values, host, scratch) {
                Ok(None) => {}
                Ok(Some(unmatched)) => return Outcome::Unmatched(unmatched),
                Err((cause, message)) => return Outcome::error(cause, message),
            }
        }
        let values = environment.values(inputs, scratch, host, Some(resource));
        let expressions = self.validations.iter().map(|validation| Some(&validation.expression));
        let Ok((results, left)) = evaluate_all(expressions, environment, &values, scratch, host, RUNTIME_BUDGET) else {
            return Outcome::spent();
        };
        // Neither messages nor annotations may use the authorizer, not even through a variable.
        let has_texts =
            !self.audit_annotations.is_empty() || self.validations.iter().any(|v| v.message_expression.is_some());
        let values = if has_texts {
            environment.values(inputs, scratch, host, None)
        } else {
            Vec::new()
        };
        let expressions = self.validations.iter().map(|v| v.message_expression.as_ref());
        let messages = evaluate_all(expressions, environment, &values, scratch, host, left).ok();
        let decisions = (self.validations.iter().zip(results).enumerate())
            .map(|(index, (validation, result))| {
                let error = |message| Decision::Error {
                    cause: Cause::Validation(index),
                    message,
                };
                match (result, &messages) {
                    (Some(Evaluated::Error(message)), _) => error(message),
                    (_, None) => error(format!("failed messageExpression: {OUT_OF_BUDGET}")),
                    (Some(Evaluated::Bool(true)), _) => Decision::Admit,
                    (_, Some((messages, _))) => Decision::Deny {
                        index,
                        message: validation.message(messages.get(index).and_then(Option::as_ref)),
                    },
                }
            })
            .collect();
        let expressions = self.audit_annotations.iter().map(|(_, expression)| Some(expression));
        let Ok((annotations, _)) = evaluate_all(expressions, environment, &values, scratch, host, RUNTIME_BUDGET)
        else {
            return Outcome::spent();
        };
        let annotations = self.audit_annotations.iter().zip(annotations);
        Outcome::Decided {
            decisions,
            annotations: annotations
                .map(|((key, expression), result)| annotation(key, expression, result))
                .collect(),
        }
    }
}

/// The first match condition that is false, or the errors if there is none.
pub(super) fn first_unmatched(
    conditions: &[(String, Expression)],
    environment: &Environment,
    values: &[Option<Val<'_>>],
    host: &dyn Host,
    scratch: &Scratch,
) -> Result<Option<Unmatched>, (Cause, String)> {
    let expressions = conditions.iter().map(|(_, expression)| Some(expression));
    let (results, _) = evaluate_all(expressions, environment, values, scratch, host, MATCH_CONDITIONS_BUDGET)
        .map_err(|Spent| (Cause::Budget, OUT_OF_BUDGET.to_owned()))?;
    let mut errors: Vec<(usize, String)> = Vec::new();
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Some(Evaluated::Bool(false)) => {
                let name = conditions[index].0.clone();
                return Ok(Some(Unmatched { index, name }));
            }
            Some(Evaluated::Error(error)) => errors.push((index, error)),
            _ => {}
        }
    }
    match errors.first() {
        None => Ok(None),
        Some((index, _)) => {
            let cause = Cause::MatchCondition(*index);
            Err((cause, aggregate(errors.into_iter().map(|(_, error)| error))))
        }
    }
}

impl Validation {
    /// The message of a validation that does not hold.
    fn message(&self, result: Option<&Evaluated>) -> String {
        let computed = match result {
            Some(Evaluated::Text(text)) => {
                let text = text.trim();
                if text.len() > MAX_MESSAGE || text.contains('\n') {
                    ""
                } else {
                    text
                }
            }
            _ => "",
        };
        let fixed = self.message.trim();
        if !computed.is_empty() {
            computed.to_owned()
        } else if !fixed.is_empty() {
            fixed.to_owned()
        } else {
            format!("failed expression: {}", self.expression.text().trim())
        }
    }
}

fn annotation(key: &str, expression: &Expression, result: Option<Evaluated>) -> Annotation {
    let unsupported = |name: &str| {
        Err(format!(
            "valueExpression '{}' resulted in unsupported return type: {name}. Return type must be either string or null.",
            expression.text()
        ))
    };
    Annotation {
        key: key.to_owned(),
        value: match result {
            None | Some(Evaluated::Null) => Ok(None),
            Some(Evaluated::Text(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(Evaluated::Error(error)) => Err(error),
            Some(Evaluated::Bool(_)) => unsupported("bool"),
            Some(Evaluated::Other(name)) => unsupported(&name),
        },
    }
}

/// Joins several errors into one message as Kubernetes does: each once, in brackets if there are several.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let distinct: Vec<String> = errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    match distinct.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
