//! What a violation of a classic rule does to the request.
//!
//! Upstream counterpart: `pkg/policycache/cache.go` `checkValidationFailureActionOverrides`, which sorts rules into
//! those that are evaluated before the response and those that are only reported, and
//! `pkg/engine/api/engineresponse.go` `failureActionForRule`, which decides whether a violation denies the request.
//! Both must yield `Enforce`. They differ: an override with namespaces and a selector needs one of the two in the
//! former and both in the latter.
//!
//! Known deviation: wildcards in the `namespaceSelector` of an override are taken as they are.

use crate::lens::Lens;
use kyvtest_model::{
    kube::{Atom, Facts, LabelSelector, Operation, Pairs, Pattern, RequestClass, Text},
    policy::{ClassicPolicy, FailureAction, FailureActionOverride, FailurePolicy, Validate},
    verdict::{Effect, Status},
};

/// The failure actions of a rule and its policy.
#[derive(Debug, Clone)]
pub(crate) struct Actions {
    rule: Option<FailureAction>,
    rule_overrides: Vec<Override>,
    policy: FailureAction,
    policy_overrides: Vec<Override>,
    fails_on_errors: bool,
    /// A policy with match conditions has its own webhook, which evaluates all of its rules.
    own_webhook: bool,
}

#[derive(Debug, Clone)]
struct Override {
    action: Option<FailureAction>,
    namespaces: Vec<String>,
    selector: Option<LabelSelector>,
}

impl Override {
    fn list(overrides: &[FailureActionOverride]) -> Vec<Self> {
        overrides
            .iter()
            .map(|entry| Self {
                action: entry.action.as_ref().map(|action| action.value),
                namespaces: entry.namespaces.iter().map(|text| text.value.clone()).collect(),
                selector: entry
                    .namespace_selector
                    .clone()
                    .map(kyvtest_model::policy::LabelSelector::compile),
            })
            .collect()
    }

    fn namespace_fits<'p>(&'p self, text: Text, facts: &mut impl Facts<'p>) -> bool {
        let mut patterns = self.namespaces.iter();
        patterns.any(|pattern| facts.ask(Atom::Text(text, Pattern::glob(pattern))))
    }

    fn labels_fit<'p>(&'p self, facts: &mut impl Facts<'p>) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector.error().is_none() && selector.matches(Some(Pairs::NamespaceLabels), facts))
    }
}

impl Actions {
    /// The actions of a rule with this validation.
    pub(crate) fn new(policy: &ClassicPolicy, validate: Option<&Validate>, lens: Lens) -> Self {
        let spec = &policy.spec;
        let webhook = spec.webhook.as_ref();
        let failure_policy = webhook
            .and_then(|webhook| webhook.failure_policy.as_ref())
            .or(spec.failure_policy.as_ref());
        let overrides = validate.and_then(|validate| validate.failure_action_overrides.as_deref());
        Self {
            rule: validate
                .and_then(|validate| validate.failure_action.as_ref())
                .map(|action| action.value),
            rule_overrides: Override::list(overrides.unwrap_or_default()),
            policy: spec.validation_failure_action,
            policy_overrides: Override::list(&spec.validation_failure_action_overrides),
            fails_on_errors: failure_policy.is_none_or(|policy| policy.value == FailurePolicy::Fail),
            own_webhook: lens.webhook_conditions && webhook.is_some_and(|webhook| !webhook.match_conditions.is_empty()),
        }
    }

    /// The same with an action of the rule itself.
    #[must_use]
    pub(crate) fn with_action(mut self, action: Option<FailureAction>) -> Self {
        self.rule = action.or(self.rule);
        self
    }

    /// What the status of a `verifyImages` rule does to a request: the mutating webhook evaluates such rules whatever their
    /// action is (`BlockRequest` of `pkg/utils/engine/response.go` upstream).
    pub(crate) fn effect_of_images<'p>(&'p self, status: Status, facts: &mut impl Facts<'p>) -> Effect {
        match status {
            Status::Fail if self.denies(facts) => Effect::Deny,
            Status::Error if self.fails_on_errors => Effect::Deny,
            Status::Fail | Status::Error => Effect::Audit,
            _ => Effect::Admit,
        }
    }

    /// What a status does to the requests of a cell.
    pub(crate) fn effect<'p>(&'p self, status: Status, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> Effect {
        match status {
            Status::Fail if self.is_evaluated_in_time(cell, facts) && self.denies(facts) => Effect::Deny,
            Status::Error if self.is_evaluated_in_time(cell, facts) => {
                if self.fails_on_errors {
                    Effect::Deny
                } else {
                    Effect::Warn
                }
            }
            Status::Fail | Status::Error => Effect::Audit,
            _ => Effect::Admit,
        }
    }

    /// Whether Kyverno evaluates the rule before it responds to the request.
    fn is_evaluated_in_time<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
        if self.own_webhook {
            return true;
        }
        let overrides = if self.rule_overrides.is_empty() {
            &self.policy_overrides
        } else {
            &self.rule_overrides
        };
        // A Namespace is in itself, once it exists.
        let (known, name) = if cell.is_core_namespace() {
            (cell.operation != Operation::Create, Text::BareName)
        } else {
            (cell.namespaced, Text::Namespace)
        };
        for entry in overrides {
            let global = entry.namespaces.is_empty() && entry.selector.is_none();
            if global || known && (entry.namespace_fits(name, facts) || entry.labels_fit(facts)) {
                return entry.action == Some(FailureAction::Enforce);
            }
        }
        self.rule.unwrap_or(self.policy) == FailureAction::Enforce
    }

    /// Whether a violation denies the request.
    fn denies<'p>(&'p self, facts: &mut impl Facts<'p>) -> bool {
        let mut overriding = |overrides: &'p [Override]| {
            overrides.iter().find_map(|entry| {
                let action = entry.action?;
                let fits = (entry.namespaces.is_empty() || entry.namespace_fits(Text::Namespace, facts))
                    && (entry.selector.is_none() || entry.labels_fit(facts));
                fits.then_some(action)
            })
        };
        let action = overriding(&self.rule_overrides)
            .or(self.rule)
            .or_else(|| overriding(&self.policy_overrides))
            .unwrap_or(self.policy);
        action == FailureAction::Enforce
    }
}
