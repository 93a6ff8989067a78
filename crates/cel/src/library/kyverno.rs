//! Kyverno's own libraries, as the environment of a ValidatingPolicy has them.
//!
//! Upstream counterpart: `github.com/kyverno/sdk/extensions/cel/libs` at the version that Kyverno 1.19 links, each at
//! its latest revision, so that both the older names (`resource.Get`) and the newer ones (`resource.get`) exist.
//!
//! `resource`, `globalContext`, `http`, `image`, `json` and `yaml` are variables of their own types, bound for every
//! evaluation; the functions are their methods. Functions that reach outside the expression call the
//! [`Host`](crate::host::Host).
//!
//! Known deviations: JSON and YAML nested deeper than 1,000 levels are rejected (upstream: 10,000), decompressed text
//! is limited to 64 MiB, generated random text to 1 MiB, and invalid UTF-8 becomes U+FFFD where upstream's strings keep
//! the bytes.

mod certificate;
mod deflate;
mod exception;
pub(crate) mod generator;
mod gzip;
mod hash;
mod image;
mod image_verify;
mod inflate;
mod json;
mod math;
pub(crate) mod native;
mod or_value;
mod outside;
mod random;
mod time;
mod transform;
mod user;
mod x509;
mod yaml;

use super::super::{
    context::Context,
    decl::Library,
    profile::{PolicyLibraries, PolicyScope},
    types::Type,
    val::{Opaque, Val},
};
use kyvtest_go_compat::value::Document;

/// Declares the libraries of a policy. Those of a namespaced policy have different overloads of `resource`, without the
/// namespace parameter.
pub fn declare(library: &mut Library, scope: PolicyScope, policy: PolicyLibraries) {
    if policy == PolicyLibraries::ImageReference {
        image::declare(library);
        return;
    }
    if matches!(policy, PolicyLibraries::Http | PolicyLibraries::Envoy) {
        outside::declare_client(library);
        image::declare(library);
        return;
    }
    if policy == PolicyLibraries::Image {
        image_verify::declare(library);
    }
    if policy == PolicyLibraries::Generating {
        generator::declare(library, scope);
    }
    outside::declare(library, scope);
    image::declare(library);
    if matches!(policy, PolicyLibraries::Admission | PolicyLibraries::Image) {
        user::declare(library);
    }
    hash::declare(library);
    math::declare(library);
    json::declare(library);
    yaml::declare(library);
    random::declare(library);
    if policy != PolicyLibraries::Image {
        x509::declare(library);
    }
    time::declare(library);
    transform::declare(library);
    gzip::declare(library);
    exception::declare(library);
}

/// Declares `orValue` for any receiver.
pub fn declare_or_value(library: &mut Library) {
    or_value::declare(library);
}

pub use exception::{EXCEPTION, Exception};
pub use gzip::read as gunzip;
pub(super) use json::unmarshal;

/// Converts a value to protobuf's JSON, as Go's `AsInterface` shows it.
///
/// # Errors
/// If the type has no such form.
pub fn to_json<'a>(context: &Context<'a>, value: Val<'a>) -> Result<Document, String> {
    match native::body(context, value) {
        Ok(document) => Ok(generator::as_interface(&document)),
        Err(Val::Error(error)) => Err(error.to_owned()),
        Err(_) => Err("not convertible".to_owned()),
    }
}

/// Converts a value to a list of strings.
///
/// # Errors
/// If the value or one of its items has another type.
pub fn to_texts<'a>(context: &Context<'a>, value: Val<'a>) -> Result<Vec<String>, String> {
    let text = |error: Val<'_>| match error {
        Val::Error(error) => error.to_owned(),
        _ => "not convertible".to_owned(),
    };
    if !value.is_list() {
        return Err(text(native::mismatch(context, value, "[]string")));
    }
    let items = value.list_iter();
    items
        .map(|item| native::string(context, item).map(str::to_owned).map_err(text))
        .collect()
}

/// The receiver of a library's methods, without further content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receiver(pub(super) &'static str);

impl Opaque for Receiver {
    fn type_name(&self) -> &'static str {
        self.0
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        Some(other.type_name() == self.0)
    }

    fn equals_plain(&self) -> Option<bool> {
        Some(false)
    }

    fn is_structure(&self) -> bool {
        true
    }
}

/// A structure of Go that expressions see: equal to values of its own type only.
pub(super) trait Structure: std::fmt::Debug + PartialEq + Send + Sync + 'static {
    const NAME: &'static str;

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>>;

    fn is_zero(&self) -> bool;

    fn go_json(&self) -> Option<String> {
        None
    }
}

impl<S: Structure> Opaque for S {
    fn type_name(&self) -> &'static str {
        S::NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other = (other as &dyn std::any::Any).downcast_ref::<Self>();
        Some(other.is_some_and(|other| self == other))
    }

    fn equals_plain(&self) -> Option<bool> {
        Some(false)
    }

    fn is_structure(&self) -> bool {
        true
    }

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        Structure::field(self, name)
    }

    fn is_set(&self, name: &str) -> Option<bool> {
        let is_empty = |value: Val<'_>| value.as_str() == Some("") || value.is_list() && value.is_empty();
        Structure::field(self, name).map(|value| !is_empty(value))
    }

    fn is_zero(&self) -> bool {
        Structure::is_zero(self)
    }

    fn go_json(&self) -> Option<String> {
        Structure::go_json(self)
    }
}

/// Declares a variable that is a receiver, and its type.
pub(super) fn declare_receiver(library: &mut Library, name: &'static str, receiver: &'static Receiver) {
    library.add_constant(name, Type::opaque(receiver.0), Val::Opaque(receiver));
    library.add_structure(receiver.0, &[], None);
}
