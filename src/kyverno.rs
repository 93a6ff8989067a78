//! What Kyverno 1.19 decides.

pub mod constraints;
pub mod matching;
