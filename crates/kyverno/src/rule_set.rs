//! The rules of one kind in a ClusterPolicy or Policy: those that mutate, generate, or verify images.
//!
//! Upstream counterpart: the parts of `Rule` in `api/kyverno/v1/rule_types.go` (1.19) that every kind of rule has.

use std::sync::Arc;

use crate::{autogen::all_rules, classic::rule::Prelude, matching::Selection};
use kyvtest_model::policy::{ClassicPolicy, MatchResources, PolicyKind, Rule};

/// The part of a rule that makes its kind.
pub trait RuleBody: Sized {
    /// Reads it; `None` if the rule is of another kind.
    fn read(rule: &Rule) -> Option<Self>;
}

/// A rule, ready for evaluation.
#[derive(Debug)]
pub struct PreparedRule<B> {
    pub name: String,
    pub(crate) matches: MatchResources,
    pub(crate) exclude: Option<MatchResources>,
    pub(crate) prelude: Prelude,
    /// `reportProperties`.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) body: B,
}

impl<B: RuleBody> PreparedRule<B> {
    /// Reads a rule; `None` if it is of another kind.
    pub(crate) fn new(rule: &Rule) -> Option<Self> {
        Some(Self {
            body: B::read(rule)?,
            name: rule.name.value.clone(),
            matches: rule.matches.clone(),
            exclude: rule.exclude.clone(),
            prelude: Prelude::new(rule),
            properties: rule.properties(),
        })
    }

    /// What the rule is about, in a policy of a namespace.
    pub(crate) fn selection<'r>(&'r self, policy_namespace: &'r str) -> Selection<'r> {
        Selection {
            matches: &self.matches,
            exclude: self.exclude.as_ref(),
            policy_namespace,
        }
    }
}

/// A policy with rules of a kind, ready for evaluation.
#[derive(Debug)]
pub(crate) struct RuleSet<B> {
    pub(crate) policy: Arc<ClassicPolicy>,
    pub(crate) key: String,
    pub(crate) rules: Vec<PreparedRule<B>>,
}

impl<B: RuleBody> RuleSet<B> {
    /// Prepares a policy and the rules generated from it; `None` if it has no rule of the kind.
    pub(crate) fn new(policy: &Arc<ClassicPolicy>) -> Option<Self> {
        let rules = all_rules(policy);
        let rules: Vec<_> = rules.iter().filter_map(|rule| PreparedRule::new(rule)).collect();
        (!rules.is_empty()).then(|| Self {
            policy: Arc::clone(policy),
            key: policy.key(),
            rules,
        })
    }

    /// The policy as it was read.
    pub(crate) fn policy(&self) -> &Arc<ClassicPolicy> {
        &self.policy
    }

    /// The rules, in order.
    pub(crate) fn rules(&self) -> &[PreparedRule<B>] {
        &self.rules
    }

    /// The policy's namespace; a Policy without one is in `default`.
    pub(crate) fn namespace(&self) -> &str {
        let own = self.policy.metadata.namespace.as_ref();
        match (own, self.policy.kind) {
            (Some(namespace), _) => &namespace.value,
            (None, PolicyKind::Policy) => "default",
            (None, PolicyKind::ClusterPolicy) => "",
        }
    }
}
