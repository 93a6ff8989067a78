//! Which images a policy is about.
//!
//! Upstream counterpart: `CompileMatchImageReference` of `pkg/cel/compiler/compiler.go` and `MatchImage` of
//! `pkg/cel/matching` (1.19). A glob sees the reference as it is written.

use crate::cel_policy::{
    FieldError,
    compile::{Output, compile},
};
use kyvtest_cel::{
    context::Scratch,
    env::Env,
    eval::{Activation, evaluate},
    host::NoHost,
    profile::Profile,
    program::Program,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::text::{glob::Glob, quote::quote};
use kyvtest_model::policy::ImageReference;

/// The references of a policy; without any, every image is meant.
#[derive(Debug)]
pub(super) struct References {
    env: Env,
    slot: u32,
    list: Vec<Reference>,
}

#[derive(Debug)]
enum Reference {
    Glob(Glob),
    Expression(Program),
}

impl References {
    /// Compiles references.
    ///
    /// # Errors
    /// All that are invalid, each with its field below `path`.
    pub(super) fn compile(path: &str, list: &[ImageReference]) -> Result<Self, Vec<String>> {
        let mut env = Env::new(Profile::kyverno_image_reference());
        let slot = env.declare("ref", Type::String);
        let (mut compiled, mut errors) = (Vec::new(), Vec::new());
        for (i, reference) in list.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let text = match reference {
                ImageReference::Glob(text) => text.value.as_str(),
                ImageReference::Expression(expression) => expression.text(),
            };
            if text.is_empty() {
                errors.push(format!(
                    "{path}: Invalid value: {{}}: either glob or expression must be set"
                ));
                continue;
            }
            match reference {
                ImageReference::Glob(text) => match Glob::new(text) {
                    Ok(glob) => compiled.push(Reference::Glob(glob)),
                    Err(error) => errors.push(format!("{path}.glob: Invalid value: {}: {error}", quote(text))),
                },
                ImageReference::Expression(expression) => {
                    match compile(format!("{path}.expression"), expression, &env, Output::Bool) {
                        Ok(program) => compiled.push(Reference::Expression(program)),
                        Err(error) => errors.push(FieldError::to_string(&error)),
                    }
                }
            }
        }
        if errors.is_empty() {
            Ok(Self {
                env,
                slot,
                list: compiled,
            })
        } else {
            Err(errors)
        }
    }

    /// Whether an image is meant. The first reference that matches, or cannot be evaluated, decides.
    ///
    /// # Errors
    /// If an expression cannot be evaluated.
    pub(super) fn select(&self, image: &str) -> Result<bool, String> {
        if self.list.is_empty() {
            return Ok(true);
        }
        let mut values = self.env.initial_values();
        values[self.slot as usize] = Some(Val::String(image));
        for reference in &self.list {
            let selected = match reference {
                Reference::Glob(glob) => glob.matches(image),
                Reference::Expression(program) => {
                    let scratch = Scratch::new();
                    let activation = Activation {
                        values: &values,
                        variables: None,
                    };
                    match evaluate(program, &scratch, activation, &NoHost, None).value {
                        Val::Error(error) => return Err(error.to_owned()),
                        value => matches!(value, Val::Bool(true)),
                    }
                }
            };
            if selected {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
