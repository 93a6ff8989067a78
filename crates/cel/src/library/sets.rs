//! Lists as sets.
//!
//! Upstream counterpart: cel-go `ext/sets.go`.

use super::sizes::{CALL, size};
use crate::{
    context::Context,
    decl::{Library, global},
    ops::list_contains,
    types::{A, Type},
    val::Val,
};

pub(super) fn declare(library: &mut Library) {
    let lists = || [Type::list(A), Type::list(A)];
    library.add(
        "sets.contains",
        [global("list_sets_contains_list", &lists(), Type::Bool)
            .binary(|context, args| Val::Bool(contains_all(context, args[0], args[1])))
            .cost_of_arguments(|args| cost(args, 1.0))],
    );
    library.add(
        "sets.equivalent",
        [global("list_sets_equivalent_list", &lists(), Type::Bool)
            .binary(|context, args| {
                Val::Bool(contains_all(context, args[0], args[1]) && contains_all(context, args[1], args[0]))
            })
            .cost_of_arguments(|args| cost(args, 2.0))],
    );
    library.add(
        "sets.intersects",
        [global("list_sets_intersects_list", &lists(), Type::Bool)
            .binary(|context, args| {
                Val::Bool(
                    context.spend(args[0].len().saturating_mul(args[1].len()))
                        && args[0].list_iter().any(|item| list_contains(context, args[1], item)),
                )
            })
            .cost_of_arguments(|args| cost(args, 1.0))],
    );
}

fn contains_all(context: &Context<'_>, list: Val<'_>, wanted: Val<'_>) -> bool {
    context.spend(list.len().saturating_mul(wanted.len()))
        && wanted.list_iter().all(|item| list_contains(context, list, item))
}

fn cost(args: &[Val<'_>], factor: f64) -> u64 {
    let pairs = size(&args[0]).saturating_mul(size(&args[1]));
    CALL.saturating_add((pairs as f64 * factor) as u64)
}
