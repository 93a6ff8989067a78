//! When the same text is the same decision: the guards.
//!
//! The two sides see a request differently in a few places. A body whose text is the same on both sides decides alike on
//! the cells where it reads none of them. A guard that does not hold proves nothing: the cell is searched instead.
//!
//! Where the two sides' dialects of CEL differ is the matter of `dialect` beside this. Not looked at are functions that only
//! Kyverno knows: the API server rejects such a policy.

use std::collections::BTreeSet;

use super::{
    condition::Reader,
    dialect::{self, Guard},
    sides::LoweredRule,
};
use kyvtest_cel::{
    ast::{Ast, Expr, ExprId, Literal},
    profile::Profile,
    syntax::parse,
};
use kyvtest_model::kube::{Operation, RequestClass};

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
    /// Whether an operation treats integers and floats differently.
    numeric: bool,
    /// Fields of `object` and `oldObject`; `*` is any.
    object: BTreeSet<String>,
    /// Whether `dyn` takes the type of something away.
    untyped: bool,
}

/// Which sides let errors pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ignoring {
    /// Kyverno, in match conditions only: a validation that errs is a violation whatever the failure policy says.
    pub kyverno: bool,
    /// The native policies, everywhere.
    pub native: bool,
}

/// Fields of `request` that both sides fill alike, or that a guard looks at.
const ALIKE: [&str; 6] = ["operation", "userInfo", "name", "namespace", "object", "oldObject"];

impl Reads {
    /// Of a body, read by Kyverno and by an API server.
    pub(crate) fn of(body: &LoweredRule, kyverno: &Profile, kube: &Profile) -> Self {
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
        let (mut selected, mut selected_objects) = (0, 0);
        let (mut named, mut named_objects) = (0, 0);
        for id in all() {
            match ast.expr(id) {
                Expr::Ident(name) if is_bound(&ast, name) => {}
                Expr::Ident(name) => {
                    self.roots.insert(name.to_string());
                    named += usize::from(&**name == "request");
                    named_objects += usize::from(is_object(&ast, id));
                }
                Expr::Select { operand, field, .. } => {
                    if matches!(ast.expr(*operand), Expr::Ident(name) if &**name == "request") {
                        self.request.insert(field.to_string());
                        selected += 1;
                    }
                    if is_object(&ast, *operand) {
                        self.object.insert(field.to_string());
                        selected_objects += 1;
                    }
                }
                Expr::Literal(_) => {}
                Expr::Call { function, target, args } => {
                    self.may_err = true;
                    self.untyped |= &**function == "dyn";
                    self.numeric |= tells_numbers_apart(function, target.is_some(), args.len());
                    // Comparing with null reads no field.
                    if matches!(&**function, "_==_" | "_!=_") {
                        let null = |id: &ExprId| matches!(ast.expr(*id), Expr::Literal(Literal::Null));
                        if args.iter().any(null) {
                            selected_objects += args.iter().filter(|id| is_object(&ast, **id)).count();
                        }
                    }
                    // So does an optional or constant key.
                    if let ("_?._" | "_[?_]" | "_[_]", [operand, key]) = (&**function, args.as_slice())
                        && is_object(&ast, *operand)
                        && let Expr::Literal(Literal::String(field)) = ast.expr(*key)
                    {
                        self.object.insert(field.to_string());
                        selected_objects += 1;
                    }
                }
                _ => self.may_err = true,
            }
        }
        self.may_err |= all().any(|id| matches!(ast.expr(id), Expr::Select { .. }));
        if named > selected {
            self.request.insert("*".to_owned());
        }
        if named_objects > selected_objects {
            self.object.insert("*".to_owned());
        }
    }

    /// Whether the result is the same for every request of a class: nothing that varies is read.
    pub(crate) fn is_constant(&self, cell: &RequestClass<'_>) -> bool {
        let absent = |root: &str| match root {
            "object" => cell.operation == Operation::Delete,
            "oldObject" => matches!(cell.operation, Operation::Create | Operation::Connect),
            _ => false,
        };
        self.opaque.is_none() && !self.params && !self.annotations && self.roots.iter().all(|root| absent(root))
    }

    /// Whether the version in which objects are seen may matter.
    pub(crate) fn reads_version(&self) -> bool {
        let of_request = ["kind", "resource", "object", "oldObject", "*"];
        self.opaque.is_some()
            || ["object", "oldObject"].iter().any(|root| self.roots.contains(*root))
            || of_request.iter().any(|field| self.request.contains(*field))
    }

    /// The fields of `object` and `oldObject` that are read; `*` is any.
    pub(crate) fn fields_of_object(&self) -> impl Iterator<Item = &String> {
        self.object.iter()
    }

    fn reads_of_object(&self, fields: &[&str]) -> bool {
        self.object.contains("*") || fields.iter().any(|field| self.object.contains(*field))
    }

    fn asks(&self, field: &str) -> bool {
        self.request.contains(field) || self.request.contains("*")
    }

    /// Returns the first guard that does not hold on a request class: its name and what it is about. `floats` says that the
    /// two sides may see different numbers in the objects of the class.
    pub(crate) fn broken(
        &self,
        reader: Reader,
        ignoring: Ignoring,
        cell: &RequestClass<'_>,
        floats: bool,
    ) -> Option<(&'static str, &'static str)> {
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
            return Some(("D6", "audit annotations that may fail to evaluate"));
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
            return Some(("D3", "request fields that Kyverno does not set"));
        }
        if self.request.contains("*") {
            return Some(("D3", "the request as a whole"));
        }
        // An old object comes from storage, where a float is written as an integer.
        let writes = matches!(cell.operation, Operation::Create | Operation::Update);
        if floats && writes && self.numeric && has("object") {
            return Some((
                "D16",
                "numbers that are floats for the API server and integers for Kyverno",
            ));
        }
        if classic && !known_kind && self.reads_of_object(&["kind", "apiVersion"]) {
            return Some(("D17", "the kind of a subresource's object"));
        }
        if cell.operation == Operation::Connect && self.reads_of_object(&["metadata"]) {
            return Some(("D18", "the metadata of a CONNECT request's options"));
        }
        if classic && self.asks("namespace") && is_namespace {
            return Some(("D9", "`request.namespace` of a Namespace"));
        }
        if classic && self.asks("name") && (cell.collection || cell.operation == Operation::Connect) {
            return Some(("D9", "an absent `request.name`"));
        }
        if self.asks("object") || self.asks("oldObject") {
            return Some(("D3", "objects in the request"));
        }
        if !classic {
            let absent_old = matches!(cell.operation, Operation::Create | Operation::Connect) && has("oldObject");
            let absent_new = cell.operation == Operation::Delete && has("object");
            if absent_old || absent_new {
                return Some(("D11", "an absent object, which is an empty map for Kyverno,"));
            }
            if self.in_conditions.contains("namespaceObject") {
                return Some(("D10", "`namespaceObject` in a match condition"));
            }
        }
        // Without its type the object has fields that the API server does not show: managed fields and owners.
        if has("namespaceObject") && self.untyped {
            return Some(("D4", "`dyn(namespaceObject)`"));
        }
        if has("namespaceObject") && is_namespace {
            return Some(("D4", "`namespaceObject` of a Namespace"));
        }
        None
    }
}

fn is_object(ast: &Ast, id: ExprId) -> bool {
    matches!(ast.expr(id), Expr::Ident(name) if matches!(&**name, "object" | "oldObject"))
}

/// Whether a name is a variable of a comprehension, and no variable of the environment.
fn is_bound(ast: &Ast, name: &str) -> bool {
    const ENVIRONMENT: [&str; 8] = [
        "object",
        "oldObject",
        "request",
        "namespaceObject",
        "params",
        "authorizer",
        "variables",
        "images",
    ];
    let mut all = (0..ast.len() as u32).map(ExprId);
    !ENVIRONMENT.contains(&name)
        && all.any(|id| match ast.expr(id) {
            Expr::Comprehension(fold) => {
                let second = fold.iter_var2.as_ref().is_some_and(|second| &**second == name);
                &*fold.iter_var == name || &*fold.accu_var == name || second
            }
            _ => false,
        })
}

/// Whether a function gives another result, or fails, if an integer is a float. Comparisons, equality and `in` do not.
fn tells_numbers_apart(function: &str, is_method: bool, args: usize) -> bool {
    match function {
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "type" | "format" | "sum" | "range" | "flatten" | "slice" => {
            true
        }
        "string" | "timestamp" | "uint" => !is_method,
        "charAt" | "substring" | "add" | "sub" => is_method,
        "indexOf" | "lastIndexOf" | "split" => args > 1,
        "replace" => args > 2,
        _ => function.starts_with("math."),
    }
}
