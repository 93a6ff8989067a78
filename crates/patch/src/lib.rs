//! The ways in which Kyverno and the API server change JSON objects, as pure functions with upstream's error messages.
//!
//! Upstream counterpart, one module each: [`strategic`] is Kyverno's `patchStrategicMerge` (kustomize kyaml),
//! [`json6902`] is RFC 6902 in the two versions of evanphx/json-patch that Kyverno and the API server use,
//! [`structured`] is the typed merge of server-side apply. [`classic`] chooses between the first two as a mutate rule
//! does. [`expression`] converts the values of CEL expressions to patches.
//!
//! Conditions in strategic merge patches are patterns, so the crate depends on `kyvtest-pattern`. Policies, variables,
//! matching and defaulting belong to the callers.

pub mod classic;
pub mod expression;
pub mod json6902;
pub mod strategic;
pub mod structured;

use kyvtest_go_compat::value::Document;

/// The result of a patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    /// The object after the patch; keys are sorted unless the patch inserted them in another order.
    pub document: Document,
    /// Whether the compact JSON text differs from that of the object before. Kyverno reports `pass` if it does and `skip`
    /// if it does not.
    pub changed: bool,
}
