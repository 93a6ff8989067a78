//! The effects of image results on a request.
//!
//! Upstream counterpart: `pkg/webhooks/resource/{imageverification,ivpol}/handler.go`, and `ruleAction` of
//! `pkg/engine/api/engineresponse.go` (1.19).
//!
//! Known deviation: an error counts with the `failurePolicy` of its own policy; upstream fails if any policy of the webhook
//! does.

use std::borrow::Cow;

use super::observed::{RuleResult, RuleType};
use crate::{failure_action::Actions, input::Input, lens::Lens};
use kyvtest_go_compat::value::{List, Value};
use kyvtest_model::{
    policy::{ClassicPolicy, FailureAction, ImageValidatingPolicy, Rule, ValidationAction},
    verdict::{Effect, Status},
};

/// Sets the effects of the results of `verifyImages` rules; those of other rules stay.
pub(super) fn of_image_rules(
    policy: &ClassicPolicy,
    rules: &[Cow<'_, Rule>],
    input: &Input<'_>,
    results: &mut [RuleResult],
) {
    for result in results {
        let rule = rules.iter().find(|rule| rule.name.value == result.response.rule);
        let Some(rule) = rule.filter(|rule| rule.validate.is_none()) else {
            continue;
        };
        let actions = Actions::new(policy, None, Lens::CLUSTER).with_action(action(rule));
        result.response.effect = actions.effect_of_images(result.response.status, &mut input.facts());
    }
}

/// The action of a rule: `Enforce` if any entry says so, else the first that is given.
fn action(rule: &Rule) -> Option<FailureAction> {
    let block = rule.verify_images.as_ref()?.document();
    let entries = block.root().as_list().into_iter().flat_map(List::iter);
    let actions = entries.filter_map(|entry| entry.get("failureAction").and_then(Value::as_str));
    let actions = actions.map(|word| {
        if word.eq_ignore_ascii_case("enforce") {
            FailureAction::Enforce
        } else {
            FailureAction::Audit
        }
    });
    let actions: Vec<FailureAction> = actions.collect();
    let enforce = actions.iter().find(|action| **action == FailureAction::Enforce);
    enforce.or(actions.first()).copied()
}

/// Sets the effects of the results of an ImageValidatingPolicy.
pub(super) fn of_image_policy(policy: &ImageValidatingPolicy, results: &mut [RuleResult]) {
    let actions = policy.spec.validation_actions.as_deref().unwrap_or_default();
    // Without actions a policy denies.
    let has = |wanted: ValidationAction| match actions {
        [] => wanted == ValidationAction::Deny,
        actions => actions.iter().any(|action| action.value == wanted),
    };
    for result in results
        .iter_mut()
        .filter(|result| result.rule_type == RuleType::ImageVerify)
    {
        result.response.effect = match result.response.status {
            Status::Fail | Status::Error if has(ValidationAction::Deny) => Effect::Deny,
            Status::Fail | Status::Error if has(ValidationAction::Warn) && !has(ValidationAction::Audit) => {
                Effect::Warn
            }
            Status::Fail | Status::Error => Effect::Audit,
            _ => Effect::Admit,
        };
    }
}
