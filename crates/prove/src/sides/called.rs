//! Match conditions of Kyverno's webhook, which the API server evaluates before it calls Kyverno.
//!
//! A condition outside the decidable fragment becomes part of the rule that it protects: if both sides have the same text, they
//! decide alike. Its errors are a rule of their own, because the webhook denies on them whatever the policy's action is.

use super::{
    Facts, MatchConditions, SelectedRules,
    build::{self, LoweredRules, unreadable},
};
use crate::condition::{Reader, Tri};
use kyvtest_kyverno::webhook::{Guard, RegisteredCondition, Webhook};
use kyvtest_model::{
    kube::{Operation, RequestClass, Resource},
    verdict::Effect,
};

/// The conditions of a webhook, grouped by their guards.
#[derive(Debug, Default)]
pub(super) struct Called {
    groups: Vec<Group>,
    fails: bool,
}

#[derive(Debug)]
struct Group {
    /// One of the conditions, for its guard: all of a group have the same.
    sample: RegisteredCondition,
    readable: MatchConditions,
    unread: Vec<String>,
    /// The rule for errors in unreadable conditions, if they deny the request.
    refusing: Option<usize>,
}

/// What the API server does with a request.
pub(super) enum Outcome {
    /// It does not call Kyverno.
    NotCalled,
    /// It denies the request.
    Denied,
    /// It calls Kyverno, unless one of these rules, which represent errors, denies.
    Called(SelectedRules),
}

impl Called {
    pub(super) fn new(webhook: Option<&Webhook>, bodies: &mut LoweredRules, inexact: &mut Vec<String>) -> Self {
        let Some(webhook) = webhook else {
            return Self::default();
        };
        let mut called = Self {
            groups: Vec::new(),
            fails: webhook.fails(),
        };
        for condition in webhook.match_conditions() {
            let text = condition.expression().trim().to_owned();
            let texts = std::slice::from_ref(&text);
            let readable = build::readable(texts, Reader::Native);
            let unread = unreadable(texts);
            match called
                .groups
                .iter_mut()
                .find(|group| group.sample.has_guard_of(condition))
            {
                Some(group) => {
                    group.readable.conditions.extend(readable);
                    group.unread.extend(unread);
                }
                None => called.groups.push(Group {
                    sample: condition.clone(),
                    readable: MatchConditions {
                        conditions: readable,
                        ignores_errors: false,
                    },
                    unread,
                    refusing: None,
                }),
            }
        }
        let deletes = webhook.rules().iter().any(|rule| {
            let mut operations = rule.operations.iter();
            operations.any(|operation| operation == "*" || operation == Operation::Delete.as_str())
        });
        for group in &mut called.groups {
            group.unread = unreadable(&group.unread);
            if group.unread.is_empty() {
                continue;
            }
            if called.fails {
                group.refusing = bodies.of_conditions(&group.unread);
            } else {
                inexact.push("errors in match conditions of the webhook are ignored".to_owned());
            }
            if deletes && group.sample.is_guarded() {
                inexact
                    .push("match conditions that are too complex to decide fail on DELETE unless they hold".to_owned());
            }
        }
        called
    }

    /// The unreadable conditions that count for every kind.
    pub(super) fn unguarded(&self) -> Vec<String> {
        let groups = self.groups.iter().filter(|group| !group.sample.is_guarded());
        groups.flat_map(|group| group.unread.iter().cloned()).collect()
    }

    /// The rules for errors in conditions that a native policy also has.
    pub(super) fn refusing_with<'s>(&'s self, unread: &'s [String]) -> impl Iterator<Item = usize> + 's {
        let same = self.groups.iter().filter(move |group| group.unread == unread);
        same.filter_map(|group| group.refusing)
    }

    /// Evaluates the conditions on a request class as it is delivered: a false one decides, also if another one fails.
    pub(super) fn on<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        requested: &Resource,
        facts: &mut impl Facts<'p>,
    ) -> Outcome {
        let mut errs = false;
        let mut refusing = SelectedRules::new();
        for group in &self.groups {
            let guard = group.sample.guard(cell);
            if guard == Guard::Passes {
                continue;
            }
            match group.readable.hold(cell, requested, facts) {
                Tri::True => {}
                Tri::False if guard == Guard::Applies => return Outcome::NotCalled,
                Tri::False | Tri::Error => errs = true,
            }
            refusing.extend(group.refusing.map(|body| (body, Effect::Deny)));
        }
        match (errs, self.fails) {
            (false, _) => Outcome::Called(refusing),
            (true, true) => Outcome::Denied,
            (true, false) => Outcome::NotCalled,
        }
    }
}
