//! The classic rules: patterns, conditions, pod security, and what they share.

pub mod condition;
pub mod pattern;
pub mod pod_security;
