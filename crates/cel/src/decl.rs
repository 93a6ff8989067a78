//! Declarations of functions: one table drives the checker, the planner and the cost accounting.
//!
//! Upstream counterpart: cel-go `common/decls`, with the cost hooks of `interpreter/runtimecost.go` and
//! `k8s.io/apiserver/pkg/cel/library/cost.go` beside the overloads they belong to.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    ast::Name,
    context::Context,
    types::Type,
    val::{Trait, Val},
};

/// The implementation of a function.
pub type Implementation = for<'a> fn(&Context<'a>, &[Val<'a>]) -> Val<'a>;

/// The cost of a completed call, from its arguments and result.
pub type CostFunction = for<'a> fn(&[Val<'a>], &Val<'a>) -> u64;

/// The cost of a call, from its arguments.
pub type ArgumentCost = for<'a> fn(&[Val<'a>]) -> u64;
/// The cost of all calls of a function, from the overload id, the arguments and the result; `None` falls back to the
/// defaults.
pub type CostEstimator = for<'a> fn(&str, &[Val<'a>], &Val<'a>) -> Option<u64>;

/// The kind of binding in cel-go: a unary or binary function evaluates all arguments before it checks for errors; any
/// other function stops at the first argument that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `UnaryBinding`
    Unary,
    /// `BinaryBinding`
    Binary,
    /// `FunctionBinding`
    Variadic,
}

/// One overload of a function.
#[derive(Debug, Clone)]
pub struct Overload {
    /// cel-go's overload id.
    pub id: &'static str,
    /// Whether it has a receiver.
    pub member: bool,
    /// The parameters, the receiver first.
    pub parameters: Vec<Type>,
    pub result: Type,
    /// How many type parameters it has.
    pub type_parameters: u32,
    /// Whether it accepts errors as arguments.
    pub non_strict: bool,
    /// `None` for operators that the planner implements and for functions with a shared implementation.
    pub implementation: Option<(Binding, Implementation)>,
    /// The cost of a call that the checker resolved to this overload.
    pub cost: Option<CostFunction>,
    /// Like `cost`, if it does not depend on the result: such a call is charged before it is made.
    pub cost_of_arguments: Option<ArgumentCost>,
}

impl Overload {
    fn new(id: &'static str, member: bool, parameters: &[Type], result: Type) -> Self {
        let type_parameters = parameters
            .iter()
            .chain([&result])
            .map(count_parameters)
            .max()
            .unwrap_or(0);
        Self {
            id,
            member,
            parameters: parameters.to_vec(),
            result,
            type_parameters,
            non_strict: false,
            implementation: None,
            cost: None,
            cost_of_arguments: None,
        }
    }

    /// Binds a function of one argument.
    pub fn unary(mut self, implementation: Implementation) -> Self {
        self.implementation = Some((Binding::Unary, implementation));
        self
    }

    /// Binds a function of two arguments.
    pub fn binary(mut self, implementation: Implementation) -> Self {
        self.implementation = Some((Binding::Binary, implementation));
        self
    }

    /// Binds a function that cel-go binds by `FunctionBinding`.
    pub fn variadic(mut self, implementation: Implementation) -> Self {
        self.implementation = Some((Binding::Variadic, implementation));
        self
    }

    /// Lets the overload see errors.
    pub fn non_strict(mut self) -> Self {
        self.non_strict = true;
        self
    }

    /// The cost of calls that are resolved to this overload.
    pub fn cost(mut self, cost: CostFunction) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The cost of calls that are resolved to this overload, computed from their arguments.
    pub fn cost_of_arguments(mut self, cost: ArgumentCost) -> Self {
        self.cost_of_arguments = Some(cost);
        self
    }

    /// Whether run-time arguments fit the declared parameters.
    pub fn accepts(&self, args: &[Val<'_>]) -> bool {
        args.len() == self.parameters.len()
            && self.parameters.iter().zip(args).all(|(parameter, arg)| {
                if arg.is_error() {
                    self.non_strict
                } else {
                    arg.fits(parameter)
                }
            })
    }
}

fn count_parameters(t: &Type) -> u32 {
    match t {
        Type::Param(n) => n + 1,
        Type::List(element) => count_parameters(element),
        Type::Map(entry) => count_parameters(&entry.0).max(count_parameters(&entry.1)),
        Type::Opaque(_, parameters) => parameters.iter().map(count_parameters).max().unwrap_or(0),
        Type::Type(Some(inner)) => count_parameters(inner),
        _ => 0,
    }
}

/// A global overload: `f(a, b)`.
pub fn global(id: &'static str, parameters: &[Type], result: Type) -> Overload {
    Overload::new(id, false, parameters, result)
}

/// A member overload: `a.f(b)`; the receiver is the first parameter.
pub fn member(id: &'static str, parameters: &[Type], result: Type) -> Overload {
    Overload::new(id, true, parameters, result)
}

/// One implementation for all overloads of a function, behind a trait of the first argument.
#[derive(Debug, Clone, Copy)]
pub struct Singleton {
    /// The trait that the first argument's type must have.
    pub operand: Option<Trait>,
    pub binding: Binding,
    pub implementation: Implementation,
}

/// A function with its overloads.
#[derive(Debug, Clone)]
pub struct Function {
    /// The name, dots included (`math.greatest`).
    pub name: &'static str,
    /// The overloads in declaration order, which is also the order of dispatch at run time.
    pub overloads: Vec<Overload>,
    pub singleton: Option<Singleton>,
    /// Whether calls skip the check of argument types (`startsWith`, `endsWith`, `contains`).
    pub no_type_guards: bool,
    /// The cost of every call by this name (the estimator of Kubernetes), unless the overload has its own. It receives
    /// the overload id, empty if several remain after checking; `None` means cel-go's defaults.
    pub cost: Option<CostEstimator>,
}

/// A set of functions and the types that belong to them.
#[derive(Debug, Clone, Default)]
pub struct Library {
    functions: FxHashMap<&'static str, Function>,
    /// Type names (`int`, `net.IP`), by run-time name.
    types: FxHashMap<&'static str, Type>,
    /// The first segments of all dotted names.
    namespaces: FxHashSet<&'static str>,
    constants: Vec<Constant>,
    structures: Vec<Structure>,
    /// The fields of all structures that policies see, including those of the libraries.
    fields: FxHashMap<Name, Vec<(Name, Type)>>,
}

/// A name that a library declares with its value, such as the receiver `resource`.
#[derive(Debug, Clone)]
pub struct Constant {
    pub name: &'static str,
    pub declared: Type,
    pub value: Val<'static>,
}

/// A structure that a library declares: its name denotes its type, its fields are checked.
#[derive(Debug, Clone)]
pub struct Structure {
    pub name: &'static str,
    pub fields: Vec<(&'static str, Type)>,
    /// Constructs a value, for structures that an expression may construct.
    pub make: Option<Make>,
}

/// Constructs a value of a structure from the fields that the expression sets.
pub type Make = for<'a> fn(&Context<'a>, &[(&'a str, Val<'a>)]) -> Val<'a>;

impl Library {
    pub fn add(&mut self, name: &'static str, overloads: impl IntoIterator<Item = Overload>) -> &mut Function {
        self.add_namespace(name);
        let function = self.functions.entry(name).or_insert_with(|| Function {
            name,
            overloads: Vec::new(),
            singleton: None,
            no_type_guards: false,
            cost: None,
        });
        function.overloads.extend(overloads);
        function
    }

    /// Declares a type name.
    pub fn add_type(&mut self, name: &'static str, t: Type) {
        self.add_namespace(name);
        self.types.insert(name, t);
    }

    /// Declares a variable with a constant value.
    pub fn add_constant(&mut self, name: &'static str, declared: Type, value: Val<'static>) {
        self.constants.push(Constant { name, declared, value });
    }

    /// Declares a structure.
    pub fn add_structure(&mut self, name: &'static str, fields: &[(&'static str, Type)], make: Option<Make>) {
        self.structures.push(Structure {
            name,
            fields: fields.to_vec(),
            make,
        });
    }

    /// The variables with constant values.
    pub fn constants(&self) -> &[Constant] {
        &self.constants
    }

    pub fn structures(&self) -> &[Structure] {
        &self.structures
    }

    /// Declares the fields of a structure that policies see.
    pub fn set_fields(&mut self, name: Name, fields: Vec<(Name, Type)>) {
        self.fields.insert(name, fields);
    }

    /// The structures that policies see, with their fields.
    pub fn fields(&self) -> &FxHashMap<Name, Vec<(Name, Type)>> {
        &self.fields
    }

    fn add_namespace(&mut self, name: &'static str) {
        if let Some((first, _)) = name.split_once('.') {
            self.namespaces.insert(first);
        }
    }

    /// Whether a function or type has a dotted name that starts with this segment.
    pub fn has_namespace(&self, first: &str) -> bool {
        self.namespaces.contains(first)
    }

    /// A function by its full name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    pub fn function_mut(&mut self, name: &str) -> Option<&mut Function> {
        self.functions.get_mut(name)
    }

    /// The type that a name denotes.
    pub fn type_named(&self, name: &str) -> Option<(&'static str, &Type)> {
        self.types.get_key_value(name).map(|(name, t)| (*name, t))
    }
}
