//! `pattern` and `anyPattern` in CEL.
//!
//! Upstream counterpart: `pkg/engine/validate` by way of `kyvtest_pattern`. A pattern becomes conditions on paths (`cond`),
//! which keep apart that a value fits and that the rule does not concern the object (`tree`); scalars become tests for the
//! type of their field (`scalar`).

mod cond;
mod scalar;
mod tree;

use kyvtest_go_compat::value::Data;

use crate::{Expr, Refusal, RefusalCode, Scope, Subject, names::Variables};
use cond::{Cond, Path};
use tree::{Fits, Value, Walk};

/// The condition that a value fits a pattern, or is not concerned by it. Variables must have been substituted.
pub(crate) fn translate(tree: &Data, subject: &Subject, scope: &Scope) -> Result<Expr, Refusal> {
    Ok(fits(tree, subject, scope)?.good.render())
}

/// The same for a whole object, with variables for what is read in several places.
pub(crate) fn of_object(
    tree: &Data,
    subject: &Subject,
    scope: &Scope,
    variables: &mut Variables,
) -> Result<Expr, Refusal> {
    Ok(fits(tree, subject, scope)?.good.join_lists(variables).render())
}

/// The condition that a value fits one of several patterns, or that none of them concerns it.
pub(crate) fn translate_any(trees: &[Data], subject: &Subject, scope: &Scope) -> Result<Expr, Refusal> {
    Ok(one_of(trees, subject, scope)?.render())
}

/// The same for a whole object, with variables for what is read in several places.
pub(crate) fn any_of_object(
    trees: &[Data],
    subject: &Subject,
    scope: &Scope,
    variables: &mut Variables,
) -> Result<Expr, Refusal> {
    Ok(one_of(trees, subject, scope)?.join_lists(variables).render())
}

fn one_of(trees: &[Data], subject: &Subject, scope: &Scope) -> Result<Cond, Refusal> {
    let all = trees
        .iter()
        .map(|tree| fits(tree, subject, scope))
        .collect::<Result<Vec<Fits>, Refusal>>()?;
    let skipped = Cond::all(all.iter().map(|fits| fits.skip.clone()));
    let fitting = Cond::any(all.into_iter().map(|fits| fits.ok));
    let skipped = if trees.is_empty() { Cond::TRUE } else { skipped };
    Ok(Cond::any([fitting, skipped]))
}

fn fits(tree: &Data, subject: &Subject, scope: &Scope) -> Result<Fits, Refusal> {
    let text = tree.to_json();
    if text.contains("{{") || text.contains("$(") {
        return Err(Refusal::new(RefusalCode::Variable, "the pattern has variables"));
    }
    let known = scope.known(subject);
    let value = Value::new(Path::new(subject.expr.clone()), known);
    Walk { scope, depth: 0 }.element(&value, tree)
}
