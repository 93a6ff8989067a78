//! Which hazards apply to a conversion, and where; and what the other parts were mapped to.
//!
//! The detection uses the policy alone. A hazard that applies need not show: many need a request of a certain form.
//! Hazards that every policy has, or that only some requests or installations show (`H22`, `H28`, `H33`, `H46`, `H52`
//! and others), are in the table only.

mod exclusion;
mod expression;
mod matching;
mod mutating;
mod rule;
mod validating;

use super::{Item, classic::Plan, mutating as mpol, validating as vpol};
use kyvtest_go_compat::diagnostic::FileId;
use kyvtest_model::kube::Discovery;

/// What becomes of a ClusterPolicy.
pub(super) fn classic(plan: &Plan<'_>, discovery: &Discovery, report: &mut Vec<Item>) {
    let kinds = matching::kinds(plan, discovery);
    matching::detect(plan, &kinds, report);
    exclusion::detect(plan, &kinds, report);
    rule::detect(plan, &kinds, report);
    in_order(report, plan.policy.origin.file);
}

/// What becomes of a ValidatingPolicy.
pub(super) fn validating(plan: &vpol::Plan<'_>, report: &mut Vec<Item>) {
    validating::detect(plan, report);
    in_order(report, plan.policy.origin.file);
}

/// What becomes of a MutatingPolicy.
pub(super) fn mutating(plan: &mpol::Plan<'_>, report: &mut Vec<Item>) {
    mutating::detect(plan, report);
    in_order(report, plan.policy.origin.file);
}

/// The policy's own parts first, each file in the order of its text.
fn in_order(report: &mut [Item], own: FileId) {
    report.sort_by_key(|item| item.span.map(|span| (span.file != own, span.file, span.start)));
}
