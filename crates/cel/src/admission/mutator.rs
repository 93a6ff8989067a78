//! Evaluates the expressions of a mutating policy to patches for one request and one parameter.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{compilation.go,patch}` (Kubernetes
//! 1.36). Match conditions and variables know neither `Object` nor `JSONPatch`; every mutation has its own budget and
//! variables.

use super::{
    Declarations, Environment, Inputs,
    condition::{Expression, Returns, evaluate_one},
    validator::{Cause, Unmatched, first_unmatched},
};
use crate::{
    context::Scratch,
    host::{Attributes, Host},
    observe::Place,
    profile::Profile,
    program::Program,
    val::Val,
};
use kyvtest_go_compat::value::Value;

/// How a mutation changes the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// The expression returns an `Object` that is merged.
    ApplyConfiguration,
    /// The expression returns operations.
    JsonPatch,
}

/// The source expressions of a mutating policy.
#[derive(Debug, Clone, Default)]
pub struct MutatorParts<'t> {
    /// Match conditions: name and expression.
    pub match_conditions: Vec<(&'t str, &'t str)>,
    /// Variables: name and expression.
    pub variables: Vec<(&'t str, &'t str)>,
    pub mutations: Vec<(PatchKind, &'t str)>,
}

/// A mutating policy's compiled expressions.
#[derive(Debug)]
pub struct Mutator {
    environment: Environment,
    match_conditions: Vec<(String, Expression)>,
    mutations: Vec<(PatchKind, Expression)>,
    reads_request: bool,
    /// Whether mutations can read the variables. Kyverno's command line evaluates mutations without the context that
    /// holds the values, so that only conditions can.
    binds_variables: bool,
}

impl Mutator {
    /// Compiles a policy. An expression that does not compile fails on each request.
    pub fn compile(params: bool, parts: &MutatorParts<'_>) -> Self {
        let declarations = Declarations {
            params,
            authorizer: true,
            variables: true,
        };
        let variables = parts.variables.iter().copied();
        let environment = Environment::new(Profile::kubernetes(), declarations, variables).with_mutations();
        Self::in_environment(environment, parts, true)
    }

    /// Compiles a policy as Kyverno's command line does: without an authorizer, and with the types of patches also in
    /// variables and conditions. `params` is whether there is a parameter.
    pub fn compile_for_cli(params: bool, parts: &MutatorParts<'_>) -> Self {
        let declarations = Declarations {
            params,
            authorizer: false,
            variables: true,
        };
        let variables = parts.variables.iter().copied();
        let profile = Profile::kyverno_native_mutating();
        let environment = Environment::with_patch_types(profile, declarations, variables);
        Self::in_environment(environment, parts, false)
    }

    fn in_environment(environment: Environment, parts: &MutatorParts<'_>, binds_variables: bool) -> Self {
        let conditions = parts.match_conditions.iter().map(|(name, text)| {
            let compiled = Expression::compile(text, &environment, Returns::Bool, true);
            ((*name).to_owned(), compiled)
        });
        let match_conditions = conditions.collect();
        let mutations = parts.mutations.iter().map(|(kind, text)| {
            let returns = match kind {
                PatchKind::ApplyConfiguration => Returns::Object,
                PatchKind::JsonPatch => Returns::JsonPatches,
            };
            (*kind, Expression::compile(text, &environment, returns, true))
        });
        let mutations = mutations.collect();
        let mut mutator = Self {
            environment,
            match_conditions,
            mutations,
            binds_variables,
            reads_request: false,
        };
        let mutations = mutator
            .mutations
            .iter()
            .filter_map(|(_, expression)| expression.program());
        let programs = mutator.programs().into_iter().map(|(_, program)| program);
        mutator.reads_request = programs.chain(mutations).any(|program| program.reads("request"));
        mutator
    }

    /// Reports whether an expression may read `request`.
    pub fn reads_request(&self) -> bool {
        self.reads_request
    }

    /// The programs of match conditions and variables with their places; those that cannot be evaluated have none.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        let conditions = self.match_conditions.iter().enumerate();
        let conditions = conditions.filter_map(|(i, (_, expression))| {
            let program = expression.program()?;
            Some((Place::MatchCondition(i), program))
        });
        self.environment.composite.places().chain(conditions).collect()
    }

    /// The kinds of the mutations, in order.
    pub fn mutations(&self) -> impl ExactSizeIterator<Item = PatchKind> {
        self.mutations.iter().map(|(kind, _)| *kind)
    }

    /// The first match condition that is false.
    ///
    /// # Errors
    /// If none is false and some cannot be evaluated: the condition, and the API server's message.
    pub fn unmatched(
        &self,
        inputs: &Inputs<'_>,
        resource: &Attributes,
        host: &dyn Host,
        scratch: &Scratch,
    ) -> Result<Option<Unmatched>, (Cause, String)> {
        if self.match_conditions.is_empty() {
            return Ok(None);
        }
        let inputs = Inputs {
            namespace: Value::Null,
            request: inputs.condition_request,
            ..*inputs
        };
        let values = self.environment.values(&inputs, scratch, host, Some(resource));
        first_unmatched(&self.match_conditions, &self.environment, &values, host, scratch)
    }

    /// Evaluates a mutation and passes its value, or the API server's error message, to `then`.
    pub fn evaluate<T>(
        &self,
        index: usize,
        inputs: &Inputs<'_>,
        resource: &Attributes,
        host: &dyn Host,
        scratch: &Scratch,
        then: impl FnOnce(Result<Val<'_>, String>) -> T,
    ) -> T {
        let values = self.environment.values(inputs, scratch, host, Some(resource));
        let (_, expression) = &self.mutations[index];
        let environment = (&self.environment, self.binds_variables);
        evaluate_one(expression, environment, &values, scratch, host, then)
    }
}
