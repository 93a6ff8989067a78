//! Hazards of ValidatingPolicies.

use super::expression::{Parsed, Role};
use crate::{
    Action, Item,
    place::At,
    report::Report,
    validating::{Plan, actions, exception_at},
};
use kyvtest_cel::profile::Profile;
use kyvtest_model::policy::{CelPolicyException, FailurePolicy, MatchCondition, Mode, ValidationAction};

pub(super) fn detect(plan: &Plan<'_>, report: &mut Vec<Item>) {
    of_policy(plan, report);
    exceptions(plan, report);
    for expression in &expressions(plan) {
        mentions(plan, expression, report);
    }
}

fn of_policy(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let (spec, at) = (&plan.policy.spec, &plan.at);
    report.mapped("match-constraints", &at.key("matchConstraints"), "copied");
    for (there, key, code) in [
        (!spec.match_conditions.is_empty(), "matchConditions", "match-conditions"),
        (!spec.variables.is_empty(), "variables", "variables"),
        (!spec.validations.is_empty(), "validations", "validations"),
        (
            !spec.audit_annotations.is_empty(),
            "auditAnnotations",
            "audit-annotations",
        ),
    ] {
        if there {
            report.mapped(code, &at.key(key), "copied");
        }
    }
    let actions = actions(plan.policy);
    let words: Vec<&str> = actions.iter().map(|action| action.as_str()).collect();
    let text = format!("validation actions of the binding: {}", words.join(", "));
    report.mapped("validation-actions", &at.key("validationActions"), text);
    if !spec.audit_annotations.is_empty() && !actions.contains(&ValidationAction::Deny) {
        let text = "an annotation that cannot be evaluated denies the request";
        report.hazard("V16", Action::Widened, &at.key("auditAnnotations"), text);
    }
    let ignores = spec
        .failure_policy
        .as_ref()
        .is_some_and(|word| word.value == FailurePolicy::Ignore);
    if ignores {
        let text = "the native policy fails on errors";
        report.hazard("V01", Action::Dropped, &at.key("failurePolicy"), text);
    }
    if !spec.evaluation.admission {
        let at = at.keys(&["evaluation", "admission", "enabled"]);
        report.hazard("V09", Action::Widened, &at, "the native policy decides at admission");
    }
    if spec.evaluation.mode != Mode::Kubernetes {
        let at = at.keys(&["evaluation", "mode"]);
        report.hazard(
            "V10",
            Action::Widened,
            &at,
            "the native policy evaluates admission requests",
        );
    }
    for (i, validation) in spec.validations.iter().enumerate() {
        if validation.message_expression.is_some() {
            let at = at.key("validations").item(i).key("messageExpression");
            report.hazard("V15", Action::Mapped, &at, "if it fails, the messages differ");
        }
    }
}

fn exceptions(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let mut names: Vec<&str> = plan
        .policy
        .spec
        .match_conditions
        .iter()
        .map(|condition| condition.name.value.as_str())
        .collect();
    let mut lists: Vec<&str> = Vec::new();
    for exception in &plan.exceptions {
        let at = exception_at(exception);
        of_exception(plan, exception, &at, report);
        for (i, condition) in exception.match_conditions.iter().enumerate() {
            let name = condition.name.value.as_str();
            if names.contains(&name) {
                let at = at.key("matchConditions").item(i).key("name");
                let text = format!("`{name}` is the name of two conditions in the native policy");
                report.hazard("V07", Action::Dropped, &at, text);
            }
            names.push(name);
        }
        for (values, key) in [
            (&exception.images, "images"),
            (&exception.allowed_values, "allowedValues"),
        ] {
            if values.is_empty() {
                continue;
            }
            if lists.contains(&key) {
                let text = "this list replaces that of the exceptions before";
                report.hazard("V05", Action::Widened, &at.key(key), text);
            }
            lists.push(key);
        }
    }
}

fn of_exception(plan: &Plan<'_>, exception: &CelPolicyException, at: &At<'_>, report: &mut Vec<Item>) {
    let conditions = &exception.match_conditions;
    let lists = [
        (&exception.images, "images"),
        (&exception.allowed_values, "allowedValues"),
    ];
    let has_lists = lists.iter().any(|(values, _)| !values.is_empty());
    let conditions_at = at.key("matchConditions");
    if !conditions.is_empty() {
        report.mapped(
            "exception-conditions",
            &conditions_at,
            "match conditions of the native policy, negated",
        );
    }
    for (values, key) in lists {
        if !values.is_empty() {
            let name = if key == "images" {
                "allowedImages"
            } else {
                "allowedValues"
            };
            report.mapped("exception-values", &at.key(key), format!("the variable `{name}`"));
        }
    }
    match (conditions.len(), has_lists) {
        (0, false) => {
            let text = "the exception is not in the native policy";
            report.hazard("V03", Action::Dropped, &at.key("policyRefs"), text);
        }
        (1.., true) => {
            let text = "the policy is skipped if the conditions hold; otherwise the values are allowed";
            report.hazard("V04", Action::Narrowed, &conditions_at, text);
        }
        (2.., false) => {
            let text = "a request is exempt if any of the conditions holds";
            report.hazard("V02", Action::Narrowed, &conditions_at, text);
        }
        _ => {}
    }
    plan.report_exception(exception, ["V06", "V22"], report);
}

/// All expressions of the policy and of its exceptions.
fn expressions<'p>(plan: &Plan<'p>) -> Vec<Parsed<'p>> {
    let profile = Profile::kyverno();
    let mut all = Vec::new();
    let mut add = |expression, role, at| all.push(Parsed::new(expression, role, at, profile));
    let conditions = |conditions: &'p [MatchCondition], at: At<'p>| {
        conditions.iter().enumerate().map(move |(i, condition)| {
            let at = at.item(i).key("expression");
            (&condition.expression, at)
        })
    };
    let (spec, at) = (&plan.policy.spec, &plan.at);
    for (expression, at) in conditions(&spec.match_conditions, at.key("matchConditions")) {
        add(expression, Role::Condition, at);
    }
    for exception in &plan.exceptions {
        let at = exception_at(exception).key("matchConditions");
        for (expression, at) in conditions(&exception.match_conditions, at) {
            add(expression, Role::Condition, at);
        }
    }
    for (i, variable) in spec.variables.iter().enumerate() {
        add(
            &variable.expression,
            Role::Variable,
            at.key("variables").item(i).key("expression"),
        );
    }
    for (i, validation) in spec.validations.iter().enumerate() {
        let at = at.key("validations").item(i);
        add(&validation.expression, Role::Validation, at.key("expression"));
        if let Some(message) = &validation.message_expression {
            add(message, Role::Message, at.key("messageExpression"));
        }
    }
    for (i, annotation) in spec.audit_annotations.iter().enumerate() {
        let at = at.key("auditAnnotations").item(i).key("valueExpression");
        add(&annotation.value_expression, Role::Annotation, at);
    }
    all
}

fn mentions(plan: &Plan<'_>, expression: &Parsed<'_>, report: &mut Vec<Item>) {
    let at = &expression.at;
    if let Some((name, span)) = expression.kyverno_only() {
        let text = format!("a native policy has no `{name}`");
        report.hazard_at("V11", Action::Dropped, at, span, text);
    }
    if expression.role == Role::Condition
        && let Some(span) = expression.variable("namespaceObject")
    {
        let text = "it is null here, the condition fails and every request is denied";
        report.hazard_at("V08", Action::Widened, at, span, text);
    } else if covers_namespaces(plan)
        && let Some(span) = expression.variable("namespaceObject")
    {
        let text = "for updates and deletions of a Namespace it is null in the native policy";
        report.hazard_at("V24", Action::Mapped, at, span, text);
    }
    for variable in ["object", "oldObject"] {
        if let Some(span) = expression.null_test(variable) {
            let text = format!("an absent `{variable}` is null in the native policy, and an empty map in Kyverno");
            report.hazard_at("V12", Action::Narrowed, at, span, text);
        }
    }
}

/// Whether updates or deletions of Namespaces are judged.
fn covers_namespaces(plan: &Plan<'_>) -> bool {
    let constraints = plan.policy.spec.match_constraints.as_ref();
    let mut rules = constraints.iter().flat_map(|block| &block.resource_rules);
    rules.any(|rule| {
        let rule = &rule.rule;
        rule.resources
            .iter()
            .any(|resource| matches!(resource.resource.as_str(), "namespaces" | "*"))
            && rule
                .operations
                .iter()
                .any(|word| matches!(word.as_str(), "UPDATE" | "DELETE" | "*"))
    })
}
