//! `random()` and `random(pattern)`: text that matches a regular expression.
//!
//! Upstream counterpart: SDK `libs/random` over `github.com/zach-klippenstein/goregen`, see [`generate`].

use super::super::pattern::build;
use super::native;
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::regex::generate;

const DEFAULT_PATTERN: &str = "[0-9a-z]{8}";
pub(super) fn declare(library: &mut Library) {
    for (name, with_pattern, without) in [
        (
            "random",
            "random_string_non_prefixed",
            "random_string_default_expr_non_prefixed",
        ),
        (
            "random.random",
            "random_string_prefixed",
            "random_string_default_expr_prefixed",
        ),
    ] {
        library.add(
            name,
            [
                global(with_pattern, &[Type::String], Type::String).unary(from_pattern),
                global(without, &[], Type::String).variadic(from_default),
            ],
        );
    }
}

fn from_pattern<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [pattern] = args else { return NO_SUCH_OVERLOAD };
    match native::string(context, *pattern) {
        Ok(pattern) => generate(context, pattern),
        Err(error) => error,
    }
}

fn from_default<'a>(context: &Context<'a>, _: &[Val<'a>]) -> Val<'a> {
    generate(context, DEFAULT_PATTERN)
}

fn generate<'a>(context: &Context<'a>, pattern: &str) -> Val<'a> {
    let build = |pattern: &str| build(context, pattern).map_err(|error| error.to_string());
    let regex = match generate::compile(pattern, build) {
        Ok(regex) => regex,
        Err(error) => return context.error(format_args!("{error}")),
    };
    let Some(seed) = context.host.random() else {
        return Val::Error("no source of random numbers for `random`");
    };
    match generate::text(&regex, seed) {
        Ok(text) => context.string(&text),
        Err(error) => context.error(format_args!("{error}")),
    }
}
