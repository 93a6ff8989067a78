//! The patch of a mutate rule: a strategic merge, else JSON patches.
//!
//! Upstream counterpart: `NewPatcher` and `Mutate` of `pkg/engine/mutate/mutation.go` (Kyverno 1.19), after substitution of
//! variables.

use kyvtest_go_compat::value::Value;
use thiserror::Error;

use crate::{Patched, json6902, strategic};

/// The reason why a mutate rule cannot patch a resource.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The rule has neither patch. Kyverno reports the message unchanged.
    #[error("empty mutate rule")]
    Empty,
    /// Kyverno reports the message after `failed to patch resource: `.
    #[error(transparent)]
    Strategic(#[from] strategic::Error),
    /// Kyverno reports the message after `failed to patch resource: `.
    #[error(transparent)]
    Json(#[from] json6902::Error),
}

impl Error {
    /// Whether Kyverno panics instead of reporting an error.
    pub fn is_panic(&self) -> bool {
        matches!(
            self,
            Self::Strategic(strategic::Error::Panic(_)) | Self::Json(json6902::Error::Panic(_))
        )
    }
}

/// Applies `patchStrategicMerge`, if it is not null, else `patchesJson6902`, if it is not empty.
pub fn patch(
    resource: Value<'_>,
    patch_strategic_merge: Option<Value<'_>>,
    patches_json6902: &str,
) -> Result<Patched, Error> {
    match patch_strategic_merge {
        Some(patch) if !patch.is_null() => Ok(strategic::merge(resource, patch)?),
        _ if patches_json6902.is_empty() => Err(Error::Empty),
        _ => Ok(json6902::apply_text(resource, patches_json6902)?),
    }
}
