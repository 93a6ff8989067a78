//! Lists as sets.
//!
//! Upstream counterpart: cel-go `ext/sets.go`.

use super::sizes::{CALL, size};
use crate::cel::{
    decl::{Library, global},
    ops::list_contains,
    types::{A, Type},
    val::Val,
};

pub(crate) fn declare(library: &mut Library) {
    let lists = || [Type::list(A), Type::list(A)];
    library.add(
        "sets.contains",
        [global("list_sets_contains_list", &lists(), Type::Bool)
            .binary(|_, args| Val::Bool(contains_all(args[0], args[1])))
            .cost(|args, _| cost(args, 1.0))],
    );
    library.add(
        "sets.equivalent",
        [global("list_sets_equivalent_list", &lists(), Type::Bool)
            .binary(|_, args| Val::Bool(contains_all(args[0], args[1]) && contains_all(args[1], args[0])))
            .cost(|args, _| cost(args, 2.0))],
    );
    library.add(
        "sets.intersects",
        [global("list_sets_intersects_list", &lists(), Type::Bool)
            .binary(|_, args| Val::Bool(args[0].list_iter().any(|item| list_contains(args[1], item))))
            .cost(|args, _| cost(args, 1.0))],
    );
}

fn contains_all(list: Val<'_>, wanted: Val<'_>) -> bool {
    wanted.list_iter().all(|item| list_contains(list, item))
}

fn cost(args: &[Val<'_>], factor: f64) -> u64 {
    let pairs = size(&args[0]).saturating_mul(size(&args[1]));
    CALL.saturating_add((pairs as f64 * factor) as u64)
}
