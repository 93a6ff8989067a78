//! One evaluation of a policy: exceptions, match conditions, validations, annotations.

use std::convert::Infallible;

use super::CompiledValidatingPolicy;
use crate::{
    cel_policy::{
        Slots,
        evaluate::{Granted, Quotes, Run, excepted},
    },
    response::RuleResponse,
    select::{Stage, Stages},
};
use kyvtest_cel::{
    context::{Context, Scratch},
    host::Host,
    library::kyverno,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::verdict::{Part, Status, Trace};

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
    let mut values = slots.bind(&policy.env, [object, old_object, request, namespace]);
    let mut result = None;
    let Ok(()) = Stages::CEL.decide((), |stage, ()| {
        result = match stage {
            Stage::Exceptions => match before(policy, &values, &scratch, host).exceptions(&policy.exceptions) {
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
            Stage::Conditions => unmet(policy, &before(policy, &values, &scratch, host)),
            Stage::Check => Some(validate(policy, slots, std::mem::take(&mut values), &scratch, host)),
            Stage::Preconditions | Stage::InvalidSelector => None,
        };
        Ok::<_, Infallible>(result.is_none().then_some(()))
    });
    result.unwrap_or_else(|| RuleResponse::new("", Status::Skip, "skip", Trace::of(Part::Match)))
}

/// The state before there are variables.
fn before<'a>(
    policy: &CompiledValidatingPolicy,
    values: &'a [Option<Val<'a>>],
    scratch: &'a Scratch,
    host: &'a dyn Host,
) -> Run<'a> {
    Run::new(values, scratch, host).ignoring_errors(policy.ignores_errors)
}

/// The response if match conditions do not hold.
fn unmet<'a>(policy: &'a CompiledValidatingPolicy, run: &Run<'a>) -> Option<RuleResponse> {
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
    let run = Run::new(&values, scratch, host)
        .ignoring_errors(policy.ignores_errors)
        .with_variables(&lazy);
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
        let message = run.failure_message(validation, index);
        return match run.annotations(&policy.audit_annotations, Quotes::Single) {
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
    match run.annotations(&policy.audit_annotations, Quotes::Single) {
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
