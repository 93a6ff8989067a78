//! Whether a mutate rule and its translation make the same object of every request.
//!
//! No upstream counterpart. A difference that only the prover finds is on an object that people do not write, such as one with a
//! wildcard in an annotation: the translation is written, TESTED, and the reason names the difference.

use std::sync::Arc;

use kyvtest_model::{
    kube::Discovery,
    policy::{ClassicPolicy, Loaded, Policy},
};
use kyvtest_prove::{
    Label, Layer,
    body::{
        self,
        mutation::{ASSUMED, MutatingSide, compare_mutating_sides},
    },
};
use serde_json::Value as Json;

use super::load;
use crate::{Options, Refusal};

/// What is claimed of a translation.
pub(super) struct Claim {
    pub(super) is_proven: bool,
    /// Why it is not proven; empty if it is.
    pub(super) reason: String,
    /// How many requests went through both sides.
    pub(super) requests: u64,
}

impl Claim {
    fn open(reason: String, requests: u64) -> Self {
        Self {
            is_proven: false,
            reason,
            requests,
        }
    }
}

/// Compares a policy with one rule with its translation.
///
/// # Errors
/// A translation that Kyverno would not accept.
pub(super) fn claim(
    only: &ClassicPolicy,
    objects: &[Json],
    discovery: &Discovery,
    options: &Options,
) -> Result<Claim, Refusal> {
    let rule = Loaded {
        policies: vec![Policy::Classic(Arc::new(only.clone()))],
        ..Loaded::default()
    };
    let translation = load(objects)?;
    let side = |loaded: Loaded| MutatingSide::new(loaded, discovery, Layer::default());
    let (rule, translation) = match (side(rule), side(translation)) {
        (Ok(rule), Ok(translation)) => (rule, translation),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Claim::open(reason, 0)),
    };
    // What is not proven has been searched already.
    let proof = body::Options {
        tries: 0,
        ..options.proof.clone()
    };
    let found = compare_mutating_sides(&rule, &translation, &[], discovery, &proof);
    Ok(match (&found.label, &found.counterexample) {
        // A translation that applies to nothing says nothing.
        (Label::Proven, _) if found.reason.is_empty() || found.reason == ASSUMED => Claim {
            is_proven: true,
            reason: found.reason,
            requests: found.requests,
        },
        (_, Some(example)) => {
            let text = example.text(["the rule", "the translation"]);
            let object = example.scenario().request.object.root().to_serde();
            Claim::open(format!("on a rare object, {text}: {object}"), found.requests)
        }
        _ => Claim::open(found.reason, found.requests),
    })
}
