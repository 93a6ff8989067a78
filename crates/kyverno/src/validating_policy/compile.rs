//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use super::CompiledValidatingPolicy;
use crate::{
    autogen::variants_at,
    cel_policy::{
        CompileErrors, Exception, FieldError,
        compile::{audit_annotations, conditions, declare, validations, variables},
    },
    lens::Lens,
};
use kyvtest_cel::{env::Env, profile::Profile};
use kyvtest_model::policy::{CelPolicyException, FailurePolicy, Mode, ValidatingPolicy, ValidationAction};

impl CompiledValidatingPolicy {
    /// Compiles a policy with those of the exceptions that name it.
    ///
    /// # Errors
    /// If an expression cannot be compiled; Kyverno rejects such a policy.
    pub fn compile<'e>(
        policy: &ValidatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, CompileErrors> {
        Self::compile_parts(policy, exceptions).map_err(|errors| CompileErrors {
            // Policies on payloads have no line of their own before the errors.
            headline: (policy.spec.evaluation.mode != Mode::Json)
                .then_some("<nil>: Internal error: validating policy compiler 1.0 error: failed to compile policy"),
            errors,
        })
    }

    /// Compiles a policy and what is generated from it for pod controllers; the policy itself is the first.
    ///
    /// # Errors
    /// As [`CompiledValidatingPolicy::compile`].
    pub fn compile_all<'e>(
        policy: &ValidatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException> + Clone,
        lens: Lens,
    ) -> Result<Vec<Self>, CompileErrors> {
        let generated = variants_at(policy, lens);
        std::iter::once(policy)
            .chain(generated.iter().map(|variant| &variant.policy))
            .map(|policy| Self::compile(policy, exceptions.clone()))
            .collect()
    }

    fn compile_parts<'e>(
        policy: &ValidatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, Vec<FieldError>> {
        let spec = &policy.spec;
        let mut env = Env::new(Profile::kyverno_validating(policy.scope()));
        let slots = declare(&mut env);
        // Conditions come before the variables: to them there are none.
        let match_conditions = conditions("spec.matchConditions", &spec.match_conditions, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let validations = validations(&spec.validations, &env).map_err(|error| vec![error])?;
        let annotations = if spec.evaluation.mode == Mode::Json {
            &[]
        } else {
            spec.audit_annotations.as_slice()
        };
        let audit_annotations = audit_annotations(annotations, &env)?;
        let exceptions = exceptions.into_iter().filter(|exception| {
            let mut references = exception.policy_refs.iter();
            references.any(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind())
        });
        let exceptions = Exception::compile_all(exceptions, &env)?;
        let actions = spec.validation_actions.as_deref().unwrap_or_default();
        let scored = policy.metadata.annotation("policies.kyverno.io/scored");
        Ok(Self {
            name: policy.metadata.name.value.clone(),
            namespace: policy.namespaced.then(|| {
                let namespace = policy.metadata.namespace.as_ref();
                namespace.map_or_else(|| "default".to_owned(), |namespace| namespace.value.clone())
            }),
            mode: spec.evaluation.mode.clone(),
            admission: spec.evaluation.admission,
            scored: scored.is_none_or(|value| value.value != "false"),
            constraints: spec.match_constraints.clone(),
            ignores_errors: spec
                .failure_policy
                .as_ref()
                .is_some_and(|word| word.value == FailurePolicy::Ignore),
            actions: if actions.is_empty() {
                vec![ValidationAction::Deny]
            } else {
                actions.iter().map(|action| action.value).collect()
            },
            env,
            slots,
            match_conditions,
            composite,
            validations,
            audit_annotations,
            exceptions,
        })
    }
}
