//! `orValue` on anything: what Kyverno's macro makes of `x.orValue(y)`.
//!
//! Upstream counterpart: Kyverno `pkg/cel/compiler/env.go` `OrValueCompatEnvOptions`: a receiver that is no optional value
//! is the answer itself, as before cel-go 0.28. Unlike cel-go's own `orValue` the alternative is always evaluated.

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
