//! `jsonpatch.escapeKey`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/jsonpatch.go`. The `JSONPatch` type is in [`crate::mutation`].

use super::cost;
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    library
        .add(
            "jsonpatch.escapeKey",
            [global("string_jsonpatch_escapeKey_string", &[Type::String], Type::String).unary(escape_key)],
        )
        .cost = Some(cost::parse);
}

fn escape_key<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(key)) => context.string(&key.replace('~', "~0").replace('/', "~1")),
        _ => NO_SUCH_OVERLOAD,
    }
}
