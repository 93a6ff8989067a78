//! Structured merge: an apply configuration, merged into an object by its schema.
//!
//! Upstream counterpart: `ApplyStructuredMergeDiff` of the API server's `admission/plugin/policy/mutating/patch/smd.go`
//! (Kubernetes 1.36) on structured-merge-diff v6 `typed`, with schemas converted as `kube-openapi/pkg/schemaconv` does.
//! Kyverno 1.19 calls the same code for MutatingPolicy.
//!
//! Known deviations: upstream walks Go maps, so several problems in one message come in any order; here they are sorted by
//! field. Kyverno uses the built-in schemas of Kubernetes 1.32, [`Schema::builtin`] has those of 1.36. `$ref`s in schemas
//! of custom kinds are not resolved, because CRDs cannot have any.

mod config;
mod element;
mod merge;
mod openapi;
mod schema;
mod validate;

pub use config::{Config, Opaque};
pub use schema::{Schema, TEXT, Type};

use config::Input;
use kyvtest_go_compat::value::{Document, Value};
use thiserror::Error;

/// The treatment of atomic lists, maps and structs in an apply configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomics {
    /// They are an error, as in the API server and by default in Kyverno.
    Reject,
    /// They replace those of the object: Kyverno's `evaluation.useServerSideApply: true`.
    Replace,
}

/// The reason why an apply configuration cannot be merged. Displays the message that follows `error applying patch: `.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// No kind of the group version has a schema. Kyverno reports this; see [`Schema::has_version`].
    #[error("type converter must not be nil")]
    NoConverter,
    /// The schema does not have the kind; holds its group, version and kind.
    #[error("failed to convert patch object to typed object: no corresponding type for {0}")]
    NoType(String),
    /// The configuration does not fit the schema.
    #[error("failed to convert patch object to typed object: {0}")]
    Config(String),
    /// The paths of atomic values in the configuration.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
    /// The object does not fit the schema.
    #[error("failed to convert original object to typed object: {0}")]
    Object(String),
}

/// Merges `config` into `object`. The configuration's `apiVersion` and `kind` are ignored; an object keeps its own.
pub fn apply(ty: Type<'_>, object: Value<'_>, config: &Config<'_>, atomics: Atomics) -> Result<Document, Error> {
    let config = config.without_type();
    let input = Input::from(&config);
    validate::validate(ty, input, validate::Duplicates::Reject).map_err(Error::Config)?;
    if atomics == Atomics::Reject {
        let found = validate::atomics(ty, input);
        if !found.is_empty() {
            return Err(Error::Atomic(found));
        }
    }
    validate::validate(ty, Input::Value(object), validate::Duplicates::Allow).map_err(Error::Object)?;
    let config = config.to_document();
    Ok(merge::merge(ty, object, config.root()))
}
