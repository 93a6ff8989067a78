//! What Kyverno 1.19 decides.

pub mod autogen;
pub mod constraints;
pub mod matching;
