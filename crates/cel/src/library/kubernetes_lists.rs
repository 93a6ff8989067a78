//! List functions of Kubernetes.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/lists.go`.

use std::cmp::Ordering;

use crate::{
    context::Context,
    decl::{Implementation, Library, member},
    ops,
    types::{A, Type},
    val::{NO_SUCH_OVERLOAD, Trait, Val},
};

use Type::{Bool, Bytes, Double, Duration, Dyn, Int, String, Timestamp, Uint};

/// Declares the functions of a version; 1 adds `includes`.
pub(super) fn declare(library: &mut Library, version: u32) {
    /// One overload per element type.
    macro_rules! per_type {
        ($name:literal, $result:expr, $implementation:expr, $($t:expr => $id:literal),* $(,)?) => {{
            let result: fn(Type) -> Type = $result;
            let implementation: Implementation = $implementation;
            library.add(
                $name,
                [$(member($id, &[Type::list($t)], result($t)).unary(implementation)),*],
            );
        }};
    }
    per_type!("isSorted", |_| Bool, is_sorted,
        Int => "list_int_is_sorted_bool",
        Uint => "list_uint_is_sorted_bool",
        Double => "list_double_is_sorted_bool",
        Bool => "list_bool_is_sorted_bool",
        Duration => "list_duration_is_sorted_bool",
        Timestamp => "list_timestamp_is_sorted_bool",
        String => "list_string_is_sorted_bool",
        Bytes => "list_bytes_is_sorted_bool",
    );
    library.add(
        "sum",
        [
            member("list_int_sum_int", &[Type::list(Int)], Int)
                .unary(|context, args| sum(context, args[0], Val::Int(0))),
            member("list_uint_sum_uint", &[Type::list(Uint)], Uint)
                .unary(|context, args| sum(context, args[0], Val::Uint(0))),
            member("list_double_sum_double", &[Type::list(Double)], Double)
                .unary(|context, args| sum(context, args[0], Val::Double(0.0))),
            member("list_duration_sum_duration", &[Type::list(Duration)], Duration)
                .unary(|context, args| sum(context, args[0], Val::Duration(0))),
        ],
    );
    per_type!("max", |t| t, |_, args| extreme(args[0], Ordering::Less, "max called on empty list"),
        Int => "list_int_max_int",
        Uint => "list_uint_max_uint",
        Double => "list_double_max_double",
        Bool => "list_bool_max_bool",
        Duration => "list_duration_max_duration",
        Timestamp => "list_timestamp_max_timestamp",
        String => "list_string_max_string",
        Bytes => "list_bytes_max_bytes",
    );
    per_type!("min", |t| t, |_, args| extreme(args[0], Ordering::Greater, "min called on empty list"),
        Int => "list_int_min_int",
        Uint => "list_uint_min_uint",
        Double => "list_double_min_double",
        Bool => "list_bool_min_bool",
        Duration => "list_duration_min_duration",
        Timestamp => "list_timestamp_min_timestamp",
        String => "list_string_min_string",
        Bytes => "list_bytes_min_bytes",
    );
    library.add(
        "indexOf",
        [
            member("list_a_index_of_int", &[Type::list(A), A], Int).binary(|context, args| {
                let found = args[0]
                    .list_iter()
                    .position(|item| context.equals(&item, &args[1]) == Some(true));
                Val::Int(found.map_or(-1, |i| i as i64))
            }),
        ],
    );
    library.add(
        "lastIndexOf",
        [
            member("list_a_last_index_of_int", &[Type::list(A), A], Int).binary(|context, args| {
                let equal = |i: &usize| {
                    let item = args[0].list_get(*i);
                    item.is_some_and(|item| context.equals(&item, &args[1]) == Some(true))
                };
                Val::Int((0..args[0].len()).rev().find(equal).map_or(-1, |i| i as i64))
            }),
        ],
    );
    if version >= 1 {
        library.add(
            "includes",
            [
                member("list_includes_dyn_dyn", &[Dyn, Dyn], Bool).binary(|context, args| {
                    Val::Bool(if args[0].is_list() {
                        args[0]
                            .list_iter()
                            .any(|item| context.equals(&item, &args[1]) == Some(true))
                    } else {
                        context.equals(&args[0], &args[1]) == Some(true)
                    })
                }),
            ],
        );
    }
}

fn is_sorted<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let mut previous: Option<Val<'a>> = None;
    for item in args[0].list_iter() {
        if !item.has_trait(Trait::Comparer) {
            return NO_SUCH_OVERLOAD;
        }
        // Pairs without an order count as sorted.
        if previous.is_some_and(|previous| matches!(ops::compare(previous, item), Ok(Ordering::Greater))) {
            return Val::Bool(false);
        }
        previous = Some(item);
    }
    Val::Bool(true)
}

fn sum<'a>(context: &Context<'a>, list: Val<'a>, zero: Val<'a>) -> Val<'a> {
    let mut total = zero;
    for item in list.list_iter() {
        if !item.has_trait(Trait::Adder) {
            return NO_SUCH_OVERLOAD;
        }
        total = ops::add(context, total, item);
        if total.is_error() {
            break;
        }
    }
    total
}

/// The element that no other precedes; the first of equals. Unordered pairs leave it unchanged.
fn extreme<'a>(list: Val<'a>, prefer: Ordering, empty: &'static str) -> Val<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list.list_iter() {
        if !item.has_trait(Trait::Comparer) {
            return NO_SUCH_OVERLOAD;
        }
        match best {
            Some(current) if !matches!(ops::compare(current, item), Ok(order) if order == prefer) => {}
            _ => best = Some(item),
        }
    }
    best.unwrap_or(Val::Error(empty))
}
