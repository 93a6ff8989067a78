//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use super::{CompiledGeneratingPolicy, Entry, template::Template};
use crate::cel_policy::{
    CompileErrors, Exception, FieldError, Problem,
    compile::{Output, audit_annotations, compile, conditions, declare, variables},
};
use kyvtest_cel::{env::Env, profile::Profile};
use kyvtest_model::policy::{CelPolicyException, GeneratingPolicy, GenerationEntry};

impl CompiledGeneratingPolicy {
    /// Compiles a policy with exceptions to it.
    ///
    /// # Errors
    /// If an expression or a template cannot be compiled; Kyverno rejects such a policy.
    pub fn compile<'e>(
        policy: &GeneratingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, CompileErrors> {
        Self::compile_parts(policy, exceptions).map_err(|errors| CompileErrors {
            headline: Some("<nil>: Internal error: generating policy compiler 2.0 error: failed to compile policy"),
            errors,
        })
    }

    fn compile_parts<'e>(
        policy: &GeneratingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, Vec<FieldError>> {
        let spec = &policy.spec;
        let mut env = Env::new(Profile::kyverno_generating(policy.scope()));
        let slots = declare(&mut env);
        // Conditions come before the variables: to them there are none.
        let match_conditions = conditions("spec.matchConditions", &spec.match_conditions, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let mut entries = Vec::new();
        for (i, entry) in spec.generate.iter().enumerate() {
            let compiled = compile_entry(&format!("spec.generate[{i}]"), entry, &env);
            entries.push(compiled.map_err(|error| vec![error])?);
        }
        let audit_annotations = audit_annotations(&spec.audit_annotations, &env)?;
        let exceptions = Exception::compile_all(exceptions, &env)?;
        Ok(Self {
            name: policy.metadata.name.value.clone(),
            kind: policy.kind(),
            namespace: policy.namespace().to_owned(),
            constraints: spec.match_constraints.clone(),
            env,
            slots,
            match_conditions,
            composite,
            entries,
            audit_annotations,
            exceptions,
        })
    }
}

fn compile_entry(path: &str, entry: &GenerationEntry, env: &Env) -> Result<Entry, FieldError> {
    match entry {
        GenerationEntry::Expression(expression) if expression.text().is_empty() => {
            let detail = "one of expression or template must be set";
            let place = expression.span();
            Err(FieldError::with_detail(
                path.to_owned(),
                Problem::Required,
                detail,
                place,
            ))
        }
        GenerationEntry::Expression(expression) => {
            let program = compile(format!("{path}.expression"), expression, env, Output::Bool)?;
            Ok(Entry::Expression(program))
        }
        GenerationEntry::Template(template) => match Template::compile(&template.value, template.interpolate, env) {
            Ok(template) => Ok(Entry::Template(template)),
            Err(error) => {
                let problem = Problem::Invalid(template.value.value.clone());
                let path = format!("{path}.template.value");
                Err(FieldError::with_detail(path, problem, error, template.value.span))
            }
        },
    }
}
