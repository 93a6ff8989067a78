//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use std::fmt;

use super::{CompiledValidatingPolicy, Exception, Slots, Validation};
use crate::{autogen::variants_at, lens::Lens};
use kyvtest_cel::{
    admission::aggregate,
    compile::{CompileError, analyse},
    composite::{Composite, Composition},
    env::Env,
    issue::Source,
    library, mutation,
    plan::plan,
    profile::Profile,
    program::Program,
    types::Type,
};
use kyvtest_go_compat::{diagnostic::Span, text::quote::quote};
use kyvtest_model::policy::{
    self, CelPolicyException, FailurePolicy, MatchCondition, Mode, ValidatingPolicy, ValidationAction, Variable,
};

/// An expression that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field, as `spec.validations[0].expression`.
    pub path: String,
    /// The expression.
    pub expression: String,
    /// What is wrong, in upstream's words and with its excerpt.
    pub detail: String,
    /// The first thing that is wrong, in a line.
    pub reason: String,
    pub place: Span,
}

impl FieldError {
    pub(crate) fn new(path: String, expression: &policy::Expression, error: &CompileError) -> Self {
        let text = expression.text();
        let mut place = expression.span();
        let mut reason = error.to_string();
        if let Some(issue) = error.issues().and_then(|issues| issues.list().first()) {
            reason.clone_from(&issue.message);
            let offset = usize::try_from(Source::new(text).offset(issue.location)).ok();
            let from = offset.and_then(|offset| text.char_indices().nth(offset).map(|(at, _)| at));
            if let Some(from) = from {
                let word = |c: &char| c.is_alphanumeric() || *c == '_';
                let length: usize = text[from..].chars().take_while(word).map(char::len_utf8).sum();
                let first = text[from..].chars().next().map_or(0, char::len_utf8);
                place = expression.part(from, from + length.max(first));
            } else if offset.is_some() {
                place = expression.part(text.len(), text.len());
            }
        }
        Self {
            path,
            expression: text.to_owned(),
            detail: error.to_string(),
            reason,
            place,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: Invalid value: {}: {}",
            self.path,
            quote(&self.expression),
            self.detail
        )
    }
}

/// Why Kyverno rejects a policy, with Kyverno's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    /// The errors, at least one.
    pub errors: Vec<FieldError>,
    /// Policies on requests have a line of their own before the errors, those on payloads have not.
    pub has_headline: bool,
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = "<nil>: Internal error: validating policy compiler 1.0 error: failed to compile policy";
        let headline = self.has_headline.then(|| headline.to_owned());
        f.write_str(&aggregate(
            headline.into_iter().chain(self.errors.iter().map(ToString::to_string)),
        ))
    }
}

impl std::error::Error for CompileErrors {}

/// What the result of an expression must be.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Bool,
    String,
    StringOrNull,
    /// Exactly the type `Object`.
    Object,
    /// Exactly a list of `JSONPatch`.
    JsonPatches,
}

impl Output {
    fn accept(self, result: &Type) -> Result<(), String> {
        let (fits, wanted) = match self {
            Self::Bool => (*result == Type::Bool, "of type bool"),
            Self::String => (*result == Type::String, "of type string"),
            Self::Object => (*result == Type::structure(mutation::OBJECT), "of type Object"),
            Self::JsonPatches => (
                *result == Type::list(Type::structure(mutation::JSON_PATCH)),
                "of type list",
            ),
            Self::StringOrNull => (
                matches!(result, Type::String | Type::Null),
                "either of type string or null_type",
            ),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("output is expected to be {wanted}"))
        }
    }
}

pub(crate) fn compile(
    path: String,
    expression: &policy::Expression,
    env: &Env,
    output: Output,
) -> Result<Program, FieldError> {
    typed(path, expression, env, |result| output.accept(result))
}

/// Compiles an expression whose type a function accepts, or rejects with a message.
pub(crate) fn typed(
    path: String,
    expression: &policy::Expression,
    env: &Env,
    accept: impl FnOnce(&Type) -> Result<(), String>,
) -> Result<Program, FieldError> {
    let text = expression.text();
    let checked = match analyse(text, env) {
        Ok(checked) => checked,
        Err(error) => return Err(FieldError::new(path, expression, &error)),
    };
    if let Err(detail) = accept(checked.result_type()) {
        return Err(FieldError {
            path,
            expression: text.to_owned(),
            reason: detail.clone(),
            detail,
            place: expression.span(),
        });
    }
    plan(&checked, env).map_err(|error| FieldError::new(path, expression, &error.into()))
}

/// Compiles a list; all of its errors are reported.
pub(crate) fn compile_all<'e>(
    list: impl Iterator<Item = (String, &'e policy::Expression)>,
    env: &Env,
    output: Output,
) -> Result<Vec<Program>, Vec<FieldError>> {
    let mut programs = Vec::new();
    let mut errors = Vec::new();
    for (path, expression) in list {
        match compile(path, expression, env, output) {
            Ok(program) => programs.push(program),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(programs) } else { Err(errors) }
}

fn conditions(list: &[MatchCondition], env: &Env) -> Result<Vec<Program>, Vec<FieldError>> {
    conditions_at("spec.matchConditions", list, env)
}

/// Compiles conditions at a path.
pub(crate) fn conditions_at(path: &str, list: &[MatchCondition], env: &Env) -> Result<Vec<Program>, Vec<FieldError>> {
    let list = list.iter().enumerate();
    let list = list.map(|(i, condition)| (format!("{path}[{i}].expression"), &condition.expression));
    compile_all(list, env, Output::Bool)
}

/// Compiles variables, which expressions behind them see.
pub(crate) fn variables(list: &[Variable], env: &mut Env) -> Result<Composite, Vec<FieldError>> {
    let texts = list.iter();
    let texts = texts.map(|variable| (variable.name.value.as_str(), variable.expression.text()));
    let composite = Composite::compile(texts, env, Composition::Kyverno);
    let errors: Vec<FieldError> = list
        .iter()
        .enumerate()
        .filter_map(|(i, variable)| {
            let compiled = composite.programs().iter();
            let mut compiled = compiled.filter(|(name, _)| **name == *variable.name.value);
            let error: &CompileError = compiled.next()?.1.as_ref().err()?;
            let path = format!("spec.variables[{i}].expression");
            Some(FieldError::new(path, &variable.expression, error))
        })
        .collect();
    if errors.is_empty() { Ok(composite) } else { Err(errors) }
}

pub(crate) fn declare(env: &mut Env) -> Slots {
    let object = env.declare("object", Type::Dyn);
    let old_object = env.declare("oldObject", Type::Dyn);
    let namespace = env.declare(
        "namespaceObject",
        Type::structure(library::kubernetes::structs::NAMESPACE),
    );
    let request = env.declare(
        "request",
        Type::structure(library::kubernetes::structs::ADMISSION_REQUEST),
    );
    let variables = env.declare("variables", Type::Dyn);
    let exceptions = env.declare("exceptions", Type::Dyn);
    library::declare_variables(env, false);
    Composition::Kyverno.declare(env);
    Slots {
        object,
        old_object,
        namespace,
        request,
        variables,
        exceptions,
    }
}

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
            errors,
            has_headline: policy.spec.evaluation.mode != Mode::Json,
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
        let mut env = Env::new(if policy.namespace().is_empty() {
            Profile::kyverno()
        } else {
            Profile::kyverno_namespaced()
        });
        let slots = declare(&mut env);
        // Conditions come before the variables: to them there are none.
        let match_conditions = conditions(&spec.match_conditions, &env)?;
        let composite = variables(&spec.variables, &mut env)?;
        let validations = (spec.validations.iter().enumerate())
            .map(|(i, validation)| {
                let path = |field: &str| format!("spec.validations[{i}].{field}");
                let message = validation
                    .message_expression
                    .as_ref()
                    .filter(|text| !text.text().is_empty());
                Ok(Validation {
                    program: compile(path("expression"), &validation.expression, &env, Output::Bool)?,
                    message: validation
                        .message
                        .as_ref()
                        .map(|text| text.value.clone())
                        .unwrap_or_default(),
                    message_expression: message
                        .map(|text| compile(path("messageExpression"), text, &env, Output::String))
                        .transpose()?,
                })
            })
            .collect::<Result<Vec<_>, FieldError>>()
            .map_err(|error| vec![error])?;
        let annotations = if spec.evaluation.mode == Mode::Json {
            &[]
        } else {
            spec.audit_annotations.as_slice()
        };
        let list = annotations.iter().enumerate();
        let list = list.map(|(i, entry)| {
            (
                format!("spec.auditAnnotations[{i}].valueExpression"),
                &entry.value_expression,
            )
        });
        let programs = compile_all(list, &env, Output::StringOrNull)?;
        let keys = annotations.iter().map(|annotation| annotation.key.value.clone());
        let audit_annotations = keys.zip(programs).collect();
        let exceptions = exceptions
            .into_iter()
            .filter(|exception| {
                let mut references = exception.policy_refs.iter();
                references.any(|to| to.name.value == policy.metadata.name.value && to.kind.value == policy.kind())
            })
            .map(|exception| Exception::compile(exception, &env))
            .collect::<Result<Vec<_>, _>>()?;
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

impl Exception {
    pub(crate) fn compile(exception: &CelPolicyException, env: &Env) -> Result<Self, Vec<FieldError>> {
        let name = &exception.metadata.name.value;
        let texts = |list: &[policy::Text]| list.iter().map(|text| text.value.clone()).collect();
        let priority = exception.metadata.label("polex.kyverno.io/priority");
        Ok(Self {
            key: match &exception.metadata.namespace {
                Some(namespace) => format!("{}/{name}", namespace.value),
                None => name.clone(),
            },
            priority: priority.and_then(|text| text.value.parse().ok()).unwrap_or_default(),
            images: texts(&exception.images),
            values: texts(&exception.allowed_values),
            report: exception.report_result,
            conditions: conditions(&exception.match_conditions, env)?,
        })
    }
}
