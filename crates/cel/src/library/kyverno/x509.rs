//! `x509.decode(pem)`: an RSA certificate or certificate request as a map with Go's field names.
//!
//! Upstream counterpart: SDK `libs/x509`.

use super::{certificate, native};
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::text::x509::pem;

pub(super) fn declare(library: &mut Library) {
    library.add(
        "x509.decode",
        [global("x509_decode_string", &[Type::String], Type::Dyn).unary(decode)],
    );
}

fn decode<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [text] = args else { return NO_SUCH_OVERLOAD };
    let text = match native::string(context, *text) {
        Ok(text) => text,
        Err(error) => return error,
    };
    let Some((block, _)) = pem::decode(text.as_bytes()) else {
        return Val::Error("failed to decode PEM block");
    };
    let decoded = match block.kind.as_str() {
        "CERTIFICATE" => certificate::decode(&block.bytes),
        "CERTIFICATE REQUEST" => certificate::decode_request(&block.bytes),
        _ => Err("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST".to_owned()),
    };
    match decoded {
        Ok(document) => Val::from(context.document(document)),
        Err(error) => context.error(format_args!("{error}")),
    }
}

/// Whether a bundle of trusted certificates has at least one that can be used.
pub(super) fn has_certificate(bundle: &str) -> bool {
    let mut rest = bundle.as_bytes();
    while let Some((block, after)) = pem::decode(rest) {
        if block.kind == "CERTIFICATE" && !block.headers && certificate::is_certificate(&block.bytes) {
            return true;
        }
        rest = after;
    }
    false
}
