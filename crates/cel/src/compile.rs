//! From text to a program: parse, check, validate, plan.

use super::{
    check::{Checked, check},
    env::Env,
    issue::Issues,
    plan::{ProgramError, plan},
    program::Program,
    syntax,
    validate::validate,
};

/// Why an expression cannot be evaluated at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is not CEL.
    #[error("{0}")]
    Parse(Issues),
    /// Names, types or literals are wrong.
    #[error("{0}")]
    Check(Issues),
    /// A constant part fails.
    #[error("{0}")]
    Program(#[from] ProgramError),
}

impl CompileError {
    /// The phase, as the machine format names it.
    pub fn phase(&self) -> &'static str {
        match self {
            CompileError::Parse(_) => "parse",
            CompileError::Check(_) => "check",
            CompileError::Program(_) => "program",
        }
    }

    /// The problems with their places; `None` if a constant part fails.
    pub fn issues(&self) -> Option<&Issues> {
        match self {
            CompileError::Parse(issues) | CompileError::Check(issues) => Some(issues),
            CompileError::Program(_) => None,
        }
    }

    /// The text as the API server's compiler puts it.
    pub fn detail(&self) -> String {
        match self {
            CompileError::Parse(issues) | CompileError::Check(issues) => format!("compilation failed: {issues}"),
            CompileError::Program(error) => format!("program instantiation failed: {error}"),
        }
    }

    /// The first line of the text.
    pub fn first_line(&self) -> String {
        match self {
            CompileError::Parse(issues) | CompileError::Check(issues) => issues.first_line(),
            CompileError::Program(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// Parses and checks an expression.
///
/// # Errors
/// Where it is not CEL, or not of this environment.
pub fn analyse(text: &str, env: &Env) -> Result<Checked, CompileError> {
    let ast = syntax::parse(text, &env.profile().syntax).map_err(CompileError::Parse)?;
    let checked = check(ast, text, env).map_err(CompileError::Check)?;
    validate(&checked, text, env).map_err(CompileError::Check)?;
    Ok(checked)
}

/// Makes a program of an expression.
///
/// # Errors
/// As [`analyse`], and where a constant part of it fails.
pub fn compile(text: &str, env: &Env) -> Result<Program, CompileError> {
    Ok(plan(&analyse(text, env)?, env)?)
}
