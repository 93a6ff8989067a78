//! When the same mutations make the same objects: the guards.
//!
//! The texts of both sides must be the same. One engine makes the same of the same text. Kyverno and the API server do not
//! always: what they do differently is listed as hazards (`M03`, `M04`, `M12`, `M14` to `M18` of `kyvtest convert --explain`).
//! A guard excludes each of them; where one does not hold, nothing is claimed and the class is searched.

use kyvtest_cel::{
    admission::PatchKind,
    ast::{Ast, Expr, ExprId},
    profile::{PolicyScope, Profile},
    syntax::parse,
};
use kyvtest_model::kube::{Operation, RequestClass, may_have_floats};
use kyvtest_normalise::schema;

use super::paths::{Writes, writes};
use crate::{
    condition::Reader,
    guards::{Ignoring, Reads},
    sides::LoweredRule,
};

/// The reason if the texts are not the same.
pub(super) const DIFFERENT: &str = "the mutations are written differently";

/// Who evaluates a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Kyverno,
    Native,
}

impl Engine {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kyverno => "Kyverno",
            Self::Native => "the API server",
        }
    }
}

/// What a policy says, its matching aside.
#[derive(Debug, Clone)]
pub(super) struct UnitText {
    pub(super) engine: Engine,
    pub(super) mutations: Vec<(PatchKind, String)>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) conditions: Vec<String>,
    /// `failurePolicy: Ignore`.
    pub(super) ignores: bool,
    /// `reinvocationPolicy: IfNeeded` of a native policy.
    pub(super) runs_again: bool,
    pub(super) has_annotations: bool,
    /// `useServerSideApply`.
    pub(super) replaces_atomics: bool,
}

/// Why two policies that change the same requests may make different objects; `None` if they do not. `conditions_err` says that
/// a condition of a native policy may fail to evaluate.
pub(super) fn broken(
    one: &UnitText,
    other: &UnitText,
    cell: &RequestClass<'_>,
    conditions_err: bool,
) -> Option<String> {
    if !same_texts(one, other) {
        return Some(DIFFERENT.to_owned());
    }
    if one.ignores != other.ignores {
        return Some("one side ignores errors".to_owned());
    }
    if one.has_annotations != other.has_annotations {
        return Some("audit annotations that may fail to evaluate".to_owned());
    }
    if one.replaces_atomics != other.replaces_atomics {
        return Some("`useServerSideApply`".to_owned());
    }
    if one.engine == other.engine {
        let again = one.runs_again != other.runs_again;
        return again.then(|| "one side runs again (M16)".to_owned());
    }
    let native = if one.engine == Engine::Native { one } else { other };
    between_engines(native, cell, conditions_err).err()
}

/// What the two engines do alike with a text.
fn between_engines(text: &UnitText, cell: &RequestClass<'_>, conditions_err: bool) -> Result<(), String> {
    let resource = cell.resource;
    let kind = &resource.object_kind;
    let root = schema::of_kind(&kind.api_version(), &kind.kind);
    let writes_object = matches!(cell.operation, Operation::Create | Operation::Update);
    let Some(root) = root.filter(|_| writes_object && resource.subresource.is_empty()) else {
        return Err(format!(
            "objects without a schema, subresources and other operations: {}",
            resource.name()
        ));
    };
    let reads = |conditions: &[String], rest: &[&String], variables: &[(String, String)]| {
        let body = LoweredRule {
            conditions: conditions.to_vec(),
            variables: variables.to_vec(),
            validations: rest.iter().map(|text| (*text).clone()).collect(),
            ..LoweredRule::default()
        };
        Reads::of(
            &body,
            Profile::kyverno_mutating(PolicyScope::Cluster),
            Profile::kubernetes(),
        )
    };
    let texts: Vec<&String> = text.mutations.iter().map(|(_, text)| text).collect();
    let all = reads(&[], &texts, &text.variables);
    let floats = may_have_floats(resource, true);
    if let Some((guard, what)) = all.broken(Reader::Validating, Ignoring::default(), cell, floats) {
        return Err(format!("{what} differs between the engines ({guard})"));
    }
    let mut written = Vec::new();
    for (kind, text) in &text.mutations {
        written.push(writes(*kind, text, root)?);
    }
    several(text, &written, &reads(&[], &[], &text.variables))?;
    let only_metadata = written.iter().all(Writes::is_metadata);
    if text.ignores && (!only_metadata || written.len() > 1) {
        return Err("errors are ignored, by one engine for each mutation, by the other for all (M04)".to_owned());
    }
    if text.runs_again && !is_idempotent(text, &written, &all) {
        return Err("the native policy runs again, and the mutation may not be idempotent (M16)".to_owned());
    }
    // A native policy evaluates its conditions again on the changed object.
    let conditions = reads(&text.conditions, &[], &[]);
    let touched = |field: &String| field == "*" || written.iter().any(|writes| writes.touches(field));
    if conditions_err && conditions.fields_of_object().any(touched) {
        return Err("conditions are evaluated again on the changed object, and may then fail".to_owned());
    }
    Ok(())
}

/// Several mutations: one engine decodes the object between them and evaluates variables for each of them.
fn several(text: &UnitText, written: &[Writes], variables: &Reads) -> Result<(), String> {
    let Some((_, earlier)) = written.split_last() else {
        return Ok(());
    };
    if earlier.iter().any(|writes| !writes.is_plain_metadata()) {
        return Err("the object is decoded between mutations by one engine only (M17)".to_owned());
    }
    let touched = |field: &String| field == "*" || earlier.iter().any(|writes| writes.touches(field));
    if !earlier.is_empty() && !text.variables.is_empty() && variables.fields_of_object().any(touched) {
        return Err("variables are evaluated once by one engine and for each mutation by the other (M03)".to_owned());
    }
    Ok(())
}

/// Whether a second run makes the same object: plain values are merged that do not depend on the object.
fn is_idempotent(text: &UnitText, written: &[Writes], reads: &Reads) -> bool {
    let merges = text
        .mutations
        .iter()
        .all(|(kind, _)| *kind == PatchKind::ApplyConfiguration);
    merges && written.iter().all(|writes| !writes.has_lists()) && reads.fields_of_object().next().is_none()
}

/// Whether mutations and variables are the same, white space and comments aside.
fn same_texts(one: &UnitText, other: &UnitText) -> bool {
    let mutations = one.mutations.len() == other.mutations.len()
        && one
            .mutations
            .iter()
            .zip(&other.mutations)
            .all(|((kind, text), (own, theirs))| kind == own && same_text(text, theirs));
    let variables = one.variables.len() == other.variables.len()
        && one
            .variables
            .iter()
            .zip(&other.variables)
            .all(|((name, text), (own, theirs))| name == own && same_text(text, theirs));
    mutations && variables
}

fn same_text(one: &str, other: &str) -> bool {
    if one.trim() == other.trim() {
        return true;
    }
    let syntax = &Profile::kubernetes().syntax;
    match (parse(one, syntax), parse(other, syntax)) {
        (Ok(one), Ok(other)) => same(&one, one.root(), &other, other.root(), 0),
        _ => false,
    }
}

/// How deep expressions are compared.
const DEPTH: usize = 200;

fn same(a: &Ast, i: ExprId, b: &Ast, j: ExprId, depth: usize) -> bool {
    if depth > DEPTH {
        return false;
    }
    let same = |i: ExprId, j: ExprId| same(a, i, b, j, depth + 1);
    let all = |i: &[ExprId], j: &[ExprId]| i.len() == j.len() && i.iter().zip(j).all(|(i, j)| same(*i, *j));
    match (a.expr(i), b.expr(j)) {
        (Expr::Literal(one), Expr::Literal(other)) => one == other,
        (Expr::Ident(one), Expr::Ident(other)) => one == other,
        (
            Expr::Select {
                operand,
                field,
                test_only,
            },
            Expr::Select {
                operand: own,
                field: name,
                test_only: test,
            },
        ) => field == name && test_only == test && same(*operand, *own),
        (
            Expr::Call { function, target, args },
            Expr::Call {
                function: name,
                target: receiver,
                args: given,
            },
        ) => {
            let receivers = match (target, receiver) {
                (None, None) => true,
                (Some(one), Some(other)) => same(*one, *other),
                _ => false,
            };
            function == name && receivers && all(args, given)
        }
        (
            Expr::List { elements, optional },
            Expr::List {
                elements: own,
                optional: some,
            },
        ) => optional == some && all(elements, own),
        (Expr::Map(one), Expr::Map(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| {
                    one.optional == other.optional && same(one.key, other.key) && same(one.value, other.value)
                })
        }
        (
            Expr::Struct { type_name, fields },
            Expr::Struct {
                type_name: name,
                fields: own,
            },
        ) => {
            type_name == name
                && fields.len() == own.len()
                && fields.iter().zip(own).all(|(one, other)| {
                    one.name == other.name && one.optional == other.optional && same(one.value, other.value)
                })
        }
        (Expr::Comprehension(one), Expr::Comprehension(other)) => {
            one.iter_var == other.iter_var
                && one.iter_var2 == other.iter_var2
                && one.accu_var == other.accu_var
                && same(one.iter_range, other.iter_range)
                && same(one.accu_init, other.accu_init)
                && same(one.loop_condition, other.loop_condition)
                && same(one.loop_step, other.loop_step)
                && same(one.result, other.result)
        }
        _ => false,
    }
}
