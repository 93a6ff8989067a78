//! Leaf helpers on strings and numbers: Kubernetes quantity, Kyverno wildcard, Go duration, Go number formatting and quoting.

pub mod decimal;
pub mod duration;
pub mod float;
pub mod number;
pub mod quantity;
pub mod quote;
pub mod wildcard;
