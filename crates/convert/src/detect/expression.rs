//! What an expression mentions, and where.

use crate::place::At;
use kyvtest_cel::{
    ast::{Ast, Expr, ExprId, Literal},
    profile::Profile,
    syntax::parse,
};
use kyvtest_go_compat::diagnostic::Span;
use kyvtest_model::policy::Expression;

/// What an expression is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Condition,
    Variable,
    Validation,
    Message,
    Annotation,
    Mutation,
}

/// An expression of a policy with its tree, if it has one.
pub(super) struct Parsed<'p> {
    pub(super) at: At<'p>,
    pub(super) role: Role,
    expression: &'p Expression,
    ast: Option<Ast>,
}

/// A function or variable that a native policy does not have.
const KYVERNO_VARIABLES: [&str; 12] = [
    "resource",
    "http",
    "globalContext",
    "images",
    "imageData",
    "exceptions",
    "json",
    "yaml",
    "time",
    "x509",
    "gzip",
    "hash",
];

/// A function that a native policy does not have.
const KYVERNO_FUNCTIONS: [&str; 9] = [
    "image",
    "random",
    "md5",
    "sha1",
    "sha256",
    "parseServiceAccount",
    "parseImageReference",
    "listObjToMap",
    "toDate",
];

impl<'p> Parsed<'p> {
    pub(super) fn new(expression: &'p Expression, role: Role, at: At<'p>, profile: &Profile) -> Self {
        Self {
            at,
            role,
            expression,
            ast: parse(expression.text(), &profile.syntax).ok(),
        }
    }

    /// The first node for which `wanted` returns an id.
    fn find(&self, wanted: impl Fn(&Ast, &Expr) -> Option<ExprId>) -> Option<(&Ast, ExprId)> {
        let ast = self.ast.as_ref()?;
        let all = (0..ast.len() as u32).map(ExprId);
        let found = all.filter_map(|id| wanted(ast, ast.expr(id)).map(|name| (ast.offset(name), name)));
        found.min().map(|(_, id)| (ast, id))
    }

    /// The span of a source text that starts at a node, which is a name; the span of the name alone if the source
    /// differs.
    fn place(&self, ast: &Ast, id: ExprId, text: &str) -> Span {
        let source = self.expression.text();
        let start = source
            .char_indices()
            .nth(ast.offset(id) as usize)
            .map_or(source.len(), |(at, _)| at);
        let rest = source.get(start..).unwrap_or_default();
        let len = if rest.starts_with(text) {
            text.len()
        } else {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len())
        };
        self.expression.part(start, start + len)
    }

    /// Where a variable is mentioned.
    pub(super) fn variable(&self, name: &str) -> Option<Span> {
        let (ast, id) = self.find(|ast, expr| {
            let operand = operand(expr)?;
            is_name(ast, operand, name).then_some(operand)
        })?;
        Some(self.place(ast, id, name))
    }

    /// Where a field of a variable is mentioned.
    pub(super) fn field(&self, variable: &str, field: &str) -> Option<Span> {
        let (ast, id) = self.find(|ast, expr| match expr {
            Expr::Select {
                operand, field: name, ..
            } if &**name == field => is_name(ast, *operand, variable).then_some(*operand),
            _ => None,
        })?;
        Some(self.place(ast, id, &format!("{variable}.{field}")))
    }

    /// Where a variable is compared with null.
    pub(super) fn null_test(&self, variable: &str) -> Option<Span> {
        let is_null = |ast: &Ast, id: &ExprId| matches!(ast.expr(*id), Expr::Literal(Literal::Null));
        let (ast, id) = self.find(|ast, expr| match expr {
            Expr::Call { function, args, .. } if matches!(&**function, "_==_" | "_!=_") => {
                let named = args.iter().find(|id| is_name(ast, **id, variable))?;
                args.iter().any(|id| is_null(ast, id)).then_some(*named)
            }
            _ => None,
        })?;
        Some(self.place(ast, id, variable))
    }

    /// Whether a variable is mentioned anywhere, also alone.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let ast = self.ast.as_ref();
        ast.is_some_and(|ast| {
            (0..ast.len() as u32).any(|id| matches!(ast.expr(ExprId(id)), Expr::Ident(ident) if &**ident == name))
        })
    }

    /// The fields of `variables` that are read.
    pub(super) fn variables(&self) -> Vec<&str> {
        let Some(ast) = &self.ast else { return Vec::new() };
        let all = (0..ast.len() as u32).map(ExprId);
        all.filter_map(|id| match ast.expr(id) {
            Expr::Select { operand, field, .. } if is_name(ast, *operand, "variables") => Some(&**field),
            _ => None,
        })
        .collect()
    }

    /// Whether an object of a type of mutations is made.
    pub(super) fn makes_objects(&self) -> bool {
        let ast = self.ast.as_ref();
        ast.is_some_and(|ast| {
            (0..ast.len() as u32).any(|id| {
                matches!(ast.expr(ExprId(id)), Expr::Struct { type_name, .. }
                    if &**type_name == "JSONPatch" || type_name.split('.').next() == Some("Object"))
            })
        })
    }

    /// Whether the expression has an integer that does not fit 32 bits.
    pub(super) fn has_wide_integer(&self) -> bool {
        let ast = self.ast.as_ref();
        ast.is_some_and(|ast| {
            (0..ast.len() as u32).any(|id| {
                matches!(ast.expr(ExprId(id)), Expr::Literal(Literal::Int(value)) if i32::try_from(*value).is_err())
            })
        })
    }

    /// Whether the expression has a text.
    pub(super) fn has_text(&self, wanted: &str) -> bool {
        let ast = self.ast.as_ref();
        ast.is_some_and(|ast| {
            (0..ast.len() as u32)
                .any(|id| matches!(ast.expr(ExprId(id)), Expr::Literal(Literal::String(text)) if &**text == wanted))
        })
    }

    /// What only Kyverno has, with its place.
    pub(super) fn kyverno_only(&self) -> Option<(String, Span)> {
        if let Some(span) = self.field("request", "object") {
            return Some(("request.object".to_owned(), span));
        }
        if let Some(span) = self.field("request", "oldObject") {
            return Some(("request.oldObject".to_owned(), span));
        }
        // The generator rewrites these two in validations.
        let rewritten = |ast: &Ast, expr: &Expr| {
            self.role == Role::Validation
                && matches!(expr, Expr::Select { operand, field, .. }
                    if is_name(ast, *operand, "exceptions") && matches!(&**field, "allowedImages" | "allowedValues"))
        };
        for name in KYVERNO_VARIABLES {
            let found = self.find(|ast, expr| {
                let operand = operand(expr)?;
                (is_name(ast, operand, name) && !rewritten(ast, expr)).then_some(operand)
            });
            if let Some((ast, id)) = found {
                return Some((name.to_owned(), self.place(ast, id, name)));
            }
        }
        for name in KYVERNO_FUNCTIONS {
            let ast = self.ast.as_ref()?;
            let mut all = (0..ast.len() as u32).map(ExprId);
            let called =
                all.any(|id| matches!(ast.expr(id), Expr::Call { function, target: None, .. } if &**function == name));
            if called {
                return Some((format!("{name}()"), self.expression.span()));
            }
        }
        None
    }
}

/// What a field is read from, or a function called on.
fn operand(expr: &Expr) -> Option<ExprId> {
    match expr {
        Expr::Select { operand, .. } => Some(*operand),
        Expr::Call { target, args, .. } => target.or(args.first().copied()),
        _ => None,
    }
}

fn is_name(ast: &Ast, id: ExprId, name: &str) -> bool {
    matches!(ast.expr(id), Expr::Ident(ident) if &**ident == name)
}
