//! The type checker.
//!
//! Upstream counterpart: cel-go `checker/checker.go`. The result holds, for every node, its type and the meaning of its
//! name or function; the planner needs nothing else.

mod unchecked;

pub use unchecked::unchecked;

use std::sync::Arc;

use super::{
    ast::{Ast, Comprehension, Expr, ExprId, Literal, MapEntry, Name, StructField},
    decl::Function,
    env::{Env, Global},
    infer::{Inference, most_general},
    issue::{IssueSink, Issues, Source},
    types::Type,
};

/// The meaning of a node's name or function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Reference {
    /// The node is not a name.
    #[default]
    None,
    /// A variable of a comprehension.
    Local,
    /// A variable of the environment, by index.
    Variable(u32),
    /// A type, by its run-time name.
    Type(Name),
    /// A function: its name, the overloads that fit, and whether the receiver is part of the name.
    Function {
        name: Name,
        overloads: Vec<u16>,
        namespaced: bool,
    },
    /// An undeclared name in an unchecked expression, with the names that it may be short for.
    Unbound(Name),
    /// An undeclared function in an unchecked expression.
    UnknownFunction,
}

/// A checked expression.
#[derive(Debug, Clone)]
pub struct Checked {
    pub ast: Ast,
    pub types: Vec<Type>,
    pub(crate) references: Vec<Reference>,
    /// The source text; may be empty.
    pub source: Arc<str>,
}

impl Checked {
    /// The type of the whole expression.
    pub fn result_type(&self) -> &Type {
        self.type_of(self.ast.root())
    }

    /// The type of a node.
    pub(crate) fn type_of(&self, id: ExprId) -> &Type {
        &self.types[id.index()]
    }
}

/// Checks an expression.
///
/// # Errors
/// The problems, with cel-go's messages and locations.
pub fn check(ast: Ast, source: &str, env: &Env) -> Result<Checked, Issues> {
    let nodes = ast.len();
    let mut checker = Checker {
        ast: &ast,
        env,
        types: vec![None; nodes],
        references: vec![Reference::None; nodes],
        inference: Inference::default(),
        scopes: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(ast.root());
    if let Some(issues) = located(&checker.issues, source) {
        return Err(issues);
    }
    let inference = checker.inference;
    let types = checker
        .types
        .into_iter()
        .map(|t| t.map_or(Type::Dyn, |t| inference.substitute(&t, true)))
        .collect();
    Ok(Checked {
        source: source.into(),
        types,
        references: checker.references,
        ast,
    })
}

/// Sorts problems at code-point offsets by location.
pub(super) fn located(issues: &[(u32, String)], source: &str) -> Option<Issues> {
    if issues.is_empty() {
        return None;
    }
    let lines = Source::new(source);
    let mut sink = IssueSink::default();
    for (offset, message) in issues {
        sink.report(lines.location(*offset as i32), message.clone());
    }
    sink.into_issues(source)
}

struct Checker<'e> {
    ast: &'e Ast,
    env: &'e Env,
    types: Vec<Option<Type>>,
    references: Vec<Reference>,
    inference: Inference,
    /// The variables of the comprehensions around the node, innermost last.
    scopes: Vec<(Name, Type)>,
    issues: Vec<(u32, String)>,
}

impl Checker<'_> {
    fn report(&mut self, id: ExprId, message: String) {
        self.issues.push((self.ast.offset(id), message));
    }

    fn set(&mut self, id: ExprId, t: Type) {
        self.types[id.index()] = Some(t);
    }

    fn get(&self, id: ExprId) -> Type {
        self.types[id.index()].clone().unwrap_or(Type::Error)
    }

    fn undeclared(&mut self, id: ExprId, name: &str) {
        let container = self.env.container();
        self.report(
            id,
            format!("undeclared reference to '{name}' (in container '{container}')"),
        );
        self.set(id, Type::Error);
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check(&mut self, id: ExprId) {
        let ast = self.ast;
        match ast.expr(id) {
            Expr::Literal(literal) => self.set(id, literal_type(literal)),
            Expr::Ident(name) => self.check_ident(id, name),
            Expr::Select {
                operand,
                field,
                test_only,
            } => self.check_select(id, *operand, field, *test_only),
            Expr::Call { function, target, args } => self.check_call(id, function, *target, args),
            Expr::List { elements, optional } => self.check_list(id, elements, optional),
            Expr::Map(entries) => self.check_map(id, entries),
            Expr::Struct { type_name, fields } => self.check_struct(id, type_name, fields),
            Expr::Comprehension(comprehension) => self.check_comprehension(id, comprehension),
        }
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find(|(n, _)| &**n == name).map(|(_, t)| t)
    }

    fn check_ident(&mut self, id: ExprId, name: &str) {
        if let Some(t) = self.local(name).cloned() {
            self.set(id, t);
            self.references[id.index()] = Reference::Local;
            return;
        }
        if !self.resolve_global(id, name) {
            self.undeclared(id, name);
        }
    }

    fn resolve_global(&mut self, id: ExprId, name: &str) -> bool {
        let (reference, t) = match self.env.global(name) {
            Some(Global::Variable(number, t)) => (Reference::Variable(number), t),
            Some(Global::Type(name, t)) => (Reference::Type(name), t),
            None => return false,
        };
        self.set(id, t);
        self.references[id.index()] = reference;
        true
    }

    fn check_select(&mut self, id: ExprId, operand: ExprId, field: &str, test_only: bool) {
        // A dotted name is looked up as a whole first, unless a comprehension's variable hides its root.
        if let Some(root) = chain_root(self.ast, id)
            && self.local(root).is_none()
            && self.env.has_dotted(root)
            && let Some(name) = qualified_name(self.ast, id)
            && self.resolve_global(id, &name)
        {
            return;
        }
        let mut result = self.check_field(id, operand, field, false);
        if test_only {
            result = Type::Bool;
        }
        let result = self.inference.substitute(&result, false);
        self.set(id, result);
    }

    fn check_optional_select(&mut self, id: ExprId, member: bool, args: &[ExprId]) {
        let &[operand, field] = args else {
            let kind = if member { " member call with" } else { "" };
            self.report(
                id,
                format!(
                    "unsupported optional field selection: incorrect signature.{kind} argument count: {}",
                    args.len()
                ),
            );
            return;
        };
        let Expr::Literal(Literal::String(name)) = self.ast.expr(field) else {
            self.report(field, "unsupported optional field selection".to_owned());
            return;
        };
        let result = self.check_field(id, operand, name, true);
        let result = self.inference.substitute(&result, false);
        self.set(id, result);
    }

    fn check_field(&mut self, id: ExprId, operand: ExprId, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.inference.substitute(&self.get(operand), false);
        let (target, was_optional) = match operand_type.unwrap_optional() {
            Some(inner) => (inner, true),
            None => (&operand_type, false),
        };
        let result = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Struct(name) => self.check_declared_field(self.ast.offset(id), name, field),
            Type::Param(_) => {
                self.inference.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    let message = format!("type '{other}' does not support field selection");
                    self.report(id, message);
                }
                Type::Dyn
            }
        };
        if was_optional || optional {
            Type::optional(result)
        } else {
            result
        }
    }

    fn check_declared_field(&mut self, offset: u32, structure: &str, field: &str) -> Type {
        if self.env.is_dynamic(structure) {
            return Type::Dyn;
        }
        let Some(fields) = self.env.fields(structure) else {
            self.issues
                .push((offset, format!("unexpected failed resolution of '{structure}'")));
            return Type::Error;
        };
        if let Some((_, t)) = fields.iter().find(|(name, _)| &**name == field) {
            return t.clone();
        }
        self.issues.push((offset, format!("undefined field '{field}'")));
        Type::Error
    }

    fn check_call(&mut self, id: ExprId, function: &str, target: Option<ExprId>, args: &[ExprId]) {
        if function == "_?._" {
            return self.check_optional_select(id, target.is_some(), args);
        }
        for &arg in args {
            self.check(arg);
        }
        let env = self.env;
        let Some(receiver) = target else {
            match env.function(function) {
                Some(declared) => self.resolve(id, declared, None, args, false),
                None => self.undeclared(id, function),
            }
            return;
        };
        // `a.b.c(x)` is the function `a.b.c` if there is one, else the method `c` of `a.b`.
        if let Some(root) = chain_root(self.ast, receiver)
            && env.has_dotted(root)
            && let Some(prefix) = qualified_name(self.ast, receiver)
            && let Some(declared) = env.function(&format!("{prefix}.{function}"))
        {
            return self.resolve(id, declared, None, args, true);
        }
        self.check(receiver);
        match env.function(function) {
            Some(declared) => self.resolve(id, declared, Some(receiver), args, false),
            None => self.undeclared(id, function),
        }
    }

    fn resolve(&mut self, id: ExprId, function: &Function, target: Option<ExprId>, args: &[ExprId], namespaced: bool) {
        if matches!(function.name, "_&&_" | "_||_") {
            return self.resolve_logical(id, function, args);
        }
        let arg_types: Vec<Type> = target.iter().chain(args).map(|&arg| self.get(arg)).collect();
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for (i, overload) in function.overloads.iter().enumerate() {
            if overload.member != target.is_some() {
                continue;
            }
            let declared_result = if overload.type_parameters == 0 {
                if !self.inference.assignable_list(&arg_types, &overload.parameters) {
                    continue;
                }
                overload.result.clone()
            } else {
                let base = self.inference.reserve(overload.type_parameters);
                if arg_types.len() != overload.parameters.len() {
                    continue;
                }
                let parameters: Vec<Type> = overload
                    .parameters
                    .iter()
                    .map(|p| Inference::instantiate(p, base))
                    .collect();
                if !self.inference.assignable_list(&arg_types, &parameters) {
                    continue;
                }
                self.inference
                    .substitute(&Inference::instantiate(&overload.result, base), false)
            };
            overloads.push(i as u16);
            match &result {
                None => result = Some(declared_result),
                Some(known) if !known.is_dyn() && *known != declared_result => result = Some(Type::Dyn),
                Some(_) => {}
            }
        }
        match result {
            Some(result) => {
                self.set(id, result);
                self.references[id.index()] = Reference::Function {
                    name: function.name.into(),
                    overloads,
                    namespaced,
                };
            }
            None => {
                let types: Vec<String> = arg_types
                    .iter()
                    .map(|t| self.inference.substitute(t, true).to_string())
                    .collect();
                let signature = match (target, types.split_first()) {
                    (Some(_), Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
                    _ => format!("({})", types.join(", ")),
                };
                let name = function.name;
                self.report(
                    id,
                    format!("found no matching overload for '{name}' applied to '{signature}'"),
                );
                self.set(id, Type::Error);
            }
        }
    }

    fn resolve_logical(&mut self, id: ExprId, function: &Function, args: &[ExprId]) {
        let mut failed = false;
        for &arg in args {
            let t = self.get(arg);
            if !self.inference.assignable(&t, &Type::Bool) {
                self.mismatch(arg, &Type::Bool, &t);
                failed = true;
            }
        }
        if failed {
            self.set(id, Type::Error);
            return;
        }
        self.set(id, Type::Bool);
        self.references[id.index()] = Reference::Function {
            name: function.name.into(),
            overloads: vec![0],
            namespaced: false,
        };
    }

    /// The type inside an optional element, entry or field.
    fn unwrap_element(&mut self, id: ExprId, t: Type) -> Type {
        if let Some(inner) = t.unwrap_optional() {
            return inner.clone();
        }
        if !t.is_dyn() {
            self.mismatch(id, &Type::optional(t.clone()), &t);
        }
        t
    }

    /// The common type of list elements.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.inference.assignable(&previous, &current) => {
                most_general(&previous, &current).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    fn check_list(&mut self, id: ExprId, elements: &[ExprId], optional: &[u32]) {
        let mut joined = None;
        for (i, &element) in elements.iter().enumerate() {
            self.check(element);
            let mut t = self.get(element);
            if optional.contains(&(i as u32)) {
                t = self.unwrap_element(element, t);
            }
            joined = Some(self.join(joined, t));
        }
        let element = joined.unwrap_or_else(|| self.inference.fresh());
        self.set(id, Type::list(element));
    }

    fn check_map(&mut self, id: ExprId, entries: &[MapEntry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(entry.key);
            let key = self.get(entry.key);
            keys = Some(self.join(keys, key));
            self.check(entry.value);
            let mut value = self.get(entry.value);
            if entry.optional {
                value = self.unwrap_element(entry.value, value);
            }
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.inference.fresh());
        let value = values.unwrap_or_else(|| self.inference.fresh());
        self.set(id, Type::map(key, value));
    }

    fn check_struct(&mut self, id: ExprId, type_name: &str, fields: &[StructField]) {
        let structure = match self.env.global(type_name) {
            None => return self.undeclared(id, type_name),
            Some(Global::Variable(..)) if self.env.profile().behaviour.struct_names_are_types => {
                return self.undeclared(id, type_name);
            }
            Some(Global::Type(name, Type::Type(Some(t)))) => match &*t {
                Type::Struct(_) => {
                    self.references[id.index()] = Reference::Type(name.clone());
                    self.set(id, (*t).clone());
                    Some(name)
                }
                wrapper @ Type::Wrapper(_) => {
                    self.references[id.index()] = Reference::Type(name.clone());
                    self.set(id, wrapper.clone());
                    Some(name)
                }
                other => {
                    self.report(id, format!("'{}' is not a message type", other.runtime_name()));
                    None
                }
            },
            Some(Global::Type(_, t) | Global::Variable(_, t)) => {
                if t != Type::Error {
                    self.report(id, format!("'{}' is not a type", t.runtime_name()));
                }
                None
            }
        };
        if structure.is_none() {
            self.set(id, Type::Error);
        }
        for field in fields {
            self.check(field.value);
            let declared = match &structure {
                Some(name) if self.env.is_untyped_field(name, &field.name) => {
                    // Upstream declares any field here, without a type.
                    let t = self.get(field.value);
                    if !t.is_dyn_or_error() {
                        self.issues.push((
                            field.offset,
                            format!(
                                "expected type of field '{}' is '' but provided type is '{t}'",
                                field.name
                            ),
                        ));
                    }
                    continue;
                }
                Some(name) => self.check_declared_field(field.offset, name, &field.name),
                None => Type::Error,
            };
            let mut t = self.get(field.value);
            if field.optional {
                t = self.unwrap_element(field.value, t);
            }
            if !self.inference.assignable(&declared, &t) {
                self.issues.push((
                    field.offset,
                    format!(
                        "expected type of field '{}' is '{declared}' but provided type is '{t}'",
                        field.name
                    ),
                ));
            }
        }
    }

    fn check_comprehension(&mut self, id: ExprId, comprehension: &Comprehension) {
        self.check(comprehension.iter_range);
        self.check(comprehension.accu_init);
        let range = self.inference.substitute(&self.get(comprehension.iter_range), false);
        let accumulator = self.get(comprehension.accu_init);
        let two = comprehension.iter_var2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.inference.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(comprehension.iter_range, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((comprehension.accu_var.clone(), accumulator.clone()));
        let inside = self.scopes.len();
        self.scopes.push((comprehension.iter_var.clone(), first));
        if let Some(second_name) = &comprehension.iter_var2 {
            self.scopes.push((second_name.clone(), second));
        }
        self.check(comprehension.loop_condition);
        self.assert_type(comprehension.loop_condition, &Type::Bool);
        self.check(comprehension.loop_step);
        self.assert_type(comprehension.loop_step, &accumulator);
        self.scopes.truncate(inside);
        self.check(comprehension.result);
        self.scopes.truncate(inside - 1);
        let result = self.inference.substitute(&self.get(comprehension.result), false);
        self.set(id, result);
    }

    fn assert_type(&mut self, id: ExprId, expected: &Type) {
        let t = self.get(id);
        if !self.inference.assignable(expected, &t) {
            self.mismatch(id, expected, &t);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The name at the root of a chain of selections, if it is one.
fn chain_root(ast: &Ast, mut id: ExprId) -> Option<&str> {
    loop {
        match ast.expr(id) {
            Expr::Ident(name) => return Some(name),
            Expr::Select {
                operand,
                test_only: false,
                ..
            } => id = *operand,
            _ => return None,
        }
    }
}

/// The dotted name that a chain of selections spells, if it is one.
pub(crate) fn qualified_name(ast: &Ast, id: ExprId) -> Option<String> {
    match ast.expr(id) {
        Expr::Ident(name) => Some(name.to_string()),
        Expr::Select {
            operand,
            field,
            test_only: false,
        } => {
            let mut name = qualified_name(ast, *operand)?;
            name.push('.');
            name.push_str(field);
            Some(name)
        }
        _ => None,
    }
}
