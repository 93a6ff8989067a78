//! Rules for pod controllers, made from rules for Pods.
//!
//! Upstream counterpart: `pkg/autogen/v1` for ClusterPolicies and Policies, `pkg/cel/autogen` and
//! `pkg/cel/policies/vpol/autogen` for ValidatingPolicies (Kyverno 1.19). Upstream rewrites the JSON text of a rule;
//! here the rule's located tree is rearranged and its strings are rewritten byte by byte in the same way, then it is
//! read like any other rule. So a generated rule has the types of a written one, and its spans point to its origin in
//! the source.
//!
//! Known deviations: upstream reads the rewritten JSON over the old value, so that a map whose *keys* are rewritten
//! (`reportProperties`, `matchLabels`) keeps the old keys beside the new ones there; a carriage return before
//! `equest.object` counts as the letter `r` there.

mod image;
mod message;
mod mutating;
mod rewrite;
mod rule;
mod validating;

use std::borrow::Cow;

use crate::lens::Lens;
use kyvtest_model::policy::{ClassicPolicy, Rule, ValidatingPolicy};

pub(crate) use image::image_variants;
pub use kyvtest_model::policy::autogen::{
    ANNOTATION, CONTROLLERS, Eligibility, controllers, eligibility, is_generated,
};
pub use mutating::{MutatingVariant, mutating_variants};
pub use validating::{Config, Target, Variant, variants};

/// The rules in force for objects of a kind: those of the policy, and what is generated for that kind.
///
/// The kind is that of the object, without group and version. Each call generates the rules anew: call it once for each
/// policy and kind.
pub fn rules_for<'p>(policy: &'p ClassicPolicy, kind: &str) -> Vec<Cow<'p, Rule>> {
    if kind.is_empty() || !controllers(policy).contains(kind) {
        return written(policy);
    }
    with_generated(policy, kind)
}

/// The rules in force for any kind: those of the policy, and everything that is generated. This is what Kyverno reports,
/// builds its webhooks from and validates.
pub fn all_rules(policy: &ClassicPolicy) -> Vec<Cow<'_, Rule>> {
    let all: Vec<String> = controllers(policy).into_iter().collect();
    with_generated(policy, &all.join(","))
}

/// The rules that count with a lens: all of them, or those that are written.
pub fn rules_at(policy: &ClassicPolicy, lens: Lens) -> Vec<Cow<'_, Rule>> {
    if lens.autogen {
        all_rules(policy)
    } else {
        written(policy)
    }
}

/// The kinds with rules of their own that count with a lens; the empty one is for all other kinds.
pub fn kinds_at(policy: &ClassicPolicy, lens: Lens) -> Vec<String> {
    let generated = lens.autogen.then(|| controllers(policy)).into_iter().flatten();
    generated.chain([String::new()]).collect()
}

/// The policies that are generated from a ValidatingPolicy, as far as they count with a lens.
pub fn variants_at(policy: &ValidatingPolicy, lens: Lens) -> Vec<Variant> {
    if lens.autogen { variants(policy) } else { Vec::new() }
}

fn written(policy: &ClassicPolicy) -> Vec<Cow<'_, Rule>> {
    policy.spec.rules.iter().map(Cow::Borrowed).collect()
}

fn with_generated<'p>(policy: &'p ClassicPolicy, controllers: &str) -> Vec<Cow<'p, Rule>> {
    if controllers == "none" {
        return written(policy);
    }
    let rules = policy.spec.rules.iter();
    let generated: Vec<Rule> = rules
        .flat_map(|rule| rule::generate(rule, controllers, policy.is_v2beta1()))
        .collect();
    if generated.is_empty() {
        return written(policy);
    }
    let mut all = written(policy);
    all.retain(|rule| !is_generated(&rule.name.value));
    all.extend(generated.into_iter().map(Cow::Owned));
    all
}
