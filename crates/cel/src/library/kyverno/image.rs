//! Image references: `image(s)`, `parseImageReference(s)`, `isImage(s)` and the parts of an image.
//!
//! Upstream counterpart: SDK `libs/image`.

use crate::{
    context::Context,
    decl::{Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::image::Reference;

const IMAGE: &str = "kyverno.image";

/// A parsed image reference as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image(Reference);

impl Image {
    /// The reference as it was written.
    pub(super) fn original(&self) -> &str {
        self.0.original()
    }
}

impl Opaque for Image {
    fn type_name(&self) -> &'static str {
        IMAGE
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn std::any::Any)
            .downcast_ref::<Self>()
            .map(|other| self == other)
    }

    fn type_error(&self) -> Option<&'static str> {
        Some("type conversion error from 'kyverno.image' to 'type'")
    }

    fn go_json(&self) -> Option<String> {
        let mut out = String::new();
        kyvtest_go_compat::value::go_json::write_string(&mut out, self.original());
        Some(out)
    }

    fn display(&self) -> String {
        self.original().to_owned()
    }
}

pub(super) fn declare(library: &mut Library) {
    let image = || Type::opaque(IMAGE);
    library.add(
        "image",
        [global("string_to_image_deprecated", &[Type::String], image()).unary(parse)],
    );
    library.add(
        "parseImageReference",
        [global("string_to_image", &[Type::String], image()).unary(parse)],
    );
    library.add(
        "isImage",
        [global("is_image_string", &[Type::String], Type::Bool).unary(is_image)],
    );
    library.add(
        "containsDigest",
        [member("image_contains_digest", &[image()], Type::Bool).unary(contains_digest)],
    );
    library.add(
        "registry",
        [member("image_registry", &[image()], Type::String).unary(registry)],
    );
    library.add(
        "repository",
        [member("image_repository", &[image()], Type::String).unary(repository)],
    );
    library.add(
        "identifier",
        [member("image_identifier", &[image()], Type::String).unary(identifier)],
    );
    library.add("tag", [member("image_tag", &[image()], Type::String).unary(tag)]);
    library.add(
        "digest",
        [member("image_digest", &[image()], Type::String).unary(digest)],
    );
}

fn parse<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(name)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match Reference::parse(name) {
        Some(reference) => context.opaque(Image(reference)),
        None => context.error(format_args!("could not parse reference: {name}")),
    }
}

fn is_image<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(name)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    Val::Bool(Reference::parse(name).is_some())
}

fn with<'a>(args: &[Val<'a>], part: impl FnOnce(&'a Reference) -> Val<'a>) -> Val<'a> {
    match args.first().and_then(Val::downcast::<Image>) {
        Some(Image(reference)) => part(reference),
        None => NO_SUCH_OVERLOAD,
    }
}

fn contains_digest<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| Val::Bool(!reference.digest().is_empty()))
}

fn registry<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| Val::String(reference.registry()))
}

fn repository<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| context.string(&reference.repository()))
}

fn identifier<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| Val::String(reference.identifier()))
}

fn tag<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| Val::String(reference.tag()))
}

fn digest<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |reference| Val::String(reference.digest()))
}
