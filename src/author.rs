//! Writes suites: rows for behaviours that no row tests, a first suite for a policy, updated expectations, and
//! counterexamples of proofs as suites. Everything that is written has been run first.

pub mod counterexample;
pub mod fill;
pub mod mutation;
pub mod skeleton;
pub mod suite_writer;
pub mod update;
