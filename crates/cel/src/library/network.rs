//! cel-go's network library: `ip`, `cidr` and related functions.
//!
//! Upstream counterpart: cel-go `ext/network.go` (0.30). It has the functions of Kubernetes' ip and cidr libraries,
//! which are used here, and `isMask`.
//!
//! Deviations: errors of `cidr` and equality with another type follow Kubernetes, and literals are not parsed before
//! evaluation.

use super::kubernetes::{cidr, ip};
use crate::{
    decl::{Library, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    ip::declare(library);
    cidr::declare(library);
    library.add(
        "isMask",
        [
            member("cidr_is_mask", &[Type::opaque(cidr::NAME)], Type::Bool).unary(|_, args| {
                match cidr::argument(args, 0) {
                    Some(prefix) => Val::Bool(prefix.addr() == prefix.masked().addr()),
                    None => NO_SUCH_OVERLOAD,
                }
            }),
        ],
    );
}
