//! The functions that two-variable comprehensions and bindings expand to.
//!
//! Upstream counterpart: cel-go `ext/comprehensions.go` and `ext/bindings.go`.

use crate::{
    context::Context,
    decl::{Library, global},
    types::{A, B, Type},
    val::{NO_SUCH_OVERLOAD, Val},
};

/// Declares `cel.@mapInsert`, with which maps are built.
pub(crate) fn declare_two_variables(library: &mut Library) {
    let map = || Type::map(A, B);
    library.add(
        "cel.@mapInsert",
        [
            global("@mapInsert_map_key_value", &[map(), A, B], map()).variadic(|context, args| match *args {
                [map, key, value] => insert(context, map, [(key, value)]),
                _ => NO_SUCH_OVERLOAD,
            }),
            global("@mapInsert_map_map", &[map(), map()], map())
                .binary(|context, args| insert(context, args[0], args[1].map_iter())),
        ],
    );
}

/// Declares `cel.@block`, which expressions cannot contain; only an optimiser produces it.
pub(crate) fn declare_bindings(library: &mut Library) {
    library.add("cel.@block", [global("cel_block_list", &[Type::list(Type::Dyn), A], A)]);
}

/// A map with further entries; a key that already exists is an error.
pub(crate) fn insert<'a>(
    context: &Context<'a>,
    map: Val<'a>,
    entries: impl IntoIterator<Item = (Val<'a>, Val<'a>)>,
) -> Val<'a> {
    if !context.spend(map.len()) {
        return context.exhausted();
    }
    let mut all: Vec<(Val<'a>, Val<'a>)> = map.map_iter().collect();
    for (key, value) in entries {
        if all.iter().any(|(other, _)| other.same_key(&key)) {
            return context.error(format_args!(
                "insert failed: key {} already exists",
                context.display(key)
            ));
        }
        all.push((key, value));
    }
    context.map(&all)
}
