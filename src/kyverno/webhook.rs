//! Which requests reach Kyverno at all, and as what.
//!
//! Upstream counterpart: `pkg/controllers/webhook` (1.19), which builds the webhooks, and the API server's
//! `admission/plugin/webhook`, which decides whether to call them. A webhook that lists another version of the resource
//! gets the object converted to it, unless the policy says `matchPolicy: Exact`.
//!
//! Known deviations: a conversion changes the version and nothing else; match conditions, which the API server evaluates
//! before Kyverno does, are the engine's alone here.

mod classic;
mod registration;
mod validating;

use std::sync::Arc;

use super::{autogen, matching::kind_matches};
use crate::{
    kube::{Cell, Discovery, Facts, LabelSelector, Operation, Pairs, Resource},
    policy::{KindSelector, MatchPolicy, Policy, ValidatingPolicy},
};

pub use registration::configuration;

/// The webhook of one policy.
#[derive(Debug, Clone)]
pub struct Webhook {
    listed: Vec<Listed>,
    object_selector: Option<LabelSelector>,
    is_exact: bool,
}

/// What a webhook lists.
#[derive(Debug, Clone)]
enum Listed {
    Kind {
        selector: KindSelector,
        /// None is all of them.
        operations: Vec<String>,
    },
    Rule(crate::kube::RuleWithOperations),
}

impl Webhook {
    /// The webhook of a ClusterPolicy or Policy: the kinds of its rules, generated ones included.
    pub fn of_policy(policy: &Policy) -> Self {
        let mut listed = Vec::new();
        for rule in autogen::all_rules(policy) {
            let block = &rule.matches;
            for filter in std::iter::once(&block.inline).chain(&block.all).chain(&block.any) {
                let operations = &filter.resources.operations;
                listed.extend(filter.resources.kinds.iter().map(|kind| Listed::Kind {
                    selector: kind.value.clone(),
                    operations: operations.iter().map(|text| text.value.clone()).collect(),
                }));
            }
        }
        Self {
            listed,
            object_selector: None,
            is_exact: false,
        }
    }

    /// The webhook of a ValidatingPolicy: its resource rules, those of what is generated from it, and its object selector.
    pub fn of_validating_policy(policy: &ValidatingPolicy) -> Self {
        let generated = autogen::variants(policy);
        let constraints = policy.spec.match_constraints.as_ref();
        let variants = generated
            .iter()
            .filter_map(|variant| variant.policy.spec.match_constraints.as_ref());
        let rules = constraints
            .into_iter()
            .chain(variants)
            .flat_map(|block| &block.resource_rules);
        Self {
            listed: rules.map(|rule| Listed::Rule(rule.rule.clone())).collect(),
            object_selector: constraints
                .and_then(|block| block.object_selector.as_ref())
                .map(|selector| selector.value.clone()),
            is_exact: constraints
                .and_then(|block| block.match_policy.as_ref())
                .is_some_and(|word| word.value == MatchPolicy::Exact),
        }
    }

    /// The resource as which Kyverno gets the requests of a cell; `None` if it does not get them.
    pub fn delivers<'p>(
        &'p self,
        cell: &Cell<'_>,
        discovery: &Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Option<Arc<Resource>> {
        if !self.selects_object(cell, facts) {
            return None;
        }
        if self.lists(cell) {
            return Some(Arc::new(cell.resource.clone()));
        }
        if self.is_exact {
            return None;
        }
        let mut others = discovery.iter().filter(|other| is_equivalent(other, cell.resource));
        others
            .find(|other| {
                self.lists(&Cell {
                    resource: other,
                    ..*cell
                })
            })
            .cloned()
    }

    fn lists(&self, cell: &Cell<'_>) -> bool {
        self.listed.iter().any(|listed| match listed {
            Listed::Kind { selector, operations } => {
                let operation = cell.operation.as_str();
                (operations.is_empty() || operations.iter().any(|listed| listed == operation))
                    && lists_kind(selector, cell.resource)
            }
            Listed::Rule(rule) => rule.matches(cell),
        })
    }

    /// The API server asks the labels of the objects that there are; what a connection sends has none.
    fn selects_object<'p>(&'p self, cell: &Cell<'_>, facts: &mut impl Facts<'p>) -> bool {
        let Some(selector) = self.object_selector.as_ref().filter(|selector| !selector.is_empty()) else {
            return true;
        };
        if selector.error().is_some() {
            return true;
        }
        let mut matches = |pairs| selector.matches(Some(pairs), facts);
        match cell.operation {
            Operation::Create => matches(Pairs::NewLabels),
            Operation::Update => matches(Pairs::NewLabels) || matches(Pairs::OldLabels),
            Operation::Delete => matches(Pairs::OldLabels),
            Operation::Connect => false,
        }
    }
}

/// Whether a kind selector lists a resource. Pods bring their ephemeral containers with them.
fn lists_kind(selector: &KindSelector, resource: &Resource) -> bool {
    if kind_matches(selector, resource, false) {
        return true;
    }
    let is_ephemeral = resource.group.is_empty()
        && resource.version == "v1"
        && resource.kind == "Pod"
        && resource.subresource == "ephemeralcontainers";
    is_ephemeral
        && kind_matches(
            selector,
            &Resource {
                subresource: String::new(),
                ..resource.clone()
            },
            false,
        )
}

/// Whether two resources are the same objects under two names: versions of one group, or the two groups of Events.
fn is_equivalent(one: &Resource, other: &Resource) -> bool {
    let events =
        |resource: &Resource| resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io");
    one.plural == other.plural
        && one.subresource == other.subresource
        && (one.group == other.group && one.version != other.version
            || one.group != other.group && events(one) && events(other))
}
