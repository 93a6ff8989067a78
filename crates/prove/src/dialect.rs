//! Where the same expression means another thing to the two sides: Kyverno and the API server link different releases of
//! cel-go and of Kubernetes' libraries, and Kyverno adds a macro.
//!
//! Which places differ is read from the two profiles, so that another release of either needs no change here.

use std::collections::BTreeSet;

use super::sides::LoweredRule;
use kyvtest_cel::{
    ast::{Ast, Expr, ExprId, Literal},
    profile::Profile,
    syntax::parse,
};

/// A guard and what it is about.
pub(super) type Guard = (&'static str, &'static str);

/// How deep expressions are followed.
const DEPTH: usize = 200;

/// The first guard that the texts of a body do not keep.
pub(super) fn broken(body: &LoweredRule, kyverno: &Profile, kube: &Profile) -> Option<Guard> {
    let variables = body.variables.iter().map(|(_, text)| text);
    let annotations = body.annotations.iter().map(|(_, text)| text);
    let texts = body.conditions.iter().chain(&body.validations);
    let mut texts = texts.chain(variables).chain(annotations);
    texts.find_map(|text| broken_text(text, kyverno, kube))
}

fn broken_text(text: &str, kyverno: &Profile, kube: &Profile) -> Option<Guard> {
    let ast = parse(text, &Profile::kubernetes().syntax).ok()?;
    let (ours, theirs) = (&kyverno.behaviour, &kube.behaviour);
    let mut costly = false;
    for id in (0..ast.len() as u32).map(ExprId) {
        let Expr::Call { function, target, args } = ast.expr(id) else {
            continue;
        };
        let constant = |at: usize| args.get(at).is_some_and(|id| matches!(ast.expr(*id), Expr::Literal(_)));
        let empty = |at: usize| match args.get(at).map(|id| ast.expr(*id)) {
            Some(Expr::Literal(Literal::String(text))) => text.is_empty(),
            _ => true,
        };
        match &**function {
            // Kyverno's macro takes the receiver as it is; an API server from 1.37 on does not.
            "orValue" | "or"
                if theirs.or_value_needs_optional && !target.is_some_and(|target| is_optional(&ast, target, 0)) =>
            {
                return Some(("D1", "`orValue` on what is not optional"));
            }
            "indexOf" | "lastIndexOf"
                if ours.index_of_empty_is_clamped != theirs.index_of_empty_is_clamped && args.len() > 1 && empty(0) =>
            {
                return Some(("D14", "`indexOf` of an empty string"));
            }
            "range" if ours.range_is_limited != theirs.range_is_limited && !constant(0) => {
                return Some(("D14", "`lists.range` of any size"));
            }
            "add" | "sub" if ours.quantity_sums_are_copies != theirs.quantity_sums_are_copies => {
                return Some(("D14", "sums of quantities"));
            }
            "double" if ours.nan_compares_false != theirs.nan_compares_false && !constant(0) => {
                return Some(("D14", "numbers that may be none"));
            }
            "timestamp" if ours.timestamps_are_strict != theirs.timestamps_are_strict && !constant(0) => {
                return Some(("D14", "times that only one side can read"));
            }
            "named" | "qualifiedName" | "labelValue"
                if ours.qualified_names_are_label_keys != theirs.qualified_names_are_label_keys =>
            {
                return Some(("D14", "formats that are worded otherwise"));
            }
            "startsWith" | "endsWith" => costly |= ours.affix_cost_by_argument != theirs.affix_cost_by_argument,
            "matches" if target.is_none() => {
                costly |= ours.global_matches_has_cost != theirs.global_matches_has_cost;
            }
            _ => {}
        }
    }
    // Where costs differ at all, one side may run out of its budget before the other. Lists of a request are long enough for
    // that only where they are multiplied.
    (costly && multiplies(&ast, ast.root(), &mut Vec::new(), 0))
        .then_some(("D13", "products of lists that may cost one side too much"))
}

/// Whether an expression has an optional value, whatever it reads.
fn is_optional(ast: &Ast, id: ExprId, depth: usize) -> bool {
    if depth > DEPTH {
        return false;
    }
    match ast.expr(id) {
        Expr::Select { operand, .. } => is_optional(ast, *operand, depth + 1),
        Expr::Call { function, target, args } => match &**function {
            "_?._"
            | "_[?_]"
            | "optMap"
            | "optFlatMap"
            | "optional.of"
            | "optional.none"
            | "optional.ofNonZeroValue" => true,
            "of" | "none" | "ofNonZeroValue" => {
                target.is_some_and(|target| matches!(ast.expr(target), Expr::Ident(name) if &**name == "optional"))
            }
            "_[_]" => args
                .first()
                .is_some_and(|operand| is_optional(ast, *operand, depth + 1)),
            "or" => target.is_some_and(|target| is_optional(ast, target, depth + 1)),
            "_?_:_" => args.iter().skip(1).all(|part| is_optional(ast, *part, depth + 1)),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a loop stands in a loop over something else than what the outer one visits.
fn multiplies(ast: &Ast, id: ExprId, outer: &mut Vec<String>, depth: usize) -> bool {
    if depth > DEPTH {
        return true;
    }
    match ast.expr(id) {
        Expr::Literal(_) | Expr::Ident(_) => false,
        Expr::Select { operand, .. } => multiplies(ast, *operand, outer, depth + 1),
        Expr::Call { target, args, .. } => target
            .iter()
            .chain(args)
            .any(|part| multiplies(ast, *part, outer, depth + 1)),
        Expr::List { elements, .. } => elements.iter().any(|part| multiplies(ast, *part, outer, depth + 1)),
        Expr::Map(_) | Expr::Struct { .. } => false,
        Expr::Comprehension(parts) => {
            let mut names = BTreeSet::new();
            idents(ast, parts.iter_range, &mut names, 0);
            let fixed = names.is_empty();
            let nested = outer.iter().any(|name| names.contains(name));
            if !outer.is_empty() && !fixed && !nested {
                return true;
            }
            if multiplies(ast, parts.iter_range, outer, depth + 1) {
                return true;
            }
            // A fixed list only repeats what is in it.
            let pushed = !fixed;
            if pushed {
                outer.push(parts.iter_var.to_string());
            }
            let found = multiplies(ast, parts.loop_step, outer, depth + 1);
            if pushed {
                outer.pop();
            }
            found
        }
    }
}

fn idents(ast: &Ast, id: ExprId, names: &mut BTreeSet<String>, depth: usize) {
    if depth > DEPTH {
        return;
    }
    match ast.expr(id) {
        Expr::Ident(name) => {
            names.insert(name.to_string());
        }
        Expr::Select { operand, .. } => idents(ast, *operand, names, depth + 1),
        Expr::Call { target, args, .. } => {
            for part in target.iter().chain(args) {
                idents(ast, *part, names, depth + 1);
            }
        }
        Expr::List { elements, .. } => {
            for part in elements {
                idents(ast, *part, names, depth + 1);
            }
        }
        Expr::Comprehension(parts) => {
            idents(ast, parts.iter_range, names, depth + 1);
            idents(ast, parts.loop_step, names, depth + 1);
        }
        Expr::Literal(_) | Expr::Map(_) | Expr::Struct { .. } => {}
    }
}
