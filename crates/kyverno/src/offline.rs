//! Kyverno without a cluster: what `kyverno test` does with one resource, from loading to the responses.
//!
//! Upstream counterpart: `runTest` of `cmd/cli/kubectl-kyverno/commands/test/test.go` and `ApplyPoliciesOnResource` of
//! `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (1.19).
//!
//! Known deviations: where upstream panics, the run ends with an error, or the rule has one. Texts about documents that the schema refuses are not
//! upstream's.

mod case;
mod client;
mod deleting;
mod effect;
mod generate;
mod generating;
mod host;
mod image_validating;
mod mutating;
mod objects;
mod observed;
mod registry;
mod request;
pub mod resource;
mod run;
mod stages;
mod surroundings;
mod values;
mod verify_images;

pub use case::{Case, CloneSource};
pub use observed::{CleanupResult, Observed, PolicyResponse, RuleResult, RuleType};
pub use request::Beside;
pub use run::{Stage, checks_images, pass, payload_pass, run};
pub use surroundings::Surroundings;
pub use values::GivenValues;
