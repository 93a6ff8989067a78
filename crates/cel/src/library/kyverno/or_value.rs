//! `orValue` on any receiver: the expansion of Kyverno's macro for `x.orValue(y)`.
//!
//! Upstream counterpart: Kyverno `pkg/cel/compiler/env.go` `OrValueCompatEnvOptions`: a receiver that is not an
//! optional value is itself the result, as before cel-go 0.28. Unlike in cel-go's own `orValue`, the alternative is
//! always evaluated.

use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    library.add(
        "__orValueCompat__",
        [global("__orValueCompat___dyn_dyn", &[Type::Dyn, Type::Dyn], Type::Dyn).binary(or_value)],
    );
}

fn or_value<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match *args {
        [Val::Optional(None), alternative] => alternative,
        [Val::Optional(Some(value)), _] => *value,
        [value, _] => value,
        _ => NO_SUCH_OVERLOAD,
    }
}
