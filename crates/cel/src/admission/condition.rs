//! Lists of expressions that share variables and a budget.

use super::Environment;
use crate::{
    compile::{CompileError, analyse},
    context::Scratch,
    eval::{Activation, evaluate},
    host::Host,
    mutation,
    plan::plan,
    program::Program,
    types::Type,
    val::Val,
};

/// The cost budget of all validations of a policy for one parameter.
///
/// Upstream: `k8s.io/apiserver/pkg/apis/cel/config.go` `RuntimeCELCostBudget`.
pub(crate) const RUNTIME_BUDGET: u64 = 10_000_000;

/// The cost budget of all match conditions.
///
/// Upstream: `k8s.io/apiserver/pkg/apis/cel/config.go` `RuntimeCELCostBudgetMatchConditions`.
pub(crate) const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// The API server's message for an exhausted budget.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The types that the result of an expression may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// `bool`
    Bool,
    /// `string`
    String,
    /// `string` or `null_type`
    StringOrNull,
    /// `Object`: an apply configuration.
    Object,
    /// `list(JSONPatch)`
    JsonPatches,
}

impl Returns {
    fn accept(self, result: &Type) -> Result<(), String> {
        let (fits, wanted) = match self {
            Self::Bool => (*result == Type::Bool, "bool"),
            Self::String => (*result == Type::String, "string"),
            Self::StringOrNull => (matches!(result, Type::String | Type::Null), "one of [string null_type]"),
            Self::Object => (*result == Type::structure(mutation::OBJECT), "Object"),
            Self::JsonPatches => (
                *result == Type::list(Type::structure(mutation::JSON_PATCH)),
                "list(JSONPatch)",
            ),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("must evaluate to {wanted} but got {}", result.declared_name()))
        }
    }
}

/// The reason why an expression cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The API server's message.
    pub text: String,
    /// Whether the server reports an internal error, as for failures of program construction.
    pub internal: bool,
}

impl From<&CompileError> for Flaw {
    fn from(error: &CompileError) -> Self {
        Self {
            text: error.detail(),
            internal: matches!(error, CompileError::Program(_)),
        }
    }
}

/// A compiled expression, or the reason why it does not compile.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Result<Program, Flaw>,
}

impl Expression {
    /// Compiles an expression, with or without access to the authorizer; a mutation always has access.
    pub fn compile(text: &str, environment: &Environment, returns: Returns, authorizer: bool) -> Self {
        let env = match returns {
            Returns::Object | Returns::JsonPatches => environment.mutating(),
            Returns::Bool | Returns::String | Returns::StringOrNull => environment.env(authorizer),
        };
        let program = analyse(text, env)
            .map_err(|error| Flaw::from(&error))
            .and_then(|checked| {
                let accepted = returns.accept(checked.result_type());
                accepted.map_err(|text| Flaw { text, internal: false })?;
                plan(&checked, env).map_err(|error| Flaw::from(&CompileError::Program(error)))
            });
        Self {
            text: text.to_owned(),
            program,
        }
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The program, if the expression compiles.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    pub fn flaw(&self) -> Option<&Flaw> {
        self.program.as_ref().err()
    }
}

/// The result of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluated {
    /// A boolean.
    Bool(bool),
    Text(String),
    /// `null`
    Null,
    /// A value of another type, by its run-time type name.
    Other(String),
    /// The API server's error message.
    Error(String),
}

impl Evaluated {
    fn of(value: Val<'_>, text: &str) -> Self {
        match value {
            Val::Bool(value) => Self::Bool(value),
            Val::String(value) => Self::Text(value.to_owned()),
            Val::Null => Self::Null,
            Val::Error(error) => Self::Error(format!("expression '{text}' resulted in error: {error}")),
            other => Self::Other(other.type_name().to_owned()),
        }
    }
}

/// The budget is exhausted.
pub(super) struct Spent;

/// Evaluates one expression with its own variables, and passes its value or the API server's error message to `then`:
/// the value may borrow from the variables.
pub(super) fn evaluate_one<'a, T>(
    expression: &'a Expression,
    (environment, binds_variables): (&'a Environment, bool),
    values: &'a [Option<Val<'a>>],
    scratch: &'a Scratch,
    host: &'a dyn Host,
    then: impl FnOnce(Result<Val<'_>, String>) -> T,
) -> T {
    let program = match &expression.program {
        Ok(program) => program,
        Err(Flaw { text, .. }) => return then(Err(format!("compilation error: {text}"))),
    };
    let lazy = environment.composite.bind(scratch, values, host);
    let activation = Activation {
        values,
        variables: binds_variables.then_some(&lazy),
    };
    let outcome = evaluate(program, scratch, activation, host, None);
    if outcome.cost.saturating_add(lazy.cost()) > RUNTIME_BUDGET {
        return then(Err(OUT_OF_BUDGET.to_owned()));
    }
    then(match outcome.value {
        Val::Error(error) => Err(format!("expression '{}' resulted in error: {error}", expression.text)),
        value => Ok(value),
    })
}

/// Evaluates a list of expressions. Each starts with the budget that the ones before it left; the variables are
/// evaluated anew for the list. An entry without an expression has no result.
pub(super) fn evaluate_all<'e>(
    expressions: impl Iterator<Item = Option<&'e Expression>>,
    environment: &Environment,
    values: &[Option<Val<'_>>],
    scratch: &Scratch,
    host: &dyn Host,
    budget: u64,
) -> Result<(Vec<Option<Evaluated>>, u64), Spent> {
    let lazy = environment.composite.bind(scratch, values, host);
    let mut left = budget;
    let mut charged = 0;
    let mut results = Vec::new();
    for expression in expressions {
        let Some(expression) = expression else {
            results.push(None);
            continue;
        };
        let program = match &expression.program {
            Ok(program) => program,
            Err(Flaw { text, .. }) => {
                results.push(Some(Evaluated::Error(format!("compilation error: {text}"))));
                continue;
            }
        };
        let activation = Activation {
            values,
            variables: Some(&lazy),
        };
        let outcome = evaluate(program, scratch, activation, host, None);
        let variables = lazy.cost() - charged;
        charged = lazy.cost();
        left = left
            .checked_sub(variables)
            .and_then(|left| left.checked_sub(outcome.cost))
            .ok_or(Spent)?;
        results.push(Some(Evaluated::of(outcome.value, &expression.text)));
    }
    Ok((results, left))
}
