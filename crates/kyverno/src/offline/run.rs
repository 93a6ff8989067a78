//! The stages of `kyverno test` on one resource: mutation, then validation, each on what the one before left.
//!
//! Upstream counterpart: `ApplyPoliciesOnResource` and `makePolicyContext` of
//! `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (1.19).

use std::sync::Arc;

use super::{
    case::Case,
    deleting::{cleanup, deleting_policies},
    host::{Asker, CaseHost},
    image_validating::{Digests, payload_policies},
    observed::{Observed, PolicyResponse},
    resource::Resource,
    stages::{Rules, Stages, Subject},
};
use crate::{autogen::all_rules, generating_policy::CompiledGeneratingPolicy, verify_images::CompiledImageRules};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{Environment, Operation, Request},
    policy::{ClassicPolicy, Loaded, Refusal, undecodable, validate},
};

/// Evaluates all policies of a test on its resources.
pub fn run(case: &Case, host: &dyn Host) -> Observed {
    if let Some(refused) = case.policies.refused {
        return Observed::failed(refusal(case, refused.reason));
    }
    if case.exceptions.refused.is_some() {
        return Observed::failed(refused_exceptions(&case.exceptions));
    }
    if let Some(operation) = case.values.unknown_operation() {
        let text = "must be one of CREATE, UPDATE, DELETE, CONNECT";
        return Observed::failed(format!("invalid request.operation value {operation:?}, {text}"));
    }
    let mut observed = Observed {
        printed: printed(case),
        ..Observed::default()
    };
    if case.applies {
        cleanup(case, host, &mut observed);
        return observed;
    }
    let mut accepted = Vec::new();
    for policy in case.policies.classic() {
        match validate(policy, &all_rules(policy)).error {
            Some(error) => observed.invalid.push((policy.metadata.name.value.clone(), error)),
            None => accepted.push(policy),
        }
    }
    let operation = match operation(case) {
        Ok(operation) => operation,
        Err(error) => return Observed::failed(error),
    };
    if accepted.iter().any(|policy| has_webhook_conditions(policy)) {
        let text = "`kyverno test` panics: conditions of a webhook configuration need a cluster";
        return Observed::failed(text.to_owned());
    }
    for resource in &case.resources {
        // The pass for the operation of the rows comes after the default one, whose responses are not read.
        let passes = std::iter::once(None).chain(operation.map(Some));
        let mut responses = Vec::new();
        for operation in passes {
            let evaluated = evaluate(case, resource, operation, &accepted, host);
            responses = match evaluated {
                Ok(responses) => responses,
                Err(error) => {
                    let name = &resource.name;
                    return Observed::failed(format!("failed to apply policies on resource {name} ({error})"));
                }
            };
        }
        observed.responses.append(&mut responses);
    }
    if let Some(payload) = &case.payload {
        match payload_pass(case, PAYLOAD, payload, host) {
            // The pass for the operation of the rows has no payloads.
            Ok(_) if operation.is_some() => {}
            Ok(mut responses) => observed.responses.append(&mut responses),
            Err(error) => return Observed::failed(error),
        }
    }
    // Upstream keeps the responses by resource, without an order of the resources.
    observed.responses.sort_by(|a, b| a.resource.cmp(&b.resource));
    observed
}

/// The stages of a pass that a caller may have of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// ClusterPolicies and Policies, after mutate rules.
    Classic,
    /// MutatingAdmissionPolicies, before MutatingPolicies: they change the object.
    NativeMutation,
    /// Native policies and ValidatingPolicies, after MutatingPolicies.
    Cel,
}

/// One pass over a resource.
fn evaluate(
    case: &Case,
    resource: &Resource,
    operation: Option<Operation>,
    accepted: &[&Arc<ClassicPolicy>],
    host: &dyn Host,
) -> Result<Vec<PolicyResponse>, String> {
    let mut validate = |stages: &Stages<'_>, stage, object: &mut Document, observed: &mut Observed| match stage {
        Stage::NativeMutation => Ok(()),
        Stage::Classic => stages.validate(accepted, object, observed),
        Stage::Cel => stages.validating_policies(object, observed),
    };
    let subject = Subject {
        resource,
        object: &resource.object,
        operation,
        request: None,
    };
    evaluate_with(case, subject, accepted, host, &mut validate)
}

/// One pass over a resource for a caller with a validation of its own. `object` is the object of the request; policies that delete
/// look at the resource itself. The caller gets the stage, the object as the stages before
/// left it, and the number of responses before it. Native mutation is the caller's as well; policies that check
/// images ([`checks_images`]) are not.
///
/// # Errors
/// The text with which the run ends.
pub fn pass(
    case: &Case,
    (resource, object): (&Resource, &Document),
    operation: Option<Operation>,
    accepted: &[&Arc<ClassicPolicy>],
    host: &dyn Host,
    validate: &mut dyn FnMut(Stage, &mut Document, usize),
) -> Result<Vec<PolicyResponse>, String> {
    let with_images: Vec<&Arc<ClassicPolicy>> = accepted
        .iter()
        .copied()
        .filter(|policy| checks_images(policy))
        .collect();
    let mut validate = |stages: &Stages<'_>, stage, object: &mut Document, observed: &mut Observed| {
        validate(stage, object, observed.responses.len());
        match stage {
            Stage::Classic => stages.validate(&with_images, object, observed),
            Stage::NativeMutation | Stage::Cel => Ok(()),
        }
    };
    let subject = Subject {
        resource,
        object,
        operation,
        request: None,
    };
    evaluate_with(case, subject, accepted, host, &mut validate)
}

/// One pass over a request as the admission controller gets it after mutation. `validate` gets the object with the digests
/// of its images; it may complete the object, and returns whether the validating phase admits the request. A refused request
/// generates nothing.
///
/// # Errors
/// The text with which the evaluation ends.
pub(super) fn request_pass(
    case: &Case,
    (resource, request, environment): (&Resource, &Request, Environment<'_>),
    accepted: &[&Arc<ClassicPolicy>],
    validate: &mut dyn FnMut(&mut Document) -> bool,
) -> Result<Vec<PolicyResponse>, String> {
    let mut validate = |stages: &Stages<'_>, stage, object: &mut Document, observed: &mut Observed| match stage {
        Stage::Classic => {
            stages.refused.set(!validate(object));
            let checked = accepted.iter().copied().filter(|policy| checks_images(policy));
            stages.validate_rules(&checked.collect::<Vec<_>>(), Rules::Images, object, observed)
        }
        Stage::NativeMutation | Stage::Cel => Ok(()),
    };
    let subject = Subject {
        resource,
        object: &resource.object,
        operation: None,
        request: Some((request, environment)),
    };
    evaluate_with(case, subject, accepted, environment.host, &mut validate)
}

/// Whether a policy has rules that check images in the stage of validation.
pub fn checks_images(policy: &Arc<ClassicPolicy>) -> bool {
    CompiledImageRules::new(policy).is_some_and(|rules| rules.has_checks())
}

type Validate<'v> = dyn FnMut(&Stages<'_>, Stage, &mut Document, &mut Observed) -> Result<(), String> + 'v;

fn evaluate_with(
    case: &Case,
    subject: Subject<'_>,
    accepted: &[&Arc<ClassicPolicy>],
    host: &dyn Host,
    validate: &mut Validate<'_>,
) -> Result<Vec<PolicyResponse>, String> {
    let is_request = subject.request.is_some();
    let askers = if is_request {
        [Asker::Request; 3]
    } else {
        [Asker::Classic, Asker::Admission, Asker::Unmocked]
    };
    let hosts = askers.map(|asker| CaseHost::new(case, host, asker));
    let stages = Stages::new(case, subject, &hosts)?;
    let mut observed = Observed::default();
    let mut object = subject.object.clone();
    if !is_request {
        stages.mutate(accepted, &mut object, &mut observed);
    }
    let digests = if stages.has_images() {
        stages.verify_images(accepted, &mut object, &mut observed)?;
        stages.mutate_digests(&mut object)
    } else {
        Digests::default()
    };
    if stages.is_refused(&observed) {
        return Ok(observed.responses);
    }
    validate(&stages, Stage::Classic, &mut object, &mut observed)?;
    validate(&stages, Stage::NativeMutation, &mut object, &mut observed)?;
    if !is_request {
        stages.mutating_policies(&mut object, &mut observed)?;
    }
    validate(&stages, Stage::Cel, &mut object, &mut observed)?;
    let seen = if case.in_cluster {
        &object
    } else {
        &*subject.resource.object
    };
    // In a cluster images are validated before the request is admitted, and objects are generated afterwards.
    if is_request && stages.has_images() {
        observed.responses.append(&mut stages.image_policies(seen, &digests)?);
    }
    if stages.is_refused(&observed) {
        return Ok(observed.responses);
    }
    stages.generating_policies(&object, &mut observed)?;
    stages.generate(accepted, &object, &mut observed)?;
    if !is_request {
        observed.responses.append(&mut stages.image_policies(seen, &digests)?);
    }
    stages.delete(subject, &object, &mut observed)?;
    Ok(observed.responses)
}

/// The name of the only payload.
const PAYLOAD: &str = "payload.json";

/// One pass over a JSON payload: policies that generate, check images and delete.
///
/// # Errors
/// The text with which the run ends.
pub fn payload_pass(
    case: &Case,
    name: &str,
    payload: &Document,
    host: &dyn Host,
) -> Result<Vec<PolicyResponse>, String> {
    let exceptions = case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
    for policy in case.policies.generating() {
        // They are compiled, and not evaluated.
        CompiledGeneratingPolicy::compile(policy, exceptions.clone()).map_err(|error| {
            let policy = &policy.metadata.name.value;
            let error = format!("failed to compile policy {policy} ({error})");
            format!("failed to apply validating policies on JSON payload {name} ({error})")
        })?;
    }
    let host = CaseHost::new(case, host, Asker::Unmocked);
    let mut responses = payload_policies(case, name, payload, &host).map_err(|error| {
        let error = format!("failed to apply image validating policies on JSON payload: {error}");
        format!("failed to apply validating policies on JSON payload {name} ({error})")
    })?;
    let mut deleting = deleting_policies(case, name, payload, None, &host)
        .map_err(|error| format!("failed to apply policies on JSON payload {name} ({error})"))?;
    responses.append(&mut deleting);
    Ok(responses)
}

/// The operation of the test rows.
fn operation(case: &Case) -> Result<Option<Operation>, String> {
    let Some(written) = &case.operation else {
        return Ok(None);
    };
    let known = written
        .parse()
        .ok()
        .filter(|operation| *operation != Operation::Connect);
    known.map(Some).ok_or_else(|| {
        let first = case.policies.classic().next().map(|policy| policy.key());
        format!(
            "invalid test result for policy {}: invalid operation {written:?}, must be one of CREATE, UPDATE, DELETE",
            first.unwrap_or_default()
        )
    })
}

/// What the command prints before it evaluates anything.
fn printed(case: &Case) -> Vec<String> {
    let dropped = case.policies.dropped.iter();
    let dropped = dropped.map(|dropped| match dropped.text.as_str() {
        "" => format!("ERROR: {}: failed to validate resource ({})", case.file, dropped.name),
        text => format!("ERROR: {}: {text}", case.file),
    });
    let rules = case.policies.classic().flat_map(|policy| &policy.spec.rules);
    let undecodable = rules.filter_map(undecodable);
    let undecodable = undecodable.map(|error| format!("Error: failed to get unstructured rule ({error})"));
    dropped.chain(undecodable).collect()
}

/// The text with which the loader of exceptions ends a run: upstream's for unknown fields and for violations of the schema.
fn refused_exceptions(loaded: &Loaded) -> String {
    let dropped = loaded.dropped.iter().map(|dropped| dropped.text.as_str());
    let problem = if loaded.unknown_fields.is_empty() {
        dropped
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    } else {
        format!("failed to parse document ({})", unknown_fields(loaded).join("\n"))
    };
    format!("error: failed to load exceptions (unable to load exceptions ({problem}))")
}

fn unknown_fields(loaded: &Loaded) -> Vec<String> {
    let paths = loaded.unknown_fields.iter();
    paths
        .map(|path| format!("{path}: Invalid value: value provided for unknown field"))
        .collect()
}

/// The text with which the loader of policies ends a run; upstream's for unknown fields and for documents that Go cannot decode.
fn refusal(case: &Case, reason: Refusal) -> String {
    let loaded = &case.policies;
    let file = case.file;
    let problems: Vec<String> = match reason {
        Refusal::Undecodable => {
            let kind = loaded.undecodable.as_deref().unwrap_or_default();
            return format!(
                "error: failed to load policies (failed to load file {file}: policy type not supported {kind})"
            );
        }
        Refusal::UnknownField => unknown_fields(loaded),
        Refusal::Kind | Refusal::Exception => {
            let diagnostics = loaded.diagnostics.iter();
            diagnostics.map(|diagnostic| diagnostic.message.clone()).collect()
        }
    };
    let problems = problems.join("\n");
    format!("error: failed to load policies (failed to load file {file}: failed to parse document ({problems}))")
}

fn has_webhook_conditions(policy: &ClassicPolicy) -> bool {
    let webhook = policy.spec.webhook.as_ref();
    webhook.is_some_and(|webhook| !webhook.match_conditions.is_empty())
}
