//! The expressions of a policy: names, presence, and compile errors.
//!
//! New expressions may only use features of the previous release; between Kubernetes 1.35 and 1.36 nothing was added,
//! so the environment is the one used at run time.

use std::collections::{BTreeMap, BTreeSet};

use super::{field::Errors, items, present, text};
use kyvtest_cel::{
    admission::{Declarations, Environment, Expression, Flaw, Returns},
    profile::Profile,
    syntax::is_reserved,
};
use kyvtest_go_compat::{
    text::{
        label::{Wording, key_problems},
        quote::go_json,
    },
    value::Value,
};

const MAX_CONDITIONS: usize = 64;
const MAX_ANNOTATIONS: usize = 20;
/// The maximum size of an annotation's expression, in bytes.
const MAX_ANNOTATION: usize = 5 * 1024;

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// The environments of a policy's expressions.
pub(super) struct Compiler<'v> {
    spec: Value<'v>,
    params: bool,
    environment: Environment,
    /// The compiled variables, by index.
    compiled: Vec<usize>,
}

impl<'v> Compiler<'v> {
    pub(super) fn new(spec: Value<'v>, params: bool) -> Self {
        let variables = !items(spec, "variables").is_empty();
        Self::with(spec, params, variables)
    }

    /// The compiler of a mutating policy, which always declares `variables`.
    pub(super) fn mutating(spec: Value<'v>, params: bool) -> Self {
        let mut compiler = Self::with(spec, params, true);
        compiler.environment = compiler.environment.with_mutations();
        compiler
    }

    fn with(spec: Value<'v>, params: bool, declares_variables: bool) -> Self {
        let variables = items(spec, "variables");
        let declarations = Declarations {
            params,
            authorizer: true,
            variables: declares_variables,
        };
        let written = |(_, variable): &(usize, &Value<'v>)| !text(**variable, "expression").trim().is_empty();
        let (compiled, texts): (Vec<usize>, Vec<(&str, &str)>) = variables
            .iter()
            .enumerate()
            .filter(written)
            .map(|(i, variable)| (i, (text(*variable, "name"), text(*variable, "expression"))))
            .unzip();
        Self {
            spec,
            params,
            environment: Environment::new(Profile::kubernetes(), declarations, texts),
            compiled,
        }
    }

    /// Checks match conditions, which have no variables.
    pub(super) fn check_conditions(&mut self, errors: &mut Errors) {
        let conditions = items(self.spec, "matchConditions");
        if conditions.is_empty() {
            return;
        }
        let path = "spec.matchConditions";
        if conditions.len() > MAX_CONDITIONS {
            let body = format!("Too many: {}", conditions.len());
            errors.push(path, body, &format!("must have at most {MAX_CONDITIONS} items"));
        }
        let declarations = Declarations {
            params: self.params,
            authorizer: true,
            variables: false,
        };
        let environment = Environment::new(Profile::kubernetes(), declarations, []);
        let mut names = BTreeSet::new();
        for (i, condition) in conditions.iter().enumerate() {
            let expression = text(*condition, "expression").trim();
            let field = format!("{path}[{i}].expression");
            if expression.is_empty() {
                errors.required(&field, "");
            } else {
                compile(
                    &environment,
                    expression,
                    expression,
                    (Returns::Bool, true),
                    &field,
                    errors,
                );
            }
            let name = text(*condition, "name");
            let field = format!("{path}[{i}].name");
            if name.is_empty() {
                errors.required(&field, "");
                continue;
            }
            let mut problems = Vec::new();
            key_problems(name, Wording::LabelKey, &mut problems);
            errors.all_invalid(&field, name, &mut problems);
            if !names.insert(name) {
                errors.duplicate(&field, name);
            }
        }
    }

    pub(super) fn check_variables(&mut self, errors: &mut Errors) {
        let flaws = self.environment.variable_flaws().into_iter();
        let flaws: BTreeMap<usize, Flaw> = flaws
            .filter_map(|(place, flaw)| Some((*self.compiled.get(place)?, flaw)))
            .collect();
        for (i, variable) in items(self.spec, "variables").into_iter().enumerate() {
            let path = format!("spec.variables[{i}]");
            let name = text(variable, "name");
            let field = format!("{path}.name");
            if name.trim().is_empty() {
                errors.required(&field, "name is not specified");
            } else if !is_identifier(name) {
                errors.invalid(&field, name, "must be a valid CEL identifier");
            }
            let expression = text(variable, "expression");
            let field = format!("{path}.expression");
            if expression.trim().is_empty() {
                errors.required(&field, "expression is not specified");
                continue;
            }
            if let Some(flaw) = flaws.get(&i) {
                report(flaw, expression, &field, errors);
            }
        }
    }

    /// Checks the expression of a mutation, which errors show without surrounding white space.
    pub(super) fn check_mutation(&self, expression: &str, is_json_patch: bool, field: &str, errors: &mut Errors) {
        let returns = if is_json_patch {
            Returns::JsonPatches
        } else {
            Returns::Object
        };
        compile(
            &self.environment,
            expression,
            expression,
            (returns, true),
            field,
            errors,
        );
    }

    pub(super) fn check_validations(&mut self, validations: &[Value<'_>], errors: &mut Errors) {
        for (i, validation) in validations.iter().enumerate() {
            let path = format!("spec.validations[{i}]");
            let part = |key: &str| text(*validation, key);
            let field = |key: &str| format!("{path}.{key}");
            let expression = part("expression");
            if expression.trim().is_empty() {
                errors.required(&field("expression"), "expression is not specified");
            } else {
                let (environment, field) = (&self.environment, field("expression"));
                compile(
                    environment,
                    expression,
                    expression,
                    (Returns::Bool, true),
                    &field,
                    errors,
                );
            }
            let expression = part("messageExpression");
            let name = field("messageExpression");
            if expression.trim().is_empty() {
                if !expression.is_empty() {
                    errors.invalid(&name, expression, "must be non-empty if specified");
                }
            } else {
                let environment = &self.environment;
                compile(
                    environment,
                    expression,
                    expression,
                    (Returns::String, false),
                    &name,
                    errors,
                );
            }
            let message = part("message");
            if !message.is_empty() && message.trim().is_empty() {
                errors.invalid(&field("message"), message, "must be non-empty if specified");
            } else if message.trim().contains(['\n', '\r']) {
                errors.invalid(&field("message"), message, "must not contain line breaks");
            }
            if let Some(reason) = present(*validation, "reason").and_then(Value::as_str) {
                errors.supported(&field("reason"), reason, &REASONS);
            }
        }
    }

    pub(super) fn check_annotations(&mut self, policy: &str, annotations: &[Value<'_>], errors: &mut Errors) {
        let path = "spec.auditAnnotations";
        if annotations.len() > MAX_ANNOTATIONS {
            let shown = annotations.iter().map(|annotation| {
                let (key, value) = (text(*annotation, "key"), text(*annotation, "valueExpression"));
                format!("{{\"Key\":{},\"ValueExpression\":{}}}", go_json(key), go_json(value))
            });
            let json = format!("[{}]", shown.collect::<Vec<_>>().join(","));
            let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
            errors.invalid_json(path, &json, &detail);
        }
        let mut keys = BTreeSet::new();
        for (i, annotation) in annotations.iter().enumerate() {
            let key = text(*annotation, "key");
            let field = format!("{path}[{i}].key");
            let whole = format!("{policy}/{key}");
            let mut problems = Vec::new();
            key_problems(&whole, Wording::LabelKey, &mut problems);
            errors.all_invalid(&field, &whole, &mut problems);
            let written = text(*annotation, "valueExpression");
            let expression = written.trim();
            let value = format!("{path}[{i}].valueExpression");
            if expression.is_empty() {
                errors.required(&value, "valueExpression is not specified");
            } else if expression.len() > MAX_ANNOTATION {
                let detail = format!("must not exceed {MAX_ANNOTATION} bytes in length");
                errors.required(&value, &detail);
            } else {
                let environment = &self.environment;
                compile(
                    environment,
                    expression,
                    written,
                    (Returns::StringOrNull, true),
                    &value,
                    errors,
                );
            }
            if !keys.insert(key) {
                errors.duplicate(&field, key);
            }
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !is_reserved(name)
}

/// Compiles an expression; `written` is its form in errors.
fn compile(
    environment: &Environment,
    expression: &str,
    written: &str,
    (returns, authorizer): (Returns, bool),
    field: &str,
    errors: &mut Errors,
) {
    let compiled = Expression::compile(expression, environment, returns, authorizer);
    if let Some(flaw) = compiled.flaw() {
        report(flaw, written, field, errors);
    }
}

fn report(flaw: &Flaw, written: &str, field: &str, errors: &mut Errors) {
    if flaw.internal {
        errors.internal(field, &flaw.text);
    } else {
        errors.invalid(field, written, &flaw.text);
    }
}
