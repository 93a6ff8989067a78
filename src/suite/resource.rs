//! Resources of a suite, as Kyverno's loader passes them to the engines.

pub use kyvtest_kyverno::offline::resource::{BuiltInScopes, Resource, Scopes};
pub(super) use kyvtest_kyverno::offline::resource::{Fallback, list_items, resource};
