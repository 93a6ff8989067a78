//! The mutations of a policy on an object.
//!
//! Upstream counterpart: `pkg/cel/policies/mpol/compiler/{applyconfig,json,smd}.go` (Kyverno 1.19).
//!
//! Known deviation: a patch at which upstream panics is an error with a mark.

use crate::classic::missing_kind;
use crate::mutate::Failure;
use kyvtest_cel::{context::Context, val::Val};
use kyvtest_go_compat::value::{Document, Map, Value};
use kyvtest_patch::{
    expression::{self, JsonPatchError},
    structured::{self, Atomics, Schema},
};

/// Merges an apply configuration into an object. `api_version` is that of the request; `custom` is the schema of its custom
/// kind, if it is known.
pub(super) fn apply(
    value: Val<'_>,
    object: &Document,
    (api_version, custom): (&str, Option<&Schema>),
    atomics: Atomics,
) -> Result<Document, Failure> {
    let config = expression::apply_configuration(value)?;
    let text = |key: &str| object.root().get(key).and_then(Value::as_str).unwrap_or_default();
    let schema = custom.unwrap_or(Schema::builtin());
    let merged = if schema.has_version(api_version) {
        let ty = schema.kind(text("apiVersion"), text("kind"));
        ty.and_then(|ty| structured::apply(ty, object.root(), &config, atomics))
    } else {
        Err(structured::Error::NoConverter)
    };
    merged.map_err(|error| format!("error applying patch: {error}").into())
}

/// Applies the operations of a JSON patch to an object. A failed `test` leaves the object as it is.
pub(super) fn json_patch<'a>(value: Val<'a>, object: &Document, context: &Context<'a>) -> Result<Document, Failure> {
    // An empty object is written as null, as that of a deletion.
    let is_empty = object.root().as_map().is_some_and(Map::is_empty);
    let null = Document::null();
    let before = if is_empty { &null } else { object };
    let patched = expression::json_patch(value, before.root(), context).map_err(|error| Failure {
        message: error.to_string(),
        panics: matches!(error, JsonPatchError::Panic(_)),
    })?;
    let Some(patched) = patched else {
        return Ok(object.clone());
    };
    match missing_kind(patched.root(), true) {
        Some(error) => Err(format!("Internal error occurred: {error}").into()),
        None => Ok(patched),
    }
}
