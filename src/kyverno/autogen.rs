//! Rules for pod controllers, made from rules for Pods.
//!
//! Upstream counterpart: `pkg/autogen/v1` for ClusterPolicies and Policies, `pkg/cel/autogen` and
//! `pkg/cel/policies/vpol/autogen` for ValidatingPolicies (Kyverno 1.19). Upstream rewrites the JSON text of a rule; here the
//! rule's located tree is rearranged and its texts are rewritten byte by byte alike, then it is read like any other rule. So
//! a generated rule has the types of a written one, and every place in it is where its origin stands in the source.
//!
//! Known deviations: upstream reads the rewritten JSON over the old value, so that a map whose *keys* are rewritten
//! (`reportProperties`, `matchLabels`) keeps the old keys beside the new ones there; a carriage return before
//! `equest.object` counts as the letter `r` there.

mod message;
mod rewrite;
mod rule;
mod validating;

use std::{borrow::Cow, collections::BTreeSet};

use crate::policy::{MatchResources, Policy, ResourceFilter, Rule, split_kind};

pub use validating::{Config, Target, Variant, variants};

/// The annotation that names the controllers.
pub const ANNOTATION: &str = "pod-policies.kyverno.io/autogen-controllers";

/// The controllers that a rule for Pods can be made for.
pub const CONTROLLERS: [&str; 7] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];

/// The rules in force for objects of a kind: those of the policy, and what is generated for that kind.
///
/// The kind is that of the object, without group and version. Rules are generated anew with each call: ask once for each
/// policy and kind.
pub fn rules_for<'p>(policy: &'p Policy, kind: &str) -> Vec<Cow<'p, Rule>> {
    if kind.is_empty() || !controllers(policy).contains(kind) {
        return written(policy);
    }
    with_generated(policy, kind)
}

/// The rules in force for any kind: those of the policy, and everything that is generated. This is what Kyverno reports,
/// builds its webhooks from and validates.
pub fn all_rules(policy: &Policy) -> Vec<Cow<'_, Rule>> {
    let all: Vec<String> = controllers(policy).into_iter().collect();
    with_generated(policy, &all.join(","))
}

/// The controllers that a policy generates rules for, as its annotation spells them; `none` where there are none.
pub fn controllers(policy: &Policy) -> BTreeSet<String> {
    if eligibility(policy) != Eligibility::Eligible {
        return BTreeSet::from(["none".to_owned()]);
    }
    match policy.metadata.annotation(ANNOTATION) {
        Some(text) => text.value.split(',').map(str::to_owned).collect(),
        None => CONTROLLERS.iter().map(|kind| (*kind).to_owned()).collect(),
    }
}

/// Whether the rules of a policy could be about pod controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// They could.
    Eligible,
    /// A rule generates, or patches by path.
    WrongRule,
    /// A rule asks for names, labels or annotations of Pods, or for Pods among other kinds, or no rule is about Pods.
    WrongMatch,
}

/// Whether the rules of a policy could be about pod controllers, and if not, what the first obstacle is.
pub fn eligibility(policy: &Policy) -> Eligibility {
    let mut needed = false;
    for rule in &policy.spec.rules {
        if rule.generate.is_some() || rule::patches_by_path(rule) {
            return Eligibility::WrongRule;
        }
        for block in [Some(&rule.matches), rule.exclude.as_ref()].into_iter().flatten() {
            for filter in filters(block) {
                if !is_general(filter) {
                    return Eligibility::WrongMatch;
                }
                needed |= filter
                    .resources
                    .kinds
                    .iter()
                    .any(|kind| is_pod_or_controller(&kind.text));
            }
        }
    }
    if needed {
        Eligibility::Eligible
    } else {
        Eligibility::WrongMatch
    }
}

/// Whether a rule was generated, by its name.
pub fn is_generated(name: &str) -> bool {
    name.starts_with("autogen-")
}

fn written(policy: &Policy) -> Vec<Cow<'_, Rule>> {
    policy.spec.rules.iter().map(Cow::Borrowed).collect()
}

fn with_generated<'p>(policy: &'p Policy, controllers: &str) -> Vec<Cow<'p, Rule>> {
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

/// Every filter of a block, also those that do not count.
fn filters(block: &MatchResources) -> impl Iterator<Item = &ResourceFilter> {
    std::iter::once(&block.inline).chain(&block.any).chain(&block.all)
}

/// Whether what a filter says of Pods can be said of their controllers.
fn is_general(filter: &ResourceFilter) -> bool {
    let wanted = &filter.resources;
    let mixed = wanted.kinds.len() > 1 && wanted.kinds.iter().any(|kind| is_pod(&kind.text));
    wanted.name.is_none()
        && wanted.names.is_empty()
        && wanted.selector.is_none()
        && wanted.annotations.is_none()
        && !mixed
}

/// Whether a kind selector is about Pods or a subresource of theirs, whatever version it names.
fn is_pod(selector: &str) -> bool {
    let (_, kind) = split_kind(selector);
    kind.split('/').next() == Some("Pod")
}

/// Whether a kind selector is the bare name of a kind that has or is a pod.
fn is_pod_or_controller(selector: &str) -> bool {
    selector == "Pod" || CONTROLLERS.contains(&selector)
}
