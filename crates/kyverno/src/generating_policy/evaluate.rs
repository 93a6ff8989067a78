//! One evaluation of a policy: exceptions, match conditions, entries, annotations.

use std::cell::RefCell;

use super::{CompiledGeneratingPolicy, Entry, Generated, Placement};
use crate::{
    cel_policy::evaluate::{Granted, Quotes, Run, excepted},
    generate::object::text,
    response::RuleResponse,
};
use kyvtest_cel::{
    context::{Context, Scratch},
    host::{Host, Wrapped},
    library::kyverno,
    val::Val,
};
use kyvtest_go_compat::{
    text::quote::quote,
    value::{Data, Document, Value},
};
use kyvtest_model::verdict::{Part, Status, Trace};

/// Evaluates for `object`, `oldObject`, `request` and `namespaceObject`. `None` if a match condition is false.
pub(super) fn evaluate(
    policy: &CompiledGeneratingPolicy,
    values: [Value<'_>; 4],
    placement: &Placement<'_>,
    host: &dyn Host,
) -> Option<Generated> {
    let generated: RefCell<Vec<Data>> = RefCell::default();
    let generator = |namespace: &str, objects: &[Document]| {
        let objects = objects.iter().map(|object| Data::from(object.root())).collect();
        generated.borrow_mut().append(&mut placement(namespace, objects)?);
        Ok(())
    };
    let host = Wrapped::generating(host, &generator);
    match run(policy, values, &host) {
        Outcome::NoMatch => None,
        Outcome::Response(response) => Some(response.into()),
        Outcome::Failed(part, error) => {
            let message = format!("failed to evaluate policy: {error}");
            Some(RuleResponse::new(&policy.id().name, Status::Error, message, Trace::error(part)).into())
        }
        Outcome::Passed(properties) => {
            let message = "policy evaluated successfully";
            let mut response = RuleResponse::new(&policy.id().name, Status::Pass, message, Trace::of(Part::All));
            response.properties = properties;
            let objects = generated.take();
            Some(Generated {
                response,
                objects: objects.iter().map(Data::to_document).collect(),
            })
        }
    }
}

enum Outcome {
    NoMatch,
    Response(RuleResponse),
    Failed(Part, String),
    Passed(Vec<(String, String)>),
}

fn run(policy: &CompiledGeneratingPolicy, given: [Value<'_>; 4], host: &dyn Host) -> Outcome {
    let scratch = Scratch::new();
    let context = Context::new(&scratch, policy.env.profile(), host);
    let slots = policy.slots;
    let mut values = slots.bind(&policy.env, given);
    let first = context.bump().alloc_slice_copy(&values);
    let before = Run::new(first, &scratch, host);
    let (images, allowed) = match before.exceptions(&policy.exceptions) {
        Ok(Granted::Full(exceptions)) => return Outcome::Response(excepted(&exceptions)),
        Ok(Granted::Partly { images, values }) => (images, values),
        Err(error) => return Outcome::Failed(Part::ExceptionCondition, error),
    };
    values[slots.exceptions as usize] = Some(context.opaque(kyverno::Exception::new(&images, &allowed)));
    let conditions = Run {
        values: context.bump().alloc_slice_copy(&values),
        ..before
    };
    match conditions.matches(&policy.match_conditions) {
        Ok(None) => {}
        Ok(Some(_)) => return Outcome::NoMatch,
        Err((index, error)) => return Outcome::Failed(Part::Precondition(index), error),
    }
    values[slots.variables as usize] = Some(Val::Variables);
    let all = context.bump().alloc_slice_copy(&values);
    let lazy = policy.composite.bind(&scratch, all, host);
    let run = Run {
        values: all,
        variables: Some(&lazy),
        ..before
    };
    for (index, entry) in policy.entries.iter().enumerate() {
        if let Err(error) = apply(policy, entry, &run, &context) {
            return Outcome::Failed(Part::Validation(index), error);
        }
    }
    match run.annotations(&policy.audit_annotations, Quotes::Double) {
        Ok(properties) => Outcome::Passed(properties),
        Err((index, error)) => Outcome::Failed(Part::AuditAnnotation(index), error),
    }
}

fn apply<'a>(
    policy: &CompiledGeneratingPolicy,
    entry: &'a Entry,
    run: &Run<'a>,
    context: &Context<'a>,
) -> Result<(), String> {
    let template = match entry {
        Entry::Expression(program) => {
            return match run.value(program) {
                Val::Error(error) => Err(error.to_owned()),
                _ => Ok(()),
            };
        }
        Entry::Template(template) => template,
    };
    let objects = template
        .render(run, context)
        .map_err(|error| format!("failed to render generation template: {error}"))?;
    // The objects of one namespace are handed over together, namespaces in the order of their first objects.
    let mut groups: Vec<(String, Vec<Document>)> = Vec::new();
    for object in objects {
        let mut namespace = text(&object, &["metadata", "namespace"]).to_owned();
        let own = &policy.id().namespace;
        if !own.is_empty() {
            if namespace.is_empty() {
                namespace.clone_from(own);
            } else if namespace != *own {
                return Err(format!(
                    "cross-namespace generation denied: a policy in namespace {} cannot generate resources into namespace {}",
                    quote(own),
                    quote(&namespace)
                ));
            }
        }
        let object = object.to_document();
        match groups.iter_mut().find(|(name, _)| *name == namespace) {
            Some((_, group)) => group.push(object),
            None => groups.push((namespace, vec![object])),
        }
    }
    for (namespace, group) in groups {
        let generated = run.host.generate(&namespace, &group);
        generated.map_err(|error| format!("failed to generate resources: {error}"))?;
    }
    Ok(())
}
