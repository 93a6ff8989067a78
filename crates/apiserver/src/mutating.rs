//! Mutating policies, ready for evaluation.

use super::policy::Failure;
use kyvtest_cel::{
    admission::{Mutator, MutatorParts, PatchKind},
    observe::Place,
    program::Program,
};
use kyvtest_model::policy::{MatchConstraints, MutatingAdmissionPolicy, ParamKind};

/// A mutating policy, compiled.
#[derive(Debug)]
pub struct CompiledMutatingPolicy {
    pub(super) name: String,
    pub(super) constraints: Option<MatchConstraints>,
    pub(super) mutator: Mutator,
    /// The mutator for requests without a parameter, which only Kyverno's command line distinguishes.
    without_params: Option<Mutator>,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) failure_policy: Failure,
    /// Whether the policy may run in the second pass.
    pub(super) reinvocable: bool,
}

impl CompiledMutatingPolicy {
    /// Compiles a policy as the API server of Kubernetes 1.36 runs it: expressions as written, not trimmed. An
    /// expression that cannot be compiled is an error of each request; static validation decides whether the server
    /// accepts the policy at all.
    pub fn compile(policy: &MutatingAdmissionPolicy) -> Self {
        let mutator = Mutator::compile(policy.param_kind.is_some(), &parts(policy));
        Self::with_mutators(policy, mutator, None)
    }

    /// Compiles a policy as Kyverno's command line runs it.
    pub(super) fn compile_for_cli(policy: &MutatingAdmissionPolicy) -> Self {
        let parts = parts(policy);
        let [with, without] = [true, false].map(|params| Mutator::compile_for_cli(params, &parts));
        Self::with_mutators(policy, with, Some(without))
    }

    fn with_mutators(policy: &MutatingAdmissionPolicy, mutator: Mutator, without_params: Option<Mutator>) -> Self {
        let reinvocation = policy.rules.reinvocation_policy.as_ref();
        Self {
            name: policy.metadata.name.value.clone(),
            constraints: policy.match_constraints.clone(),
            mutator,
            without_params,
            param_kind: policy.param_kind.clone(),
            failure_policy: Failure::named(policy.failure_policy.as_ref()),
            reinvocable: reinvocation.is_some_and(|word| word.value == "IfNeeded"),
        }
    }

    /// The mutator for requests with or without a parameter.
    pub(super) fn mutator_with(&self, params: bool) -> &Mutator {
        self.without_params
            .as_ref()
            .filter(|_| !params)
            .unwrap_or(&self.mutator)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The programs of match conditions and variables with their places; those that cannot be evaluated have none.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        self.mutator.programs()
    }

    /// The policy's match block, if it has one.
    pub fn constraints(&self) -> Option<&MatchConstraints> {
        self.constraints.as_ref()
    }
}

fn parts(policy: &MutatingAdmissionPolicy) -> MutatorParts<'_> {
    let conditions = policy.match_conditions.iter();
    let variables = policy.variables.iter();
    let mutations = policy.rules.mutations.iter().filter_map(|mutation| {
        let (kind, body) = match mutation.patch_type.value.as_str() {
            "ApplyConfiguration" => (PatchKind::ApplyConfiguration, &mutation.apply_configuration),
            "JSONPatch" => (PatchKind::JsonPatch, &mutation.json_patch),
            _ => return None,
        };
        Some((kind, body.as_ref()?.text()))
    });
    MutatorParts {
        match_conditions: conditions
            .map(|condition| (condition.name.value.as_str(), condition.expression.text()))
            .collect(),
        variables: variables
            .map(|variable| (variable.name.value.as_str(), variable.expression.text()))
            .collect(),
        mutations: mutations.collect(),
    }
}
