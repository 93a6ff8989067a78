//! Resolves names and functions in an unchecked expression: references without types.
//!
//! Upstream counterpart: the branches of cel-go `interpreter/{planner,attributes}.go` for expressions that come from
//! the parser alone. The longest form of a dotted name is looked up first; a function is looked up by name only, so
//! that the arguments decide at run time; an undeclared name is an evaluation error.
//!
//! Deviations: names are looked up among the declared variables, upstream looks among the bound ones; `a['b']` never
//! means the variable `a.b`.

use std::sync::Arc;

use super::{Checked, Reference, qualified_name};
use crate::{
    ast::{Ast, Comprehension, Expr, ExprId, Name},
    decl::Function,
    env::{Env, Global},
    types::Type,
    wrapper,
};

/// Prepares an expression for planning without checking it; every type is `dyn`.
pub fn unchecked(ast: Ast, env: &Env) -> Checked {
    let mut resolver = Resolver {
        ast: &ast,
        env,
        references: vec![Reference::None; ast.len()],
        scopes: Vec::new(),
    };
    resolver.walk(ast.root(), None);
    Checked {
        source: Arc::from(""),
        references: resolver.references,
        types: vec![Type::Dyn; ast.len()],
        ast,
    }
}

struct Resolver<'e> {
    ast: &'e Ast,
    env: &'e Env,
    references: Vec<Reference>,
    /// The variables of the comprehensions around the node.
    scopes: Vec<&'e Name>,
}

impl<'e> Resolver<'e> {
    fn is_local(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| &***scope == name)
    }

    fn set(&mut self, id: ExprId, reference: Reference) {
        self.references[id.index()] = reference;
    }

    /// `whole` is the longest name that the selections around the node form.
    fn walk(&mut self, id: ExprId, whole: Option<&str>) {
        let ast = self.ast;
        match ast.expr(id) {
            Expr::Literal(_) => {}
            Expr::Ident(name) if self.is_local(name) => self.set(id, Reference::Local),
            Expr::Ident(name) => {
                if !self.global(id, name, whole.is_none()) {
                    self.unbound(id, whole.unwrap_or(name));
                }
            }
            Expr::Select {
                operand,
                field,
                test_only,
            } => self.select(id, *operand, field, *test_only, whole),
            Expr::Call { function, target, args } => self.call(id, function, *target, args),
            Expr::List { elements, .. } => self.walk_all(elements),
            Expr::Map(entries) => {
                for entry in entries {
                    self.walk(entry.key, None);
                    self.walk(entry.value, None);
                }
            }
            Expr::Struct { type_name, fields } => {
                if let Some(Global::Type(name, _)) = self.env.global(type_name) {
                    self.set(id, Reference::Type(name));
                }
                for field in fields {
                    self.walk(field.value, None);
                }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn walk_all(&mut self, ids: &[ExprId]) {
        for &id in ids {
            self.walk(id, None);
        }
    }

    /// `types`: whether the name may be that of a type; the operand of a selection may not.
    fn global(&mut self, id: ExprId, name: &str, types: bool) -> bool {
        let reference = match self.env.global(name) {
            Some(Global::Variable(number, _)) => Reference::Variable(number),
            Some(Global::Type(name, _)) if types && !wrapper::is_message(&name) => Reference::Type(name),
            Some(Global::Type(..)) | None => return false,
        };
        self.set(id, reference);
        true
    }

    fn unbound(&mut self, id: ExprId, name: &str) {
        let mut names = Vec::new();
        self.env.candidates(name, |candidate| {
            names.push(candidate.to_owned());
            None::<()>
        });
        self.set(id, Reference::Unbound(names.join(", ").into()));
    }

    fn select(&mut self, id: ExprId, operand: ExprId, field: &str, test_only: bool, whole: Option<&str>) {
        let name = qualified_name(self.ast, operand).map(|operand| format!("{operand}.{field}"));
        if let Some(name) = &name
            && !test_only
            && !self.is_local(name.split('.').next().unwrap_or_default())
            && self.global(id, name, whole.is_none())
        {
            return;
        }
        self.walk(operand, whole.or(name.as_deref()));
    }

    fn call(&mut self, id: ExprId, function: &str, target: Option<ExprId>, args: &[ExprId]) {
        self.walk_all(args);
        // `a.b.c(x)` is the function `a.b.c` if there is one, else the method `c` of `a.b`.
        if let Some(receiver) = target {
            if let Some(prefix) = qualified_name(self.ast, receiver)
                && let Some(declared) = self.env.function(&format!("{prefix}.{function}"))
            {
                return self.set(id, dispatched(declared, true));
            }
            self.walk(receiver, None);
        }
        match self.env.function(function) {
            Some(declared) => self.set(id, dispatched(declared, false)),
            None => self.set(id, Reference::UnknownFunction),
        }
    }

    fn comprehension(&mut self, comprehension: &'e Comprehension) {
        self.walk(comprehension.iter_range, None);
        self.walk(comprehension.accu_init, None);
        self.scopes.push(&comprehension.accu_var);
        let inside = self.scopes.len();
        self.scopes.push(&comprehension.iter_var);
        self.scopes.extend(&comprehension.iter_var2);
        self.walk(comprehension.loop_condition, None);
        self.walk(comprehension.loop_step, None);
        self.scopes.truncate(inside);
        self.walk(comprehension.result, None);
        self.scopes.truncate(inside - 1);
    }
}

/// A function whose overloads are all tried at run time.
fn dispatched(function: &Function, namespaced: bool) -> Reference {
    Reference::Function {
        name: function.name.into(),
        overloads: Vec::new(),
        namespaced,
    }
}
