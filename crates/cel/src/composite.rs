//! The `variables` of a policy: each sees those before it, is evaluated on first use and then keeps its value or error.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/cel/composition.go` and `pkg/cel/lazy`; Kyverno's
//! `pkg/cel/compiler` builds on the same.

use std::cell::Cell;

use super::{
    ast::Name,
    compile::{CompileError, compile},
    context::Scratch,
    env::Env,
    eval::{Activation, Variables, evaluate},
    host::Host,
    observe::Place,
    program::Program,
    types::Type,
    val::Val,
};

/// The structure type of `variables` in Kubernetes.
pub(crate) const VARIABLES_TYPE: &str = "kubernetes.variables";

/// The structure type of `variables` in Kyverno's CEL policies.
pub(crate) const KYVERNO_VARIABLES_TYPE: &str = "kyverno.variables";

/// How variables are typed, and how their errors appear to the expressions that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Composition {
    /// JSON-like types are kept, and an error names the variable that failed.
    Kubernetes,
    /// All types are kept, and an error is the variable's own.
    Kyverno,
    /// Every variable is dyn, and one that failed is absent: the rules by which the reference data was computed.
    Golden,
}

impl Composition {
    /// The structure type of `variables`; `None` if it is dyn.
    const fn structure(self) -> Option<&'static str> {
        match self {
            Self::Kubernetes => Some(VARIABLES_TYPE),
            Self::Kyverno => Some(KYVERNO_VARIABLES_TYPE),
            Self::Golden => None,
        }
    }

    /// Declares an empty `variables`.
    pub fn declare(self, env: &mut Env) {
        match self.structure() {
            Some(structure) => {
                env.declare("variables", Type::structure(structure));
                env.declare_struct(structure, []);
            }
            None => {
                env.declare("variables", Type::Dyn);
            }
        }
    }
}

/// The compiled variables of a policy.
#[derive(Debug)]
pub struct Composite {
    programs: Vec<(Name, Result<Program, CompileError>)>,
    fields: Vec<(Name, Type)>,
    errors: Vec<(usize, CompileError)>,
    composition: Composition,
}

impl Composite {
    /// Compiles variables in order; each is declared in `env` for those after it.
    pub fn compile<'t>(
        variables: impl IntoIterator<Item = (&'t str, &'t str)>,
        env: &mut Env,
        composition: Composition,
    ) -> Self {
        let mut fields: Vec<(Name, Type)> = Vec::new();
        let mut programs: Vec<(Name, Result<Program, CompileError>)> = Vec::new();
        let mut errors = Vec::new();
        composition.declare(env);
        for (place, (name, text)) in variables.into_iter().enumerate() {
            let name = Name::from(name);
            let program = compile(text, env);
            if let Err(error) = &program {
                errors.push((place, error.clone()));
            }
            let declared = match &program {
                Ok(program) => declared_type(program.result_type(), composition),
                Err(_) => Type::Dyn,
            };
            // A second variable of the same name replaces the first.
            fields.retain(|(known, _)| *known != name);
            fields.push((name.clone(), declared));
            if let Some(structure) = composition.structure() {
                env.declare_struct(structure, fields.iter().cloned());
            }
            programs.retain(|(known, _)| *known != name);
            programs.push((name, program));
        }
        Self {
            programs,
            fields,
            errors,
            composition,
        }
    }

    /// No variables, and `variables` is undeclared.
    pub(crate) fn empty(composition: Composition) -> Self {
        Self {
            programs: Vec::new(),
            fields: Vec::new(),
            errors: Vec::new(),
            composition,
        }
    }

    /// The compile errors by index; if two variables have the same name, both are listed.
    pub fn errors(&self) -> &[(usize, CompileError)] {
        &self.errors
    }

    /// Declares the variables in a further environment.
    pub fn declare(&self, env: &mut Env) {
        self.composition.declare(env);
        if let Some(structure) = self.composition.structure() {
            env.declare_struct(structure, self.fields.iter().cloned());
        }
    }

    /// The variables with their programs or compile errors.
    pub fn programs(&self) -> &[(Name, Result<Program, CompileError>)] {
        &self.programs
    }

    /// The programs of the variables, for observers.
    pub fn places(&self) -> impl Iterator<Item = (Place, &Program)> {
        let programs = self.programs.iter();
        programs.filter_map(|(name, program)| Some((Place::Variable(name.to_string()), program.as_ref().ok()?)))
    }

    /// The variables of one request.
    pub fn bind<'a>(&'a self, scratch: &'a Scratch, values: &'a [Option<Val<'a>>], host: &'a dyn Host) -> Lazy<'a> {
        let states: Vec<Cell<State<'a>>> = self.programs.iter().map(|_| Cell::new(State::Pending)).collect();
        Lazy {
            composite: self,
            scratch,
            values: Cell::new(values),
            host,
            states,
            cost: Cell::new(0),
        }
    }
}

/// The type of a variable for the expressions that use it.
///
/// kubernetes: pkg/admission/plugin/cel/composition.go `convertCelTypeToDeclType`.
fn declared_type(t: &Type, composition: Composition) -> Type {
    if composition == Composition::Kyverno {
        return t.clone();
    }
    match t {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => t.clone(),
        Type::List(element) => Type::list(declared_type(element, composition)),
        Type::Map(entry) => Type::map(
            declared_type(&entry.0, composition),
            declared_type(&entry.1, composition),
        ),
        Type::Dyn
        | Type::Any
        | Type::Error
        | Type::Wrapper(_)
        | Type::Struct(_)
        | Type::Opaque(..)
        | Type::Param(_)
        | Type::Type(_) => Type::Dyn,
    }
}

#[derive(Clone, Copy)]
enum State<'a> {
    Pending,
    Running,
    Done(Val<'a>),
}

/// The variables of one request, evaluated on first use.
pub struct Lazy<'a> {
    composite: &'a Composite,
    scratch: &'a Scratch,
    values: Cell<&'a [Option<Val<'a>>]>,
    host: &'a dyn Host,
    states: Vec<Cell<State<'a>>>,
    cost: Cell<u64>,
}

impl std::fmt::Debug for Lazy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lazy").field("cost", &self.cost).finish_non_exhaustive()
    }
}

impl<'a> Lazy<'a> {
    /// Changes the inputs of variables that have not been used yet; the others keep their values.
    pub fn set_values(&self, values: &'a [Option<Val<'a>>]) {
        self.values.set(values);
    }

    /// The total cost of the variables used so far.
    pub fn cost(&self) -> u64 {
        self.cost.get()
    }

    fn evaluate(&'a self, i: usize) -> Val<'a> {
        let (name, program) = &self.composite.programs[i];
        let program = match program {
            Ok(program) => program,
            Err(error) => {
                let text = format!("composited variable \"{name}\" fails to compile: {}", error.detail());
                return self.error(&text);
            }
        };
        let activation = Activation {
            values: self.values.get(),
            variables: Some(self),
        };
        let outcome = evaluate(program, self.scratch, activation, self.host, None);
        self.cost.set(self.cost.get().saturating_add(outcome.cost));
        match outcome.value {
            Val::Error(text) => match self.composite.composition {
                Composition::Kubernetes => {
                    self.error(&format!("composited variable \"{name}\" fails to evaluate: {text}"))
                }
                Composition::Kyverno | Composition::Golden => outcome.value,
            },
            value => value,
        }
    }

    fn error(&self, text: &str) -> Val<'a> {
        Val::Error(self.scratch.text(text))
    }
}

impl<'a> Variables<'a> for Lazy<'a> {
    fn get(&'a self, name: &str) -> Option<Val<'a>> {
        let i = self.composite.programs.iter().position(|(known, _)| &**known == name)?;
        let value = match self.states[i].get() {
            State::Done(value) => value,
            // A variable sees only those before it, so this needs two of one name; it is an error like any other.
            State::Running => self.error(&format!("composited variable \"{name}\" refers to itself")),
            State::Pending => {
                self.states[i].set(State::Running);
                let value = self.evaluate(i);
                self.states[i].set(State::Done(value));
                value
            }
        };
        (self.composite.composition != Composition::Golden || !value.is_error()).then_some(value)
    }
}
