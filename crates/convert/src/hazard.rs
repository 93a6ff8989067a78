//! Where a policy and the native policy generated from it stop saying the same, as one table.
//!
//! Codes `H…` are about ClusterPolicies, `M…` about MutatingPolicies, `V…` about ValidatingPolicies. The table is
//! human-readable: conversion reports the entries that apply to a policy and their locations, and a comparison of
//! verdicts names one as the cause. A code never changes its meaning.
//!
//! Upstream counterparts are named in the modules below; Kyverno is 1.19, Kubernetes 1.36.

mod action;
mod matching;
mod mutating;
mod runtime;
mod validating;

use kyvtest_model::kube::Request;

/// Which way the two sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The native policy admits a request that Kyverno denies.
    Weaker,
    /// The native policy denies a request that Kyverno admits.
    Stricter,
    /// Either, depending on the request.
    Either,
    /// There is no native policy, or none that can be installed.
    NotInstallable,
    /// Only texts, warnings or reports differ.
    Text,
    /// Only runs outside of a cluster show it.
    Offline,
    /// Both sides decide alike, against expectation.
    Equal,
}

impl Direction {
    /// What it means, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Weaker => "the native policy is weaker",
            Self::Stricter => "the native policy is stricter",
            Self::Either => "the native policy decides otherwise",
            Self::NotInstallable => "no native policy is created",
            Self::Text => "only messages differ",
            Self::Offline => "differs outside of a cluster only",
            Self::Equal => "both sides decide the same",
        }
    }
}

/// One entry of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Hazard {
    /// The public code, `H01` or `V01`.
    pub code: &'static str,
    /// A name for tools, `exclude-namespaces`.
    pub name: &'static str,
    /// Which way the two sides differ.
    pub direction: Direction,
    /// One line.
    pub title: &'static str,
    /// What each side does.
    pub explanation: &'static str,
    /// What to write instead.
    pub advice: &'static str,
}

impl Hazard {
    /// Whether it can show on a request: some are about few requests only.
    pub fn concerns(&self, request: &Request) -> bool {
        let gvr = request.resource.gvr();
        let is_core = |resource: &str| gvr.group.is_empty() && gvr.resource == resource;
        match self.code {
            // A subresource, a collection, Namespaces, controllers of pods.
            "H19" => !request.resource.subresource.is_empty(),
            "H23" => request.collection,
            "H59" => is_core("namespaces"),
            "H27" => !is_core("pods"),
            _ => true,
        }
    }
}

/// Every entry, in the order of the codes.
pub fn all() -> impl Iterator<Item = &'static Hazard> {
    [
        matching::HAZARDS,
        action::HAZARDS,
        runtime::HAZARDS,
        mutating::HAZARDS,
        validating::HAZARDS,
    ]
    .into_iter()
    .flatten()
}

/// The entry with a code.
pub fn find(code: &str) -> Option<&'static Hazard> {
    all().find(|hazard| hazard.code == code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_in_order_and_names_are_unique() {
        assert!(all().map(|hazard| hazard.code).is_sorted_by(|a, b| a < b));
        let names: BTreeSet<&str> = all().map(|hazard| hazard.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn texts_follow_the_rules_of_diagnostics() {
        for hazard in all() {
            for text in [hazard.title, hazard.explanation, hazard.advice] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", hazard.code);
                let first = text.chars().next().unwrap_or_default();
                let is_name = ["Kyverno", "Audit", "CEL"].iter().any(|name| text.starts_with(name));
                assert!(!first.is_uppercase() || is_name, "{}: {text}", hazard.code);
            }
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(hazard.name.chars().all(plain), "{}", hazard.name);
        }
    }
}
