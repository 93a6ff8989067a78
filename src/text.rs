//! Leaf helpers on strings and numbers: Kubernetes quantity, Kyverno wildcard, Go duration, Go number formatting.

pub(crate) mod ip;
pub(crate) mod quote;
pub(crate) mod semver;
pub(crate) mod url;
