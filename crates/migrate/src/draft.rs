//! A rule as parts of ValidatingPolicies: what it matches, its variables, conditions and validations.
//!
//! A rule for Pods also counts for their controllers (autogen). Kyverno generates one more rule for CronJobs and one for all
//! other controllers; if the translations differ only in where the Pod is, one policy covers all kinds.

mod cel;
mod merge;
mod tidy;

pub(crate) use cel::plural;

use std::borrow::Cow;

use kyvtest_kyverno::autogen;
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{ClassicPolicy, FailureAction, Rule, Subtree},
};
use kyvtest_prove::repair::{Before, NoScope, RuleScope, applied_before, rule_scopes};

use crate::{
    Expr, Refusal, RefusalCode,
    check::{self, Check, Requests, Target},
    conditions::Test,
    guess::{Guess, widen},
    message::Message,
    names::Variables,
};

/// The parts of one or several ValidatingPolicies that differ only in their scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    /// The word that tells policies of the same rule apart; empty for the first.
    pub(crate) suffix: &'static str,
    /// The variants of the rule that the draft covers: that for Pods (or the only one) is empty.
    pub(crate) variants: Vec<&'static str>,
    pub(crate) scopes: Vec<RuleScope>,
    /// Name and expression.
    pub(crate) conditions: Vec<(String, String)>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) validations: Vec<Validation>,
    /// Name and expression.
    pub(crate) annotations: Vec<(String, String)>,
    /// What differs although the decisions do not.
    pub(crate) notes: Vec<String>,
}

/// One entry of `validations`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Validation {
    pub(crate) expression: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
}

/// Choices between translations of the same rule, from the one that reads best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) preconditions: Preconditions,
    /// Whether deletions belong to the policy although the check says nothing about them: preconditions may still fail to
    /// evaluate.
    pub(crate) deletions: bool,
    /// Whether what makes a proof hard stays as it is translated: guards in front of checks that say the same of an empty list, and
    /// policies of their own for pod controllers whose metadata are elsewhere.
    pub(crate) literal: bool,
    /// Whether violations that were there before an update are let through.
    pub(crate) keeps_existing: bool,
}

/// What becomes of preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preconditions {
    /// Match conditions, which the API server evaluates as well: one that cannot be evaluated refuses the request.
    Match,
    /// `!preconditions || check`, where a check that holds hides an error.
    Or,
    /// `preconditions ? check : true`
    Choose,
}

/// What is translated: a policy with this rule alone, and the rule as it is written.
#[derive(Clone, Copy)]
pub(crate) struct Source<'p> {
    pub(crate) cut: &'p ClassicPolicy,
    pub(crate) rule: &'p Rule,
    pub(crate) guesses: &'p [Guess],
}

impl Source<'_> {
    /// Whether Kyverno lets violations through that were there before.
    pub(crate) fn forgives(&self) -> bool {
        let Some(validate) = &self.rule.validate else {
            return false;
        };
        let own = validate.failure_action.as_ref().map(|action| action.value);
        let action = own.unwrap_or(self.cut.spec.validation_failure_action);
        let preconditions = self
            .rule
            .preconditions
            .as_ref()
            .is_some_and(|part| !part.node().is_null());
        action == FailureAction::Enforce
            && validate.allow_existing_violations != Some(false)
            && validate.cel.is_none()
            && !preconditions
    }
}

/// Translates a rule.
pub(crate) fn drafts(source: Source<'_>, style: Style, discovery: &Discovery) -> Result<Vec<Draft>, Refusal> {
    let rule = source.rule;
    let all = autogen::all_rules(source.cut);
    let mut drafts = Vec::new();
    for (number, variant) in all.iter().enumerate() {
        // The first is the rule itself, whose places are those of the source.
        let own: Cow<'_, Rule> = if number == 0 {
            Cow::Borrowed(rule)
        } else {
            Cow::Borrowed(variant)
        };
        let suffix = match variant.name.value.as_str() {
            name if number == 0 || !name.starts_with("autogen-") => "",
            name if name.starts_with("autogen-cronjob-") => "cronjobs",
            _ => "controllers",
        };
        match draft(source, &own, suffix, style, discovery) {
            Ok(draft) => drafts.extend(draft),
            Err(refusal) if number == 0 => return Err(refusal),
            Err(refusal) => return Err(refusal.at(rule.span)),
        }
    }
    let mut drafts = merge::merged(drafts, style.literal);
    let in_cel = rule.validate.as_ref().is_some_and(|validate| validate.cel.is_some());
    if !in_cel {
        for draft in &mut drafts {
            tidy::tidy(draft, style.literal);
        }
        webhook_conditions(source, &mut drafts);
    }
    Ok(drafts)
}

/// Puts the webhook's conditions in front of the rule's own, as they are written: both sides show them the same request.
fn webhook_conditions(source: Source<'_>, drafts: &mut [Draft]) {
    let Some(webhook) = &source.cut.spec.webhook else {
        return;
    };
    for draft in drafts {
        let own = webhook.match_conditions.iter();
        let own = own.map(|condition| {
            let text = condition.expression.text().trim().to_owned();
            (condition.name.value.clone(), text)
        });
        draft.conditions.splice(0..0, own);
    }
}

/// The operations that some scopes list; none if one lists all.
fn operations_of(scopes: &[RuleScope]) -> Vec<Operation> {
    let mut operations = Vec::new();
    let rules = scopes
        .iter()
        .filter_map(|scope| scope.constraints["resourceRules"].as_array());
    for operation in rules
        .flatten()
        .filter_map(|rule| rule["operations"].as_array())
        .flatten()
    {
        let Some(Ok(operation)) = operation.as_str().map(str::parse) else {
            return Vec::new();
        };
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    operations
}

fn scopes(source: Source<'_>, rule: &Rule, style: Style, discovery: &Discovery) -> Result<Vec<RuleScope>, Refusal> {
    let operations = if style.deletions {
        Operation::ALL.to_vec()
    } else {
        check::operations(rule)
    };
    scopes_of(source.cut, rule, &operations, (discovery, source.guesses))
}

/// The requests that a rule applies to, with these operations only.
pub(crate) fn scopes_of(
    cut: &ClassicPolicy,
    rule: &Rule,
    operations: &[Operation],
    (discovery, guesses): (&Discovery, &[Guess]),
) -> Result<Vec<RuleScope>, Refusal> {
    match rule_scopes(cut, rule, operations, discovery) {
        Ok(mut scopes) => {
            for scope in &mut scopes {
                widen(&mut scope.constraints, guesses);
            }
            Ok(scopes)
        }
        Err(NoScope::Nothing) => Ok(Vec::new()),
        Err(NoScope::UnknownKind(kind)) => {
            let reason = format!("the kind `{kind}` is unknown; describe it with `--crds`");
            Err(Refusal::new(RefusalCode::Match, reason).at(rule.matches.span))
        }
        Err(NoScope::Hidden(what)) => {
            let code = if what.contains("roles") {
                RefusalCode::Roles
            } else {
                RefusalCode::Match
            };
            let reason = format!("`match` or `exclude` reads {what}, which CEL does not see");
            Err(Refusal::new(code, reason).at(rule.matches.span))
        }
        Err(NoScope::TooMany) => {
            let reason = "`match` and `exclude` need more policies than are worth having";
            Err(Refusal::new(RefusalCode::Match, reason).at(rule.matches.span))
        }
    }
}

fn draft(
    source: Source<'_>,
    rule: &Rule,
    suffix: &'static str,
    style: Style,
    discovery: &Discovery,
) -> Result<Option<Draft>, Refusal> {
    let mut scopes = scopes(source, rule, style, discovery)?;
    if scopes.is_empty() {
        return Ok(None);
    }
    if rule.validate.as_ref().is_some_and(|validate| validate.cel.is_some()) {
        return cel::draft(source, rule, suffix, scopes, style).map(Some);
    }
    let mut kinds: Vec<(String, String)> = Vec::new();
    if !scopes.iter().any(|scope| scope.others) {
        for kind in scopes.iter().flat_map(|scope| &scope.kinds) {
            let entry = (kind.api_version(), kind.kind.clone());
            if !kinds.contains(&entry) {
                kinds.push(entry);
            }
        }
    }
    let mut operations = operations_of(&scopes);
    if !style.deletions {
        let requests = Requests {
            kinds: &kinds,
            operations: &operations,
        };
        let denied = check::denied_operations(rule, requests);
        if !denied.is_empty() && denied.len() < operations.len() {
            scopes = scopes_of(source.cut, rule, &denied, (discovery, source.guesses))?;
            operations = denied;
        }
    }
    let requests = Requests {
        kinds: &kinds,
        operations: &operations,
    };
    let mut variables = Variables::default();
    let deletes = |scope: &RuleScope| scope.constraints["resourceRules"].to_string().contains("DELETE");
    let target = if scopes.iter().any(deletes) {
        check::define_target(&mut variables);
        Target::Either
    } else {
        Target::New
    };
    let Check {
        preconditions,
        mut holds,
        fails,
        message,
        plain_message,
    } = check::translate(rule, target, requests, &mut variables)?;
    if style.keeps_existing && source.forgives() {
        holds = with_existing(
            source,
            rule,
            Test { expr: holds, fails },
            requests,
            &mut variables,
            discovery,
        )?;
    }
    if style.deletions && !check::operations(rule).contains(&Operation::Delete) {
        let deleted = Expr::primary("request.operation").relation("==", &Expr::string("DELETE"));
        holds = Expr::any([deleted, holds]);
    }
    let mut conditions = Vec::new();
    if let Some(condition) = preconditions {
        match style.preconditions {
            Preconditions::Match if !condition.as_str().contains("variables.") => {
                conditions.push(("preconditions".to_owned(), condition.as_bool().as_str().to_owned()));
            }
            Preconditions::Match | Preconditions::Or => holds = Expr::any([condition.negated_relation(), holds]),
            Preconditions::Choose => holds = condition.choose(&holds, &Expr::bool(true)),
        }
    }
    let (message, message_expression) = match message {
        None => (None, None),
        Some(Message::Constant(text)) => (Some(text), None),
        Some(Message::Expression(expr)) => (None, Some(expr.as_str().to_owned())),
    };
    let validation = Validation {
        expression: holds.as_str().to_owned(),
        message,
        message_expression,
    };
    variables.retain_used([
        validation.expression.as_str(),
        validation.message_expression.as_deref().unwrap_or_default(),
    ]);
    let permissions: Vec<String> = variables
        .lookups()
        .iter()
        .map(|lookup| {
            format!(
                "Kyverno's admission and reports controllers need permission to {} `{}` ({})",
                lookup.verb, lookup.resource, lookup.api_version
            )
        })
        .collect();
    Ok(Some(Draft {
        suffix,
        variants: vec![suffix],
        scopes,
        conditions,
        variables: variables
            .iter()
            .map(|(name, expr)| (name.to_owned(), expr.as_str().to_owned()))
            .collect(),
        validations: vec![validation],
        annotations: Vec::new(),
        notes: plain_message
            .map(|refusal| format!("the message is shown as it is written: {}", refusal.reason))
            .into_iter()
            .chain(permissions)
            .collect(),
    }))
}

/// The check, or a violation that was there before the update.
fn with_existing(
    source: Source<'_>,
    rule: &Rule,
    holds: Test,
    requests: Requests<'_>,
    variables: &mut Variables,
    discovery: &Discovery,
) -> Result<Expr, Refusal> {
    if !requests.operations.is_empty() && !requests.operations.contains(&Operation::Update) {
        return Ok(holds.expr);
    }
    let before = match applied_before(source.cut, rule, discovery) {
        Some(Before::Known(false)) => return Ok(holds.expr),
        Some(Before::Known(true)) => Expr::bool(true),
        Some(Before::If(condition)) if condition.contains(" || ") => Expr::primary(format!("({condition})")),
        Some(Before::If(condition)) => Expr::primary(condition),
        None => {
            let reason = "whether the rule matched the object before an update cannot be told; \
                          set `allowExistingViolations: false`, or use `--existing-violations drop`";
            return Err(Refusal::new(RefusalCode::Setting, reason).at(rule.matches.span));
        }
    };
    let reads_old = |part: &Subtree| part.document().root().to_json().contains("oldObject");
    if reads_old(&rule.source) {
        // An object that is created has no older one: such rules find no violation in it.
        return Ok(holds.expr);
    }
    let held = check::translate(rule, Target::Old, requests, variables)?.holds;
    let is_update = Expr::primary("request.operation").relation("==", &Expr::string("UPDATE"));
    let violated = Expr::all([is_update, before, held.negate()]);
    if violated.is_bool(false) {
        return Ok(holds.expr);
    }
    let existing = variables.define("violatedBefore", violated);
    // An error refuses the update, whatever was there before.
    Ok(if holds.fails {
        holds.expr.choose(&Expr::bool(true), &existing)
    } else {
        Expr::any([holds.expr, existing])
    })
}
