//! Eligibility of Pod policies for autogen.
//!
//! Upstream counterpart: `CanAutoGen` of `pkg/autogen/v1` (1.19). The engine generates the rules; conversion also has
//! to know whether there would be any.

use std::collections::BTreeSet;

use super::{ClassicPolicy, MatchResources, ResourceFilter, Rule, split_kind, validate::has};
use kyvtest_go_compat::yaml::{Items, Node};

/// The annotation that names the controllers.
pub const ANNOTATION: &str = "pod-policies.kyverno.io/autogen-controllers";

/// The controllers for which rules can be generated from Pod rules.
pub const CONTROLLERS: [&str; 7] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];

/// The controllers for which a policy generates rules, as its annotation spells them; `none` if there are none.
pub fn controllers(policy: &ClassicPolicy) -> BTreeSet<String> {
    if eligibility(policy) != Eligibility::Eligible {
        return BTreeSet::from(["none".to_owned()]);
    }
    match policy.metadata.annotation(ANNOTATION) {
        Some(text) => text.value.split(',').map(str::to_owned).collect(),
        None => CONTROLLERS.iter().map(|kind| (*kind).to_owned()).collect(),
    }
}

/// Whether rules for pod controllers can be generated from a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// Rules can be generated.
    Eligible,
    /// A rule generates, or patches by path.
    WrongRule,
    /// A rule matches names, labels or annotations of Pods, or Pods among other kinds, or no rule matches Pods.
    WrongMatch,
}

/// Determines whether rules for pod controllers can be generated; if not, returns the first obstacle.
pub fn eligibility(policy: &ClassicPolicy) -> Eligibility {
    let mut needed = false;
    for rule in &policy.spec.rules {
        if has(rule, "generate") || patches_by_path(rule) {
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

/// Every filter of a block, including those without effect.
fn filters(block: &MatchResources) -> impl Iterator<Item = &ResourceFilter> {
    std::iter::once(&block.inline).chain(&block.any).chain(&block.all)
}

/// Whether a filter on Pods also makes sense for their controllers.
fn is_general(filter: &ResourceFilter) -> bool {
    let wanted = &filter.resources;
    let mixed = wanted.kinds.len() > 1 && wanted.kinds.iter().any(|kind| is_pod(&kind.text));
    wanted.name.is_none()
        && wanted.names.is_empty()
        && wanted.selector.is_none()
        && wanted.annotations.is_none()
        && !mixed
}

/// Whether a kind selector selects Pods or a subresource of theirs, in any version.
pub fn is_pod(selector: &str) -> bool {
    let (_, kind) = split_kind(selector);
    kind.split('/').next() == Some("Pod")
}

/// Whether a kind selector is the bare name of Pod or a pod controller.
fn is_pod_or_controller(selector: &str) -> bool {
    selector == "Pod" || CONTROLLERS.contains(&selector)
}

/// Whether a rule mutates by JSON patch, also in `foreach`.
fn patches_by_path(rule: &Rule) -> bool {
    let by_path = |node: Node<'_>| {
        node.get("patchesJson6902")
            .and_then(Node::as_str)
            .is_some_and(|patch| !patch.is_empty())
    };
    rule.mutate.as_ref().is_some_and(|mutate| {
        let node = mutate.node();
        by_path(node)
            || node
                .get("foreach")
                .and_then(Node::as_seq)
                .into_iter()
                .flat_map(Items::iter)
                .any(by_path)
    })
}

/// Whether the rule matches Pods and, if it excludes kinds, excludes Pods.
pub fn is_about_pods(rule: &Rule) -> bool {
    let pods = |block: &MatchResources| block.kinds().any(|kind| is_pod(&kind.text));
    let excludes = rule.exclude.as_ref();
    pods(&rule.matches) && excludes.is_none_or(|block| block.kinds().next().is_none() || pods(block))
}

/// Whether a rule was generated, by its name.
pub fn is_generated(name: &str) -> bool {
    name.starts_with("autogen-")
}
