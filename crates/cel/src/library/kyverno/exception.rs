//! `exceptions`: the images and values that a policy's exceptions allow.
//!
//! Upstream counterpart: Kyverno `pkg/cel/libs/variables.go`.

use super::native;
use crate::{
    context::Context,
    decl::Library,
    types::Type,
    val::{Opaque, Val},
};
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

impl Opaque for Exception {
    fn type_name(&self) -> &'static str {
        EXCEPTION
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
        match name {
            "allowedImages" => Some(self.allowed_images.root().into()),
            "allowedValues" => Some(self.allowed_values.root().into()),
            _ => None,
        }
    }

    fn is_set(&self, name: &str) -> Option<bool> {
        self.field(name).map(|list| !list.is_empty())
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
