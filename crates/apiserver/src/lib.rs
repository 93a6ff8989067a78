//! What the Kubernetes 1.36 API server decides with ValidatingAdmissionPolicies, and what it makes of objects with
//! MutatingAdmissionPolicies.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy` (`generic`, `matching`, `validating`,
//! `mutating`). The expressions
//! themselves, their budgets and messages are in [`kyvtest_cel::admission`], which Kyverno links, too.
//!
//! [`Server::mutate`] is the mutating phase, [`Server::review`] the validating one; [`matching`] is its first step,
//! written against [`Facts`](kyvtest_model::kube::Facts) so that a proof can run it for all requests. [`Lens::Cli`] is
//! the same engine as Kyverno's command line uses it.
//!
//! Known deviations: policies and bindings are evaluated in the order of their names, where a server has none; every namespace
//! exists; of the conversions between versions only those of `apiVersion`, events and the CPU target of autoscalers are
//! made; the time limit of a request is not watched.

mod audit;
mod check;
mod decide;
mod input;
pub mod matching;
mod mutate;
mod mutating;
mod offline;
mod params;
mod policy;
mod response;
mod select;
mod server;
mod warning;

pub use check::check;
pub use mutate::{DeniedBy, Mutated, MutationDenial, rerun_plugins};
pub use mutating::CompiledMutatingPolicy;
pub use offline::OfflineMutation;
pub use policy::{Binding, CompiledNativePolicy};
pub use response::{AdmissionResponse, Details, INVALID, PolicyVerdict, admitted_code};
pub use select::{Selector, Step};
pub use server::{Evaluation, Lens, Server};
