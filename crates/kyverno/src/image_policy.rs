//! ImageValidatingPolicy and NamespacedImageValidatingPolicy: the validating half.
//!
//! Upstream counterpart: `pkg/image/verification/evaluator` and `pkg/cel/policies/ivpol/engine` (Kyverno 1.19). Whatever a
//! registry knows comes from the host, which fetches every selected image before the first validation. The policy's namespace
//! is not compared with that of the object.
//!
//! Known deviations: images are looked at in the order of the extractors, upstream's order is random.

mod compile;
mod evaluate;
mod reference;

pub use evaluate::{ImageOutcome, Verifications};

use crate::{
    cel_policy::{Exception, Validation},
    constraints::applies,
    input::Input,
};
use kyvtest_cel::{composite::Composite, env::Env, program::Program};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::policy::{ImageConfiguration, MatchConstraints};
use reference::References;

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub(crate) struct CompiledImagePolicy {
    /// The policy's namespace; empty for one of the whole cluster.
    namespace: String,
    ignores_errors: bool,
    configuration: ImageConfiguration,
    env: Env,
    slots: Slots,
    match_conditions: Vec<Program>,
    references: References,
    /// By name; a later one replaces an earlier one.
    extractors: Vec<(String, Program)>,
    composite: Composite,
    attestors: Vec<Attestor>,
    attestations: Vec<DeclaredAttestation>,
    validations: Vec<Validation>,
    audit_annotations: Vec<(String, Program)>,
    exceptions: Vec<Exception>,
}

/// The numbers of the variables; those about requests are absent in other modes.
#[derive(Debug, Clone, Copy)]
struct Slots {
    object: u32,
    request: Option<RequestSlots>,
    images: u32,
    attestors: u32,
    attestations: u32,
}

#[derive(Debug, Clone, Copy)]
struct RequestSlots {
    old_object: u32,
    request: u32,
    namespace: u32,
    variables: u32,
}

#[derive(Debug)]
struct Attestor {
    name: String,
    body: Document,
    /// Where the values of expressions belong, below the attestor.
    expressions: Vec<(&'static str, Program)>,
}

/// An attestation under the name by which expressions know it.
#[derive(Debug)]
struct DeclaredAttestation {
    name: String,
    /// The type of the predicate, or of the artifact.
    kind: String,
    /// Whether it is an artifact that refers to the image.
    is_referrer: bool,
}

/// What a policy is evaluated on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageInput<'v> {
    pub object: Value<'v>,
    /// `oldObject`, `request` and `namespaceObject`; `None` for a payload.
    pub request: Option<[Value<'v>; 3]>,
}

impl<'v> ImageInput<'v> {
    pub(crate) fn of_request(input: &'v Input<'_>) -> Self {
        let [object, old_object, request, namespace] = input.policy().values();
        Self {
            object,
            request: Some([old_object, request, namespace]),
        }
    }
}

/// Whether constraints select a request; without constraints all are.
///
/// # Errors
/// If a selector is invalid.
pub fn selects(constraints: Option<&MatchConstraints>, input: &Input<'_>) -> Result<bool, String> {
    let Some(constraints) = constraints else {
        return Ok(true);
    };
    let selected = applies(constraints, &input.request.cell(), &mut input.cel_facts());
    selected.map_err(|error| error.to_string())
}
