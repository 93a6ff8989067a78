//! To which requests of a class the policies of a side apply, and which they refuse because a condition cannot be evaluated.
//!
//! Upstream counterpart: as `super::super::side`: webhook, constraints, exceptions and conditions of Kyverno's policies;
//! constraints, bindings and conditions of native ones.

use kyvtest_apiserver::matching::{self, Match};
use kyvtest_cel::{
    observe::Place,
    profile::{PolicyScope, Profile},
    program::Program,
};
use kyvtest_kyverno::{
    cel_policy::is_in_namespace,
    constraints, exception, matching as selection,
    mutating_policy::CompiledMutatingPolicy,
    webhook::{Delivery, RegisteredCondition, Webhook},
};
use kyvtest_model::{
    kube::{Discovery, Resource, may_have_floats},
    policy::Rule,
};
use kyvtest_normalise::schema;

use super::{
    MutatingSide,
    guards::{Engine, UnitText},
    side::{KyvernoUnits, NativeUnit, RuleUnits},
};
use crate::{
    body::{
        CONVERTED,
        cel::{self, Surroundings},
        classic::{self, Mutated},
        formula::{Arena, Atom, Formula},
        request::{Request, Viewer, paths},
        side::{Conditions, together},
        value::{Result, Sym, Truth, Value, unsupported},
    },
    condition::Reader,
    guards::{Ignoring, Reads},
    sides::LoweredRule,
};

/// What the policies of a side do with the requests of a class.
pub(super) struct Applied<'s> {
    /// The policies that may change objects.
    pub(super) units: Vec<AppliedUnit<'s>>,
    /// The mutate rules that may.
    pub(super) rules: Vec<AppliedRule<'s>>,
    /// Some policy changes the object.
    pub(super) changes: Formula,
    /// The request is refused before any mutation.
    pub(super) denies: Formula,
}

pub(super) struct AppliedUnit<'s> {
    pub(super) text: &'s UnitText,
    /// When the policy changes the object.
    pub(super) changes: Formula,
    /// The policy as Kyverno runs it; `None` for a native one.
    pub(super) policy: Option<&'s CompiledMutatingPolicy>,
    /// A condition cannot be evaluated, if the policy is a native one: it evaluates them again after the mutation.
    pub(super) condition_errors: Formula,
}

/// A mutate rule with what it does to the object of the request.
pub(super) struct AppliedRule<'s> {
    pub(super) rule: &'s Rule,
    /// The policy of the rule.
    pub(super) policy: &'s RuleUnits,
    /// When the rule changes the object, or fails.
    pub(super) changes: Formula,
    /// When it fails, of these requests.
    pub(super) error: Formula,
    /// Whether the policy ignores that.
    pub(super) ignores: bool,
    pub(super) object: Value,
}

impl MutatingSide {
    pub(super) fn applied<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
    ) -> Result<Applied<'_>> {
        let mut applied = Applied {
            units: Vec::new(),
            rules: Vec::new(),
            changes: Formula::FALSE,
            denies: Formula::FALSE,
        };
        for rules in &self.rules {
            if rules.webhook.route(&request.cell, discovery) != Delivery::None {
                self.of_rules(rules, arena, (request, discovery), &mut applied)?;
            }
        }
        for policy in &self.policies {
            kyverno(policy, arena, (request, discovery), &mut applied)?;
        }
        for policy in &self.natives {
            let programs = self.native_programs(policy.number);
            native(policy, &programs, arena, (request, discovery), &mut applied)?;
        }
        Ok(applied)
    }
}

/// The requests of a class that a webhook delivers, and those that each rule of its policy is evaluated on.
type Selected = Option<(Formula, Vec<Formula>)>;

/// What matching decides on one path: whether the resource is delivered as it is sent, and for each rule or variant whether it
/// is selected. `None` if the webhook delivers nothing.
type Matched = Option<(bool, Vec<Selection>)>;

/// Puts the paths of matching together: the requests that are delivered, and those on which each of `count` rules or variants is
/// evaluated. `None` if none is delivered.
fn selected(arena: &mut Arena, found: Option<Vec<(Formula, Matched)>>, count: usize) -> Result<Selected> {
    let Some(found) = found else {
        return unsupported("matching has too many paths");
    };
    let mut delivered = Vec::new();
    let mut evaluated: Vec<Vec<Formula>> = vec![Vec::new(); count];
    for (condition, outcome) in found {
        let Some((as_is, own)) = outcome else { continue };
        if !as_is {
            return unsupported(CONVERTED);
        }
        delivered.push(condition);
        for (at, own) in own.into_iter().enumerate() {
            match own {
                Selection::Evaluated => evaluated[at].push(condition),
                Selection::Skipped => {}
                Selection::Unsupported(reason) => return unsupported(reason),
            }
        }
    }
    let delivered = arena.or(delivered);
    let evaluated = evaluated.into_iter().map(|own| arena.or(own)).collect();
    Ok((delivered != Formula::FALSE).then_some((delivered, evaluated)))
}

/// The result of matching for a rule or a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selection {
    Evaluated,
    /// Not matched, or lifted by an exception.
    Skipped,
    Unsupported(&'static str),
}

impl MutatingSide {
    /// On which requests of a class the rules of a policy are evaluated; `None` if its webhook delivers none.
    fn selected<'d>(
        &self,
        rules: &RuleUnits,
        arena: &mut Arena,
        (request, discovery): (&Request<'d>, &'d Discovery),
    ) -> Result<Selected> {
        let cell = &request.cell;
        let key = rules.policy.key();
        let namespace = rules.policy.metadata.namespace.as_ref();
        let found = paths(arena, request, |facts| {
            let delivered = rules.webhook.delivers(cell, discovery, facts).of_cell(cell)?;
            let selections: Vec<Selection> = rules
                .rules
                .iter()
                .map(|rule| {
                    let selection = selection::Selection {
                        matches: &rule.matches,
                        exclude: rule.exclude.as_ref(),
                        policy_namespace: namespace.map_or("", |namespace| namespace.value.as_str()),
                    };
                    if !selection::applies(selection, &delivered, facts) {
                        return Selection::Skipped;
                    }
                    let names = (key.as_str(), rule.name.value.as_str());
                    let lifting = exception::matching(&self.exceptions, names, &delivered, facts);
                    match lifting.iter().any(|exception| exception.is_plain()) {
                        true if may_fail_before(rule) => Selection::Unsupported(
                            "an exception to a rule with `context` or `preconditions`, whose errors come first",
                        ),
                        true => Selection::Skipped,
                        false if lifting.is_empty() => Selection::Evaluated,
                        false => Selection::Unsupported("an exception with conditions"),
                    }
                })
                .collect();
            Some((delivered.resource.gvr() == request.seen.gvr(), selections))
        });
        selected(arena, found, rules.rules.len())
    }

    /// Adds the mutate rules of a policy.
    fn of_rules<'s, 'd>(
        &'s self,
        rules: &'s RuleUnits,
        arena: &mut Arena,
        (request, discovery): (&Request<'d>, &'d Discovery),
        applied: &mut Applied<'s>,
    ) -> Result<()> {
        let (policy, webhook) = (&rules.policy, &rules.webhook);
        if request.seen.object_kind.kind != request.seen.kind {
            return unsupported("a subresource of another kind");
        }
        let Some(place) = request.object.filter(|_| policy.spec.admission) else {
            return Ok(());
        };
        let before = Value::of(Sym::At(place));
        let Some((delivered, matched)) = self.selected(rules, arena, (request, discovery))? else {
            return Ok(());
        };
        let called = called(webhook, arena, (request, delivered), applied)?;
        for (rule, matched) in rules.rules.iter().zip(matched) {
            let matched = arena.and([matched, called]);
            if matched == Formula::FALSE {
                continue;
            }
            let Mutated { applies, error, object } = classic::mutated(arena, rule, request, &before)?;
            let concerned = arena.or([applies, error]);
            let changes = arena.and([matched, concerned]);
            let error = arena.and([matched, error]);
            applied.changes = arena.or([applied.changes, changes]);
            applied.rules.push(AppliedRule {
                rule,
                policy: rules,
                changes,
                error,
                ignores: !webhook.fails(),
                object,
            });
        }
        Ok(())
    }
}

/// Whether something is evaluated before the exceptions to a rule.
fn may_fail_before(rule: &Rule) -> bool {
    let parts = [&rule.context, &rule.preconditions];
    let mut parts = parts.into_iter().flatten();
    parts.any(|part| !part.node().is_null())
}

/// When the conditions of a webhook hold, of the requests that it may get. If one of them cannot be evaluated, the API server
/// denies the request.
fn called(
    webhook: &Webhook,
    arena: &mut Arena,
    (request, delivered): (&Request<'_>, Formula),
    applied: &mut Applied<'_>,
) -> Result<Formula> {
    let conditions = webhook.match_conditions();
    let texts: Vec<String> = conditions.iter().map(RegisteredCondition::registered).collect();
    let called = Condition::new(Engine::Native, Viewer::Webhook, &webhook.programs(), request).all(arena, &texts)?;
    if webhook.fails() {
        let refused = arena.and([delivered, called.error]);
        applied.denies = arena.or([applied.denies, refused]);
    }
    Ok(called.holds)
}

fn kyverno<'s, 'd>(
    units: &'s KyvernoUnits,
    arena: &mut Arena,
    (request, discovery): (&Request<'d>, &'d Discovery),
    applied: &mut Applied<'s>,
) -> Result<()> {
    let KyvernoUnits {
        policy,
        webhook,
        variants,
    } = units;
    // Policies with targets change existing objects in the background.
    if !policy.spec.evaluation.admission || policy.spec.target_match_constraints.is_some() {
        return Ok(());
    }
    let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
    let cell = &request.cell;
    let found = paths(arena, request, |facts| {
        let delivered = webhook.delivers(cell, discovery, facts).of_cell(cell)?;
        let own = namespace.is_none_or(|own| is_in_namespace(&own.value, &delivered, facts));
        let matched: Vec<Selection> = variants
            .iter()
            .map(|(variant, _)| match variant.constraints() {
                Some(block) if own => match constraints::applies(block, &delivered, facts) {
                    Ok(true) => Selection::Evaluated,
                    Ok(false) => Selection::Skipped,
                    Err(_) => Selection::Unsupported("a selector that cannot be read"),
                },
                None if own => Selection::Evaluated,
                _ => Selection::Skipped,
            })
            .collect();
        Some((delivered.resource.gvr() == request.seen.gvr(), matched))
    });
    let Some((delivered, matched)) = selected(arena, found, variants.len())? else {
        return Ok(());
    };
    let called = called(webhook, arena, (request, delivered), applied)?;
    for ((variant, text), matched) in variants.iter().zip(matched) {
        let matched = arena.and([matched, called]);
        if matched == Formula::FALSE {
            continue;
        }
        let (mutates, fails) = variant_decides(arena, variant, text, request)?;
        let changes = arena.and([matched, mutates]);
        applied.changes = arena.or([applied.changes, changes]);
        if !text.ignores {
            let refused = arena.and([matched, fails]);
            applied.denies = arena.or([applied.denies, refused]);
        }
        if changes != Formula::FALSE {
            applied.units.push(AppliedUnit {
                text,
                changes,
                policy: Some(variant),
                condition_errors: Formula::FALSE,
            });
        }
    }
    Ok(())
}

/// When a policy that matches changes the object, and when it fails before that.
fn variant_decides(
    arena: &mut Arena,
    variant: &CompiledMutatingPolicy,
    text: &UnitText,
    request: &Request<'_>,
) -> Result<(Formula, Formula)> {
    let programs = variant.programs();
    let own = Condition::new(Engine::Kyverno, Viewer::Validating, &programs, request);
    // Exceptions come first; an error in one counts unless one before it lifts the policy.
    let (mut lifted, mut failed) = (Formula::FALSE, Formula::FALSE);
    let several = variant.exception_programs().count() > 1;
    for (is_full, conditions) in variant.exception_programs() {
        if !is_full {
            return unsupported("an exception for some values");
        }
        let mut truths = Vec::new();
        for program in conditions {
            truths.push(cel::truth(arena, program, &own.surroundings)?);
        }
        let conditions = together(arena, &truths);
        if several && conditions.error != Formula::FALSE {
            return unsupported("several exceptions of which one may fail to evaluate: a cluster has no order of them");
        }
        let (open, before) = (arena.not(failed), arena.not(lifted));
        let fails = arena.and([open, before, conditions.error]);
        failed = arena.or([failed, fails]);
        let lifts = arena.and([open, conditions.holds]);
        lifted = arena.or([lifted, lifts]);
    }
    let conditions = own.all(arena, &text.conditions)?;
    let (not_lifted, not_failed) = (arena.not(lifted), arena.not(failed));
    let mutates = arena.and([not_lifted, not_failed, conditions.holds]);
    let errs = arena.and([not_lifted, not_failed, conditions.error]);
    Ok((mutates, arena.or([failed, errs])))
}

fn native<'s, 'd>(
    unit: &'s NativeUnit,
    programs: &[(Place, &Program)],
    arena: &mut Arena,
    (request, discovery): (&Request<'d>, &'d Discovery),
    applied: &mut Applied<'s>,
) -> Result<()> {
    let cell = &request.cell;
    let is_deletion = cell.operation == kyvtest_model::kube::Operation::Delete;
    let Some(constraints) = unit.policy.match_constraints.as_ref() else {
        return Ok(());
    };
    if unit.bindings.is_empty() || is_deletion || !cell.resource.reaches_native_policies() {
        return Ok(());
    }
    if unit.policy.param_kind.is_some() {
        return unsupported("parameters of native mutating policies");
    }
    let equivalents: Vec<&'d Resource> = discovery.equivalents(cell.resource).map(|other| &**other).collect();
    for binding in &unit.bindings {
        let found = paths(arena, request, |facts| {
            let matched = match matching::matches(constraints, cell, &equivalents, facts) {
                Ok(Match::No(_)) => return Some(None),
                Ok(Match::Yes(resource)) => resource,
                Err(_) => return None,
            };
            let block = binding.match_resources.as_ref();
            match block.map(|block| matching::matches(block, cell, &equivalents, facts)) {
                None | Some(Ok(Match::Yes(_))) => Some(Some(matched)),
                Some(Ok(Match::No(_))) => Some(None),
                Some(Err(_)) => None,
            }
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut matched = Vec::new();
        for (condition, outcome) in found {
            match outcome {
                None => return unsupported("a selector that cannot be read"),
                Some(None) => {}
                Some(Some(resource)) if resource.gvr() != request.seen.gvr() => return unsupported(CONVERTED),
                Some(Some(_)) => matched.push(condition),
            }
        }
        let matched = arena.or(matched);
        if matched == Formula::FALSE {
            continue;
        }
        let own = Condition::new(Engine::Native, Viewer::Native, programs, request);
        let conditions = own.all(arena, &unit.text.conditions)?;
        let changes = arena.and([matched, conditions.holds]);
        let errs = arena.and([matched, conditions.error]);
        applied.changes = arena.or([applied.changes, changes]);
        if !unit.text.ignores {
            applied.denies = arena.or([applied.denies, errs]);
        }
        if changes != Formula::FALSE {
            applied.units.push(AppliedUnit {
                text: &unit.text,
                changes,
                policy: None,
                condition_errors: if unit.text.ignores {
                    Formula::FALSE
                } else {
                    conditions.error
                },
            });
        }
    }
    Ok(())
}

/// Reads the conditions of a policy.
pub(super) struct Condition<'p, 'c, 'r> {
    engine: Engine,
    pub(super) surroundings: Surroundings<'p>,
    programs: Vec<(usize, &'p Program)>,
    request: &'r Request<'c>,
}

impl<'p, 'c, 'r> Condition<'p, 'c, 'r> {
    pub(super) fn new(
        engine: Engine,
        viewer: Viewer,
        programs: &[(Place, &'p Program)],
        request: &'r Request<'c>,
    ) -> Self {
        let mut roots = request.roots(viewer, request.seen);
        if engine == Engine::Native {
            roots.insert("namespaceObject", Value::of(Sym::Null));
        }
        let mut surroundings = Surroundings::new(roots, rustc_hash::FxHashMap::default());
        let mut conditions = Vec::new();
        for (place, program) in programs {
            match place {
                Place::MatchCondition(at) => conditions.push((*at, *program)),
                Place::Variable(name) => {
                    surroundings.variables.insert(name.clone(), Some(program));
                }
                Place::Validation(_) | Place::Message(_) | Place::Annotation(_) => {}
            }
        }
        Self {
            engine,
            surroundings,
            programs: conditions,
            request,
        }
    }

    /// All conditions together. One that is not modelled is an unknown; the same text is the same unknown wherever both
    /// engines evaluate it alike.
    fn all(&self, arena: &mut Arena, texts: &[String]) -> Result<Conditions> {
        let mut truths = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            truths.push(match self.programs.iter().find(|(own, _)| *own == at) {
                Some((_, program)) => match cel::truth(arena, program, &self.surroundings) {
                    Ok(truth) => truth,
                    Err(_) => self.unknown(arena, text)?,
                },
                None => Truth::ERROR,
            });
        }
        Ok(together(arena, &truths))
    }

    fn unknown(&self, arena: &mut Arena, text: &str) -> Result<Truth> {
        let text = text.trim();
        if text.contains("variables") {
            return unsupported(format!("the condition `{text}`"));
        }
        let body = LoweredRule {
            conditions: vec![text.to_owned()],
            ..LoweredRule::default()
        };
        let reads = Reads::of(
            &body,
            Profile::kyverno_mutating(PolicyScope::Cluster),
            Profile::kubernetes(),
        );
        let resource = self.request.cell.resource;
        let kind = &resource.object_kind;
        let floats = may_have_floats(resource, schema::of_kind(&kind.api_version(), &kind.kind).is_some());
        let alike = reads
            .broken(Reader::Validating, Ignoring::default(), &self.request.cell, floats)
            .is_none();
        let engine = if alike { "either side" } else { self.engine.name() };
        let mut atom = |what: &str| arena.literal(Atom::Free(format!("{engine}: `{text}` {what}").into()));
        let (yes, no) = (atom("holds"), atom("does not hold"));
        let not_yes = arena.not(yes);
        Ok(Truth {
            yes,
            no: arena.and([not_yes, no]),
        })
    }
}
