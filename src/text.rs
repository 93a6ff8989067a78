//! Leaf helpers on strings and numbers: Kubernetes quantity, Kyverno wildcard, Kubernetes labels, Go durations, numbers, quoting, URLs and
//! addresses, semantic versions.

pub mod decimal;
pub mod duration;
pub mod float;
pub(crate) mod image;
pub(crate) mod ip;
pub(crate) mod label;
pub mod number;
pub mod quantity;
pub mod quote;
pub(crate) mod semver;
pub(crate) mod url;
pub mod wildcard;
