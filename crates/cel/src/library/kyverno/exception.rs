//! `exceptions`: the images and values that a policy's exceptions allow.
//!
//! Upstream counterpart: Kyverno `pkg/cel/libs/variables.go`.

use super::{Structure, native};
use crate::{context::Context, decl::Library, types::Type, val::Val};
use kyvtest_go_compat::value::{Builder, Document, Value};

/// The type of the variable `exceptions`.
pub const EXCEPTION: &str = "libs.Exception";

/// The value of the variable `exceptions`.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    allowed_images: Document,
    allowed_values: Document,
}

impl Exception {
    /// Combines the images and values of all exceptions.
    pub fn new<S: AsRef<str>>(images: &[S], values: &[S]) -> Self {
        Self {
            allowed_images: list(images),
            allowed_values: list(values),
        }
    }
}

fn list<S: AsRef<str>>(items: &[S]) -> Document {
    let mut builder = Builder::new();
    builder.begin_list();
    for item in items {
        builder.string(item.as_ref());
    }
    builder.end();
    builder.finish()
}

fn is_empty(list: &Document) -> bool {
    matches!(list.root(), Value::List(items) if items.len() == 0)
}

impl Structure for Exception {
    const NAME: &'static str = EXCEPTION;

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "allowedImages" => Some(self.allowed_images.root().into()),
            "allowedValues" => Some(self.allowed_values.root().into()),
            _ => None,
        }
    }

    fn is_zero(&self) -> bool {
        is_empty(&self.allowed_images) && is_empty(&self.allowed_values)
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_structure(
        EXCEPTION,
        &[
            ("allowedImages", Type::list(Type::String)),
            ("allowedValues", Type::list(Type::String)),
        ],
        Some(make),
    );
}

/// `libs.Exception{allowedImages: […]}`
fn make<'a>(context: &Context<'a>, fields: &[(&'a str, Val<'a>)]) -> Val<'a> {
    let (mut images, mut values) = (Vec::new(), Vec::new());
    for (field, items) in fields {
        let items: Result<Vec<&str>, Val<'a>> = items.list_iter().map(|item| native::string(context, item)).collect();
        match items {
            Ok(items) if *field == "allowedImages" => images = items,
            Ok(items) => values = items,
            Err(error) => return error,
        }
    }
    context.opaque(Exception::new(&images, &values))
}
