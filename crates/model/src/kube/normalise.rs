//! What the API server makes of an object before admission sees it: defaults, dropped fields.
//!
//! The seam is here so that every object passes it; today it is the identity, and a world line says `data=raw`.

use kyvtest_go_compat::value::Document;

/// The object as admission would see it.
pub fn normalise(object: Document) -> Document {
    object
}
