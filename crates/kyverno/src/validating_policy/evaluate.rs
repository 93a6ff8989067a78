//! One evaluation of a policy: exceptions, match conditions, validations, annotations.

use std::convert::Infallible;

use super::{CompiledValidatingPolicy, Exception, Slots};
use crate::{
    response::RuleResponse,
    select::{Stage, Stages},
};
use kyvtest_cel::{
    context::{Context, Scratch},
    eval::{Activation, Variables, evaluate as run},
    host::Host,
    library::kyverno,
    program::Program,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    policy::ReportResult,
    verdict::{Part, Status, Trace},
};

/// The property with the index of the failed validation.
const INDEX: &str = "cel.validationIndex";

/// Answers for `object`, `oldObject`, `request` and `namespaceObject`.
pub(super) fn evaluate(
    policy: &CompiledValidatingPolicy,
    [object, old_object, request, namespace]: [Value<'_>; 4],
    host: &dyn Host,
) -> RuleResponse {
    let scratch = Scratch::new();
    let slots = policy.slots;
    let mut values = policy.env.initial_values();
    for (slot, value) in [
        (slots.object, object),
        (slots.old_object, old_object),
        (slots.request, request),
        (slots.namespace, namespace),
    ] {
        values[slot as usize] = Some(Val::from(value));
    }
    let mut result = None;
    let Ok(()) = Stages::CEL.decide((), |stage, ()| {
        result = match stage {
            Stage::Exceptions => match lifted(policy, &values, &scratch, host) {
                Ok(Granted::Full(exceptions)) => Some(excepted(&exceptions)),
                Ok(Granted::Partly {
                    images,
                    values: allowed,
                }) => {
                    let context = Context::new(&scratch, policy.env.profile(), host);
                    let exception = kyverno::Exception::new(&images, &allowed);
                    values[slots.exceptions as usize] = Some(context.opaque(exception));
                    None
                }
                Err(error) => Some(not_loaded(Part::ExceptionCondition, &error)),
            },
            Stage::Conditions => unmet(policy, &values, &scratch, host),
            Stage::Check => Some(validate(policy, slots, std::mem::take(&mut values), &scratch, host)),
            Stage::Preconditions | Stage::InvalidSelector => None,
        };
        Ok::<_, Infallible>(result.is_none().then_some(()))
    });
    result.unwrap_or_else(|| RuleResponse::new("", Status::Skip, "skip", Trace::of(Part::Match)))
}

/// What the exceptions give.
fn lifted<'a>(
    policy: &'a CompiledValidatingPolicy,
    values: &'a [Option<Val<'a>>],
    scratch: &'a Scratch,
    host: &'a dyn Host,
) -> Result<Granted<'a>, String> {
    let run = Run {
        ignores_errors: policy.ignores_errors,
        values,
        variables: None,
        scratch,
        host,
    };
    run.exceptions(&policy.exceptions)
}

/// The response if match conditions do not hold.
fn unmet<'a>(
    policy: &'a CompiledValidatingPolicy,
    values: &'a [Option<Val<'a>>],
    scratch: &'a Scratch,
    host: &'a dyn Host,
) -> Option<RuleResponse> {
    let run = Run {
        ignores_errors: policy.ignores_errors,
        values,
        variables: None,
        scratch,
        host,
    };
    match run.matches(&policy.match_conditions) {
        Ok(None) => None,
        Ok(Some(index)) => {
            let trace = Trace::of(Part::Precondition(index));
            Some(RuleResponse::new("", Status::Skip, "skip", trace))
        }
        Err((index, error)) => Some(not_loaded(Part::Precondition(index), &error)),
    }
}

fn validate<'a>(
    policy: &'a CompiledValidatingPolicy,
    slots: Slots,
    mut values: Vec<Option<Val<'a>>>,
    scratch: &'a Scratch,
    host: &'a dyn Host,
) -> RuleResponse {
    values[slots.variables as usize] = Some(Val::Variables);
    let lazy = policy.composite.bind(scratch, &values, host);
    let run = Run {
        ignores_errors: policy.ignores_errors,
        values: &values,
        variables: Some(&lazy),
        scratch,
        host,
    };
    let index_property = |index: usize| (INDEX.to_owned(), index.to_string());
    let failed = |index: usize, part: Part, error: &str| {
        let mut response = RuleResponse::new("", Status::Error, format!("error: {error}"), Trace::error(part));
        response.properties.push(index_property(index));
        response
    };
    for (index, validation) in policy.validations.iter().enumerate() {
        match run.value(&validation.program) {
            Val::Error(error) => return failed(index, Part::Validation(index), error),
            Val::Bool(false) => {}
            _ => continue,
        }
        let mut message = match &validation.message_expression {
            None => validation.message.clone(),
            Some(program) => match run.value(program) {
                Val::Error(error) => format!("failed to evaluate message expression: {error}"),
                value => value.as_str().unwrap_or_default().to_owned(),
            },
        };
        if message.is_empty() {
            message = format!("CEL expression validation failed at index {index}");
        }
        return match run.annotations(&policy.audit_annotations) {
            Err((annotation, error)) => failed(index, Part::AuditAnnotation(annotation), &error),
            Ok(mut properties) => {
                let trace = Trace::of(Part::Validation(index));
                let mut response = RuleResponse::new("", Status::Fail, message, trace);
                if !properties.iter().any(|(key, _)| key == INDEX) {
                    properties.push(index_property(index));
                }
                response.properties = properties;
                response
            }
        };
    }
    match run.annotations(&policy.audit_annotations) {
        Err((annotation, error)) => not_loaded(Part::AuditAnnotation(annotation), &error),
        Ok(properties) => {
            let mut response = RuleResponse::new("", Status::Pass, "success", Trace::of(Part::All));
            response.properties = properties;
            response
        }
    }
}

/// What ends an evaluation outside of the validations.
fn not_loaded(part: Part, error: &str) -> RuleResponse {
    let message = format!("failed to load context: {error}");
    RuleResponse::new("evaluation", Status::Error, message, Trace::error(part))
}

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

/// What the exceptions give.
pub(crate) enum Granted<'p> {
    /// The policy is lifted by these.
    Full(Vec<&'p Exception>),
    /// Expressions see these images and values as allowed.
    Partly { images: Vec<&'p str>, values: Vec<&'p str> },
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
    pub(crate) fn value(&self, program: &'a Program) -> Val<'a> {
        let activation = Activation {
            values: self.values,
            variables: self.variables,
        };
        run(program, self.scratch, activation, self.host, None).value
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

    /// The annotations that have a value; or the place of the first that fails.
    pub(crate) fn annotations(
        &self,
        annotations: &'a [(String, Program)],
    ) -> Result<Vec<(String, String)>, (usize, String)> {
        let mut properties = Vec::new();
        for (index, (key, program)) in annotations.iter().enumerate() {
            match self.value(program) {
                Val::Error(error) => {
                    return Err((index, format!("failed to evaluate auditAnnotation '{key}': {error}")));
                }
                Val::String("") => {}
                Val::String(text) => properties.push((key.clone(), text.to_owned())),
                other => {
                    let error = format!("type conversion error from '{}' to 'string'", other.type_name());
                    let error = format!("failed to convert auditAnnotation '{key}' expression: {error}");
                    return Err((index, error));
                }
            }
        }
        Ok(properties)
    }
}
