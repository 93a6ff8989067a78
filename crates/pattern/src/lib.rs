//! Kyverno's patterns: trees with anchors that a resource must match, and the scalars in their leaves.
//!
//! Upstream counterpart: `pkg/engine/{anchor,pattern,operator,validate}` (Kyverno 1.19). It is a separate crate because
//! both validation (`kyvtest-kyverno`) and the conditions of strategic merge patches (`kyvtest-patch`) match patterns.

mod anchor;
pub mod scalar;
mod tree;

pub use anchor::{Anchor, AnchorKind};
pub use tree::{DEPTH, PatternError, match_pattern};
