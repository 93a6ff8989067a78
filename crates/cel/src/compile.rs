//! Compiles an expression to a program: parse, check, validate, plan.

use super::{
    check::{Checked, check},
    env::Env,
    issue::Issues,
    plan::{ProgramError, plan},
    program::Program,
    syntax,
    validate::validate,
};

/// The reason why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A syntax error.
    #[error("{0}")]
    Parse(Issues),
    /// Invalid names, types or literals.
    #[error("{0}")]
    Check(Issues),
    /// A constant part fails.
    #[error("{0}")]
    Program(#[from] ProgramError),
}

impl CompileError {
    /// The phase's name in JSON output.
    pub fn phase(&self) -> &'static str {
        match self {
            CompileError::Parse(_) => "parse",
            CompileError::Check(_) => "check",
            CompileError::Program(_) => "program",
        }
    }

    /// The problems with their locations; `None` if a constant part fails.
    pub fn issues(&self) -> Option<&Issues> {
        match self {
            CompileError::Parse(issues) | CompileError::Check(issues) => Some(issues),
            CompileError::Program(_) => None,
        }
    }

    /// The API server's message.
    pub fn detail(&self) -> String {
        match self {
            CompileError::Parse(issues) | CompileError::Check(issues) => format!("compilation failed: {issues}"),
            CompileError::Program(error) => format!("program instantiation failed: {error}"),
        }
    }

    /// The first line of the message.
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
/// If it is not CEL, or invalid in this environment.
pub fn analyse(text: &str, env: &Env) -> Result<Checked, CompileError> {
    let ast = syntax::parse(text, &env.profile().syntax).map_err(CompileError::Parse)?;
    let checked = check(ast, text, env).map_err(CompileError::Check)?;
    validate(&checked, text, env).map_err(CompileError::Check)?;
    Ok(checked)
}

/// Compiles an expression to a program.
///
/// # Errors
/// As [`analyse`], and if a constant part fails.
pub fn compile(text: &str, env: &Env) -> Result<Program, CompileError> {
    Ok(plan(&analyse(text, env)?, env)?)
}
