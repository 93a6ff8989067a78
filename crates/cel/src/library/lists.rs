//! Extended list functions.
//!
//! Upstream counterpart: cel-go `ext/lists.go`, versions 0 to 3.

use super::{
    go_sort,
    sizes::{CALL, LIST_BASE, STRING_TRAVERSAL, size},
};
use crate::{
    context::Context,
    decl::{Binding, CostFunction, Library, Singleton, global, member},
    ops, print,
    types::{A, Type},
    val::{NO_SUCH_OVERLOAD, Trait, Val},
};

use Type::{Bool, Bytes, Double, Duration, Dyn, Int, String, Timestamp, Uint};

/// The largest list that `lists.range` makes, if it is limited.
const MAX_RANGE: i64 = 1_000_000;
/// The largest list that it makes otherwise: upstream would continue until memory runs out, but the cost limit of an
/// evaluation stops it long before.
const MAX_FREE_RANGE: i64 = 1 << 22;

/// Declares the functions of a version.
pub(super) fn declare(library: &mut Library, version: u32) {
    let list = || Type::list(A);
    let priced = |overload: crate::decl::Overload| {
        if version >= 3 {
            overload.cost_of_arguments(|args| self_comparison_cost(&args[0]))
        } else {
            overload
        }
    };
    let costed = |overload: crate::decl::Overload, cost: CostFunction| {
        if version >= 3 { overload.cost(cost) } else { overload }
    };
    library.add(
        "slice",
        [costed(
            member("list_slice", &[list(), Int, Int], list()).variadic(slice),
            output_cost,
        )],
    );
    if version >= 1 {
        library
            .add(
                "flatten",
                [
                    costed(
                        member("list_flatten", &[Type::list(list())], list()).unary(flatten),
                        flatten_cost,
                    ),
                    costed(
                        member("list_flatten_int", &[Type::list(Dyn), Int], Type::list(Dyn)).binary(flatten),
                        flatten_cost,
                    ),
                ],
            )
            .no_type_guards = true;
    }
    if version >= 2 {
        declare_sorting(library, &costed);
        library.add(
            "lists.range",
            [costed(
                global("lists_range", &[Int], Type::list(Int)).unary(range),
                output_cost,
            )],
        );
        library.add(
            "reverse",
            [costed(
                member("list_reverse", &[list()], list()).unary(|context, args| {
                    let mut items: Vec<Val<'_>> = args[0].list_iter().collect();
                    items.reverse();
                    context.list(&items)
                }),
                output_cost,
            )],
        );
        library.add(
            "distinct",
            [priced(member("list_distinct", &[list()], list()).unary(distinct))],
        );
    }
}

fn declare_sorting(
    library: &mut Library,
    costed: &dyn Fn(crate::decl::Overload, CostFunction) -> crate::decl::Overload,
) {
    /// The types that have an order, with the ids of their overloads.
    macro_rules! comparable {
        ($($t:expr, $name:literal;)*) => {
            [$((
                $t,
                concat!("list_", $name, "_sort"),
                concat!("list_", $name, "_sortByAssociatedKeys"),
            )),*]
        };
    }
    let types = comparable! {
        Int, "int";
        Uint, "uint";
        Double, "double";
        Bool, "bool";
        Duration, "google.protobuf.Duration";
        Timestamp, "google.protobuf.Timestamp";
        String, "string";
        Bytes, "bytes";
    };
    let list = || Type::list(A);
    library
        .add(
            "sort",
            types.clone().map(|(t, id, _)| {
                let overload = member(id, &[Type::list(t.clone())], Type::list(t));
                costed(overload, |args, _| self_comparison_cost(&args[0]))
            }),
        )
        .singleton = Some(Singleton {
        operand: Some(Trait::Lister),
        binding: Binding::Unary,
        implementation: |context, args| sort_by(context, args[0], args[0]),
    });
    library
        .add(
            "@sortByAssociatedKeys",
            types.map(|(t, _, id)| {
                let overload = member(id, &[list(), Type::list(t)], list());
                costed(overload, |args, _| self_comparison_cost(&args[1]))
            }),
        )
        .singleton = Some(Singleton {
        operand: Some(Trait::Lister),
        binding: Binding::Binary,
        implementation: |context, args| sort_by(context, args[0], args[1]),
    });
}

fn slice<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [list, Val::Int(start), Val::Int(end)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    let refuse = |why: std::fmt::Arguments<'_>| context.error(format_args!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse(format_args!("negative indexes not supported"));
    };
    if from > to {
        return refuse(format_args!("start index must be less than or equal to end index"));
    }
    if to > list.len() {
        return refuse(format_args!("list is length {}", list.len()));
    }
    if let Val::List(items) = list {
        return Val::List(&items[from..to]);
    }
    let items: Vec<Val<'a>> = (from..to).filter_map(|i| list.list_get(i)).collect();
    context.list(&items)
}

/// `flatten` checks its arguments itself.
fn flatten<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let list = args[0];
    let depth = match args {
        _ if list.is_error() => return list,
        [_] if list.is_list() => 1,
        [_, Val::Int(depth)] if list.is_list() => *depth,
        [_] => {
            let t = print::type_display(list.type_name());
            return context.error(format_args!("no such overload: {t}.flatten()"));
        }
        _ => {
            let t = print::type_display(list.type_name());
            let depth = print::type_display(args[1].type_name());
            return context.error(format_args!("no such overload: {t}.flatten({depth})"));
        }
    };
    if depth < 0 {
        return Val::Error("level must be non-negative");
    }
    if !context.spend_walk(list) {
        return context.exhausted();
    }
    let mut items = Vec::with_capacity(list.len());
    flatten_into(&mut items, list, depth);
    context.list(&items)
}

fn flatten_into<'a>(out: &mut Vec<Val<'a>>, list: Val<'a>, depth: i64) {
    for item in list.list_iter() {
        if depth > 0 && item.is_list() {
            flatten_into(out, item, depth - 1);
        } else {
            out.push(item);
        }
    }
}

fn range<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Val::Int(count) = args[0] else {
        return NO_SUCH_OVERLOAD;
    };
    let limited = context.profile.behaviour.range_is_limited;
    if limited && count < 0 {
        return context.error(format_args!("lists.range: size must be non-negative, got {count}"));
    }
    let max = if limited { MAX_RANGE } else { MAX_FREE_RANGE };
    if count > max {
        return context.error(format_args!(
            "lists.range: size {count} exceeds maximum allowed ({max})"
        ));
    }
    let count = usize::try_from(count).unwrap_or(0);
    if !context.spend_items(count) {
        return context.exhausted();
    }
    Val::List(context.bump().alloc_slice_fill_with(count, |i| Val::Int(i as i64)))
}

fn distinct<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    if !context.spend(args[0].len().saturating_mul(args[0].len())) {
        return context.exhausted();
    }
    let mut unique: Vec<Val<'a>> = Vec::new();
    for item in args[0].list_iter() {
        if !unique.iter().any(|seen| context.equals(&item, seen) == Some(true)) {
            unique.push(item);
        }
    }
    context.list(&unique)
}

/// Sorts a list by its keys; elements with equal keys end where Go's unstable sort leaves them.
fn sort_by<'a>(context: &Context<'a>, list: Val<'a>, keys: Val<'a>) -> Val<'a> {
    if !keys.is_list() {
        return NO_SUCH_OVERLOAD;
    }
    if list.len() != keys.len() {
        return context.error(format_args!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        ));
    }
    let keys: Vec<Val<'a>> = keys.list_iter().collect();
    let Some(first) = keys.first() else { return list };
    if !first.has_trait(Trait::Comparer) {
        return Val::Error("list elements must be comparable");
    }
    let mut mixed = false;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    go_sort::sort(&mut order, &mut |&a, &b| {
        let (a, b) = (keys[a], keys[b]);
        if a.type_name() != first.type_name() || b.type_name() != first.type_name() {
            mixed = true;
            return false;
        }
        matches!(ops::compare(a, b), Ok(std::cmp::Ordering::Less))
    });
    if mixed {
        return Val::Error("list elements must have the same type");
    }
    let sorted: Vec<Val<'a>> = order.into_iter().filter_map(|i| list.list_get(i)).collect();
    context.list(&sorted)
}

fn allocation_cost(size: u64, factor: f64) -> u64 {
    let scaled = size as f64 * factor;
    // A negative depth makes Go's conversion wrap around.
    let scaled = if scaled < 0.0 {
        scaled as i64 as u64
    } else {
        scaled as u64
    };
    scaled.wrapping_add(CALL + LIST_BASE)
}

fn output_cost(_: &[Val<'_>], result: &Val<'_>) -> u64 {
    allocation_cost(size(result), 1.0)
}

fn flatten_cost(args: &[Val<'_>], _: &Val<'_>) -> u64 {
    let depth = args.get(1).and_then(Val::as_int).unwrap_or(1);
    allocation_cost(size(&args[0]), depth as f64)
}

/// The cost of comparing all elements of a list with each other.
fn self_comparison_cost(list: &Val<'_>) -> u64 {
    let textual = matches!(list.list_get(0), Some(Val::String(_) | Val::Bytes(_)));
    let factor = if textual { 2.0 + STRING_TRAVERSAL } else { 2.0 };
    let size = size(list);
    allocation_cost(size.saturating_mul(size), factor)
}
