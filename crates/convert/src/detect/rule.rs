//! Hazards of the rest of a rule: conditions, expressions, parameters, actions.

use super::{
    expression::{Parsed, Role},
    matching::Matched,
};
use crate::{Action, Item, classic::Plan, report::Report};
use kyvtest_cel::profile::Profile;
use kyvtest_go_compat::text::label::{Wording, key_problems};
use kyvtest_model::policy::{FailureAction, FailurePolicy};

pub(super) fn detect(plan: &Plan<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    of_policy(plan, report);
    conditions(plan, report);
    actions(plan, report);
    parameters(plan, kinds, report);
    let expressions = expressions(plan);
    for expression in &expressions {
        mentions(plan, expression, kinds, report);
    }
    parts(plan, report);
}

fn of_policy(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let spec = &plan.policy.spec;
    if !spec.admission {
        let text = "the native policy decides at admission";
        report.hazard("H26", Action::Widened, &plan.at.key("admission"), text);
    }
    let webhook = spec.webhook.as_ref();
    if webhook.is_some_and(|webhook| !webhook.match_conditions.is_empty()) {
        let at = plan.at.keys(&["webhookConfiguration", "matchConditions"]);
        report.hazard(
            "H24",
            Action::Dropped,
            &at,
            "the conditions are not in the native policy",
        );
    }
    let own = spec.failure_policy.as_ref();
    if own.is_some_and(|word| word.value == FailurePolicy::Ignore) {
        let text = "the native policy fails on errors, and so does Kyverno's engine";
        report.hazard("H50", Action::Dropped, &plan.at.key("failurePolicy"), text);
    }
}

fn conditions(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let at = plan.rule_at();
    for (part, key) in [
        (&plan.rule.preconditions, "preconditions"),
        (&plan.rule.context, "context"),
    ] {
        if part.is_some() {
            report.hazard(
                "H25",
                Action::Dropped,
                &at.key(key),
                "the native policy applies without it",
            );
        }
    }
    let conditions = &plan.rule.cel_preconditions;
    if conditions.is_empty() {
        return;
    }
    let at = at.key("celPreconditions");
    report.mapped("preconditions", &at, "the match conditions of the native policy");
    for (i, condition) in conditions.iter().enumerate() {
        let mut problems = Vec::new();
        key_problems(&condition.name, Wording::LabelKey, &mut problems);
        let at = at.item(i).key("name");
        let name = &condition.name.value;
        if !problems.is_empty() {
            report.hazard(
                "H57",
                Action::Dropped,
                &at,
                format!("`{name}` is not a valid name for the API server"),
            );
        } else if conditions.iter().take(i).any(|other| other.name.value == *name) {
            report.hazard(
                "H57",
                Action::Dropped,
                &at,
                format!("`{name}` is the name of two conditions"),
            );
        }
    }
}

fn actions(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let validate = plan.rule_at().key("validate");
    let rule = plan.rule.validate.as_ref();
    let own = rule.is_some_and(|validate| validate.failure_action.is_some());
    let at = if own {
        validate.key("failureAction")
    } else {
        plan.at.key("validationFailureAction")
    };
    match plan.action() {
        FailureAction::Enforce => report.mapped("failure-action", &at, "validation actions of the binding: Deny"),
        FailureAction::Audit => {
            let text = "validation actions of the binding: Audit, Warn";
            report.hazard("H41", Action::Mapped, &at, text);
        }
    }
    let overrides = [
        (
            !plan.policy.spec.validation_failure_action_overrides.is_empty(),
            plan.at.key("validationFailureActionOverrides"),
        ),
        (
            rule.and_then(|validate| validate.failure_action_overrides.as_ref())
                .is_some_and(|all| !all.is_empty()),
            validate.key("failureActionOverrides"),
        ),
    ];
    for (there, at) in overrides {
        if there {
            let text = "the binding has one action for all namespaces";
            report.hazard("H40", Action::Dropped, &at, text);
        }
    }
    let silent = |validation: &kyvtest_model::policy::Validation| {
        validation.message.as_ref().is_none_or(|message| message.is_empty()) && validation.message_expression.is_none()
    };
    let message = rule.and_then(|validate| validate.message.as_ref());
    if message.is_some() && plan.cel.expressions.iter().any(silent) {
        let text = "expressions without a message show their source";
        report.hazard("H44", Action::Dropped, &validate.key("message"), text);
    }
    for (i, validation) in plan.cel.expressions.iter().enumerate() {
        if validation.reason.is_some() {
            let at = plan.cel_at().key("expressions").item(i).key("reason");
            report.hazard(
                "H45",
                Action::Mapped,
                &at,
                "the API server responds with the status of the reason",
            );
        }
    }
}

fn parameters(plan: &Plan<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    let at = plan.cel_at();
    if plan.cel.param_kind.is_some() {
        report.mapped(
            "param-kind",
            &at.key("paramKind"),
            "the parameter kind of the native policy",
        );
    }
    let Some(reference) = &plan.cel.param_ref else { return };
    let at = at.key("paramRef");
    report.mapped("param-ref", &at, "the parameters of the binding");
    let missing = reference
        .parameter_not_found_action
        .as_ref()
        .map(|word| word.value.as_str());
    let missing_at = at.key("parameterNotFoundAction");
    let ignores = plan.policy.spec.failure_policy.as_ref();
    let ignores = ignores.is_some_and(|word| word.value == FailurePolicy::Ignore);
    match (missing, plan.action()) {
        (Some("Deny"), FailureAction::Audit) => {
            let text = "a request without parameters is denied, although the policy audits";
            report.hazard("H42", Action::Widened, &missing_at, text);
        }
        (Some("Deny"), FailureAction::Enforce) if ignores => {
            let text = "a request without parameters is denied, although the policy ignores errors";
            report.hazard("H53", Action::Widened, &missing_at, text);
        }
        (Some("Allow"), FailureAction::Enforce) if reference.name.is_some() => {
            let text = "a request without parameters is admitted, which Kyverno denies";
            report.hazard("H51", Action::Narrowed, &missing_at, text);
        }
        (Some("Allow"), _) if reference.selector.is_some() => {
            let text = "without parameters both admit, Kyverno with a pass in its report";
            report.hazard("H52", Action::Mapped, &missing_at, text);
        }
        _ => {}
    }
    if reference.namespace.is_none() && kinds.iter().any(Matched::is_namespace) {
        let text = "parameters of a Namespace are looked up in that namespace";
        report.hazard("H55", Action::Widened, &at, text);
    }
}

fn parts(plan: &Plan<'_>, report: &mut Vec<Item>) {
    let at = plan.cel_at();
    if !plan.cel.variables.is_empty() {
        report.mapped("variables", &at.key("variables"), "the variables of the native policy");
    }
    if !plan.cel.expressions.is_empty() {
        report.mapped(
            "expressions",
            &at.key("expressions"),
            "the validations of the native policy",
        );
    }
    if !plan.cel.audit_annotations.is_empty() {
        let at = at.key("auditAnnotations");
        report.mapped("audit-annotations", &at, "the audit annotations of the native policy");
        let text = "an annotation that cannot be evaluated denies the request";
        report.hazard("H43", Action::Widened, &at, text);
    }
}

/// All expressions of the rule.
fn expressions<'p>(plan: &Plan<'p>) -> Vec<Parsed<'p>> {
    let profile = Profile::kyverno_classic();
    let mut all = Vec::new();
    let mut add = |expression, role, at| all.push(Parsed::new(expression, role, at, profile));
    let at = plan.rule_at().key("celPreconditions");
    for (i, condition) in plan.rule.cel_preconditions.iter().enumerate() {
        add(&condition.expression, Role::Condition, at.item(i).key("expression"));
    }
    let at = plan.cel_at().key("variables");
    for (i, variable) in plan.cel.variables.iter().enumerate() {
        add(&variable.expression, Role::Variable, at.item(i).key("expression"));
    }
    let at = plan.cel_at().key("expressions");
    for (i, validation) in plan.cel.expressions.iter().enumerate() {
        add(&validation.expression, Role::Validation, at.item(i).key("expression"));
        if let Some(message) = &validation.message_expression {
            add(message, Role::Message, at.item(i).key("messageExpression"));
        }
    }
    let at = plan.cel_at().key("auditAnnotations");
    for (i, annotation) in plan.cel.audit_annotations.iter().enumerate() {
        add(
            &annotation.value_expression,
            Role::Annotation,
            at.item(i).key("valueExpression"),
        );
    }
    all
}

/// What an expression mentions that the two sides see differently.
fn mentions(plan: &Plan<'_>, expression: &Parsed<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    let at = &expression.at;
    let is_condition = expression.role == Role::Condition;
    if is_condition && let Some(span) = expression.variable("variables") {
        let text = "match conditions of a native policy have no variables";
        report.hazard_at("H56", Action::Dropped, at, span, text);
    }
    if is_condition && let Some(span) = expression.variable("namespaceObject") {
        let text = "it is null here on both sides";
        report.hazard_at("H60", Action::Mapped, at, span, text);
    }
    let selects = plan
        .cel
        .param_ref
        .as_ref()
        .is_some_and(|reference| reference.selector.is_some());
    if is_condition
        && selects
        && let Some(span) = expression.variable("params")
    {
        let text = "each parameter is evaluated separately; Kyverno stops at the first whose conditions do not hold";
        report.hazard_at("H54", Action::Widened, at, span, text);
    }
    if kinds.iter().any(Matched::is_namespace)
        && let Some(span) = expression.field("request", "namespace")
    {
        let text = "for a Namespace it is its own name in the native policy, and absent in Kyverno";
        report.hazard_at("H59", Action::Narrowed, at, span, text);
    }
    if let Some(span) = expression.variable("authorizer") {
        let text = "the API server checks what the expression states, Kyverno the kind of the request";
        report.hazard_at("H61", Action::Mapped, at, span, text);
    }
    for field in ["dryRun", "options", "uid"] {
        if let Some(span) = expression.field("request", field) {
            let text = format!("Kyverno does not set the real `request.{field}`");
            report.hazard_at("H64", Action::Mapped, at, span, text);
        }
    }
    let own = kinds.iter().any(|kind| {
        kind.resource
            .as_ref()
            .is_some_and(|resource| !resource.subresource.is_empty())
    });
    if own {
        let fields = [
            ("object", "kind"),
            ("request", "kind"),
            ("request", "name"),
            ("request", "subResource"),
        ];
        for (variable, field) in fields {
            if let Some(span) = expression.field(variable, field) {
                let text = format!("`{variable}.{field}` is that of the parent in Kyverno");
                report.hazard_at("H21", Action::Mapped, at, span, text);
            }
        }
    }
}
