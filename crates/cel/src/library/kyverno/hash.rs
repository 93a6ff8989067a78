//! Checksums of text as lower-case hexadecimal digits.
//!
//! Upstream counterpart: SDK `libs/hash`.

use std::fmt::Write as _;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::native;
use crate::{
    context::Context,
    decl::{Implementation, Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    let functions: [(&str, &str, Implementation); 6] = [
        ("sha1", "sha1_string_non_prefixed", hex::<Sha1>),
        ("sha256", "sha256_string_non_prefixed", hex::<Sha256>),
        ("md5", "md5_string_non_prefixed", hex::<Md5>),
        ("hash.sha1", "sha1_string_prefixed", hex::<Sha1>),
        ("hash.sha256", "sha256_string_prefixed", hex::<Sha256>),
        ("hash.md5", "md5_string_prefixed", hex::<Md5>),
    ];
    for (name, id, implementation) in functions {
        library.add(name, [global(id, &[Type::String], Type::String).unary(implementation)]);
    }
    // Upstream's library declares this name, surely by oversight; an expression can still use it.
    library.add_constant("mylib_version", Type::String, Val::String(""));
}

/// The additional work of hashing a byte.
const BYTE: usize = 3;

fn hex<'a, D: Digest>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [text] = args else { return NO_SUCH_OVERLOAD };
    match native::string(context, *text) {
        Ok(text) if !context.spend(text.len().saturating_mul(BYTE)) => context.exhausted(),
        Ok(text) => {
            let mut digits = String::new();
            for byte in D::digest(text.as_bytes()) {
                write!(digits, "{byte:02x}").expect("a string takes everything");
            }
            context.string(&digits)
        }
        Err(error) => error,
    }
}
