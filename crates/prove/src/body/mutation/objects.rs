//! What a side makes of the object, as a value: the mutations of its policies one after the other.
//!
//! Upstream counterpart: `kyvtest_kyverno::{mutating_policy, mutate}` for Kyverno's policies. Native policies are left out: the API
//! server decodes the object between their mutations.

use std::sync::Arc;

use kyvtest_cel::{
    admission::PatchKind,
    ast::{Ast, Expr, ExprId},
    profile::Profile,
    syntax::parse,
};
use kyvtest_kyverno::mutating_policy::CompiledMutatingPolicy;
use kyvtest_model::policy::ApplyRules;
use rustc_hash::FxHashMap;

use super::{
    applied::{Applied, AppliedRule, Condition},
    guards::{Engine, UnitText},
    sequence,
};
use crate::body::{
    cel::{self, Surroundings},
    classic::{self, Mutated},
    document::{Atomics, Patched, apply_configuration, apply_operations, operations},
    formula::{Arena, Formula, Place},
    request::{Request, Viewer},
    shape::Kind,
    value::{Result, Sym, Value, unsupported},
};

/// What a side does with the requests of a class.
pub(super) struct Outcome {
    pub(super) denies: Formula,
    /// The object after all policies, if the request is not denied.
    pub(super) object: Value,
}

/// When a policy or a rule is concerned with a request, and what comes of it.
struct Change<'a> {
    changes: Formula,
    error: Formula,
    ignores: bool,
    object: Value,
    /// The rule; `None` if it is a MutatingPolicy.
    rule: Option<&'a AppliedRule<'a>>,
}

/// The outcome of a side. `is_possible` says whether a formula may hold on a request.
pub(super) fn outcome(
    arena: &mut Arena,
    request: &Request<'_>,
    applied: &Applied<'_>,
    mut is_possible: impl FnMut(&mut Arena, Formula) -> bool,
) -> Result<Outcome> {
    let Some(place) = request.object else {
        return unsupported("a request without a new object");
    };
    let mut all = Vec::new();
    for unit in &applied.units {
        let Some(policy) = unit.policy else {
            return unsupported("native policies whose mutations are written differently");
        };
        let patched = policy_made(arena, policy, unit.text, request)?;
        all.push(Change {
            changes: unit.changes,
            error: arena.and([unit.changes, patched.error]),
            ignores: unit.text.ignores,
            object: patched.object,
            rule: None,
        });
    }
    for rule in &applied.rules {
        all.push(Change {
            changes: rule.changes,
            error: rule.error,
            ignores: rule.ignores,
            object: rule.object.clone(),
            rule: Some(rule),
        });
    }
    let mut denies = applied.denies;
    let mut object = Value::of(Sym::At(place));
    for (number, change) in all.iter().enumerate() {
        let mut before = Vec::new();
        for earlier in &all[..number] {
            let both = arena.and([earlier.changes, change.changes]);
            if both != Formula::FALSE && is_possible(arena, both) {
                // An error that is not ignored denies the request, regardless of what follows.
                let fails = arena.and([earlier.error, change.changes]);
                if earlier.ignores && fails != Formula::FALSE && is_possible(arena, fails) {
                    return unsupported("a rule after one whose error is ignored");
                }
                before.push(earlier);
            }
        }
        let (made, error) = if before.is_empty() {
            (change.object.clone(), change.error)
        } else {
            let made = after(arena, request, &before, change, &object)?;
            (made.object, arena.and([change.changes, made.error]))
        };
        if !change.ignores {
            denies = arena.or([denies, error]);
        }
        let fine = arena.not(error);
        let changed = arena.and([change.changes, fine]);
        object = arena.either(changed, &made, &object);
    }
    Ok(Outcome { denies, object })
}

/// What a rule makes of an object that other rules of its policy have changed. It must not notice that but in its patch.
fn after(
    arena: &mut Arena,
    request: &Request<'_>,
    before: &[&Change<'_>],
    change: &Change<'_>,
    object: &Value,
) -> Result<Mutated> {
    let several = "several policies or rules that change the same requests";
    let Some(rule) = change.rule else {
        return unsupported(several);
    };
    let policy = rule.policy;
    let one = policy.policy.spec.apply_rules.as_ref();
    if one.is_some_and(|apply| apply.value == ApplyRules::One) || !sequence::is_blind(rule.rule) {
        return unsupported(several);
    }
    for earlier in before {
        let own = earlier.rule.filter(|earlier| std::ptr::eq(earlier.policy, policy));
        if !own.is_some_and(|earlier| sequence::is_plain(earlier.rule)) {
            return unsupported(several);
        }
    }
    let made = classic::mutated(arena, rule.rule, request, object)?;
    if made.applies == Formula::TRUE {
        Ok(made)
    } else {
        unsupported(several)
    }
}

/// What the mutations of a MutatingPolicy make of the object.
fn policy_made(
    arena: &mut Arena,
    policy: &CompiledMutatingPolicy,
    text: &UnitText,
    request: &Request<'_>,
) -> Result<Patched> {
    if text.has_annotations {
        return unsupported("audit annotations that may fail to evaluate");
    }
    let Some(place) = request.object else {
        return unsupported("a request without a new object");
    };
    let programs = policy.programs();
    let mut surroundings = Condition::new(Engine::Kyverno, Viewer::Validating, &programs, request).surroundings;
    surroundings.is_ordered = true;
    let kind = &request.seen.object_kind;
    let api_version = kind.api_version();
    let atomics = if text.replaces_atomics {
        Atomics::Replace
    } else {
        Atomics::Reject
    };
    let mut patched = Patched {
        object: Value::of(Sym::At(place)),
        error: Formula::FALSE,
    };
    for (number, (patch, program)) in policy.mutations().enumerate() {
        if number == 1 {
            surroundings.known = settled(arena, text, &surroundings, place)?;
        }
        if number > 0 {
            only_settled(text, number, &surroundings)?;
            surroundings.roots.insert("object", patched.object.clone());
        }
        let made = cel::made(arena, program, &surroundings)?;
        let next = match patch {
            PatchKind::ApplyConfiguration => {
                apply_configuration(arena, &patched.object, &made, (&api_version, &kind.kind), atomics)?
            }
            PatchKind::JsonPatch => json_patched(arena, &patched.object, made)?,
        };
        patched = Patched {
            object: next.object,
            error: arena.or([patched.error, next.error]),
        };
    }
    Ok(patched)
}

fn json_patched(arena: &mut Arena, object: &Value, made: Value) -> Result<Patched> {
    let (failed, lists): (Vec<_>, Vec<_>) = made.0.into_iter().partition(|(_, sym)| *sym == Sym::Error);
    let mut errors: Vec<Formula> = failed.into_iter().map(|(guard, _)| guard).collect();
    let mut after = object.clone();
    for (guard, list) in operations(arena, &Value(lists))? {
        let patched = apply_operations(arena, object, &list, false)?;
        errors.push(arena.and([guard, patched.error]));
        after = arena.either(guard, &patched.object, &after);
    }
    Ok(Patched {
        object: after,
        error: arena.or(errors),
    })
}

/// Variables keep the value that they had when they were first read: those that the first mutation, or a condition, always reads.
fn settled(
    arena: &mut Arena,
    text: &UnitText,
    surroundings: &Surroundings<'_>,
    object: Place,
) -> Result<FxHashMap<String, Value>> {
    let first = text.conditions.first();
    let first = first.into_iter().chain(text.mutations.first().map(|(_, text)| text));
    let mut known = FxHashMap::default();
    let variables = &text.variables;
    for text in first {
        let Ok(ast) = parse(text, &Profile::kubernetes().syntax) else {
            continue;
        };
        for (name, _) in variables {
            let always = Always {
                ast: &ast,
                name,
                object,
            };
            let program = surroundings.variables.get(name).copied().flatten();
            if let (Some(program), true) = (program, always.reads(arena, ast.root(), 0)) {
                known.insert(name.clone(), cel::made(arena, program, surroundings)?);
            }
        }
    }
    Ok(known)
}

/// That a later mutation reads no other variables about the object.
fn only_settled(text: &UnitText, number: usize, surroundings: &Surroundings<'_>) -> Result<()> {
    let Some((_, mutation)) = text.mutations.get(number) else {
        return unsupported("a mutation");
    };
    let mut open = vec![mutation.as_str()];
    let mut seen: Vec<&str> = Vec::new();
    while let Some(own) = open.pop() {
        for (name, expression) in &text.variables {
            let mentioned = own.contains("variables") && own.contains(name.as_str());
            if !mentioned || seen.contains(&name.as_str()) || surroundings.known.contains_key(name) {
                continue;
            }
            if expression.contains("object") {
                return unsupported("a variable that may be read for the first time between mutations");
            }
            seen.push(name);
            open.push(expression);
        }
    }
    Ok(())
}

/// Looks for a variable that an expression always reads.
struct Always<'a> {
    ast: &'a Ast,
    name: &'a str,
    object: Place,
}

/// How deep expressions are followed.
const DEPTH: u32 = 100;

impl Always<'_> {
    fn reads(&self, arena: &mut Arena, id: ExprId, depth: u32) -> bool {
        if depth > DEPTH {
            return false;
        }
        let mut any = |ids: &[ExprId]| ids.iter().any(|id| self.reads(arena, *id, depth + 1));
        match self.ast.expr(id) {
            Expr::Literal(_) | Expr::Ident(_) => false,
            Expr::Select { operand, field, .. } => {
                let is_variables = matches!(self.ast.expr(*operand), Expr::Ident(name) if &**name == "variables");
                is_variables && **field == *self.name || any(&[*operand])
            }
            Expr::Call { function, target, args } => match (&**function, target) {
                ("_?_:_" | "_&&_" | "_||_" | "or" | "orValue", None) => any(&args[..1.min(args.len())]),
                ("or" | "orValue", Some(target)) => any(&[*target]),
                (_, target) => target.is_some_and(|target| any(&[target])) || any(args),
            },
            Expr::List { elements, .. } => any(elements),
            Expr::Map(entries) => entries.iter().any(|entry| any(&[entry.key, entry.value])),
            Expr::Struct { fields, .. } => fields.iter().any(|field| any(&[field.value])),
            Expr::Comprehension(fold) => {
                if any(&[fold.iter_range]) {
                    return true;
                }
                self.is_filled(arena, fold.iter_range) && self.reads(arena, fold.loop_step, depth + 1)
            }
        }
    }

    /// Whether an expression is a list of the object that has elements.
    fn is_filled(&self, arena: &mut Arena, id: ExprId) -> bool {
        let mut steps: Vec<Arc<str>> = Vec::new();
        let mut at = id;
        loop {
            match self.ast.expr(at) {
                Expr::Select {
                    operand,
                    field,
                    test_only: false,
                } => {
                    steps.push(Arc::from(&**field));
                    at = *operand;
                }
                Expr::Ident(name) if &**name == "object" => break,
                // What is made of each element has as many.
                Expr::Comprehension(_) | Expr::Call { .. } | Expr::Ident(_) => return false,
                _ => return false,
            }
        }
        let mut place = self.object;
        for step in steps.iter().rev() {
            let Some(field) = arena.field(place, step) else {
                return false;
            };
            if arena.present(field) != Formula::TRUE {
                return false;
            }
            place = field;
        }
        let shape = arena.shape(place);
        shape.nonzero && shape.kinds.is_single() && shape.kinds.has(Kind::List)
    }
}
