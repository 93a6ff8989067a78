//! The oracle of a proof about native counterparts: it decides the stages of Kyverno's side on a path of facts.

use std::convert::Infallible;

use super::{BROKEN, ClassicRule, Kyverno, LoweredSides, SelectedRules, Variant, called::Outcome};
use crate::condition::Tri;
use kyvtest_kyverno::{
    select::{Oracle, Stage, Step},
    webhook::Webhook,
};
use kyvtest_model::{
    kube::{Facts, RequestClass, Resource},
    verdict::Effect,
};

/// Which expressions decide on a path.
pub(super) struct PathOracle<'a, 'p, 'd, F> {
    pub(super) sides: &'p LoweredSides,
    /// The request class as Kyverno gets it.
    pub(super) cell: &'a RequestClass<'d>,
    /// The resource of the request before it was converted.
    pub(super) requested: &'a Resource,
    pub(super) facts: &'a mut F,
    pub(super) selected: SelectedRules,
    /// Whether the last rule applied.
    pub(super) applied: bool,
}

impl<'p, F: Facts<'p>> Oracle<'p> for PathOracle<'_, 'p, '_, F> {
    type Requests = bool;
    type Error = Infallible;

    fn both(&mut self, a: bool, b: bool) -> bool {
        a && b
    }

    fn is_empty(&self, requests: bool) -> bool {
        !requests
    }

    fn webhook(&mut self, _: &'p Webhook, requests: bool) -> Result<bool, Infallible> {
        let is_called = match self.sides.called.on(self.cell, self.requested, self.facts) {
            Outcome::NotCalled => false,
            Outcome::Denied => {
                self.selected.push((BROKEN, Effect::Deny));
                false
            }
            Outcome::Called(refusing) => {
                self.selected.extend(refusing);
                true
            }
        };
        Ok(requests && is_called)
    }

    /// The conditions decide as before; where Kyverno may see more than the API server, the proof says so.
    fn webhook_again(&mut self, requests: bool) -> Result<bool, Infallible> {
        Ok(requests)
    }

    fn step(&mut self, step: &Step<'p>, _: bool) -> Result<(), Infallible> {
        self.applied = false;
        match &self.sides.kyverno {
            Kyverno::Classic(rules) => {
                let own = rules.get(&self.cell.resource.kind).or_else(|| rules.get(""));
                match own.and_then(|rules| rules.get(step.number)) {
                    Some(rule) => self.rule(rule, step),
                    None => Ok(()),
                }
            }
            Kyverno::Validating(variants) => match variants.get(step.number) {
                Some(variant) => self.variant(variant, step),
                None => Ok(()),
            },
        }
    }

    fn unapplied(&mut self, _: &Step<'p>, requests: bool) -> Result<bool, Infallible> {
        Ok(requests && !self.applied)
    }
}

impl<'p, F: Facts<'p>> PathOracle<'_, 'p, '_, F> {
    fn rule(&mut self, rule: &'p ClassicRule, step: &Step<'p>) -> Result<(), Infallible> {
        step.stages().decide((), |stage, ()| {
            let goes_on = match stage {
                Stage::Preconditions => {
                    if rule.may_fail_before {
                        self.selected.push((rule.body, step.error));
                    }
                    true
                }
                // Others may lift a part of the rule, or under conditions.
                Stage::Exceptions => !step.exceptions.iter().any(|exception| exception.is_plain()),
                Stage::Check => {
                    let holds = rule.conditions.hold(self.cell, self.requested, self.facts);
                    self.applied = holds != Tri::False;
                    match holds {
                        Tri::False => {}
                        Tri::Error => self.selected.push((BROKEN, step.fail)),
                        Tri::True => self.selected.push((rule.body, step.fail)),
                    }
                    false
                }
                Stage::Conditions | Stage::InvalidSelector => true,
            };
            Ok(goes_on.then_some(()))
        })
    }

    fn variant(&mut self, variant: &'p Variant, step: &Step<'p>) -> Result<(), Infallible> {
        step.stages().decide((), |stage, ()| {
            let goes_on = match stage {
                Stage::InvalidSelector => Tri::Error,
                Stage::Exceptions => self.open(variant),
                Stage::Conditions => variant.conditions.hold(self.cell, self.requested, self.facts),
                Stage::Check => {
                    self.selected.push((variant.body, step.fail));
                    Tri::False
                }
                Stage::Preconditions => Tri::True,
            };
            if goes_on == Tri::Error {
                self.selected.push((BROKEN, step.error));
            }
            Ok((goes_on == Tri::True).then_some(()))
        })
    }

    /// Whether no exception lifts a policy; an error in one counts unless one before it lifts the policy.
    fn open(&mut self, variant: &'p Variant) -> Tri {
        for exception in &variant.exceptions {
            match exception.hold(self.cell, self.requested, self.facts) {
                Tri::True => return Tri::False,
                Tri::False => {}
                Tri::Error => return Tri::Error,
            }
        }
        Tri::True
    }
}
