//! Leaf helpers on strings and numbers: Kubernetes quantity, Kyverno wildcard, Go duration, Go number formatting.

pub(crate) mod image;
