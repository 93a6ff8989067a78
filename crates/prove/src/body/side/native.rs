//! Native policies: parameters, conditions, validations and audit annotations of what is selected.
//!
//! Upstream counterpart: `kyvtest_apiserver::decide`.

use kyvtest_apiserver::Step;
use kyvtest_model::{kube::Discovery, verdict::Effect};

use super::{Effects, Expressions, Side, parameters::Parameters};
use crate::body::{
    formula::{Arena, Formula},
    request::{Request, Viewer, paths},
    value::{Result, unsupported},
};

impl Side {
    pub(super) fn native_policy<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
        number: usize,
        effects: &mut Effects,
    ) -> Result<()> {
        let policy = &self.server.policies()[number];
        let found = paths(arena, request, |facts| {
            self.server.select(policy, request.cell, discovery, facts)
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let bindings = self.server.bindings();
        let mut applied: Vec<Vec<Formula>> = vec![Vec::new(); bindings.len()];
        for (condition, steps) in found {
            for step in steps {
                match step {
                    Step::Unselected(..) => {}
                    Step::Misconfigured(..) => effects.add(condition, policy.misconfiguration_effect()),
                    Step::Bound { matched, .. } if matched.gvr() != request.seen.gvr() => {
                        return unsupported("objects that are converted to another version");
                    }
                    Step::Bound { binding, .. } => {
                        let own = bindings.iter().zip(&mut applied);
                        let mut own = own.filter(|(other, _)| std::ptr::eq(*other, binding));
                        if let Some((_, conditions)) = own.next() {
                            conditions.push(condition);
                        }
                    }
                }
            }
        }
        for (at, conditions) in applied.into_iter().enumerate() {
            let applies = arena.or(conditions);
            if applies != Formula::FALSE {
                self.bound_policy(arena, (request, discovery), (number, at), applies, effects)?;
            }
        }
        Ok(())
    }

    /// Adds the effects of a policy with a binding that applies to some requests.
    fn bound_policy(
        &self,
        arena: &mut Arena,
        (request, discovery): (&Request<'_>, &Discovery),
        (number, at): (usize, usize),
        applies: Formula,
        effects: &mut Effects,
    ) -> Result<()> {
        let (policy, binding) = (&*self.natives[number], &*self.loaded.bindings[at]);
        let ignores = self.server.policies()[number].ignores_errors();
        let effect = self.server.bindings()[at].effect();
        let mut parameters = Parameters::None;
        if let Some(kind) = &policy.param_kind {
            let reference = binding.param_ref.as_ref();
            parameters = self.parameters(arena, request, discovery, kind, reference)?;
            let action = reference.and_then(|reference| reference.parameter_not_found_action.as_ref());
            if action.is_some_and(|action| action.value == "Deny") && !ignores {
                let missing = parameters.missing(arena);
                effects.add(arena.and([applies, missing]), Effect::Deny);
            }
        }
        let programs = self.server.policies()[number].programs();
        let mut expressions = Expressions::new(&programs, request, Viewer::Native, request.seen);
        if let Some(value) = parameters.value() {
            expressions.parameter(&value);
        }
        expressions.declare(policy.variables.iter().map(|variable| variable.name.value.clone()));
        let conditions = expressions.conditions(arena, policy.match_conditions.len())?;
        let mut add = |arena: &mut Arena, of_one: Formula, effect: Effect| {
            let found = parameters.any(arena, of_one);
            effects.add(arena.and([applies, found]), effect);
        };
        let mut bad = Vec::new();
        if conditions.holds != Formula::FALSE {
            for truth in expressions.validations(arena, policy.rules.validations.len())? {
                let not = if ignores { truth.no } else { arena.not(truth.yes) };
                bad.push(not);
            }
        }
        let bad = arena.or(bad);
        let violated = arena.and([conditions.holds, bad]);
        add(arena, violated, effect);
        if ignores {
            return Ok(());
        }
        add(arena, conditions.error, effect);
        let error = expressions.annotation_error(arena, policy.rules.audit_annotations.len(), true)?;
        let unwritten = arena.and([conditions.holds, error]);
        add(arena, unwritten, Effect::Deny);
        Ok(())
    }
}
