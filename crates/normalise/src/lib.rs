//! Kubernetes objects as the API server shows them to validating admission.
//!
//! Upstream counterpart: the handlers of `k8s.io/apiserver` 0.36 (decoding, admission, `rest.BeforeCreate`,
//! `rest.BeforeUpdate`) with the defaults, strategies and validation of `k8s.io/kubernetes` 1.36.
//!
//! Three steps, because mutating policies run between them: [`decode`] (types, defaults of the version), [`plugins`]
//! (mutating admission plugins) and [`finish`] (strategy and validation). [`normalise`] composes them. [`mutated`] and
//! [`plugins_again`] are what happens after each mutation and before the second pass.
//!
//! Known deviations: `uid`, `creationTimestamp` and `generation` are made up; addresses and node ports are the lowest of
//! their range; only part of the validation is implemented (`docs/normalise.md` lists what is not).

mod change;
mod cluster;
mod custom;
mod decode;
mod defaults;
mod encode;
mod image;
mod input;
mod mutated;
mod node;
mod plugins;
mod refuse;
pub mod schema;
mod step;
mod strategy;
mod table;
mod validate;

pub use change::{Change, Source};
pub use cluster::{Cluster, ExpressionCheck, Operation, Plugin, Request};
pub use custom::rules::{Rule, RuleCheck, RuleValue};
pub use input::Text;
pub use mutated::{Mutation, mutated, plugins_again, settled};
pub use refuse::{Cause, Reason, Refused, Stage};
pub use step::{
    Decoded, Kind, Normalised, Raw, decode, decode_changed, finish, is_known, kind_named, list_type, locate, normalise,
    plugins, same_identity, stored_object,
};
