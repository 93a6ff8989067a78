//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use std::fmt;

use super::{CompiledGeneratingPolicy, Entry, template::Template};
use crate::validating_policy::{
    Exception, FieldError,
    compile::{Output, compile, compile_all, conditions_at, declare, variables},
};
use kyvtest_cel::{
    admission::aggregate,
    env::Env,
    profile::{PolicyScope, Profile},
};
use kyvtest_go_compat::text::quote::quote;
use kyvtest_model::policy::{CelPolicyException, GeneratingPolicy, GenerationEntry};

/// Why Kyverno rejects a policy, with Kyverno's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    /// The errors, at least one, each with its field.
    pub errors: Vec<String>,
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = "<nil>: Internal error: generating policy compiler 2.0 error: failed to compile policy";
        let errors = self.errors.iter().cloned();
        f.write_str(&aggregate(std::iter::once(headline.to_owned()).chain(errors)))
    }
}

impl std::error::Error for CompileErrors {}

impl From<Vec<FieldError>> for CompileErrors {
    fn from(errors: Vec<FieldError>) -> Self {
        Self {
            errors: errors.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<FieldError> for CompileErrors {
    fn from(error: FieldError) -> Self {
        vec![error].into()
    }
}

impl CompiledGeneratingPolicy {
    /// Compiles a policy with exceptions to it.
    ///
    /// # Errors
    /// If an expression or a template cannot be compiled; Kyverno rejects such a policy.
    pub fn compile<'e>(
        policy: &GeneratingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, CompileErrors> {
        let spec = &policy.spec;
        let mut env = Env::new(Profile::kyverno_generating(if policy.namespace().is_empty() {
            PolicyScope::Cluster
        } else {
            PolicyScope::Namespace
        }));
        let slots = declare(&mut env);
        // Conditions come before the variables: to them there are none.
        let match_conditions = conditions_at("spec.matchConditions", &spec.match_conditions, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let mut entries = Vec::new();
        for (i, entry) in spec.generate.iter().enumerate() {
            entries.push(compile_entry(&format!("spec.generate[{i}]"), entry, &env)?);
        }
        let list = spec.audit_annotations.iter().enumerate();
        let list = list.map(|(i, entry)| {
            let path = format!("spec.auditAnnotations[{i}].valueExpression");
            (path, &entry.value_expression)
        });
        let programs = compile_all(list, &env, Output::StringOrNull)?;
        let keys = spec.audit_annotations.iter().map(|entry| entry.key.value.clone());
        let audit_annotations = keys.zip(programs).collect();
        let exceptions = exceptions
            .into_iter()
            .map(|exception| Exception::compile(exception, &env))
            .collect::<Result<Vec<_>, _>>()?;
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

fn compile_entry(path: &str, entry: &GenerationEntry, env: &Env) -> Result<Entry, CompileErrors> {
    match entry {
        GenerationEntry::Expression(expression) if expression.text().is_empty() => Err(CompileErrors {
            errors: vec![format!(
                "{path}: Required value: one of expression or template must be set"
            )],
        }),
        GenerationEntry::Expression(expression) => {
            let program = compile(format!("{path}.expression"), expression, env, Output::Bool)?;
            Ok(Entry::Expression(program))
        }
        GenerationEntry::Template(template) => match Template::compile(&template.value, template.interpolate, env) {
            Ok(template) => Ok(Entry::Template(template)),
            Err(error) => {
                let value = quote(&template.value);
                let error = format!("{path}.template.value: Invalid value: {value}: {error}");
                Err(CompileErrors { errors: vec![error] })
            }
        },
    }
}
