//! JSON pointers whose indices may be known only when the policy is evaluated.

use crate::Expr;

/// A path for JSON patches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pointer {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A part as it is written, escaped.
    Text(String),
    /// An expression of type string.
    Made(Expr),
}

impl Pointer {
    /// A key, which is escaped.
    pub(super) fn key(&self, key: &str) -> Self {
        self.raw(&key.replace('~', "~0").replace('/', "~1"))
    }

    /// A part that is escaped already.
    pub(super) fn raw(&self, part: &str) -> Self {
        self.with(Part::Text(part.to_owned()))
    }

    /// An index, an expression of type int.
    pub(super) fn index(&self, index: &Expr) -> Self {
        self.with(Part::Made(Expr::function("string", [index.clone()])))
    }

    /// An expression of type string.
    pub(super) fn made(&self, part: &Expr) -> Self {
        self.with(Part::Made(part.clone()))
    }

    fn with(&self, part: Part) -> Self {
        let parts = self.parts.iter().cloned().chain([part]);
        Self { parts: parts.collect() }
    }

    /// The pointer as an expression of type string.
    pub(super) fn expr(&self) -> Expr {
        let mut sum: Option<Expr> = None;
        let mut text = String::new();
        let add = |sum: &mut Option<Expr>, part: Expr| {
            *sum = Some(sum.take().map_or_else(|| part.clone(), |sum| sum.sum("+", &part)));
        };
        for part in &self.parts {
            text.push('/');
            match part {
                Part::Text(own) => text.push_str(own),
                Part::Made(expr) => {
                    add(&mut sum, Expr::string(&std::mem::take(&mut text)));
                    add(&mut sum, expr.clone());
                }
            }
        }
        if !text.is_empty() || sum.is_none() {
            add(&mut sum, Expr::string(&text));
        }
        sum.unwrap_or_else(|| Expr::string(""))
    }
}

/// One operation of a JSON patch.
pub(super) fn operation(op: &str, path: &Pointer, value: Option<&Expr>) -> Expr {
    let mut fields = vec![format!("op: '{op}'"), format!("path: {}", path.expr())];
    fields.extend(value.map(|value| format!("value: {value}")));
    Expr::primary(format!("JSONPatch{{{}}}", fields.join(", ")))
}

/// `move` and `copy`.
pub(super) fn transfer(op: &str, from: &Pointer, path: &Pointer) -> Expr {
    Expr::primary(format!(
        "JSONPatch{{op: '{op}', from: {}, path: {}}}",
        from.expr(),
        path.expr()
    ))
}
