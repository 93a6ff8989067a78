//! DeletingPolicy and NamespacedDeletingPolicy: would an object be deleted.
//!
//! Upstream counterpart: `pkg/cel/policies/dpol/{compiler,engine}` (Kyverno 1.19). The schedule does not affect the
//! result. A policy of a namespace is evaluated on any object: only the controller restricts it to its namespace.

use crate::{
    cel_policy::{
        CompileErrors, Exception, FieldError, Slots,
        compile::{conditions, declare, variables},
        evaluate::Run,
    },
    constraints::applies,
};
use kyvtest_cel::{
    composite::Composite,
    context::Scratch,
    env::Env,
    host::{Host, Wrapped},
    profile::Profile,
    program::Program,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Concrete, Namespace, Operation, Pairs, Request},
    policy::{CelPolicyException, DeletingPolicy, MatchConstraints},
};

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct CompiledDeletingPolicy {
    name: String,
    kind: &'static str,
    /// The policy's namespace; empty for one of the whole cluster.
    namespace: String,
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
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind as objects write it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The policy's namespace; empty for one of the whole cluster.
    pub fn namespace(&self) -> &str {
        &self.namespace
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
        let named = exceptions.into_iter().filter(|exception| {
            let mut references = exception.policy_refs.iter();
            references.any(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind())
        });
        let exceptions = Exception::compile_all(named, &env)?;
        let mut constraints = spec.match_constraints.clone();
        for rule in constraints.iter_mut().flat_map(|block| &mut block.resource_rules) {
            rule.rule.operations = vec!["*".to_owned()];
        }
        Ok(Self {
            name: policy.metadata.name.value.clone(),
            kind: policy.kind(),
            namespace: policy.namespace().to_owned(),
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
        if self.namespace.is_empty() {
            self.run(object, namespace, host)
        } else {
            self.run(object, namespace, &Wrapped::in_namespace(host, &self.namespace))
        }
    }

    fn run(&self, object: Value<'_>, namespace: Value<'_>, host: &dyn Host) -> Result<Deletion, String> {
        let scratch = Scratch::new();
        let mut values = self.env.initial_values();
        values[self.slots.object as usize] = Some(Val::from(object));
        values[self.slots.namespace as usize] = Some(Val::from(namespace));
        values[self.slots.variables as usize] = Some(Val::Variables);
        let lazy = self.composite.bind(&scratch, &values, host);
        let run = Run {
            ignores_errors: false,
            values: &values,
            variables: Some(&lazy),
            scratch: &scratch,
            host,
        };
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
