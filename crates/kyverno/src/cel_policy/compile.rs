//! Compiles the parts that the kinds with CEL share: expressions, conditions, variables, annotations and exceptions.
//!
//! Upstream counterpart: `pkg/cel/compiler` (Kyverno 1.19).

use std::fmt;

use super::{Exception, Slots, Validation};
use kyvtest_cel::{
    admission::aggregate,
    compile::{CompileError, analyse},
    composite::{Composite, Composition},
    env::Env,
    issue::Source,
    library, mutation,
    plan::plan,
    program::Program,
    types::Type,
};
use kyvtest_go_compat::{diagnostic::Span, text::quote::quote};
use kyvtest_model::policy::{self, AuditAnnotation, CelPolicyException, MatchCondition, Variable};

/// A field that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field, as `spec.validations[0].expression`.
    pub path: String,
    pub(crate) problem: Problem,
    /// What is wrong, in upstream's words and with its excerpt.
    pub detail: String,
    /// The first thing that is wrong, in a line.
    pub reason: String,
    pub place: Span,
}

/// The type of a field error, as `k8s.io/apimachinery/pkg/util/validation/field` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The value, which is not valid.
    Invalid(String),
    Required,
    Forbidden,
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
            problem: Problem::Invalid(text.to_owned()),
            detail: error.to_string(),
            reason,
            place,
        }
    }

    /// An error whose detail is one line.
    pub(crate) fn with_detail(path: String, problem: Problem, detail: impl Into<String>, place: Span) -> Self {
        let detail = detail.into();
        Self {
            path,
            problem,
            reason: detail.clone(),
            detail,
            place,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path, problem, detail, ..
        } = self;
        match problem {
            Problem::Invalid(value) => write!(f, "{path}: Invalid value: {}: {detail}", quote(value)),
            Problem::Required => write!(f, "{path}: Required value: {detail}"),
            Problem::Forbidden => write!(f, "{path}: Forbidden: {detail}"),
        }
    }
}

/// Why Kyverno rejects a policy, with Kyverno's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    /// The line before the errors, for kinds that have one.
    pub(crate) headline: Option<&'static str>,
    /// The errors, at least one.
    pub errors: Vec<FieldError>,
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = self.headline.map(str::to_owned);
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
        let problem = Problem::Invalid(text.to_owned());
        return Err(FieldError::with_detail(path, problem, detail, expression.span()));
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

/// Compiles the conditions at a path.
pub(crate) fn conditions(path: &str, list: &[MatchCondition], env: &Env) -> Result<Vec<Program>, Vec<FieldError>> {
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

/// Compiles validations and the expressions of their messages.
pub(crate) fn validations(list: &[policy::Validation], env: &Env) -> Result<Vec<Validation>, FieldError> {
    let compile_one = |(i, validation): (usize, &policy::Validation)| {
        let path = |field: &str| format!("spec.validations[{i}].{field}");
        let message = validation.message.as_ref();
        let expression = validation.message_expression.as_ref();
        Ok(Validation {
            program: compile(path("expression"), &validation.expression, env, Output::Bool)?,
            message: message.map(|text| text.value.clone()).unwrap_or_default(),
            message_expression: expression
                .filter(|text| !text.text().is_empty())
                .map(|text| compile(path("messageExpression"), text, env, Output::String))
                .transpose()?,
        })
    };
    list.iter().enumerate().map(compile_one).collect()
}

/// Compiles the expressions of audit annotations, each with its key.
pub(crate) fn audit_annotations(
    list: &[AuditAnnotation],
    env: &Env,
) -> Result<Vec<(String, Program)>, Vec<FieldError>> {
    let expressions = list.iter().enumerate().map(|(i, entry)| {
        let path = format!("spec.auditAnnotations[{i}].valueExpression");
        (path, &entry.value_expression)
    });
    let programs = compile_all(expressions, env, Output::StringOrNull)?;
    let keys = list.iter().map(|entry| entry.key.value.clone());
    Ok(keys.zip(programs).collect())
}

/// Declares the variables of policies on requests.
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

impl Exception {
    pub(crate) fn compile_all<'e>(
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
        env: &Env,
    ) -> Result<Vec<Self>, Vec<FieldError>> {
        let exceptions = exceptions.into_iter();
        exceptions.map(|exception| Self::compile(exception, env)).collect()
    }

    fn compile(exception: &CelPolicyException, env: &Env) -> Result<Self, Vec<FieldError>> {
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
            conditions: conditions("spec.matchConditions", &exception.match_conditions, env)?,
        })
    }
}
