//! Kyverno without a cluster: what `kyverno test` does with one resource, from loading to the responses.
//!
//! Upstream counterpart: `runTest` of `cmd/cli/kubectl-kyverno/commands/test/test.go` and `ApplyPoliciesOnResource` of
//! `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (1.19), without image verification and generation.
//!
//! Known deviations: where upstream panics, the rule has an error. Texts about documents that the schema refuses are not
//! upstream's.

mod case;
mod mutating;
mod objects;
mod observed;
pub mod resource;
mod run;
mod values;

pub use case::Case;
pub use observed::{Observed, PolicyResponse, RuleType};
pub use run::run;
pub use values::GivenValues;
