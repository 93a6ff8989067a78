//! DeletingPolicy and NamespacedDeletingPolicy: would an object be deleted.
//!
//! Upstream counterpart: `pkg/cel/policies/dpol/{compiler,engine}` (Kyverno 1.19). The schedule does not affect the
//! result. A policy of a namespace is evaluated on any object: only the controller restricts it to its namespace.

use crate::{
    cel_policy::{
        CompileErrors, Exception, FieldError, Identity, Slots,
        compile::{conditions, declare, variables},
        evaluate::Run,
    },
    constraints::applies,
};
use kyvtest_cel::{
    composite::Composite, context::Scratch, env::Env, host::Host, profile::Profile, program::Program, types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Concrete, Namespace, Operation, Pairs, Request},
    policy::{CelPolicyException, DeletingPolicy, MatchConstraints, PolicyId},
};

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct CompiledDeletingPolicy {
    identity: Identity,
    /// The constraints with all operations in their rules; excluded rules keep theirs.
    constraints: Option<MatchConstraints>,
    env: Env,
    slots: Slots,
    composite: Composite,
    conditions: Vec<Program>,
    exceptions: Vec<Exception>,
}

/// What a policy decides about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// The object would be deleted.
    Delete,
    /// A condition is false: the object stays.
    Keep,
    /// Exceptions keep the object, `namespace/name` each.
    Exempt(Vec<String>),
}

impl CompiledDeletingPolicy {
    /// The policy's identity. Its namespace is the one as written.
    pub fn id(&self) -> &PolicyId {
        &self.identity.id
    }

    /// Compiles a policy with those of the exceptions that name it.
    ///
    /// # Errors
    /// If an expression cannot be compiled; Kyverno rejects such a policy.
    pub fn compile<'e>(
        policy: &DeletingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, CompileErrors> {
        Self::compile_parts(policy, exceptions).map_err(|errors| CompileErrors {
            headline: Some("<nil>: Internal error: deleting policy compiler 1.18 error: failed to compile policy"),
            errors,
        })
    }

    fn compile_parts<'e>(
        policy: &DeletingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, Vec<FieldError>> {
        let spec = &policy.spec;
        let mut env = Env::new(Profile::kyverno_deleting(policy.scope()));
        let slots = declare(&mut env);
        // Upstream declares a type that its environment does not have.
        env.declare("exceptions", Type::structure("compiler.Exception"));
        let composite = variables(&spec.variables, &mut env)?;
        let conditions = conditions("spec.conditions", &spec.conditions, &env)?;
        let named = exceptions.into_iter().filter(|exception| exception.refers_to(policy));
        let exceptions = Exception::compile_all(named, &env)?;
        let mut constraints = spec.match_constraints.clone();
        for rule in constraints.iter_mut().flat_map(|block| &mut block.resource_rules) {
            rule.rule.operations = vec!["*".to_owned()];
        }
        Ok(Self {
            identity: Identity::of(policy),
            constraints,
            env,
            slots,
            composite,
            conditions,
            exceptions,
        })
    }

    /// Whether the constraints select an object; without constraints none is selected. `object` is the object as a new one.
    ///
    /// # Errors
    /// If a selector is invalid.
    pub fn selects(&self, object: &Request, namespace: Option<&Namespace>) -> Result<bool, String> {
        debug_assert_eq!(object.operation, Operation::Create, "objects are given as new ones");
        let Some(constraints) = &self.constraints else {
            return Ok(false);
        };
        let mut facts = Concrete::new(object, namespace);
        let selected = applies(constraints, &object.cell(), &mut facts).map_err(|error| error.to_string())?;
        // There is no old object, not even one without labels.
        let selector = constraints.object_selector.as_deref();
        Ok(selected && selector.is_none_or(|selector| selector.matches(Some(Pairs::NewLabels), &mut facts)))
    }

    /// Evaluates exceptions and conditions for `object` and `namespaceObject`, null if it is not known.
    ///
    /// # Errors
    /// The errors of the conditions, joined.
    pub fn evaluate(&self, object: Value<'_>, namespace: Value<'_>, host: &dyn Host) -> Result<Deletion, String> {
        let host: &dyn Host = &self.identity.host(host);
        let scratch = Scratch::new();
        let mut values = self.env.initial_values();
        values[self.slots.object as usize] = Some(Val::from(object));
        values[self.slots.namespace as usize] = Some(Val::from(namespace));
        values[self.slots.variables as usize] = Some(Val::Variables);
        let lazy = self.composite.bind(&scratch, &values, host);
        let run = Run::new(&values, &scratch, host).with_variables(&lazy);
        let mut exempt = Vec::new();
        for exception in &self.exceptions {
            match run.matches(exception.conditions()) {
                Ok(None) => exempt.push(exception.key().to_owned()),
                Ok(Some(_)) => {}
                Err((_, error)) => return Err(error),
            }
        }
        if !exempt.is_empty() {
            return Ok(Deletion::Exempt(exempt));
        }
        match run.matches(&self.conditions) {
            Ok(None) => Ok(Deletion::Delete),
            Ok(Some(_)) => Ok(Deletion::Keep),
            Err((_, error)) => Err(error),
        }
    }
}
