//! From a Kyverno policy to the ValidatingAdmissionPolicy or MutatingAdmissionPolicy and binding that Kyverno 1.19 would
//! generate, or its refusal.
//!
//! Upstream counterpart: `pkg/controllers/admissionpolicygenerator` and
//! `pkg/admissionpolicy/{kyvernopolicy_checker,builder}.go` (1.19), bug for bug: whatever the generator loses is lost
//! here as well, and an [`Item`] reports it. A generated object is built as a tree whose spans point to their origin in
//! the policy's source; the decoder of native policies then reads it, so that the engine evaluates exactly the object
//! that is printed.
//!
//! Known deviations: the gates that need a cluster (flags, permissions) are taken as passed; exceptions come in the order in
//! which they are given, upstream lists them in any order; a time of expiry counts only where [`Options::now`] is given.

mod build;
mod check;
mod classic;
mod detect;
pub mod hazard;
mod mutating;
mod object;
mod place;
mod refusal;
mod report;
mod validating;

use std::sync::Arc;

use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::Discovery,
    policy::{
        AdmissionChecked, CelPolicyException, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Policy,
        PolicyException, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
};

pub use refusal::{Refusal, RefusalCode, missing_kind};
pub use report::{Action, Item};

/// The exceptions of a cluster; those of other policies are left aside.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exceptions<'p> {
    /// Of kyverno.io.
    pub classic: &'p [Arc<PolicyException>],
    /// Of policies.kyverno.io.
    pub cel: &'p [Arc<CelPolicyException>],
}

/// How to convert.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Convert policies that do not enable the generation as well.
    pub force: bool,
    /// The time at which the objects are built: exceptions that have expired by then do not count.
    pub now: Option<Timestamp>,
}

/// What came of a policy.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The objects, or why there are none.
    pub outcome: Outcome,
    /// What became of the parts of the policy, in the order in which they are written.
    pub report: Vec<Item>,
}

/// The objects, or why there are none.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Kyverno generates these.
    Generated(Box<Generated>),
    /// Kyverno generates these from a MutatingPolicy.
    Mutating(Box<GeneratedMutation>),
    /// Kyverno generates nothing.
    Refused(Refusal),
}

/// What Kyverno generates.
#[derive(Debug, Clone)]
pub struct Generated {
    pub vap: Object<ValidatingAdmissionPolicy>,
    /// Its bindings; Kyverno makes one.
    pub bindings: Vec<Object<ValidatingAdmissionPolicyBinding>>,
    /// Whether a binding warns the client on violations that Kyverno only audits.
    pub audit_warnings: bool,
}

/// What Kyverno generates from a MutatingPolicy.
#[derive(Debug, Clone)]
pub struct GeneratedMutation {
    pub map: Object<MutatingAdmissionPolicy>,
    pub binding: Object<MutatingAdmissionPolicyBinding>,
}

impl GeneratedMutation {
    /// Whether the API server accepts both objects.
    pub fn is_installable(&self) -> bool {
        self.map.checked.errors.is_empty() && self.binding.checked.errors.is_empty()
    }
}

/// A human-readable explanation of [`Generated::audit_warnings`].
pub const AUDIT_WARNINGS: &str =
    "on a violation that is only audited, the native policy also warns the client, which Kyverno does not";

/// A generated object.
#[derive(Debug, Clone)]
pub struct Object<T> {
    /// The object as it is built, before the API server sets defaults.
    pub document: Document,
    /// The same as the engine reads it.
    pub model: Arc<T>,
    /// The result of the API server's validation.
    pub checked: AdmissionChecked,
}

/// Converts a policy with its exceptions, for a cluster that serves what `discovery` lists.
pub fn convert(policy: &Policy, exceptions: Exceptions<'_>, discovery: &Discovery, options: Options) -> Conversion {
    let mut report = Vec::new();
    let outcome = match policy {
        Policy::Classic(policy) => classic::convert(policy, exceptions.classic, discovery, options, &mut report)
            .map(|generated| Outcome::Generated(Box::new(generated))),
        Policy::Validating(policy) => validating::convert(policy, exceptions.cel, options, &mut report)
            .map(|generated| Outcome::Generated(Box::new(generated))),
        Policy::Mutating(policy) => mutating::convert(policy, exceptions.cel, options, &mut report)
            .map(|generated| Outcome::Mutating(Box::new(generated))),
        _ => Err(Refusal::unsupported(policy.kind(), policy.origin().span)),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refusal) => {
            report.clear();
            report.push(refusal.item());
            Outcome::Refused(refusal)
        }
    };
    Conversion { outcome, report }
}
