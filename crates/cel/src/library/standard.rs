//! The standard library: operators, conversions, `size`, text tests, fields of timestamps and durations.
//!
//! Upstream counterpart: cel-go `common/stdlib/standard.go`.

pub(crate) mod convert;
mod getters;
mod operators;

use super::pattern;
use crate::{
    context::Context,
    decl::{Binding, Library, Singleton, global, member},
    ops,
    profile::Behaviour,
    types::{A, B, Type},
    val::{NO_SUCH_OVERLOAD, Trait, Val},
    wrapper,
};

use Type::{Bool, Bytes, Int, String};

pub(super) fn declare(library: &mut Library, behaviour: &Behaviour) {
    for (name, t) in [
        ("bool", Bool),
        ("bytes", Bytes),
        ("double", Type::Double),
        ("google.protobuf.Duration", Type::Duration),
        ("int", Int),
        ("list", Type::list(Type::Dyn)),
        ("map", Type::map(Type::Dyn, Type::Dyn)),
        ("null_type", Type::Null),
        ("string", String),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("type", Type::Type(None)),
        ("uint", Type::Uint),
    ] {
        library.add_type(name, t);
    }
    for (name, t) in wrapper::types() {
        library.add_type(name, t);
    }
    operators::declare(library);
    convert::declare(library, behaviour);
    getters::declare(library);

    let list = || Type::list(A);
    let map = || Type::map(A, B);
    library
        .add(
            "size",
            [
                global("size_bytes", &[Bytes], Int),
                member("bytes_size", &[Bytes], Int),
                global("size_list", &[list()], Int),
                member("list_size", &[list()], Int),
                global("size_map", &[map()], Int),
                member("map_size", &[map()], Int),
                global("size_string", &[String], Int),
                member("string_size", &[String], Int),
            ],
        )
        .singleton = Some(Singleton {
        operand: Some(Trait::Sizer),
        binding: Binding::Unary,
        implementation: |context, args| ops::size(context, args[0]),
    });

    /// A comparison of two strings that checks its argument types itself.
    macro_rules! text_test {
        ($name:literal, $id:literal, $test:expr) => {
            library
                .add(
                    $name,
                    [member($id, &[String, String], Bool).binary(|_, args| text_test(args, $test))],
                )
                .no_type_guards = true;
        };
    }
    text_test!("contains", "contains_string", |s, part| s.contains(part));
    text_test!("endsWith", "ends_with_string", |s, suffix| s.ends_with(suffix));
    text_test!("startsWith", "starts_with_string", |s, prefix| s.starts_with(prefix));

    library
        .add(
            "matches",
            [
                global("matches", &[String, String], Bool),
                member("matches_string", &[String, String], Bool),
            ],
        )
        .singleton = Some(Singleton {
        operand: Some(Trait::Matcher),
        binding: Binding::Binary,
        implementation: matches,
    });
}

fn text_test<'a>(args: &[Val<'a>], test: fn(&str, &str) -> bool) -> Val<'a> {
    match args {
        [Val::String(s), Val::String(other)] => Val::Bool(test(s, other)),
        [error @ Val::Error(_), ..] | [_, error @ Val::Error(_)] => *error,
        _ => NO_SUCH_OVERLOAD,
    }
}

/// `matches` with a pattern that is only known at run time; the planner compiles constant ones.
fn matches<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(text), Val::String(pattern)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match pattern::compile(context, pattern) {
        Ok(regex) if !context.spend_search(&regex, text) => context.exhausted(),
        Ok(regex) => Val::Bool(regex.is_match(text)),
        Err(error) => context.error(format_args!("{error}")),
    }
}
