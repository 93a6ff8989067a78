//! Native policies: constraints, bindings, conditions, validations and audit annotations.
//!
//! Upstream counterpart: `kyvtest_apiserver::decide`.

use kyvtest_apiserver::matching::{self, Match};
use kyvtest_model::{
    kube::{Discovery, Resource},
    policy::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidationAction},
    verdict::Effect,
};

use super::{Effects, Expressions, Side};
use crate::body::{
    formula::{Arena, Formula},
    request::{Request, Viewer, paths},
    value::{Result, unsupported},
};

/// What matching says about a binding.
enum Bound<'d> {
    Misconfigured,
    To(usize, &'d Resource),
}

impl Side {
    pub(super) fn native_policy<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
        number: usize,
        effects: &mut Effects,
    ) -> Result<()> {
        let policy = &*self.natives[number];
        let mut bindings: Vec<&ValidatingAdmissionPolicyBinding> = Vec::new();
        for binding in &self.loaded.bindings {
            if binding.policy_name.value == policy.metadata.name.value {
                bindings.push(binding);
            }
        }
        let cell = &request.cell;
        if bindings.is_empty() || !cell.resource.reaches_native_policies() {
            return Ok(());
        }
        let ignores = policy
            .failure_policy
            .as_ref()
            .is_some_and(|word| word.value == "Ignore");
        let refusal = if ignores { Effect::Admit } else { Effect::Deny };
        let Some(constraints) = &policy.match_constraints else {
            effects.add(Formula::TRUE, refusal);
            return Ok(());
        };
        let equivalents: Vec<&'d Resource> = discovery.equivalents(cell.resource).map(|other| &**other).collect();
        let found = paths(arena, request, |facts| {
            let mut bound = Vec::new();
            let matched = match matching::matches(constraints, cell, &equivalents, facts) {
                Ok(Match::No(_)) => return bound,
                Ok(Match::Yes(resource)) => resource,
                Err(_) => {
                    bound.push(Bound::Misconfigured);
                    return bound;
                }
            };
            for (number, binding) in bindings.iter().enumerate() {
                let block = binding.match_resources.as_ref();
                match block.map(|block| matching::matches(block, cell, &equivalents, facts)) {
                    None | Some(Ok(Match::Yes(_))) => bound.push(Bound::To(number, matched)),
                    Some(Ok(Match::No(_))) => {}
                    Some(Err(_)) => bound.push(Bound::Misconfigured),
                }
            }
            bound
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut applied: Vec<Vec<Formula>> = vec![Vec::new(); bindings.len()];
        for (condition, bound) in found {
            for bound in bound {
                match bound {
                    Bound::Misconfigured => effects.add(condition, refusal),
                    Bound::To(_, matched) if matched.gvr() != request.seen.gvr() => {
                        return unsupported("objects that are converted to another version");
                    }
                    Bound::To(number, _) => applied[number].push(condition),
                }
            }
        }
        for (binding, conditions) in bindings.iter().zip(applied) {
            let applies = arena.or(conditions);
            if applies != Formula::FALSE {
                self.bound_policy(arena, (request, discovery), (number, policy, binding), applies, effects)?;
            }
        }
        Ok(())
    }

    fn bound_policy(
        &self,
        arena: &mut Arena,
        (request, discovery): (&Request<'_>, &Discovery),
        (number, policy, binding): (usize, &ValidatingAdmissionPolicy, &ValidatingAdmissionPolicyBinding),
        applies: Formula,
        effects: &mut Effects,
    ) -> Result<()> {
        let ignores = policy
            .failure_policy
            .as_ref()
            .is_some_and(|word| word.value == "Ignore");
        let actions = binding.validation_actions.iter();
        let actions = actions.filter_map(|action| ValidationAction::from_text(&action.value));
        let effect = actions
            .map(|action| match action {
                ValidationAction::Deny => Effect::Deny,
                ValidationAction::Audit => Effect::Audit,
                ValidationAction::Warn => Effect::Warn,
            })
            .max()
            .unwrap_or(Effect::Admit);
        let mut applies = applies;
        let mut parameter = None;
        if let Some(kind) = &policy.param_kind {
            let reference = binding.param_ref.as_ref();
            let (exists, value) = self.parameter(arena, discovery, kind, reference)?;
            let missing = arena.not(exists);
            let action = reference.and_then(|reference| reference.parameter_not_found_action.as_ref());
            if action.is_some_and(|action| action.value == "Deny") && !ignores {
                effects.add(arena.and([applies, missing]), Effect::Deny);
            }
            applies = arena.and([applies, exists]);
            parameter = Some(value);
        }
        let programs = self.server.policies()[number].programs();
        let mut expressions = Expressions::new(&programs, request, Viewer::Native, request.seen);
        if let Some(parameter) = &parameter {
            expressions.parameter(parameter);
        }
        expressions.declare(policy.variables.iter().map(|variable| variable.name.value.clone()));
        let conditions = expressions.conditions(arena, policy.match_conditions.len())?;
        let holds = arena.and([applies, conditions.holds]);
        let mut bad = Vec::new();
        if holds != Formula::FALSE {
            for truth in expressions.validations(arena, policy.validations.len())? {
                let not = if ignores { truth.no } else { arena.not(truth.yes) };
                bad.push(not);
            }
        }
        let bad = arena.or(bad);
        effects.add(arena.and([holds, bad]), effect);
        if ignores {
            return Ok(());
        }
        effects.add(arena.and([applies, conditions.error]), effect);
        let error = expressions.annotation_error(arena, policy.audit_annotations.len(), true)?;
        effects.add(arena.and([holds, error]), Effect::Deny);
        Ok(())
    }
}
