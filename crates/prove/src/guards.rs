//! When the same text is the same decision: the guards.
//!
//! The two sides see a request differently in a few places. A body whose text is the same on both sides decides alike on
//! the cells where it reads none of them. A guard that does not hold proves nothing: the cell is searched instead.
//!
//! Where the two sides' dialects of CEL differ is the matter of `dialect` beside this. Not looked at are functions that only
//! Kyverno knows: the API server refuses such a policy.

use std::collections::BTreeSet;

use super::{
    condition::Reader,
    dialect::{self, Guard},
    sides::Body,
};
use kyvtest_cel::{
    ast::{Expr, ExprId},
    profile::Profile,
    syntax::parse,
};
use kyvtest_model::kube::{Cell, Operation};

/// What the expressions of a body read.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    /// Variables of the environment.
    roots: BTreeSet<String>,
    /// Fields of `request`; `*` is any.
    request: BTreeSet<String>,
    /// Variables that match conditions read.
    in_conditions: BTreeSet<String>,
    annotations: bool,
    params: bool,
    opaque: Option<&'static str>,
    /// Whether there is anything that may err.
    may_err: bool,
    /// Whether match conditions may.
    conditions_err: bool,
    /// What is written in CEL that means another thing to each side.
    dialect: Option<Guard>,
}

/// Which sides let errors pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignoring {
    /// Kyverno, in match conditions only: a validation that errs is a violation whatever the failure policy says.
    pub kyverno: bool,
    /// The native policies, everywhere.
    pub native: bool,
}

/// Fields of `request` that both sides fill alike, or that a guard looks at.
const ALIKE: [&str; 6] = ["operation", "userInfo", "name", "namespace", "object", "oldObject"];

impl Reads {
    /// Of a body, read by Kyverno and by an API server.
    pub fn of(body: &Body, kyverno: &Profile, kube: &Profile) -> Self {
        let mut reads = Self {
            dialect: dialect::broken(body, kyverno, kube),
            annotations: !body.annotations.is_empty(),
            params: body.params.is_some(),
            opaque: body.opaque,
            ..Self::default()
        };
        for text in &body.conditions {
            reads.add(text);
        }
        reads.in_conditions = reads.roots.clone();
        reads.conditions_err = std::mem::take(&mut reads.may_err);
        let variables = body.variables.iter().map(|(_, text)| text);
        for text in body.validations.iter().chain(variables) {
            reads.add(text);
        }
        reads
    }

    fn add(&mut self, text: &str) {
        let Ok(ast) = parse(text, &Profile::kubernetes().syntax) else {
            self.opaque = Some("an expression that cannot be read");
            return;
        };
        let all = || (0..ast.len() as u32).map(ExprId);
        let mut selected = 0;
        let mut named = 0;
        for id in all() {
            match ast.expr(id) {
                Expr::Ident(name) => {
                    self.roots.insert(name.to_string());
                    named += usize::from(&**name == "request");
                }
                Expr::Select { operand, field, .. } => {
                    if matches!(ast.expr(*operand), Expr::Ident(name) if &**name == "request") {
                        self.request.insert(field.to_string());
                        selected += 1;
                    }
                }
                Expr::Literal(_) => {}
                _ => self.may_err = true,
            }
        }
        self.may_err |= all().any(|id| matches!(ast.expr(id), Expr::Select { .. }));
        if named > selected {
            self.request.insert("*".to_owned());
        }
    }

    fn asks(&self, field: &str) -> bool {
        self.request.contains(field) || self.request.contains("*")
    }

    /// The first guard that does not hold on a cell: its name and what it is about.
    pub fn broken(&self, reader: Reader, ignoring: Ignoring, cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
        let classic = reader == Reader::Classic;
        let has = |root: &str| self.roots.contains(root);
        let is_namespace = cell.is_core_namespace();
        if let Some(opaque) = self.opaque {
            return Some(("opaque", opaque));
        }
        if self.dialect.is_some() {
            return self.dialect;
        }
        if self.params {
            return Some(("D15", "parameters"));
        }
        if self.annotations {
            return Some(("D6", "audit annotations that may err"));
        }
        if has("authorizer") {
            return Some(("D12", "the authorizer"));
        }
        let in_conditions = self.conditions_err && ignoring.kyverno != ignoring.native;
        if ignoring.native && self.may_err || in_conditions {
            return Some(("D5", "errors that one side ignores"));
        }
        let odd = |field: &String| !ALIKE.contains(&field.as_str());
        let known_kind = cell.resource.subresource.is_empty();
        if classic
            && self
                .request
                .iter()
                .any(|field| odd(field) && !(known_kind && (field == "kind" || field == "resource")))
        {
            return Some(("D3", "fields of the request that Kyverno does not fill"));
        }
        if self.request.contains("*") {
            return Some(("D3", "the request as a whole"));
        }
        if classic && self.asks("namespace") && is_namespace {
            return Some(("D9", "`request.namespace` of a Namespace"));
        }
        if classic && self.asks("name") && (cell.collection || cell.operation == Operation::Connect) {
            return Some(("D9", "`request.name` where there is none"));
        }
        if self.asks("object") || self.asks("oldObject") {
            return Some(("D3", "objects in the request"));
        }
        if !classic {
            let absent_old = matches!(cell.operation, Operation::Create | Operation::Connect) && has("oldObject");
            let absent_new = cell.operation == Operation::Delete && has("object");
            if absent_old || absent_new {
                return Some(("D11", "an absent object, which is an empty map to Kyverno"));
            }
            if self.in_conditions.contains("namespaceObject") {
                return Some(("D10", "`namespaceObject` in a match condition"));
            }
        }
        if has("namespaceObject") && is_namespace {
            return Some(("D4", "`namespaceObject` of a Namespace"));
        }
        None
    }
}
