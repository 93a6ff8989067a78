//! From ClusterPolicy, Policy and cleanup policies to the kinds of policies.kyverno.io: the translation of rules, and the proof or
//! the tests that it changes nothing.
//!
//! No upstream counterpart: Kyverno's migration guide describes the work by hand. A rule is translated construct by
//! construct; what has no translation is a [`Refusal`] with a code and a place.

mod apply_one;
mod assemble;
mod check;
#[cfg(test)]
mod check_tests;
mod cleanup;
mod conditions;
mod context;
mod draft;
mod exception;
mod expr;
mod foreach;
mod generate;
mod guess;
mod kinds;
mod known;
mod layout;
mod literal;
mod message;
mod migrate;
mod mutate;
mod names;
mod pattern;
mod pod_security;
mod query;
mod refusal;
mod samples;
mod scope;
mod settings;
mod suite;
mod unite;
mod verify_images;
mod whole;
mod words;

pub use cleanup::migrate_cleanup;
pub use exception::{MigratedException, Replaced, migrate_exception};
pub use expr::Expr;
pub use migrate::{Existing, MigratedRule, Migration, Options, RuleLabel, migrate};
pub use refusal::{Refusal, RefusalCode};
pub use scope::{Scope, Subject};
pub use suite::{Reported, ResourceType, RewrittenSuite, Suite, rewrite_suite, with_file, with_rows};
