//! Rules of classic policies that are not written in CEL: preconditions, patterns, deny conditions and loops.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_resource.go`, by way of `kyvtest_kyverno::classic`.
//!
//! Known limits: variables in patterns and inside of texts, and queries beyond those of [`query`].

mod condition;
mod context;
mod mutate;
mod pattern;
mod query;
mod scalar;
mod security;

use serde_json::Value as Json;

use kyvtest_model::{
    kube::Operation,
    policy::{ClassicPolicy, FailureAction, Rule, Subtree},
};

pub(super) use self::mutate::{Mutated, mutated};

use self::{
    condition::Conditions,
    context::Entries,
    query::{Context, Written, query},
};
use super::{
    formula::{Arena, Formula},
    request::Request,
    side::RuleOutcome,
    value::{Result, Sym, Value, unsupported},
};

/// The result of a check.
#[derive(Debug, Clone, Copy)]
struct Checked {
    fail: Formula,
    error: Formula,
    /// One of the two.
    either: Formula,
    /// The rule is skipped, or says nothing; `None` if that is not known.
    idle: Option<Formula>,
}

impl Checked {
    /// A check that always passes.
    const NOTHING: Self = Self {
        fail: Formula::FALSE,
        error: Formula::FALSE,
        either: Formula::FALSE,
        idle: Some(Formula::FALSE),
    };

    /// A check that is never made.
    const IDLE: Self = Self {
        idle: Some(Formula::TRUE),
        ..Self::NOTHING
    };
}

/// When a rule that matches fails, and when it is an error; on an update also for the object as it was.
pub(super) fn outcome<'d>(
    arena: &mut Arena,
    policy: &ClassicPolicy,
    rule: &Rule,
    request: &Request<'_>,
    before: impl FnOnce(&mut Arena) -> Result<(Request<'d>, Formula)>,
) -> Result<RuleOutcome> {
    let Some(validate) = &rule.validate else {
        return unsupported("a rule that does not validate");
    };
    let own = validate.failure_action.as_ref().map(|action| action.value);
    let action = own.unwrap_or(policy.spec.validation_failure_action);
    let forgives = action == FailureAction::Enforce && validate.allow_existing_violations != Some(false);
    let now = check(arena, rule, request)?;
    let mut outcome = RuleOutcome {
        fail: now.fail,
        error: now.error,
        either: now.either,
        idle: now.idle,
    };
    if forgives && request.cell.operation == Operation::Update {
        if rule.preconditions.as_ref().is_some_and(|part| !part.node().is_null()) {
            return Ok(outcome);
        }
        let (creation, matches) = before(arena)?;
        let then = check(arena, rule, &creation)?;
        if now.either != Formula::FALSE || then.either != Formula::FALSE {
            return unsupported("violations that were there before, of a pattern with anchors");
        }
        let failed = arena.and([matches, then.fail]);
        let not = arena.not(failed);
        outcome.fail = arena.and([now.fail, not]);
        outcome.idle = None;
    }
    Ok(outcome)
}

fn json(part: Option<&Subtree>) -> Json {
    part.map_or(Json::Null, |part| part.document().root().to_serde())
}

/// When the conditions of an exception to a rule hold.
pub(super) fn lifts(arena: &mut Arena, rule: &Rule, request: &Request<'_>, conditions: &Json) -> Result<Formula> {
    let context = Context {
        request,
        element: None,
        bound: Vec::new(),
        entries: Entries::default().with(&json(rule.context.as_ref()), None)?,
    };
    Conditions::read(conditions).lift(arena, &context)
}

/// Evaluates a rule's preconditions and check.
fn check(arena: &mut Arena, rule: &Rule, request: &Request<'_>) -> Result<Checked> {
    let Some(validate) = &rule.validate else {
        return Ok(Checked::NOTHING);
    };
    let context = Context {
        request,
        element: None,
        bound: Vec::new(),
        entries: Entries::default().with(&json(rule.context.as_ref()), None)?,
    };
    if let Some(security) = &validate.pod_security {
        if !json(rule.preconditions.as_ref()).is_null() {
            return unsupported("Pod Security Standards with preconditions");
        }
        let fail = security::violated(arena, &json(Some(security)), request)?;
        return Ok(Checked {
            fail,
            ..Checked::NOTHING
        });
    }
    let parts = [
        &validate.deny,
        &validate.pattern,
        &validate.any_pattern,
        &validate.foreach,
    ];
    let [deny, pattern, any_pattern, foreach] = parts.map(|part| json(part.as_ref()));
    let block = Block {
        preconditions: json(rule.preconditions.as_ref()),
        deny,
        pattern,
        any_pattern,
        foreach,
    };
    let (checked, unmet) = block.check(arena, &context)?;
    // Preconditions that cannot be evaluated are an error of the rule.
    let error = arena.or([checked.error, unmet]);
    Ok(Checked { error, ..checked })
}

/// A check with its preconditions: of a rule, or of an element of a loop.
struct Block {
    preconditions: Json,
    deny: Json,
    pattern: Json,
    any_pattern: Json,
    foreach: Json,
}

impl Block {
    fn of_element(entry: &Json) -> Self {
        let part = |name: &str| entry[name].clone();
        Self {
            preconditions: part("preconditions"),
            deny: part("deny"),
            pattern: part("pattern"),
            any_pattern: part("anyPattern"),
            foreach: part("foreach"),
        }
    }

    fn has_pattern(&self) -> bool {
        !self.pattern.is_null() || !self.any_pattern.is_null()
    }

    /// The result of the check if the preconditions hold, and the condition on which they cannot be evaluated.
    fn check(&self, arena: &mut Arena, context: &Context<'_, '_>) -> Result<(Checked, Formula)> {
        let (met, broken) = if self.preconditions.is_null() {
            (Formula::TRUE, Formula::FALSE)
        } else {
            let truth = Conditions::read(&self.preconditions).evaluate(arena, context)?;
            (truth.yes, truth.error(arena))
        };
        let mut checked = self.body(arena, context)?;
        for part in [&mut checked.fail, &mut checked.error, &mut checked.either] {
            *part = arena.and([met, *part]);
        }
        checked.idle = checked.idle.map(|idle| {
            let known = arena.or([met, broken]);
            let unmet = arena.not(known);
            let idle = arena.and([met, idle]);
            arena.or([unmet, idle])
        });
        Ok((checked, broken))
    }

    fn body(&self, arena: &mut Arena, context: &Context<'_, '_>) -> Result<Checked> {
        if !self.deny.is_null() {
            let conditions = &self.deny["conditions"];
            if conditions.is_null() {
                return Ok(Checked {
                    fail: Formula::TRUE,
                    ..Checked::NOTHING
                });
            }
            let truth = Conditions::read(conditions).evaluate(arena, context)?;
            return Ok(Checked {
                fail: truth.yes,
                error: truth.error(arena),
                ..Checked::NOTHING
            });
        }
        if self.has_pattern() {
            let Some(target) = context.target() else {
                return Ok(Checked::IDLE);
            };
            if !self.pattern.is_null() {
                let fits = pattern::compare(arena, &target, &self.pattern)?;
                let done = arena.or([fits.ok, fits.skip_direct, fits.skip]);
                let bad = arena.not(done);
                let not_ok = arena.not(fits.ok);
                let skipped = arena.or([fits.skip_direct, fits.skip]);
                let idle = Some(arena.and([not_ok, skipped]));
                return Ok(if pattern::may_miss_keys(&self.pattern) {
                    Checked {
                        either: bad,
                        idle,
                        ..Checked::NOTHING
                    }
                } else {
                    Checked {
                        fail: bad,
                        idle,
                        ..Checked::NOTHING
                    }
                });
            }
            return self.any_pattern(arena, &target);
        }
        match self.foreach.as_array() {
            Some(loops) => Self::loops(arena, context, loops),
            None => Ok(Checked::NOTHING),
        }
    }

    /// One of several patterns must fit; if none does, one that fails decides over those that are skipped.
    fn any_pattern(&self, arena: &mut Arena, target: &Value) -> Result<Checked> {
        let Some(patterns) = self.any_pattern.as_array() else {
            return unsupported("`anyPattern` that is not a list");
        };
        let (mut fits, mut fails) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let found = pattern::compare(arena, target, pattern)?;
            let done = arena.or([found.ok, found.skip_direct, found.skip]);
            fails.push(arena.not(done));
            fits.push(found.ok);
        }
        let (fits, fails) = (arena.or(fits), arena.or(fails));
        let not = arena.not(fits);
        let fail = arena.and([not, fails]);
        let decided = arena.or([fits, fail]);
        Ok(Checked {
            fail,
            idle: Some(arena.not(decided)),
            ..Checked::NOTHING
        })
    }

    fn loops(arena: &mut Arena, context: &Context<'_, '_>, loops: &[Json]) -> Result<Checked> {
        let (mut fails, mut errors, mut eithers) = (Vec::new(), Vec::new(), Vec::new());
        for entry in loops {
            if !entry["elementScope"].is_null() {
                return unsupported("a loop with a scope");
            }
            let block = Block::of_element(entry);
            let list = entry["list"].as_str().unwrap_or_default();
            let found = query(arena, context, list, Written::Alone)?;
            if found.failed != Formula::FALSE {
                return unsupported("a list that may be an error");
            }
            for (guard, sym) in found.value.0 {
                // A missing key and null have no elements.
                let parts = match sym {
                    Sym::Error | Sym::Null => continue,
                    Sym::List(parts) => parts.to_vec(),
                    Sym::At(place) => {
                        let kinds = arena.shape(place).kinds;
                        if !kinds.has(super::shape::Kind::List) || kinds.has(super::shape::Kind::Map) {
                            return unsupported("a loop over something that may be no list");
                        }
                        context.elements(arena, place)?
                    }
                    _ => return unsupported("a loop over a single value"),
                };
                for part in &parts {
                    // A pattern is about an element only if that is a map.
                    let is_map = |(_, sym): &(Formula, Sym)| match sym {
                        Sym::At(place) => {
                            let kinds = arena.shape(*place).kinds;
                            kinds.is_single() && kinds.has(super::shape::Kind::Map)
                        }
                        _ => false,
                    };
                    if block.has_pattern() && !part.value().0.iter().all(is_map) {
                        return unsupported("a pattern for elements that may be no maps");
                    }
                    let mut inner = context.with_element(part.value().clone(), part);
                    inner.entries = inner.entries.with(&entry["context"], inner.element.as_ref())?;
                    let (checked, _) = block.check(arena, &inner)?;
                    for (one, all) in [
                        (checked.fail, &mut fails),
                        (checked.error, &mut errors),
                        (checked.either, &mut eithers),
                    ] {
                        let some = arena.count(&[(part, one)], 1);
                        all.push(arena.and([guard, some]));
                    }
                }
            }
        }
        let [fail, error, either] = [fails, errors, eithers].map(|all| arena.or(all));
        // Which comes first decides; without both there is no question.
        let both = arena.and([fail, error]);
        let (no_error, no_fail, no_either) = (arena.not(error), arena.not(fail), arena.not(either));
        Ok(Checked {
            fail: arena.and([fail, no_error, no_either]),
            error: arena.and([error, no_fail, no_either]),
            either: arena.or([both, either]),
            // Whether a loop over nothing passes is not modelled.
            idle: None,
        })
    }
}
