//! The classic rules: patterns, conditions, pod security, and what they share.

pub mod pattern;
