//! The verification of images: `verifyImageSignatures`, `verifyAttestationSignatures`, `getImageData`,
//! `extractPayload`.
//!
//! Upstream counterpart: Kyverno `pkg/cel/libs/imageverify` (1.19). The host verifies; this module has the function
//! signatures, and the selection of images. Errors of `extractPayload` are the host's complete message.

use super::native;
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::Document;

pub(super) fn declare(library: &mut Library) {
    let (string, list) = (|| Type::String, || Type::list(Type::Dyn));
    library.add(
        "verifyImageSignatures",
        [global(
            "verify_image_signature_string_stringarray",
            &[string(), list()],
            Type::Int,
        )
        .binary(signatures)],
    );
    library.add(
        "verifyAttestationSignatures",
        [global(
            "verify_image_attestations_string_string_stringarray",
            &[string(), string(), list()],
            Type::Int,
        )
        .variadic(attestations)],
    );
    library.add(
        "getImageData",
        [global("get_image_data_string", &[string()], Type::Dyn).unary(image_data)],
    );
    library.add(
        "extractPayload",
        [global("payload_string_string", &[string(), string()], Type::Dyn).binary(payload)],
    );
}

fn signatures<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [Val::String(image), attestors] => verify(context, image, None, *attestors),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn attestations<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [Val::String(image), Val::String(attestation), attestors] => {
            verify(context, image, Some(attestation), *attestors)
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn verify<'a>(context: &Context<'a>, image: &str, attestation: Option<&str>, attestors: Val<'a>) -> Val<'a> {
    let mut documents: Vec<Document> = Vec::new();
    for attestor in attestors.list_iter() {
        match native::body(context, attestor) {
            Ok(attestor) => documents.push(attestor),
            Err(error) => return error,
        }
    }
    let Some(scope) = context.host.image_scope() else {
        return Val::Error("this policy does not verify images");
    };
    match scope.selects(image) {
        Ok(true) => {}
        Ok(false) => return Val::Int(0),
        Err(error) => return context.error(format_args!("{error}")),
    }
    let attestation = match attestation.map(|name| (name, scope.attestation(name))) {
        None => None,
        Some((_, Some(declared))) => Some(declared),
        Some((name, None)) => return context.error(format_args!("attestation not found in policy: {name}")),
    };
    match context.host.verify_image(image, attestation, &documents) {
        Ok(count) => {
            if !documents.is_empty() {
                scope.record(image, count > 0);
            }
            Val::Int(count)
        }
        Err(error) => context.error(format_args!("failed to get imagedata: {error}")),
    }
}

fn image_data<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(image)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match context.host.fetch_image(image) {
        Ok(document) => Val::from(context.document(document)),
        Err(error) => context.error(format_args!("failed to get imagedata: {error}")),
    }
}

fn payload<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(image), Val::String(attestation)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    let declared = context
        .host
        .image_scope()
        .and_then(|scope| scope.attestation(attestation));
    let Some(declared) = declared else {
        return context.error(format_args!("attestation not found in policy: {attestation}"));
    };
    match context.host.image_payload(image, declared) {
        Ok(document) => Val::from(context.document(document)),
        Err(error) => context.error(format_args!("{error}")),
    }
}
