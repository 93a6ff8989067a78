//! What Kyverno's mutation makes of a request: the results of the rules, and the object after them.
//!
//! Upstream counterpart: `pkg/engine/mutation.go` for ClusterPolicies and Policies (1.19). Callers pass the object that one
//! policy returns to the next one.

mod classic;

pub use super::classic::target::{TargetQuery, Targets};
pub use classic::CompiledMutation;

use super::response::RuleResponse;
use kyvtest_go_compat::value::Document;

/// Why an object cannot be patched.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Whether upstream panics instead.
    pub(crate) panics: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, panics: false }
    }
}

/// What a policy makes of a request.
#[derive(Debug, Clone)]
pub struct MutateResponse {
    /// The results of the rules that match, in order.
    pub rules: Vec<MutateResult>,
    /// The object after all rules. Null after an error, as Kyverno has it, and for DELETE.
    pub patched: Document,
}

/// The result of a rule, for the object of the request or for one existing object.
#[derive(Debug, Clone)]
pub struct MutateResult {
    /// Status and message.
    pub response: RuleResponse,
    /// The existing object after the rule, if the rule changed one.
    pub target: Option<Document>,
}

impl From<RuleResponse> for MutateResult {
    fn from(response: RuleResponse) -> Self {
        Self { response, target: None }
    }
}
