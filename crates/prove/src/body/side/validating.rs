//! ValidatingPolicies and what autogen makes of them: webhook, constraints, exceptions, conditions, validations.
//!
//! Upstream counterpart: `kyvtest_kyverno::{admission, validating_policy}`.

use kyvtest_kyverno::{constraints, validating_policy::CompiledValidatingPolicy, validating_policy::is_in_namespace};
use kyvtest_model::{
    kube::Discovery,
    policy::{Mode, ValidationAction},
    verdict::Effect,
};

use super::{Effects, Expressions, Side, together};
use crate::body::{
    cel,
    formula::{Arena, Formula},
    request::{Request, Viewer, paths},
    value::{Result, unsupported},
};
use crate::{Layer, sides::delivered};

impl Side {
    pub(super) fn validating_policy<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
        number: usize,
        effects: &mut Effects,
    ) -> Result<()> {
        let policy = &*self.validating_policies[number];
        let layer = self.setting.layer;
        let webhook = self.registration.validating(number);
        if webhook.is_none() && layer != Layer::Rule {
            return Ok(());
        }
        let cell = &request.cell;
        let variants = &self.validating[number];
        let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
        let found = paths(arena, request, |facts| {
            let delivered = delivered(webhook, layer, cell, discovery, facts).of_cell(cell)?;
            if !self.config.judges_cell(&delivered, facts) {
                return None;
            }
            let own = namespace.is_none_or(|own| is_in_namespace(&own.value, &delivered, facts));
            let applied: Vec<Option<bool>> = variants
                .iter()
                .map(|variant| match variant.constraints() {
                    Some(block) if own => constraints::applies(block, &delivered, facts).ok(),
                    _ => Some(false),
                })
                .collect();
            Some((delivered.resource.gvr() == request.seen.gvr(), applied))
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut delivered = Vec::new();
        let mut applies: Vec<Vec<Formula>> = vec![Vec::new(); variants.len()];
        let mut broken: Vec<Vec<Formula>> = vec![Vec::new(); variants.len()];
        for (condition, outcome) in found {
            let Some((as_is, applied)) = outcome else { continue };
            if !as_is {
                return unsupported("objects that are converted to another version");
            }
            delivered.push(condition);
            for (at, applied) in applied.into_iter().enumerate() {
                match applied {
                    Some(true) => applies[at].push(condition),
                    Some(false) => {}
                    None => broken[at].push(condition),
                }
            }
        }
        let delivered = arena.or(delivered);
        if delivered == Formula::FALSE {
            return Ok(());
        }
        let called = self.called(arena, webhook, request)?;
        effects.add(arena.and([delivered, called.denied]), Effect::Deny);
        for (at, variant) in variants.iter().enumerate() {
            if *variant.mode() == Mode::Json {
                continue;
            }
            let effect = effect_of(variant);
            let broken = arena.or(std::mem::take(&mut broken[at]));
            effects.add(arena.and([called.called, broken]), effect);
            let applies = arena.or(std::mem::take(&mut applies[at]));
            let applies = arena.and([called.called, applies]);
            if applies != Formula::FALSE {
                let objects = objects(arena, variant, request)?;
                effects.add(arena.and([applies, objects]), effect);
            }
        }
        Ok(())
    }
}

fn effect_of(policy: &CompiledValidatingPolicy) -> Effect {
    let has = |action| policy.actions().contains(&action);
    if has(ValidationAction::Deny) {
        Effect::Deny
    } else if has(ValidationAction::Audit) {
        Effect::Audit
    } else {
        Effect::Warn
    }
}

/// Whether a policy objects to a request that it matches.
fn objects(arena: &mut Arena, policy: &CompiledValidatingPolicy, request: &Request<'_>) -> Result<Formula> {
    let programs = policy.programs();
    let expressions = Expressions::new(&programs, request, Viewer::Validating, request.seen);
    let ignores = policy.ignores_errors();
    // Exceptions come first; an error in one counts unless one before it lifts the policy.
    let mut lifted = Formula::FALSE;
    let mut failed = Formula::FALSE;
    for (is_full, conditions) in policy.exception_programs() {
        if !is_full {
            return unsupported("an exception for some values");
        }
        let mut truths = Vec::new();
        for program in conditions {
            truths.push(cel::truth(arena, program, &expressions.surroundings)?);
        }
        let conditions = together(arena, &truths);
        let open = arena.not(failed);
        if !ignores {
            let before = arena.not(lifted);
            let fails = arena.and([open, before, conditions.error]);
            failed = arena.or([failed, fails]);
        }
        let lifts = arena.and([open, conditions.holds]);
        lifted = arena.or([lifted, lifts]);
    }
    let conditions = expressions.conditions(arena, count(&programs, true))?;
    let mut bad = Vec::new();
    for truth in expressions.validations(arena, count(&programs, false))? {
        bad.push(arena.not(truth.yes));
    }
    let annotations = programs
        .iter()
        .filter(|(place, _)| matches!(place, kyvtest_cel::observe::Place::Annotation(_)))
        .count();
    bad.push(expressions.annotation_error(arena, annotations, false)?);
    let bad = arena.or(bad);
    let mut objections = vec![arena.and([conditions.holds, bad])];
    if !ignores {
        objections.push(conditions.error);
    }
    let objections = arena.or(objections);
    let (not_lifted, not_failed) = (arena.not(lifted), arena.not(failed));
    let own = arena.and([not_lifted, not_failed, objections]);
    Ok(arena.or([failed, own]))
}

/// How many conditions or validations a policy has; all of them compile.
fn count(programs: &[(kyvtest_cel::observe::Place, &kyvtest_cel::program::Program)], conditions: bool) -> usize {
    use kyvtest_cel::observe::Place;
    let own = programs.iter().filter(|(place, _)| match place {
        Place::MatchCondition(_) => conditions,
        Place::Validation(_) => !conditions,
        _ => false,
    });
    own.count()
}
