//! What the kinds with CEL evaluate alike: conditions, exceptions, annotations.
//!
//! Upstream counterpart: `pkg/cel/compiler` and `pkg/cel/policies/*/compiler` (Kyverno 1.19).

use super::{Exception, Validation};
use crate::response::RuleResponse;
use kyvtest_cel::{
    context::Scratch,
    eval::{Activation, Variables, evaluate as run},
    host::Host,
    program::Program,
    val::Val,
};
use kyvtest_go_compat::text::quote::quote;
use kyvtest_model::{
    policy::ReportResult,
    verdict::{Part, Status, Trace},
};

/// The response of a policy from which exceptions exempt the resource.
pub(crate) fn excepted(exceptions: &[&Exception]) -> RuleResponse {
    let keys: Vec<String> = exceptions.iter().map(|exception| exception.key.clone()).collect();
    // The first of the highest priority decides; priorities below 1 do not count.
    let mut highest = 0;
    let mut report = exceptions
        .first()
        .map_or(ReportResult::Skip, |exception| exception.report);
    for exception in exceptions {
        if exception.priority > highest {
            highest = exception.priority;
            report = exception.report;
        }
    }
    let (status, word) = match report {
        ReportResult::Pass => (Status::Pass, "passed"),
        ReportResult::Skip => (Status::Skip, "skipped"),
    };
    let message = format!("rule is {word} due to policy exception: {}", keys.join(", "));
    let mut response = RuleResponse::new("exception", status, message, Trace::of(Part::Exception));
    response.exceptions = keys;
    response
}

/// What the exceptions of a policy grant.
pub(crate) enum Granted<'p> {
    /// These exempt the request from the policy as a whole.
    Full(Vec<&'p Exception>),
    /// Expressions see these images and values as allowed.
    Partly { images: Vec<&'p str>, values: Vec<&'p str> },
}

/// How messages about annotations quote their keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Quotes {
    Single,
    /// As Go's `%q`.
    Double,
}

/// The state of an evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Whether a condition that cannot be evaluated counts as false.
    pub(crate) ignores_errors: bool,
    pub(crate) values: &'a [Option<Val<'a>>],
    pub(crate) variables: Option<&'a dyn Variables<'a>>,
    pub(crate) scratch: &'a Scratch,
    pub(crate) host: &'a dyn Host,
}

impl<'a> Run<'a> {
    /// An evaluation without variables, in which errors count.
    pub(crate) fn new(values: &'a [Option<Val<'a>>], scratch: &'a Scratch, host: &'a dyn Host) -> Self {
        Self {
            ignores_errors: false,
            values,
            variables: None,
            scratch,
            host,
        }
    }

    pub(crate) fn ignoring_errors(self, ignores_errors: bool) -> Self {
        Self { ignores_errors, ..self }
    }

    pub(crate) fn with_variables(self, variables: &'a dyn Variables<'a>) -> Self {
        Self {
            variables: Some(variables),
            ..self
        }
    }

    pub(crate) fn value(&self, program: &'a Program) -> Val<'a> {
        let activation = Activation {
            values: self.values,
            variables: self.variables,
        };
        run(program, self.scratch, activation, self.host, None).value
    }

    /// The message of a validation that fails.
    pub(crate) fn failure_message(&self, validation: &'a Validation, index: usize) -> String {
        let message = match &validation.message_expression {
            None => validation.message.clone(),
            Some(program) => match self.value(program) {
                Val::Error(error) => format!("failed to evaluate message expression: {error}"),
                value => value.as_str().unwrap_or_default().to_owned(),
            },
        };
        if message.is_empty() {
            format!("CEL expression validation failed at index {index}")
        } else {
            message
        }
    }

    /// The first condition that is false; or, if there is none, the errors and the place of the first. With the failure
    /// policy Ignore an error is a condition that is false.
    pub(crate) fn matches(&self, conditions: &'a [Program]) -> Result<Option<usize>, (usize, String)> {
        let mut errors: Vec<&str> = Vec::new();
        let mut first = 0;
        for (index, condition) in conditions.iter().enumerate() {
            match self.value(condition) {
                Val::Bool(false) => return Ok(Some(index)),
                Val::Error(error) => {
                    if errors.is_empty() {
                        first = index;
                    }
                    errors.push(error);
                }
                _ => {}
            }
        }
        if errors.is_empty() {
            Ok(None)
        } else if self.ignores_errors {
            Ok(Some(first))
        } else {
            Err((first, errors.join("; ")))
        }
    }

    pub(crate) fn exceptions(&self, exceptions: &'a [Exception]) -> Result<Granted<'a>, String> {
        let mut matched = Vec::new();
        let mut full = false;
        let (mut images, mut values) = (Vec::new(), Vec::new());
        for exception in exceptions {
            match self.matches(&exception.conditions) {
                Ok(None) => {}
                Ok(Some(_)) => continue,
                // What is granted already stays granted.
                Err(_) if full => continue,
                Err((_, error)) => return Err(error),
            }
            matched.push(exception);
            if exception.is_full() {
                full = true;
            } else if !full {
                images.extend(exception.images.iter().map(String::as_str));
                values.extend(exception.values.iter().map(String::as_str));
            }
        }
        Ok(if full {
            Granted::Full(matched)
        } else {
            Granted::Partly { images, values }
        })
    }

    /// The annotations that have a value; or the index of the first that fails, with a message that names its key in `quotes`.
    pub(crate) fn annotations(
        &self,
        annotations: &'a [(String, Program)],
        quotes: Quotes,
    ) -> Result<Vec<(String, String)>, (usize, String)> {
        let mut properties = Vec::new();
        for (index, (key, program)) in annotations.iter().enumerate() {
            let quoted = || match quotes {
                Quotes::Single => format!("'{key}'"),
                Quotes::Double => quote(key),
            };
            match self.value(program) {
                Val::Error(error) => {
                    return Err((
                        index,
                        format!("failed to evaluate auditAnnotation {}: {error}", quoted()),
                    ));
                }
                Val::String("") => {}
                Val::String(text) => properties.push((key.clone(), text.to_owned())),
                other => {
                    let error = format!("type conversion error from '{}' to 'string'", other.type_name());
                    let error = format!("failed to convert auditAnnotation {} expression: {error}", quoted());
                    return Err((index, error));
                }
            }
        }
        Ok(properties)
    }
}
