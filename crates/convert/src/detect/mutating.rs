//! MutatingPolicies.

use super::expression::{Parsed, Role};
use crate::{
    mutating::Plan,
    place::At,
    report::{Action, Item, Report},
    validating::exception_at,
};
use kyvtest_cel::profile::{PolicyScope, Profile};
use kyvtest_go_compat::text::label::{Wording, key_problems};
use kyvtest_model::policy::{CelPolicyException, Expression, FailurePolicy};

pub(super) fn detect(plan: &Plan<'_>, report: &mut Vec<Item>) {
    constraints(plan, report);
    of_policy(plan, report);
    mutations(plan, report);
    exceptions(plan, report);
    names(plan, report);
    for expression in &expressions(plan) {
        mentions(expression, report);
    }
    repeated_variables(plan, report);
}

fn constraints(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let at = plan.at.key("matchConstraints");
    report.mapped("match-constraints", &at.key("resourceRules"), "copied");
    let Some(block) = &plan.policy.spec.match_constraints else {
        return;
    };
    for key in ["namespaceSelector", "objectSelector", "excludeResourceRules"] {
        let at = at.key(key);
        let is_empty = at.node().is_none_or(|node| {
            node.is_null()
                || node.as_map().is_some_and(|map| map.iter().next().is_none())
                || node.as_seq().is_some_and(|items| items.iter().next().is_none())
        });
        if !is_empty {
            report.hazard("M01", Action::Widened, &at, "the native policy has no such restriction");
        }
    }
    for (i, rule) in block.resource_rules.iter().enumerate() {
        let at = at.key("resourceRules").item(i).key("operations");
        let has = |word: &str| rule.rule.operations.iter().any(|operation| operation == word);
        if has("*") {
            report.hazard("M13", Action::Narrowed, &at, "a native policy never sees a DELETE");
        }
        if has("DELETE") {
            report.hazard("M22", Action::Dropped, &at, "a native policy cannot list DELETE");
        }
    }
}

fn of_policy(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let (spec, at) = (&plan.policy.spec, &plan.at);
    for (there, key, code) in [
        (!spec.match_conditions.is_empty(), "matchConditions", "match-conditions"),
        (!spec.variables.is_empty(), "variables", "variables"),
        (!spec.mutations.is_empty(), "mutations", "mutations"),
        (spec.failure_policy.is_some(), "failurePolicy", "failure-policy"),
    ] {
        if there {
            report.mapped(code, &at.key(key), "copied");
        }
    }
    let ignores = spec
        .failure_policy
        .as_ref()
        .is_some_and(|word| word.value == FailurePolicy::Ignore);
    if ignores && spec.mutations.len() > 1 {
        let text = "the native policy makes the mutations that do not fail";
        report.hazard("M04", Action::Widened, &at.key("failurePolicy"), text);
    }
    if spec.target_match_constraints.is_some() {
        let text = "the native policy changes the object of the request, and no other";
        report.hazard("M05", Action::Dropped, &at.key("targetMatchConstraints"), text);
    }
    if !spec.evaluation.admission {
        let at = at.keys(&["evaluation", "admission", "enabled"]);
        report.hazard("M06", Action::Widened, &at, "the native policy acts at admission");
    }
    let reinvocation = spec.reinvocation_policy.as_ref();
    if reinvocation.is_some_and(|word| word.value == "IfNeeded") {
        let text = "the API server runs the mutations twice, Kyverno once";
        report.hazard("M16", Action::Mapped, &at.key("reinvocationPolicy"), text);
    }
    if !spec.audit_annotations.is_empty() {
        let text = "a MutatingAdmissionPolicy has no audit annotations";
        report.mapped("audit-annotations-dropped", &at.key("auditAnnotations"), text);
    }
}

fn mutations(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let (spec, at) = (&plan.policy.spec, plan.at.key("mutations"));
    if spec.mutations.is_empty() {
        report.hazard("M22", Action::Dropped, &plan.at, "a native policy needs a mutation");
    }
    if spec.mutations.len() > 1 {
        let text = "the API server decodes the object and sets defaults between the mutations";
        report.hazard("M17", Action::Mapped, &at.item(1), text);
    }
    let profile = Profile::kyverno_mutating(PolicyScope::Cluster);
    for (i, mutation) in spec.mutations.iter().enumerate() {
        let at = at.item(i);
        if let Some(expression) = &mutation.json_patch {
            let at = at.key("jsonPatch").key("expression");
            let parsed = Parsed::new(expression, Role::Mutation, at.clone(), profile);
            report.hazard(
                "M14",
                Action::Mapped,
                &at,
                "a field that the kind does not have makes the API server deny the request",
            );
            if parsed.has_text("/kind") || parsed.has_text("/apiVersion") {
                let text = "the API server fills in what a patch removes here";
                report.hazard("M15", Action::Mapped, &at, text);
            }
        }
        if let Some(expression) = &mutation.apply_configuration {
            let at = at.key("applyConfiguration").key("expression");
            let parsed = Parsed::new(expression, Role::Mutation, at.clone(), profile);
            if parsed.has_wide_integer() {
                let text = "an integer that a field cannot hold wraps";
                report.hazard("M18", Action::Mapped, &at, text);
            }
        }
    }
}

fn exceptions(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let conditional = plan
        .exceptions
        .iter()
        .filter(|exception| !exception.match_conditions.is_empty());
    let several = conditional.count() > 1;
    for exception in &plan.exceptions {
        let at = exception_at(exception);
        of_exception(plan, exception, &at, report);
        if several && !exception.match_conditions.is_empty() {
            let text = "an error here does not count if another exception applies";
            report.hazard("M11", Action::Narrowed, &at.key("matchConditions"), text);
        }
    }
}

fn of_exception(plan: &Plan<'_>, exception: &CelPolicyException, at: &At<'_>, report: &mut Vec<Item>) {
    let conditions_at = at.key("matchConditions");
    let conditions = exception.match_conditions.len();
    if conditions > 0 {
        let text = "match conditions of the native policy, negated";
        report.mapped("exception-conditions", &conditions_at, text);
    }
    let lists = [
        (&exception.images, "images"),
        (&exception.allowed_values, "allowedValues"),
    ];
    let lists: Vec<&str> = lists
        .into_iter()
        .filter(|(values, _)| !values.is_empty())
        .map(|(_, key)| key)
        .collect();
    for key in &lists {
        let text = "the values are dropped, and the exception exempts";
        report.hazard("M10", Action::Narrowed, &at.key(key), text);
    }
    match (conditions, lists.is_empty()) {
        (0, true) => {
            let text = "the exception is not in the native policy";
            report.hazard("M08", Action::Dropped, &at.key("policyRefs"), text);
        }
        (2.., _) => {
            let text = "a request is exempt if any of the conditions holds";
            report.hazard("M07", Action::Narrowed, &conditions_at, text);
        }
        _ => {}
    }
    plan.report_exception(exception, ["M09", "M26"], report);
}

/// Reports names of conditions that the API server rejects.
fn names(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let mut seen: Vec<&str> = Vec::new();
    let of_exceptions = plan.exceptions.iter().flat_map(|exception| {
        let at = exception_at(exception).key("matchConditions");
        exception
            .match_conditions
            .iter()
            .enumerate()
            .map(move |(i, condition)| (condition, at.item(i).key("name")))
    });
    let own = plan.policy.spec.match_conditions.iter().enumerate();
    let own = own.map(|(i, condition)| (condition, plan.at.key("matchConditions").item(i).key("name")));
    for (condition, at) in of_exceptions.chain(own) {
        let name = condition.name.value.as_str();
        if seen.contains(&name) {
            let text = format!("`{name}` is the name of two conditions in the native policy");
            report.hazard("M21", Action::Dropped, &at, text);
        }
        seen.push(name);
        let mut problems = Vec::new();
        key_problems(name, Wording::LabelKey, &mut problems);
        if !problems.is_empty() {
            let text = format!("`{name}` is not a qualified name");
            report.hazard("M24", Action::Dropped, &at, text);
        }
    }
}

/// All expressions of the policy and of its exceptions; those of exceptions are marked.
fn expressions<'p>(plan: &Plan<'p>) -> Vec<(Parsed<'p>, bool)> {
    let profile = Profile::kyverno_mutating(PolicyScope::Cluster);
    let mut all = Vec::new();
    let mut add = |expression: &'p Expression, role, at, excepted| {
        all.push((Parsed::new(expression, role, at, profile), excepted));
    };
    let (spec, at) = (&plan.policy.spec, &plan.at);
    for (i, condition) in spec.match_conditions.iter().enumerate() {
        let at = at.key("matchConditions").item(i).key("expression");
        add(&condition.expression, Role::Condition, at, false);
    }
    for exception in &plan.exceptions {
        let at = exception_at(exception).key("matchConditions");
        for (i, condition) in exception.match_conditions.iter().enumerate() {
            add(
                &condition.expression,
                Role::Condition,
                at.item(i).key("expression"),
                true,
            );
        }
    }
    for (i, variable) in spec.variables.iter().enumerate() {
        let at = at.key("variables").item(i).key("expression");
        add(&variable.expression, Role::Variable, at, false);
    }
    for (i, mutation) in spec.mutations.iter().enumerate() {
        let at = at.key("mutations").item(i);
        if let Some(expression) = &mutation.apply_configuration {
            let at = at.key("applyConfiguration").key("expression");
            add(expression, Role::Mutation, at, false);
        }
        if let Some(expression) = &mutation.json_patch {
            add(expression, Role::Mutation, at.key("jsonPatch").key("expression"), false);
        }
    }
    all
}

fn mentions((expression, excepted): &(Parsed<'_>, bool), report: &mut Vec<Item>) {
    let at = &expression.at;
    if let Some((name, span)) = expression.kyverno_only() {
        let text = format!("a native policy has no `{name}`");
        report.hazard_at("M20", Action::Dropped, at, span, text);
    } else if expression.role != Role::Mutation && expression.makes_objects() {
        let text = "a native policy has `Object` and `JSONPatch` in mutations only";
        report.hazard("M20", Action::Dropped, at, text);
    }
    if expression.role == Role::Condition
        && let Some(span) = expression.variable("namespaceObject")
    {
        let text = "it is null here, the condition fails and every request is denied";
        report.hazard_at("M02", Action::Widened, at, span, text);
    }
    if let Some(span) = expression.null_test("oldObject") {
        let text = "an absent `oldObject` is null in the native policy, and an empty map in Kyverno";
        report.hazard_at("M12", Action::Narrowed, at, span, text);
    }
    if *excepted && expression.mentions("variables") {
        let text = "a native policy has no `variables` in conditions";
        report.hazard("M23", Action::Dropped, at, text);
    }
}

/// A variable that reads the object, and that a later mutation uses.
fn repeated_variables(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let spec = &plan.policy.spec;
    if spec.mutations.len() < 2 {
        return;
    }
    let profile = Profile::kyverno_mutating(PolicyScope::Cluster);
    let parse = |expression, role| Parsed::new(expression, role, plan.at.clone(), profile);
    let mut reads_object: Vec<&str> = Vec::new();
    for variable in &spec.variables {
        let parsed = parse(&variable.expression, Role::Variable);
        let through = parsed.variables().iter().any(|name| reads_object.contains(name));
        if parsed.mentions("object") || through {
            reads_object.push(&variable.name.value);
        }
    }
    let later = spec.mutations.iter().skip(1);
    let later = later.flat_map(|mutation| [&mutation.apply_configuration, &mutation.json_patch]);
    let later: Vec<Parsed<'_>> = later.flatten().map(|text| parse(text, Role::Mutation)).collect();
    for (i, variable) in spec.variables.iter().enumerate() {
        let name = variable.name.value.as_str();
        if reads_object.contains(&name) && later.iter().any(|parsed| parsed.variables().contains(&name)) {
            let at = plan.at.key("variables").item(i);
            let text = "the API server evaluates it again for each mutation";
            report.hazard("M03", Action::Mapped, &at, text);
        }
    }
}
