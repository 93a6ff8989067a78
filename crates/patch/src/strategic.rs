//! `patchStrategicMerge`: a patch with anchors, merged into a resource.
//!
//! Upstream counterpart: `pkg/engine/mutate/patch/strategicMergePatch.go` (Kyverno 1.19) on kustomize kyaml v0.21.1. The
//! schema that decides how lists are merged is kyaml's Kubernetes 1.21.2 OpenAPI, see [`schema`].
//!
//! Known deviations: upstream panics are errors ([`Error::Panic`]). Upstream reads the resource once for the anchors and
//! once for the merge; one copy serves both here, because anchors do not change it.

mod anchors;
mod list;
mod node;
pub mod schema;
mod text;
mod walk;

use kyvtest_go_compat::value::{Builder, Value, go_json};
use node::Arena;
use thiserror::Error;

use crate::Patched;

/// The reason why a patch cannot be merged. Displays the message that Kyverno puts after `failed to patch resource: `.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The anchors cannot be resolved.
    #[error("failed to preProcess rule: {0}")]
    Anchors(String),
    /// The plain patch does not fit the resource.
    #[error("{0}")]
    Merge(String),
    /// Upstream panics with this message; the process ends without a result.
    #[error("Kyverno panics on this patch: {0}")]
    Panic(String),
}

/// The reason why the processing of a node ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    /// A condition does not hold.
    Condition,
    /// A global condition does not hold.
    Global,
    Panic(String),
    Other(String),
}

impl Stop {
    fn nil_pointer() -> Self {
        Self::Panic("runtime error: invalid memory address or nil pointer dereference".to_owned())
    }

    /// Replaces a failed condition by `failure`.
    fn within_condition(self, failure: Self) -> Self {
        match self {
            Self::Condition => failure,
            other => other,
        }
    }

    fn into_error(self, error: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::Panic(text) => Error::Panic(text),
            Self::Other(text) => error(text),
            // INVARIANT: conditions are handled by `merge` and do not occur in the merge itself.
            Self::Condition | Self::Global => error("condition failed".to_owned()),
        }
    }
}

/// The keys by which the list at a path of a kind is merged, none for a list of scalars; `None` if the list is replaced. `*` in
/// the path is an element of a list.
pub fn merge_keys(api_version: &str, kind: &str, path: &[&str]) -> Option<Vec<&'static str>> {
    let root = schema::Schema::of_resource(api_version, kind)?;
    let found = path.iter().try_fold(root, |schema, step| match *step {
        "*" => schema.elements(),
        step => schema.field(step),
    })?;
    found.merge_keys()
}

/// Merges `patch` into `resource`. Both are read in the order of sorted keys. A condition that does not hold leaves the
/// resource unchanged.
pub fn merge(resource: Value<'_>, patch: Value<'_>) -> Result<Patched, Error> {
    let mut arena = Arena::default();
    let read = |stop: Stop| stop.into_error(Error::Merge);
    let pattern = arena.read(patch).map_err(read)?;
    let target = arena.read(resource).map_err(read)?;
    let pattern = match anchors::resolve(&mut arena, pattern, target) {
        Ok(()) => pattern,
        Err(Stop::Condition | Stop::Global) => arena.new_map(),
        Err(stop) => return Err(stop.into_error(Error::Anchors)),
    };
    let merged = walk::merge(&mut arena, target, pattern).map_err(read)?;
    let Some(merged) = merged else {
        return Err(Error::Merge("filter cannot create or delete objects".to_owned()));
    };
    let mut builder = Builder::new();
    if arena.is_null(merged) {
        builder.begin_map();
        builder.end();
    } else {
        arena.build(&mut builder, merged).map_err(Error::Merge)?;
    }
    let document = builder.finish();
    Ok(Patched {
        changed: !has_same_text(resource, document.root()),
        document,
    })
}

/// Whether a merge changes nothing but what its patch names. It also goes through lists that the patch does not name: of elements
/// with the same key it keeps one, and it drops elements without any.
pub fn is_stable(resource: Value<'_>) -> bool {
    let mut empty = Builder::new();
    empty.begin_map();
    empty.end();
    let empty = empty.finish();
    merge(resource, empty.root()).is_ok_and(|patched| !patched.changed)
}

/// Whether two values have the same JSON text. Numbers are compared by text, so `-0` differs from `0`.
fn has_same_text(left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
            let text = |value| {
                let mut out = String::new();
                go_json::write_value(&mut out, value).map(|()| out)
            };
            text(left) == text(right)
        }
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(a, b)| has_same_text(a, b))
        }
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, a)| right.get_key(key).is_some_and(|b| has_same_text(a, b)))
        }
        (left, right) => left == right,
    }
}
