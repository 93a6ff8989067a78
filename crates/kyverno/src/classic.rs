//! The classic rules: patterns, conditions, pod security, loops, patches, and what they share.

pub mod condition;
pub mod context;
pub mod images;
mod mutate_rule;
mod mutation;
mod mutator;
pub(super) mod observe;
pub mod pod_security;
mod request;
pub(super) mod rule;
pub mod target;
pub(super) mod validation;
pub(super) mod validator;
pub mod values;
pub mod variables;

pub use kyvtest_pattern as pattern;
pub(super) use mutator::missing_kind;
pub(super) use request::request_context;
