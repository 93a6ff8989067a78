//! Resources of a suite, as Kyverno's loader hands them to the engines.

pub use kyvtest_kyverno::offline::resource::{BuiltInScopes, Fallback, Resource, Scopes, list_items, resource};
