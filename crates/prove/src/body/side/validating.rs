//! ValidatingPolicies and what autogen makes of them: exceptions, conditions, validations.
//!
//! Upstream counterpart: `kyvtest_kyverno::validating_policy`.

use kyvtest_cel::{observe::Place, program::Program};
use kyvtest_kyverno::{
    select::{Stage, Step},
    validating_policy::CompiledValidatingPolicy,
};

use super::{Expressions, kyverno::Modelling, together};
use crate::body::{
    cel,
    formula::Formula,
    request::Viewer,
    value::{Result, unsupported},
};

impl<'p> Modelling<'_, 'p, '_> {
    /// Adds the effects of a CEL policy that is evaluated on some requests.
    pub(super) fn variant(&mut self, step: &Step<'p>, requests: Formula) -> Result<()> {
        let Some(policy) = self.policy.variants().get(step.number) else {
            return unsupported("a policy that was not compiled");
        };
        let programs = policy.programs();
        let expressions = Expressions::new(&programs, self.request, Viewer::Validating, self.request.seen);
        step.stages().decide(requests, |stage, reached| {
            let goes_on = match stage {
                Stage::InvalidSelector => {
                    self.effects.add(reached, step.error);
                    Formula::FALSE
                }
                Stage::Exceptions => {
                    let [open, failed] = self.exceptions(policy, &expressions)?;
                    self.add([reached, failed], step.error);
                    self.arena.and([reached, open])
                }
                Stage::Conditions => {
                    let conditions = expressions.conditions(self.arena, count(&programs, is_condition))?;
                    if !policy.ignores_errors() {
                        self.add([reached, conditions.error], step.error);
                    }
                    self.arena.and([reached, conditions.holds])
                }
                Stage::Check => {
                    let bad = self.violated(&programs, &expressions)?;
                    self.add([reached, bad], step.fail);
                    Formula::FALSE
                }
                Stage::Preconditions => reached,
            };
            Ok((goes_on != Formula::FALSE).then_some(goes_on))
        })
    }

    /// Where no exception lifts the policy, and where one cannot be evaluated: that counts unless one before it lifts the
    /// policy.
    fn exceptions(
        &mut self,
        policy: &'p CompiledValidatingPolicy,
        expressions: &Expressions<'p>,
    ) -> Result<[Formula; 2]> {
        let mut lifted = Formula::FALSE;
        let mut failed = Formula::FALSE;
        for (is_full, conditions) in policy.exception_programs() {
            if !is_full {
                return unsupported("an exception for some values");
            }
            let mut truths = Vec::new();
            for program in conditions {
                truths.push(cel::truth(self.arena, program, &expressions.surroundings)?);
            }
            let conditions = together(self.arena, &truths);
            let open = self.arena.not(failed);
            if !policy.ignores_errors() {
                let before = self.arena.not(lifted);
                let fails = self.arena.and([open, before, conditions.error]);
                failed = self.arena.or([failed, fails]);
            }
            let lifts = self.arena.and([open, conditions.holds]);
            lifted = self.arena.or([lifted, lifts]);
        }
        let (not_lifted, not_failed) = (self.arena.not(lifted), self.arena.not(failed));
        Ok([self.arena.and([not_lifted, not_failed]), failed])
    }

    /// Where a validation does not hold, or an annotation cannot be evaluated.
    fn violated(&mut self, programs: &[(Place, &'p Program)], expressions: &Expressions<'p>) -> Result<Formula> {
        let mut bad = Vec::new();
        for truth in expressions.validations(self.arena, count(programs, is_validation))? {
            bad.push(self.arena.not(truth.yes));
        }
        bad.push(expressions.annotation_error(self.arena, count(programs, is_annotation), false)?);
        Ok(self.arena.or(bad))
    }
}

const fn is_condition(place: &Place) -> bool {
    matches!(place, Place::MatchCondition(_))
}

const fn is_validation(place: &Place) -> bool {
    matches!(place, Place::Validation(_))
}

const fn is_annotation(place: &Place) -> bool {
    matches!(place, Place::Annotation(_))
}

/// How many expressions of a kind a policy has; all of them compile.
fn count(programs: &[(Place, &Program)], is_own: fn(&Place) -> bool) -> usize {
    programs.iter().filter(|(place, _)| is_own(place)).count()
}
