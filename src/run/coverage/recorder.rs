//! Observes the policies of a suite during evaluation.

use std::{cell::RefCell, collections::BTreeMap};

use super::super::{Key, check::Check, requests::SuiteRequest, source_map::written};
use crate::suite::Suite;
use kyvtest_cel::observe::Observer;
use kyvtest_kyverno::{observe::Selected, response::RuleResponse};
use kyvtest_model::{
    policy::{MatchConstraints, PolicyId},
    verdict::Status,
};

/// How often a rule had each result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answered {
    pub(super) pass: u64,
    pub(super) fail: u64,
    pub(super) skip: u64,
    pub(super) error: u64,
    pub(super) none: u64,
    pub(super) undecided: u64,
}

/// A policy, and a rule of it.
type Rule = (PolicyId, String);

/// The observations of a suite.
pub(in crate::run) struct CoverageRecorder<'s> {
    /// Records the outcomes of expressions and conditions.
    pub(super) observer: Observer,
    suite: &'s Suite,
    checks: Vec<Check<'s>>,
    answered: RefCell<BTreeMap<Rule, Answered>>,
    /// Like `answered`, for mutating rules, which other stages evaluate.
    mutated: RefCell<BTreeMap<Rule, Answered>>,
    /// By rule and path: how often a filter selected a request and how often it did not.
    filters: RefCell<BTreeMap<(Rule, String), (u64, u64)>>,
}

impl<'s> CoverageRecorder<'s> {
    pub(in crate::run) fn new(suite: &'s Suite) -> Self {
        Self {
            observer: Observer::new(),
            suite,
            checks: Check::all(suite).collect(),
            answered: RefCell::default(),
            mutated: RefCell::default(),
            filters: RefCell::default(),
        }
    }

    /// Whether a row or a case tests a policy with a request.
    pub(in crate::run) fn tests(&self, policy: &PolicyId, suite_request: &SuiteRequest<'_>) -> bool {
        let key = suite_request.key;
        let mut own = self
            .checks
            .iter()
            .filter(|check| policy.is_named(&check.policy.value) && check.concerns(key));
        own.any(|check| match suite_request.check_id {
            Some(check_id) => check_id == check.id,
            // A check with its own old object has its own request.
            None => check.operation == suite_request.run && check.wanted(self.suite, key).old_object.is_none(),
        })
    }

    /// Whether a row or a case tests a policy with a payload.
    pub(super) fn tests_payload(&self, policy: &PolicyId, key: &Key) -> bool {
        let mut checks = self.checks.iter();
        checks.any(|check| policy.is_named(&check.policy.value) && check.concerns(key))
    }

    /// Records the results of a policy whose rules are named `rules`.
    pub(super) fn answers<'r>(
        &self,
        policy: &PolicyId,
        rules: impl Iterator<Item = &'r str>,
        answers: &[RuleResponse],
    ) {
        note(&self.answered, policy, rules, answers);
    }

    /// Like [`Self::answers`], for mutating rules.
    pub(super) fn mutations<'r>(
        &self,
        policy: &PolicyId,
        rules: impl Iterator<Item = &'r str>,
        answers: &[RuleResponse],
    ) {
        note(&self.mutated, policy, rules, answers);
    }

    /// Records the filters that select a request. Of several with the same path, any may.
    pub(super) fn selected(&self, policy: &PolicyId, found: &[Selected]) {
        let mut merged: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for one in found {
            *merged.entry((written(&one.rule), &one.path)).or_default() |= one.selects;
        }
        let Ok(mut filters) = self.filters.try_borrow_mut() else {
            return;
        };
        for ((rule, path), selects) in merged {
            let key = ((policy.clone(), rule.to_owned()), path.to_owned());
            let (yes, no) = filters.entry(key).or_default();
            *(if selects { yes } else { no }) += 1;
        }
    }

    /// The results of a rule.
    pub(super) fn of_rule(&self, policy: &PolicyId, rule: &str) -> Answered {
        let key = (policy.clone(), rule.to_owned());
        self.answered.borrow().get(&key).copied().unwrap_or_default()
    }

    /// The results of a mutating rule.
    pub(super) fn of_mutation(&self, policy: &PolicyId, rule: &str) -> Answered {
        let key = (policy.clone(), rule.to_owned());
        self.mutated.borrow().get(&key).copied().unwrap_or_default()
    }

    /// How often a filter selected a request, and how often it did not.
    pub(super) fn of_filter(&self, policy: &PolicyId, rule: &str, path: &str) -> (u64, u64) {
        let key = ((policy.clone(), rule.to_owned()), path.to_owned());
        self.filters.borrow().get(&key).copied().unwrap_or_default()
    }
}

/// The parts of constraints that select a request. Excluding rules count only if the rest selects the request.
pub(super) fn constraints_select(
    constraints: &MatchConstraints,
    mut is_selected: impl FnMut(&MatchConstraints) -> bool,
) -> Vec<Selected> {
    let mut found: Vec<Selected> = constraints_apart(constraints)
        .into_iter()
        .map(|(path, alone)| Selected {
            rule: String::new(),
            selects: is_selected(&alone),
            path,
        })
        .collect();
    let rest = MatchConstraints {
        exclude_resource_rules: Vec::new(),
        ..constraints.clone()
    };
    if !is_selected(&rest) {
        found.retain(|one| !one.path.starts_with("matchConstraints.excludeResourceRules"));
    }
    found
}

/// The parts of constraints, each as separate constraints.
pub(super) fn constraints_apart(constraints: &MatchConstraints) -> Vec<(String, MatchConstraints)> {
    let empty = MatchConstraints {
        namespace_selector: None,
        object_selector: None,
        resource_rules: Vec::new(),
        exclude_resource_rules: Vec::new(),
        match_policy: constraints.match_policy,
        span: constraints.span,
    };
    let mut apart = Vec::new();
    for (i, rule) in constraints.resource_rules.iter().enumerate() {
        let mut alone = empty.clone();
        alone.resource_rules.push(rule.clone());
        alone.span = rule.span;
        apart.push((format!("matchConstraints.resourceRules[{i}]"), alone));
    }
    if let Some(selector) = &constraints.namespace_selector {
        let mut alone = empty.clone();
        alone.namespace_selector = Some(selector.clone());
        alone.span = selector.span;
        apart.push(("matchConstraints.namespaceSelector".to_owned(), alone));
    }
    if let Some(selector) = &constraints.object_selector {
        let mut alone = empty.clone();
        alone.object_selector = Some(selector.clone());
        alone.span = selector.span;
        apart.push(("matchConstraints.objectSelector".to_owned(), alone));
    }
    for (i, rule) in constraints.exclude_resource_rules.iter().enumerate() {
        let mut alone = empty.clone();
        alone.resource_rules.push(rule.clone());
        alone.span = rule.span;
        apart.push((format!("matchConstraints.excludeResourceRules[{i}]"), alone));
    }
    apart
}

/// Counts the results of rules.
fn note<'r>(
    answered: &RefCell<BTreeMap<Rule, Answered>>,
    policy: &PolicyId,
    rules: impl Iterator<Item = &'r str>,
    answers: &[RuleResponse],
) {
    let Ok(mut answered) = answered.try_borrow_mut() else {
        return;
    };
    let mut at = |rule: &str, count: fn(&mut Answered) -> &mut u64| {
        let key = (policy.clone(), rule.to_owned());
        *count(answered.entry(key).or_default()) += 1;
    };
    for rule in rules {
        let mut own = answers
            .iter()
            .filter(|answer| rule.is_empty() || written(&answer.rule) == rule)
            .peekable();
        if own.peek().is_none() {
            at(rule, |all| &mut all.none);
        }
        for answer in own {
            at(
                rule,
                match answer.status {
                    Status::Pass => |all| &mut all.pass,
                    Status::Fail | Status::Warn => |all| &mut all.fail,
                    Status::Skip => |all| &mut all.skip,
                    Status::Error => |all| &mut all.error,
                    Status::NoMatch => |all| &mut all.none,
                    Status::NeedsRegistry | Status::Unsupported => |all| &mut all.undecided,
                },
            );
        }
    }
}
