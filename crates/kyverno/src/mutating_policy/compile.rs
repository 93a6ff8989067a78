//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use super::{CompiledMutatingPolicy, Patcher, identity};
use crate::{
    autogen::mutating_variants,
    cel_policy::{
        CompileErrors, Exception, FieldError, Problem,
        compile::{Output, audit_annotations, compile, conditions, declare, typed, variables},
    },
};
use kyvtest_cel::{ast::Expr, env::Env, profile::Profile, program::Program, syntax, types::Type};
use kyvtest_model::policy::{CelPolicyException, MutatingPolicy, MutatingPolicySpec};
use kyvtest_patch::structured::Atomics;

/// Upstream dereferences the match constraints of generated policies, which do not exist without operations.
fn without_panic(policy: &MutatingPolicy) -> Result<(), CompileErrors> {
    let constraints = policy.spec.match_constraints.as_ref();
    let rule = constraints.and_then(|constraints| constraints.resource_rules.first());
    if !policy.spec.has_autogen() || rule.is_none_or(|rule| !rule.rule.operations.is_empty()) {
        return Ok(());
    }
    let error = FieldError::with_detail(
        "spec.matchConstraints.resourceRules[0].operations".to_owned(),
        Problem::Required,
        "Kyverno panics when it generates policies for pod controllers without operations",
        policy.metadata.name.span,
    );
    Err(CompileErrors {
        headline: None,
        errors: vec![error],
    })
}

impl CompiledMutatingPolicy {
    /// Compiles a policy and what is generated from it for pod controllers; the policy itself is the first.
    ///
    /// # Errors
    /// If an expression cannot be compiled, for which Kyverno rejects the policy, or if Kyverno panics.
    pub fn compile_all<'e>(
        policy: &MutatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException> + Clone,
    ) -> Result<Vec<Self>, CompileErrors> {
        without_panic(policy)?;
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
        Self::compile_parts(policy, exceptions).map_err(|errors| CompileErrors { headline: None, errors })
    }

    fn compile_parts<'e>(
        policy: &MutatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, Vec<FieldError>> {
        let one = |error: FieldError| vec![error];
        let spec = &policy.spec;
        let mut env = Env::new(Profile::kyverno_mutating(policy.scope()));
        env.declare_mutation_types();
        let slots = declare(&mut env);
        refuse_variables_in_conditions(spec, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let match_conditions = conditions("spec.matchConditions", &spec.match_conditions, &env)?;
        let target_expression = target_expression(spec, &env).map_err(one)?;
        let target_conditions = conditions("spec.targetMatchConditions", &spec.target_match_conditions, &env)?;
        let named = exceptions.into_iter().flat_map(|exception| {
            let references = exception.policy_refs.iter();
            let named =
                references.filter(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind());
            named.map(move |_| exception)
        });
        let exceptions = Exception::compile_all(named, &env)?;
        let audit_annotations = audit_annotations(&spec.audit_annotations, &env)?;
        let patchers = patchers(spec, &env).map_err(one)?;
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
fn refuse_variables_in_conditions(spec: &MutatingPolicySpec, env: &Env) -> Result<(), Vec<FieldError>> {
    const DETAIL: &str = "variables cannot be referenced in matchConditions when \
        spec.autogen.mutatingAdmissionPolicy.enabled is true; native MutatingAdmissionPolicy evaluates match conditions \
        before variables, so inline the expression instead";
    let generates = spec.autogen.native_policy.as_ref();
    if !generates.is_some_and(|enabled| enabled.value) {
        return Ok(());
    }
    let conditions = spec.match_conditions.iter().enumerate();
    let errors: Vec<FieldError> = conditions
        .filter(|(_, condition)| uses_variables(condition.expression.text(), env))
        .map(|(i, condition)| {
            let path = format!("spec.matchConditions[{i}].expression");
            FieldError::with_detail(path, Problem::Forbidden, DETAIL, condition.expression.span())
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn uses_variables(text: &str, env: &Env) -> bool {
    let Ok(ast) = syntax::parse(text, &env.profile().syntax) else {
        return false;
    };
    ast.iter()
        .any(|expr| matches!(expr, Expr::Ident(name) if **name == *"variables"))
}

fn target_expression(spec: &MutatingPolicySpec, env: &Env) -> Result<Option<Program>, FieldError> {
    let targets = spec.target_match_constraints.as_ref();
    let expression = targets.and_then(|targets| targets.expression.as_ref());
    let compile = |expression| {
        let path = "spec.targetMatchConstraints.expression".to_owned();
        typed(path, expression, env, |result| match result {
            Type::Map(entry) if entry.0 == Type::String && entry.1.is_dyn() => Ok(()),
            _ => Err("output type must be a map".to_owned()),
        })
    };
    expression.map(compile).transpose()
}

/// A mutation whose type has no body, or is unknown, does nothing.
fn patchers(spec: &MutatingPolicySpec, env: &Env) -> Result<Vec<Patcher>, FieldError> {
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
