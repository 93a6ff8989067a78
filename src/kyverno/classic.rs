//! The classic rules: patterns, conditions, pod security, and what they share.

pub mod condition;
pub mod context;
pub mod images;
pub mod pattern;
pub mod pod_security;
pub mod variables;
