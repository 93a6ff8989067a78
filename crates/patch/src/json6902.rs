//! JSON patches (RFC 6902) as the two versions of evanphx/json-patch apply them.
//!
//! Upstream counterpart: `github.com/evanphx/json-patch/v5` v5.9.11 with Kyverno's options (`patchesJson6902` of
//! classic rules, `pkg/engine/mutate/patch/{patchJSON6902,patchesUtils}.go`), and `gopkg.in/evanphx/json-patch.v4`
//! v4.13.0 (the API server's and MutatingPolicy's `JSONPatch`). Both work on JSON text and leave untouched parts as
//! written; so do these functions, because Kyverno compares the texts to detect a change.
//!
//! Known deviations: upstream panics are errors ([`Error::Panic`]); if a key occurs twice in one object of a patch
//! value, only the last value is kept; YAML with a null key is rejected with a message of our own.

mod apply;
mod decode;
mod lazy;
mod raw;

use kyvtest_go_compat::value::{Value, go_json};
use thiserror::Error;

use crate::Patched;
use lazy::Store;
use raw::Raw;

/// The library that applies a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `gopkg.in/evanphx/json-patch.v4` v4.13.0.
    V4,
    /// `github.com/evanphx/json-patch/v5` v5.9.11.
    V5,
}

/// Options for applying a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub version: Version,
    /// Count negative indices from the end of a list.
    pub(crate) negative_indices: bool,
    /// Ignore a `remove` of something that is missing. V5 only.
    pub(crate) allow_missing_path_on_remove: bool,
    /// Create missing parents on `add`. V5 only.
    pub(crate) ensure_path_exists_on_add: bool,
    /// Escape `<`, `>` and `&` in the parts that are written anew.
    pub(crate) escape_html: bool,
}

impl Options {
    /// The options of `patchesJson6902` in classic rules.
    pub fn classic() -> Self {
        Self {
            version: Version::V5,
            negative_indices: true,
            allow_missing_path_on_remove: true,
            ensure_path_exists_on_add: true,
            escape_html: false,
        }
    }

    /// The defaults of V4, as the API server and MutatingPolicy use it.
    pub fn v4() -> Self {
        Self {
            version: Version::V4,
            negative_indices: true,
            allow_missing_path_on_remove: false,
            ensure_path_exists_on_add: false,
            escape_html: true,
        }
    }
}

/// The reason why a patch cannot be read or applied. Displays upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The text is neither YAML nor JSON, or not a patch.
    #[error("{0}")]
    Decode(String),
    /// A `test` operation failed. The API server and MutatingPolicy then leave the object unchanged.
    #[error("testing value {0} failed: test failed")]
    Test(String),
    /// An operation does not apply.
    #[error("{0}")]
    Apply(String),
    /// Upstream panics with this message.
    #[error("the JSON patch library panics: {0}")]
    Panic(String),
}

/// A list of operations.
#[derive(Debug, Clone, Default)]
pub struct Patch {
    operations: Vec<Fields>,
}

/// The JSON texts of the fields of one operation.
#[derive(Debug, Clone, Default)]
struct Fields {
    op: Option<Raw>,
    path: Option<Raw>,
    from: Option<Raw>,
    value: OperationValue,
}

/// The `value` of an operation.
#[derive(Debug, Clone, Default)]
enum OperationValue {
    #[default]
    Missing,
    /// A null that was read from JSON text, which Go decodes to a nil pointer.
    Nil,
    Text(Raw),
}

/// One operation, as a `JSONPatch` expression evaluates to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operation<'a> {
    pub op: &'a str,
    pub path: &'a str,
    /// Counts as missing if empty.
    pub from: &'a str,
    pub value: Option<Value<'a>>,
}

impl Patch {
    /// Reads the JSON text of a patch.
    pub fn from_json(text: &str, version: Version) -> Result<Self, Error> {
        decode::read(text, version)
    }

    /// Reads the text of `patchesJson6902`: JSON if it starts with `[`, else YAML 1.1, of which the first document counts.
    pub fn from_text(text: &str) -> Result<Self, Error> {
        if text.starts_with('[') {
            return Self::from_json(text, Version::V5);
        }
        Self::from_json(&decode::yaml_to_json(text)?, Version::V5)
    }

    /// Converts operations as the API server does: it writes strings with Go's quoting, so a string with control
    /// characters cannot be read back and counts as missing.
    pub fn from_operations<'a>(operations: impl IntoIterator<Item = Operation<'a>>) -> Self {
        let quoted = |text: &str| Raw::new(&kyvtest_go_compat::text::quote::quote(text));
        let fields = |operation: Operation<'_>| Fields {
            op: Some(quoted(operation.op)),
            path: Some(quoted(operation.path)),
            from: (!operation.from.is_empty()).then(|| quoted(operation.from)),
            value: operation.value.map_or(OperationValue::Missing, |value| {
                OperationValue::Text(Raw::new(&json(value)))
            }),
        };
        Self {
            operations: operations.into_iter().map(fields).collect(),
        }
    }

    /// Applies the operations in order. The first error discards all of them.
    pub fn apply(&self, resource: Value<'_>, options: &Options) -> Result<Patched, Error> {
        let before = json(resource);
        let after = apply::apply(&self.operations, &before, Store::new(*options))?;
        Ok(Patched {
            changed: before != after,
            document: raw::read(&after),
        })
    }
}

/// Applies the text of `patchesJson6902` as classic rules do.
pub fn apply_text(resource: Value<'_>, patches: &str) -> Result<Patched, Error> {
    Patch::from_text(patches)?.apply(resource, &Options::classic())
}

fn json(value: Value<'_>) -> String {
    let mut out = String::new();
    // Numbers that JSON cannot hold do not occur in documents that were read from JSON or YAML.
    let _ = go_json::write_value(&mut out, value);
    out
}
