//! Checks specific to MutatingAdmissionPolicies and their bindings.
//!
//! Upstream counterpart: that of the parent module. An update is checked like a creation: that unchanged expressions
//! may use features which newer releases removed makes no difference yet.

use super::{check_head, expressions::Compiler, field::Errors, items, present, text, texts};
use kyvtest_go_compat::value::Value;

/// The operations whose objects can be changed.
const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) fn check_policy(spec: Value<'_>, errors: &mut Errors) {
    let (constraints, has_params) = check_head(spec, errors);
    if let Some(block) = constraints {
        check_operations(block, "spec.matchConstraints", errors);
    }
    let mut compiler = Compiler::mutating(spec, has_params);
    compiler.check_conditions(errors);
    compiler.check_variables(errors);
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        errors.required("spec.mutations", "mutations must contain at least one item");
    }
    for (i, mutation) in mutations.into_iter().enumerate() {
        check_mutation(mutation, &format!("spec.mutations[{i}]"), &compiler, errors);
    }
    let field = "spec.reinvocationPolicy";
    match text(spec, "reinvocationPolicy") {
        "" => errors.required(field, ""),
        policy => errors.supported(field, policy, &["IfNeeded", "Never"]),
    }
}

pub(super) fn check_binding(spec: Value<'_>, errors: &mut Errors) {
    super::check_binding(spec, errors);
    if let Some(block) = present(spec, "matchResources") {
        check_operations(block, "spec.matchResources", errors);
    }
}

/// The error names the list of rules, not the index in it.
fn check_operations(block: Value<'_>, path: &str, errors: &mut Errors) {
    let field = format!("{path}.resourceRules.operations");
    for rule in items(block, "resourceRules") {
        for operation in texts(rule, "operations") {
            errors.supported(&field, operation, &OPERATIONS);
        }
    }
}

fn check_mutation(mutation: Value<'_>, path: &str, compiler: &Compiler<'_>, errors: &mut Errors) {
    let kind = text(mutation, "patchType");
    let (own, other) = match kind {
        "" => return errors.required(&format!("{path}.patchType"), ""),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => {
            let kinds = ["ApplyConfiguration", "JSONPatch"];
            return errors.supported(&format!("{path}.patchType"), kind, &kinds);
        }
    };
    match present(mutation, own) {
        None => errors.required(
            &format!("{path}.{own}"),
            &format!("must be specified when patchType is {kind}"),
        ),
        Some(body) => {
            let field = format!("{path}.{own}.expression");
            match text(body, "expression").trim() {
                "" => errors.required(&field, ""),
                expression => compiler.check_mutation(expression, kind == "JSONPatch", &field, errors),
            }
        }
    }
    if present(mutation, other).is_some() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.invalid(&format!("{path}.{other}"), &format!("{{{other}}}"), &detail);
    }
}
