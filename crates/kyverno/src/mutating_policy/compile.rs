//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use std::fmt;

use super::{CompiledMutatingPolicy, Patcher, identity};
use crate::{
    autogen::mutating_variants,
    validating_policy::{
        Exception, FieldError,
        compile::{Output, compile, compile_all, conditions_at, declare, variables},
    },
};
use kyvtest_cel::{
    admission::aggregate, ast::Expr, compile::analyse, env::Env, plan::plan, profile::Profile, program::Program,
    syntax, types::Type,
};
use kyvtest_model::policy::{self, CelPolicyException, MutatingPolicy, MutatingPolicySpec};
use kyvtest_patch::structured::Atomics;

/// Why Kyverno rejects a policy, with Kyverno's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    /// The errors, at least one, each with its field.
    pub errors: Vec<String>,
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(self.errors.iter().cloned()))
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

impl CompiledMutatingPolicy {
    /// Compiles a policy and what is generated from it for pod controllers; the policy itself is the first.
    ///
    /// # Errors
    /// If an expression cannot be compiled; Kyverno rejects such a policy.
    pub fn compile_all<'e>(
        policy: &MutatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException> + Clone,
    ) -> Result<Vec<Self>, CompileErrors> {
        let generated = mutating_variants(policy);
        std::iter::once(policy)
            .chain(generated.iter().map(|variant| &variant.policy))
            .map(|policy| Self::compile(policy, exceptions.clone()))
            .collect()
    }

    /// Compiles a policy with those of the exceptions that name it.
    ///
    /// # Errors
    /// If an expression cannot be compiled; Kyverno rejects such a policy.
    pub fn compile<'e>(
        policy: &MutatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, CompileErrors> {
        let spec = &policy.spec;
        let mut env = Env::new(if policy.namespace().is_empty() {
            Profile::kyverno_mutating()
        } else {
            Profile::kyverno_mutating_namespaced()
        });
        env.declare_mutation_types();
        let slots = declare(&mut env);
        refuse_variables_in_conditions(spec, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let match_conditions = conditions_at("spec.matchConditions", &spec.match_conditions, &env)?;
        let target_expression = target_expression(spec, &env)?;
        let target_conditions = conditions_at("spec.targetMatchConditions", &spec.target_match_conditions, &env)?;
        let named = exceptions.into_iter().flat_map(|exception| {
            let references = exception.policy_refs.iter();
            let named =
                references.filter(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind());
            named.map(move |_| exception)
        });
        let exceptions = named
            .map(|exception| Exception::compile(exception, &env))
            .collect::<Result<Vec<_>, _>>()?;
        let audit_annotations = audit_annotations(spec, &env)?;
        let patchers = patchers(spec, &env)?;
        let (kind, namespace) = identity(policy);
        let targets = spec.target_match_constraints.as_ref();
        Ok(Self {
            name: policy.metadata.name.value.clone(),
            kind,
            namespace,
            admission: spec.evaluation.admission,
            mutate_existing: spec.evaluation.mutate_existing,
            atomics: if spec.evaluation.use_server_side_apply {
                Atomics::Replace
            } else {
                Atomics::Reject
            },
            constraints: spec.match_constraints.clone(),
            target_constraints: targets.map(|targets| targets.constraints.clone()),
            env,
            slots,
            composite,
            match_conditions,
            target_conditions,
            target_expression,
            patchers,
            audit_annotations,
            exceptions,
        })
    }
}

/// Native policies evaluate match conditions before variables, so a policy that one is generated from cannot use them there.
fn refuse_variables_in_conditions(spec: &MutatingPolicySpec, env: &Env) -> Result<(), CompileErrors> {
    const DETAIL: &str = "variables cannot be referenced in matchConditions when \
        spec.autogen.mutatingAdmissionPolicy.enabled is true; native MutatingAdmissionPolicy evaluates match conditions \
        before variables, so inline the expression instead";
    let generates = spec.autogen.mutating_admission_policy.as_ref();
    if !generates.is_some_and(|enabled| enabled.value) {
        return Ok(());
    }
    let conditions = spec.match_conditions.iter().enumerate();
    let errors: Vec<String> = conditions
        .filter(|(_, condition)| uses_variables(condition.expression.text(), env))
        .map(|(i, _)| format!("spec.matchConditions[{i}].expression: Forbidden: {DETAIL}"))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(CompileErrors { errors })
    }
}

fn uses_variables(text: &str, env: &Env) -> bool {
    let Ok(ast) = syntax::parse(text, &env.profile().syntax) else {
        return false;
    };
    ast.iter()
        .any(|expr| matches!(expr, Expr::Ident(name) if **name == *"variables"))
}

fn target_expression(spec: &MutatingPolicySpec, env: &Env) -> Result<Option<Program>, CompileErrors> {
    let targets = spec.target_match_constraints.as_ref();
    let Some(expression) = targets.and_then(|targets| targets.expression.as_ref()) else {
        return Ok(None);
    };
    let path = || "spec.targetMatchConstraints.expression".to_owned();
    let checked = analyse(expression.text(), env).map_err(|error| FieldError::new(path(), expression, &error))?;
    let is_map = match checked.result_type() {
        Type::Map(entry) => entry.0 == Type::String && entry.1.is_dyn(),
        _ => false,
    };
    if !is_map {
        return Err(rejected(path(), expression, "output type must be a map").into());
    }
    let program = plan(&checked, env);
    Ok(Some(
        program.map_err(|error| FieldError::new(path(), expression, &error.into()))?,
    ))
}

fn rejected(path: String, expression: &policy::Expression, detail: &str) -> FieldError {
    FieldError {
        path,
        expression: expression.text().to_owned(),
        detail: detail.to_owned(),
        reason: detail.to_owned(),
        place: expression.span(),
    }
}

fn audit_annotations(spec: &MutatingPolicySpec, env: &Env) -> Result<Vec<(String, Program)>, CompileErrors> {
    let list = spec.audit_annotations.iter().enumerate();
    let list = list.map(|(i, entry)| {
        (
            format!("spec.auditAnnotations[{i}].valueExpression"),
            &entry.value_expression,
        )
    });
    let programs = compile_all(list, env, Output::StringOrNull)?;
    let keys = spec.audit_annotations.iter().map(|entry| entry.key.value.clone());
    Ok(keys.zip(programs).collect())
}

/// A mutation whose type has no body, or is unknown, does nothing.
fn patchers(spec: &MutatingPolicySpec, env: &Env) -> Result<Vec<Patcher>, CompileErrors> {
    let mut patchers = Vec::new();
    for (i, mutation) in spec.mutations.iter().enumerate() {
        let path = |body: &str| format!("spec.mutations[{i}].{body}.expression");
        match mutation.patch_type.value.as_str() {
            "ApplyConfiguration" => {
                if let Some(expression) = &mutation.apply_configuration {
                    let program = compile(path("applyConfiguration"), expression, env, Output::Object)?;
                    patchers.push(Patcher::ApplyConfiguration(program));
                }
            }
            "JSONPatch" => {
                if let Some(expression) = &mutation.json_patch {
                    let program = compile(path("jsonPatch"), expression, env, Output::JsonPatches)?;
                    patchers.push(Patcher::JsonPatch(program));
                }
            }
            _ => {}
        }
    }
    Ok(patchers)
}
