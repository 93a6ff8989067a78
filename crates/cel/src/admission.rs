//! The expressions of an admission policy: their environment, their evaluation within a cost budget, and the validator
//! that turns results into decisions.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/cel` (`compile.go`, `condition.go`, `activation.go`),
//! `plugin/webhook/matchconditions` and `plugin/policy/validating/validator.go`. Kyverno links the same code for
//! `validate.cel`, so both engines use this module; their differences are arguments here.

mod condition;
mod mutator;
mod validator;

pub use condition::{Evaluated, Expression, Flaw, Returns};
pub use mutator::{Mutator, MutatorParts, PatchKind};
pub use validator::aggregate;
pub use validator::{Annotation, Cause, Decision, Outcome, Parts, Unmatched, ValidationText, Validator};

use super::{
    composite::{Composite, Composition},
    context::{Context, Scratch},
    env::Env,
    host::{Attributes, Host},
    library,
    profile::Profile,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Value;

/// The optional variables that a policy declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declarations {
    /// `params`
    pub params: bool,
    /// `authorizer`
    pub authorizer: bool,
    /// `variables`: always declared when a policy runs; when it is only checked, declared if it has some.
    pub variables: bool,
}

/// The environment of an admission policy with its variables, once with an authorizer and once without.
#[derive(Debug)]
pub struct Environment {
    plain: Env,
    authorizing: Env,
    /// With `Object`, `JSONPatch` and `jsonpatch.escapeKey`, if there are mutations.
    mutating: Option<Env>,
    composite: Composite,
    slots: Slots,
}

/// The indices of the variables.
#[derive(Debug, Clone, Copy)]
struct Slots {
    object: u32,
    old_object: u32,
    namespace: u32,
    request: u32,
    variables: Option<u32>,
    params: Option<u32>,
}

/// The values of a request's variables.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// `object`, or null.
    pub object: Value<'a>,
    /// `oldObject`, or null.
    pub old_object: Value<'a>,
    /// `request`
    pub request: Value<'a>,
    /// `request` of match conditions; it names another resource if the API server converts the object.
    pub condition_request: Value<'a>,
    /// `namespaceObject`, or null.
    pub namespace: Value<'a>,
    /// `params`, or null.
    pub params: Value<'a>,
}

impl Environment {
    /// Builds the environment of a policy. Its variables are compiled in order; one that cannot be compiled fails where
    /// it is used.
    pub fn new<'t>(
        profile: &'static Profile,
        declarations: Declarations,
        variables: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Self {
        Self::build(Env::new(profile), declarations, variables)
    }

    /// Like [`Environment::new`], with the types of mutations declared for all expressions, including variables and
    /// conditions.
    pub(crate) fn with_patch_types<'t>(
        profile: &'static Profile,
        declarations: Declarations,
        variables: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Self {
        let mut env = Env::new(profile);
        env.declare_mutation_types();
        Self::build(env, declarations, variables)
    }

    fn build<'t>(
        mut plain: Env,
        declarations: Declarations,
        variables: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Self {
        let object = plain.declare("object", Type::Dyn);
        let old_object = plain.declare("oldObject", Type::Dyn);
        let namespace = plain.declare(
            "namespaceObject",
            Type::structure(library::kubernetes::structs::NAMESPACE),
        );
        let request = plain.declare(
            "request",
            Type::structure(library::kubernetes::structs::ADMISSION_REQUEST),
        );
        let variables_slot = declarations.variables.then(|| plain.declare("variables", Type::Dyn));
        let params = declarations.params.then(|| plain.declare("params", Type::Dyn));
        // Both number their variables in the same way: the authorizer comes last.
        let mut authorizing = plain.clone();
        library::declare_variables(&mut plain, false);
        library::declare_variables(&mut authorizing, declarations.authorizer);
        let composite = if declarations.variables {
            let composite = Composite::compile(variables, &mut authorizing, Composition::Kubernetes);
            composite.declare(&mut plain);
            composite
        } else {
            Composite::empty(Composition::Kubernetes)
        };
        Self {
            plain,
            authorizing,
            mutating: None,
            composite,
            slots: Slots {
                object,
                old_object,
                namespace,
                request,
                variables: variables_slot,
                params,
            },
        }
    }

    /// The variables that cannot be compiled, by index.
    pub fn variable_flaws(&self) -> Vec<(usize, Flaw)> {
        let errors = self.composite.errors().iter();
        errors.map(|(place, error)| (*place, Flaw::from(error))).collect()
    }

    /// Declares the names that only mutations may use.
    #[must_use]
    pub fn with_mutations(mut self) -> Self {
        let mut env = self.authorizing.clone().with_profile(Profile::kubernetes_mutating());
        env.declare_mutation_types();
        self.mutating = Some(env);
        self
    }

    fn mutating(&self) -> &Env {
        self.mutating.as_ref().unwrap_or(&self.authorizing)
    }

    /// The environment of expressions that may or may not use the authorizer, if it is declared.
    fn env(&self, authorizer: bool) -> &Env {
        if authorizer { &self.authorizing } else { &self.plain }
    }

    /// The values of the variables by index. Without `request` the authorizer is not bound.
    fn values<'a>(
        &self,
        inputs: &Inputs<'a>,
        scratch: &'a Scratch,
        host: &'a dyn Host,
        resource: Option<&Attributes>,
    ) -> Vec<Option<Val<'a>>> {
        let mut values = self.authorizing.initial_values();
        let Slots {
            object,
            old_object,
            namespace,
            request,
            variables,
            params,
        } = self.slots;
        let mut bind = |slot: u32, value: Val<'a>| values[slot as usize] = Some(value);
        bind(object, inputs.object.into());
        bind(old_object, inputs.old_object.into());
        bind(namespace, inputs.namespace.into());
        bind(request, inputs.request.into());
        if let Some(variables) = variables {
            bind(variables, Val::Variables);
        }
        if let Some(params) = params {
            bind(params, inputs.params.into());
        }
        if let Some(resource) = resource {
            let context = Context::new(scratch, self.authorizing.profile(), host);
            library::bind_authorizer(&context, &self.authorizing, resource.clone(), &mut values);
        }
        values
    }
}
