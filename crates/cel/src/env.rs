//! The meaning of names in an expression: a profile's functions and types, and the variables that a policy declares.
//!
//! Upstream counterpart: cel-go `checker/env.go`, Kubernetes' `pkg/admission/plugin/cel/compile.go`.

use rustc_hash::FxHashMap;

use super::{
    ast::Name,
    decl::{Function, Library},
    mutation,
    profile::Profile,
    types::Type,
    val::Val,
    wrapper,
};

/// A variable of an expression; its number is its index in the activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// A dotted name (`authorizer.requestResource`) is looked up as a whole.
    pub name: Name,
    pub(crate) declared: Type,
}

/// An environment: a profile, variables, structures.
#[derive(Debug, Clone)]
pub struct Env {
    profile: &'static Profile,
    container: String,
    variables: Vec<Variable>,
    /// The variables with constant values, by number.
    constants: Vec<(u32, Val<'static>)>,
    /// Structures declared in addition to the profile's.
    structs: FxHashMap<Name, Vec<(Name, Type)>>,
    /// Whether the profile's structures are declared.
    has_library_structs: bool,
    /// Functions declared in addition to the profile's.
    functions: Option<Box<Library>>,
    /// Whether `Object`, the types below it, and `JSONPatch` are declared.
    has_mutation_types: bool,
}

/// The meaning of a global name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Global {
    Variable(u32, Type),
    /// A type by its run-time name.
    Type(Name, Type),
}

impl Env {
    /// The environment of a profile, without variables.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            container: String::new(),
            variables: Vec::new(),
            constants: Vec::new(),
            structs: FxHashMap::default(),
            has_library_structs: false,
            functions: None,
            has_mutation_types: false,
        }
    }

    /// Sets the namespace in which names are looked up first.
    pub fn with_container(mut self, container: &str) -> Self {
        container.clone_into(&mut self.container);
        self
    }

    /// Replaces the profile; declarations are kept.
    pub(crate) fn with_profile(mut self, profile: &'static Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Declares a variable, or changes the type of a declared one; returns its number.
    pub fn declare(&mut self, name: &str, declared: Type) -> u32 {
        if let Some(i) = self.variables.iter().position(|variable| &*variable.name == name) {
            self.variables[i].declared = declared;
            return i as u32;
        }
        self.variables.push(Variable {
            name: name.into(),
            declared,
        });
        self.variables.len() as u32 - 1
    }

    /// Declares a variable together with its value.
    pub(crate) fn declare_constant(&mut self, name: &str, declared: Type, value: Val<'static>) {
        let number = self.declare(name, declared);
        self.constants.push((number, value));
    }

    /// The values of the variables before anything is bound, by number.
    pub fn initial_values<'a>(&self) -> Vec<Option<Val<'a>>> {
        let mut values = vec![None; self.variables.len()];
        for &(number, value) in &self.constants {
            values[number as usize] = Some(value);
        }
        values
    }

    /// Declares a structure and its fields.
    pub fn declare_struct(&mut self, name: &str, fields: impl IntoIterator<Item = (Name, Type)>) {
        self.structs.insert(name.into(), fields.into_iter().collect());
    }

    /// Declares the structures of the profile.
    pub(crate) fn declare_library_structs(&mut self) {
        self.has_library_structs = true;
    }

    /// Declares the types of mutating policies: `Object` and every name below it, and `JSONPatch`.
    pub fn declare_mutation_types(&mut self) {
        self.has_mutation_types = true;
        let texts = ["op", "path", "from"].map(|name| (name.into(), Type::String));
        let fields = texts.into_iter().chain([("value".into(), Type::Dyn)]);
        self.declare_struct(mutation::JSON_PATCH, fields);
    }

    /// Whether a type has every field, each of any type.
    pub(crate) fn is_dynamic(&self, name: &str) -> bool {
        self.has_mutation_types && mutation::is_object_type(name)
    }

    /// Whether `JSONPatch` does not declare the field.
    pub(super) fn is_untyped_field(&self, structure: &str, field: &str) -> bool {
        self.has_mutation_types
            && structure == mutation::JSON_PATCH
            && !matches!(field, "op" | "path" | "from" | "value")
    }

    /// All structures except CEL's own.
    fn structs(&self) -> impl Iterator<Item = &FxHashMap<Name, Vec<(Name, Type)>>> {
        let library = self.has_library_structs.then(|| self.profile.library().fields());
        std::iter::once(&self.structs).chain(library)
    }

    /// Declares functions in addition to the profile's.
    pub fn with_functions(mut self, library: Library) -> Self {
        self.functions = Some(Box::new(library));
        self
    }

    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// The namespace in which names are looked up first.
    pub(crate) fn container(&self) -> &str {
        &self.container
    }

    /// The declared variables, by number.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The fields of a structure.
    pub fn fields(&self, name: &str) -> Option<&[(Name, Type)]> {
        self.structs()
            .find_map(|structs| structs.get(name))
            .map(Vec::as_slice)
            .or_else(|| wrapper::fields(name))
    }

    /// Calls `found` with each name that `name` may be short for, most specific first, until it returns `Some`.
    pub(crate) fn candidates<T>(&self, name: &str, mut found: impl FnMut(&str) -> Option<T>) -> Option<T> {
        if let Some(absolute) = name.strip_prefix('.') {
            return found(absolute);
        }
        let mut scope = self.container.as_str();
        while !scope.is_empty() {
            if let Some(result) = found(&format!("{scope}.{name}")) {
                return Some(result);
            }
            scope = scope.rfind('.').map_or("", |dot| &scope[..dot]);
        }
        found(name)
    }

    /// Whether some variable, type, structure or function has a dotted name that starts with `root`; if not, a chain of
    /// selections cannot be a name.
    pub(crate) fn has_dotted(&self, root: &str) -> bool {
        let under = |name: &str| name.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'));
        !self.container.is_empty()
            || root.starts_with('.')
            || self.profile.library().has_namespace(root)
            || self
                .functions
                .as_deref()
                .is_some_and(|library| library.has_namespace(root))
            || self.variables.iter().any(|variable| under(&variable.name))
            || self.structs().any(|structs| structs.keys().any(|name| under(name)))
            || self.is_dynamic(root)
    }

    /// Looks up a name outside all comprehensions.
    pub(crate) fn global(&self, name: &str) -> Option<Global> {
        self.candidates(name, |name| {
            if let Some(i) = self.variables.iter().position(|variable| &*variable.name == name) {
                return Some(Global::Variable(i as u32, self.variables[i].declared.clone()));
            }
            if let Some((runtime, t)) = self.library_type(name) {
                return Some(Global::Type(runtime.into(), Type::type_of(t.clone())));
            }
            if self.is_dynamic(name) || self.structs().any(|structs| structs.contains_key(name)) {
                return Some(Global::Type(name.into(), Type::type_of(Type::structure(name))));
            }
            None
        })
    }

    fn library_type(&self, name: &str) -> Option<(&'static str, &Type)> {
        let own = self.functions.as_deref().and_then(|library| library.type_named(name));
        own.or_else(|| self.profile.library().type_named(name))
    }

    pub fn function(&self, name: &str) -> Option<&Function> {
        let named = |name: &str| {
            let own = self.functions.as_deref().and_then(|library| library.function(name));
            own.or_else(|| self.profile.library().function(name))
        };
        if self.container.is_empty() {
            return named(name.strip_prefix('.').unwrap_or(name));
        }
        self.candidates(name, named)
    }
}
