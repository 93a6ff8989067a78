//! One evaluation of a policy: exceptions, conditions, mutations, annotations.

use super::{CompiledMutatingPolicy, Evaluated, Patcher, patch};
use crate::{
    cel_policy::evaluate::{Granted, Quotes, Run, excepted},
    response::RuleResponse,
};
use kyvtest_cel::{
    composite::Lazy,
    context::{Context, Scratch},
    host::Host,
    library::kyverno,
    program::Program,
    val::Val,
};
use kyvtest_go_compat::value::{Document, Map, Value};
use kyvtest_model::verdict::{Part, Status, Trace};
use kyvtest_patch::structured::Schema;

/// What expressions see.
pub(super) struct Values<'v> {
    pub(super) object: &'v Document,
    pub(super) old_object: Value<'v>,
    pub(super) request: Value<'v>,
    pub(super) namespace: Value<'v>,
    /// Group and version of the request, whose schemas are used.
    pub(super) api_version: String,
    /// The schema of a custom kind.
    pub(super) custom: Option<Schema>,
}

/// Which of its conditions a policy evaluates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `matchConditions`.
    Request,
    /// `targetMatchConditions`.
    Target,
}

fn failed(part: Part, error: &str) -> Evaluated {
    let message = format!("failed to evaluate policy: {error}");
    RuleResponse::new("evaluation", Status::Error, message, Trace::error(part)).into()
}

pub(super) fn evaluate(
    policy: &CompiledMutatingPolicy,
    given: &Values<'_>,
    purpose: Purpose,
    host: &dyn Host,
) -> Evaluated {
    let scratch = Scratch::new();
    let context = Context::new(&scratch, policy.env.profile(), host);
    let slots = policy.slots;
    let documents = [given.object.root(), given.old_object, given.request, given.namespace];
    let mut values = slots.bind(&policy.env, documents);
    // Exceptions see neither variables nor what other exceptions allow.
    let before = Run::new(context.bump().alloc_slice_copy(&values), &scratch, host);
    let (images, allowed) = match before.exceptions(&policy.exceptions) {
        Ok(Granted::Full(exceptions)) => return excepted(&exceptions).into(),
        Ok(Granted::Partly { images, values }) => (images, values),
        Err(error) => return failed(Part::ExceptionCondition, &error),
    };
    values[slots.exceptions as usize] = Some(context.opaque(kyverno::Exception::new(&images, &allowed)));
    values[slots.variables as usize] = Some(Val::Variables);
    let first = context.bump().alloc_slice_copy(&values);
    let lazy = policy.composite.bind(&scratch, first, host);
    let run = Run::new(first, &scratch, host).with_variables(&lazy);
    let conditions = match purpose {
        Purpose::Request => &policy.match_conditions,
        Purpose::Target => &policy.target_conditions,
    };
    match run.matches(conditions) {
        Ok(None) => {}
        Ok(Some(index)) => {
            let trace = Trace::of(Part::Precondition(index));
            return RuleResponse::new("", Status::Skip, "skip", trace).into();
        }
        Err((index, error)) => return failed(Part::Precondition(index), &error),
    }
    mutate(policy, given, &context, run, &lazy, values)
}

/// Applies the mutations, each to what the one before returned, and evaluates the annotations on the result.
fn mutate<'a>(
    policy: &'a CompiledMutatingPolicy,
    given: &Values<'_>,
    context: &Context<'a>,
    mut run: Run<'a>,
    lazy: &'a Lazy<'a>,
    mut values: Vec<Option<Val<'a>>>,
) -> Evaluated {
    let mut current = given.object.clone();
    for patcher in &policy.patchers {
        let patched = match patcher {
            Patcher::ApplyConfiguration(program) => {
                let schema = (given.api_version.as_str(), given.custom.as_ref());
                patch::apply(run.value(program), &current, schema, policy.atomics)
            }
            Patcher::JsonPatch(program) => patch::json_patch(run.value(program), &current, context),
        };
        match patched {
            Ok(patched) => current = patched,
            Err(failure) => {
                let mut result = failed(Part::All, &failure.message);
                result.response.panics = failure.panics;
                return result;
            }
        }
        values[policy.slots.object as usize] = Some(Val::from(context.document(current.clone())));
        run.values = context.bump().alloc_slice_copy(&values);
        lazy.set_values(run.values);
    }
    let properties = match run.annotations(&policy.audit_annotations, Quotes::Double) {
        Ok(properties) => properties,
        Err((index, error)) => return failed(Part::AuditAnnotation(index), &error),
    };
    let mut response = RuleResponse::new("", Status::Pass, "success", Trace::of(Part::All));
    response.properties = properties;
    // Of the missing object of a deletion nothing is left.
    let is_empty = current.root().as_map().is_some_and(Map::is_empty);
    Evaluated {
        response,
        patched: Some(if is_empty { Document::null() } else { current }),
    }
}

/// The keys of the objects that an expression on the trigger selects.
pub(super) fn targets(
    policy: &CompiledMutatingPolicy,
    program: &Program,
    trigger: &Document,
    host: &dyn Host,
) -> Result<Vec<String>, String> {
    let scratch = Scratch::new();
    let mut values = policy.env.initial_values();
    values[policy.slots.object as usize] = Some(Val::from(trigger.root()));
    values[policy.slots.variables as usize] = Some(Val::Variables);
    let lazy = policy.composite.bind(&scratch, &values, host);
    let run = Run::new(&values, &scratch, host).with_variables(&lazy);
    let name = &policy.id().name;
    let key = |object: Val<'_>| {
        let metadata = object.map_get(&Val::String("metadata"));
        let text = |field: &str| {
            let value = metadata.and_then(|metadata| metadata.map_get(&Val::String(field)));
            value
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default()
        };
        match text("namespace").as_str() {
            "" => text("name"),
            namespace => format!("{namespace}/{}", text("name")),
        }
    };
    match run.value(program) {
        Val::Error(error) => Err(format!("failed to evaluate CEL expression for policy {name}: {error}")),
        value if value.is_map() => Ok(match value.map_get(&Val::String("items")) {
            Some(items) if items.is_list() => items.list_iter().filter(Val::is_map).map(key).collect(),
            _ => vec![key(value)],
        }),
        other => Err(format!(
            "failed to convert CEL result for policy {name}: type conversion error from '{}' to \
             'map[string]interface {{}}'",
            other.type_name()
        )),
    }
}
