//! Optional values.
//!
//! Upstream counterpart: the optional library of cel-go `cel/library.go`. `or`, `orValue`, selection and indexing must
//! be lazy, so the planner implements them; they are only declared here.

use crate::{
    context::Context,
    decl::{Library, global, member},
    profile::Behaviour,
    types::{A, B, OPTIONAL, Type},
    val::{NO_SUCH_OVERLOAD, Val},
};

use Type::{Bool, Dyn, Int, String};

/// Declares the functions of a version.
pub(super) fn declare(library: &mut Library, version: u32, behaviour: &Behaviour) {
    let optional = || Type::optional(A);
    let list = || Type::list(A);
    let map = || Type::map(A, B);
    library.add_type(
        OPTIONAL,
        if behaviour.optional_type_has_a_parameter {
            Type::optional(Dyn)
        } else {
            Type::opaque(OPTIONAL)
        },
    );
    library.add(
        "optional.of",
        [global("optional_of", &[A], optional()).unary(|context, args| context.some(args[0]))],
    );
    library.add(
        "optional.ofNonZeroValue",
        [
            global("optional_ofNonZeroValue", &[A], optional()).unary(|context, args| {
                if is_zero(&args[0]) {
                    Val::NONE
                } else {
                    context.some(args[0])
                }
            }),
        ],
    );
    library.add(
        "optional.none",
        [global("optional_none", &[], optional()).variadic(|_, _| Val::NONE)],
    );
    library.add(
        "value",
        [
            member("optional_value", &[optional()], A).unary(|_, args| match args[0] {
                Val::Optional(Some(value)) => *value,
                Val::Optional(None) => Val::Error("optional.none() dereference"),
                _ => NO_SUCH_OVERLOAD,
            }),
        ],
    );
    library.add(
        "hasValue",
        [
            member("optional_hasValue", &[optional()], Bool).unary(|_, args| match args[0] {
                Val::Optional(value) => Val::Bool(value.is_some()),
                _ => NO_SUCH_OVERLOAD,
            }),
        ],
    );
    library.add(
        "or",
        [member("optional_or_optional", &[optional(), optional()], optional())],
    );
    library.add("orValue", [member("optional_orValue_value", &[optional(), A], A)]);
    library.add("_?._", [global("select_optional_field", &[Dyn, String], optional())]);
    library.add(
        "_[?_]",
        [
            global("list_optindex_optional_int", &[list(), Int], optional()),
            global(
                "optional_list_optindex_optional_int",
                &[Type::optional(list()), Int],
                optional(),
            ),
            global("map_optindex_optional_value", &[map(), A], Type::optional(B)),
            global(
                "optional_map_optindex_optional_value",
                &[Type::optional(map()), A],
                Type::optional(B),
            ),
        ],
    );
    library.add(
        "_[_]",
        [
            global("optional_list_index_int", &[Type::optional(list()), Int], optional()),
            global(
                "optional_map_index_value",
                &[Type::optional(map()), A],
                Type::optional(B),
            ),
        ],
    );
    if version < 2 {
        return;
    }
    library.add(
        "last",
        [member("list_last", &[list()], optional()).unary(|context, args| {
            let last = args[0].len().checked_sub(1).and_then(|i| args[0].list_get(i));
            last.map_or(Val::NONE, |value| context.some(value))
        })],
    );
    library.add(
        "first",
        [member("list_first", &[list()], optional())
            .unary(|context, args| args[0].list_get(0).map_or(Val::NONE, |value| context.some(value)))],
    );
    let optionals = || Type::list(Type::optional(A));
    library.add(
        "optional.unwrap",
        [global("optional_unwrap", &[optionals()], list()).unary(unwrap)],
    );
    library.add(
        "unwrapOpt",
        [member("optional_unwrapOpt", &[optionals()], list()).unary(unwrap)],
    );
}

fn unwrap<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let mut values = Vec::with_capacity(args[0].len());
    for item in args[0].list_iter() {
        match item {
            Val::Optional(Some(value)) => values.push(*value),
            Val::Optional(None) => {}
            _ => return context.error(format_args!("value {} is not optional", context.display(item))),
        }
    }
    context.list(&values)
}

/// Whether a value is the zero of its type; types without a zero have none.
fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(b) => !b,
        Val::Int(i) => *i == 0,
        Val::Uint(u) => *u == 0,
        Val::Double(d) => *d == 0.0,
        Val::String(s) => s.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Duration(d) => *d == 0,
        Val::Timestamp(t) => t.is_zero(),
        Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) => value.is_empty(),
        Val::Opaque(opaque) => opaque.is_zero(),
        Val::Object(object) => object.fields.is_empty(),
        Val::Type(_) | Val::Variables | Val::Optional(_) | Val::Error(_) => false,
    }
}
