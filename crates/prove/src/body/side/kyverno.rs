//! The oracle of a proof about pairs on Kyverno's side: what is selected on the paths of facts, united, and each stage as
//! formulas.

use kyvtest_kyverno::{
    controller::Controller,
    lowered::Lowered,
    select::{Oracle, Selection, Step},
    webhook::Webhook,
};
use kyvtest_model::{kube::Discovery, verdict::Effect};

use super::{Effects, RuleOutcome, Side, classic::ClassicRules};
use crate::body::{
    formula::{Arena, Formula},
    request::{Request, paths},
    value::{Result, Unsupported, unsupported},
};

/// Turns the stages of a policy into formulas.
pub(super) struct Modelling<'a, 'p, 'd> {
    pub(super) side: &'p Side,
    pub(super) arena: &'a mut Arena,
    pub(super) request: &'a Request<'d>,
    pub(super) discovery: &'d Discovery,
    pub(super) policy: &'p Lowered,
    /// The rules of a classic policy.
    pub(super) rules: Option<&'p ClassicRules>,
    /// The outcomes of the rules, as far as they were needed.
    pub(super) known: Vec<(usize, RuleOutcome)>,
    /// The requests that reached the last step.
    reached: Option<Formula>,
    pub(super) effects: &'a mut Effects,
}

impl Side {
    /// Adds the effects of a policy of Kyverno's.
    pub(super) fn kyverno_policy<'p, 'd>(
        &'p self,
        arena: &mut Arena,
        (request, discovery): (&Request<'d>, &'d Discovery),
        (controller, policy, rules): (&'p Controller, &'p Lowered, Option<&'p ClassicRules>),
        effects: &mut Effects,
    ) -> Result<()> {
        let found = paths(arena, request, |facts| {
            controller.select(policy, &request.cell, discovery, facts)
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut selected = Vec::new();
        for (condition, outcome) in found {
            let Some((delivered, selection)) = outcome else {
                continue;
            };
            if delivered.resource.gvr() != request.seen.gvr() {
                return unsupported("objects that are converted to another version");
            }
            selected.push((condition, selection));
        }
        let united = Selection::united(selected, Formula::FALSE, |all| arena.or(all));
        let Some(selection) = united.filter(|selection| selection.delivered != Formula::FALSE) else {
            return Ok(());
        };
        selection.decide(&mut Modelling {
            side: self,
            arena,
            request,
            discovery,
            policy,
            rules,
            known: Vec::new(),
            reached: None,
            effects,
        })
    }
}

impl<'p> Oracle<'p> for Modelling<'_, 'p, '_> {
    type Requests = Formula;
    type Error = Unsupported;

    fn both(&mut self, a: Formula, b: Formula) -> Formula {
        self.arena.and([a, b])
    }

    fn is_empty(&self, requests: Formula) -> bool {
        requests == Formula::FALSE
    }

    fn webhook(&mut self, webhook: &'p Webhook, requests: Formula) -> Result<Formula> {
        let called = Side::called(self.arena, webhook, self.request)?;
        self.add([requests, called.denied], Effect::Deny);
        Ok(self.arena.and([requests, called.called]))
    }

    fn webhook_again(&mut self, _: Formula) -> Result<Formula> {
        unsupported("match conditions of a classic policy's webhook")
    }

    fn step(&mut self, step: &Step<'p>, requests: Formula) -> Result<()> {
        self.reached = Some(requests);
        if step.fail == Effect::Admit && step.error == Effect::Admit {
            return Ok(());
        }
        match self.rules {
            Some(rules) => self.rule(rules, step, requests),
            None => self.variant(step, requests),
        }
    }

    fn unapplied(&mut self, step: &Step<'p>, requests: Formula) -> Result<Formula> {
        let (Some(reached), Some(rules)) = (self.reached.take(), self.rules) else {
            return Ok(requests);
        };
        let applied = self.applied(rules, step, reached)?;
        let unapplied = self.arena.not(applied);
        Ok(self.arena.and([requests, unapplied]))
    }
}

impl Modelling<'_, '_, '_> {
    /// Adds an effect on what is in all sets.
    pub(super) fn add<const N: usize>(&mut self, requests: [Formula; N], effect: Effect) {
        let requests = self.arena.and(requests);
        self.effects.add(requests, effect);
    }
}
