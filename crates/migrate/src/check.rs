//! The check of a rule: what must hold of an object, and when the rule concerns it at all.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_resource.go`. The check is translated for one object: the one
//! of the request, or the one that was there before it.

use kyvtest_go_compat::value::Data;
use kyvtest_model::{
    kube::Operation,
    policy::{Rule, Subtree, Validate},
};

use crate::{
    Expr, Refusal, RefusalCode, Scope, Subject,
    conditions::{self, Failure, Test},
    context, foreach,
    message::{self, Message},
    names::{Names, Variables},
    pattern, pod_security,
    query::{Seen, Value},
};

/// Which object a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The new object.
    New,
    /// The new object, or the old one of a deletion.
    Either,
    /// The old object, as if it were created now.
    Old,
}

impl Target {
    /// The name of the object in CEL.
    pub(crate) const fn root(self) -> &'static str {
        match self {
            Self::New => "object",
            Self::Either => "variables.target",
            Self::Old => "oldObject",
        }
    }
}

/// A translated check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// When the rule concerns the request; `None` if always.
    pub(crate) preconditions: Option<Expr>,
    /// What must hold then.
    pub(crate) holds: Expr,
    /// Whether that can fail to evaluate.
    pub(crate) fails: bool,
    /// The rule's message; `None` if it has none.
    pub(crate) message: Option<Message>,
    /// A message that is shown as it is written, because a variable in it has no translation.
    pub(crate) plain_message: Option<Refusal>,
}

/// The operations on which the check can fail.
pub(crate) fn operations(rule: &Rule) -> Vec<Operation> {
    let changes = vec![Operation::Create, Operation::Update];
    let Some(validate) = &rule.validate else { return changes };
    let reads_old = |part: &Subtree| part.document().root().to_json().contains("oldObject");
    let all = validate.deny.is_some() || validate.cel.is_some() || validate.foreach.as_ref().is_some_and(reads_old);
    if all { Operation::ALL.to_vec() } else { changes }
}

/// The object of a request that may be a deletion.
pub(crate) fn define_target(variables: &mut Variables) {
    variables.define(
        "target",
        Expr::primary("request.operation")
            .relation("==", &Expr::string("DELETE"))
            .choose(&Expr::primary("oldObject"), &Expr::primary("object")),
    );
}

/// The requests that a check is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests<'r> {
    /// The kinds of the objects, each with its API version.
    pub(crate) kinds: &'r [(String, String)],
    pub(crate) operations: &'r [Operation],
}

/// Which of these operations the rule can deny: its conditions may leave out others.
pub(crate) fn denied_operations(rule: &Rule, requests: Requests<'_>) -> Vec<Operation> {
    if !rule.source.document().root().to_json().contains("request.operation") {
        return requests.operations.to_vec();
    }
    let is_denied = |operation: &&Operation| {
        let one = Requests {
            operations: std::slice::from_ref(*operation),
            ..requests
        };
        let Ok(check) = translate(rule, Target::Either, one, &mut Variables::default()) else {
            return true;
        };
        let is_met = check.preconditions.is_none_or(|expr| !expr.is_bool(false));
        is_met && !check.holds.is_bool(true)
    };
    requests.operations.iter().filter(is_denied).copied().collect()
}

/// Translates the check of a rule.
pub(crate) fn translate(
    rule: &Rule,
    target: Target,
    requests: Requests<'_>,
    variables: &mut Variables,
) -> Result<Check, Refusal> {
    let Some(validate) = &rule.validate else {
        return Err(Refusal::new(RefusalCode::RuleType, "the rule does not validate").at(rule.span));
    };
    let subject = Subject {
        expr: Expr::primary(target.root()),
        path: Some(Vec::new()),
    };
    let mut scope = Scope::default();
    scope.set_kinds(requests.kinds.to_vec());
    scope.bind("request.object", subject.clone());
    if target == Target::Old {
        scope.set_seen(Seen::Stored);
        scope.bind_value("request.operation", Value::literal(&Data::from("CREATE"))?);
    } else {
        scope.set_operations(requests.operations.to_vec());
    }
    let mut names = Names::new(scope, variables);
    if let Some(entries) = rule.context.as_ref().filter(|part| !part.node().is_null()) {
        context::context(entries, &mut names);
    }
    let preconditions = match rule.preconditions.as_ref().filter(|part| !part.node().is_null()) {
        Some(tree) => Some(conditions::conditions(tree, &mut names)?).filter(|expr| !expr.is_bool(true)),
        None => None,
    };
    let Test { expr: holds, fails } = holds(rule, validate, &subject, &mut names)?;
    let own = validate.message.as_ref().map(|text| text.value.trim().to_owned());
    let own = own.filter(|text| !text.is_empty());
    let standard = validate.pod_security.as_ref().map(pod_security::message);
    let text = own.or(standard).filter(|_| target != Target::Old);
    let text = text.as_deref();
    let (message, plain_message) = match text.map(|text| message::message(text, &mut names)) {
        None => (None, None),
        Some(Ok(message)) => (Some(message), None),
        Some(Err(refusal)) => (text.map(|text| Message::Constant(text.to_owned())), Some(refusal)),
    };
    Ok(Check {
        preconditions,
        holds,
        fails,
        message,
        plain_message,
    })
}

fn holds(rule: &Rule, validate: &Validate, subject: &Subject, names: &mut Names<'_>) -> Result<Test, Refusal> {
    let certain = |expr: Expr| Test { expr, fails: false };
    if let Some(security) = &validate.pod_security {
        let translated = pod_security::translate(security, subject, names).map(certain);
        return translated.map_err(|refusal| refusal.at(security.span()));
    }
    if let Some(deny) = &validate.deny {
        let Some(tree) = deny.node().get("conditions").filter(|node| !node.is_null()) else {
            return Ok(Test::constant(false));
        };
        let denied = conditions::block(tree, deny.file(), Failure::Kept, names)?;
        return Ok(Test {
            expr: denied.expr.negated_relation(),
            fails: denied.fails,
        });
    }
    if let Some(tree) = &validate.pattern {
        let data = Data::from(tree.document().root());
        return pattern::of_object(&data, subject, &names.scope, names.variables)
            .map(certain)
            .map_err(|refusal| refusal.at(tree.span()));
    }
    if let Some(trees) = &validate.any_pattern {
        let data = Data::from(trees.document().root());
        let list = data.as_list().unwrap_or_default();
        let translated = pattern::any_of_object(list, subject, &names.scope, names.variables).map(certain);
        return translated.map_err(|refusal| refusal.at(trees.span()));
    }
    if let Some(tree) = &validate.foreach {
        return foreach::foreach(tree, subject, names).map(certain);
    }
    let what = "the rule validates manifests, or with an assertion tree";
    Err(Refusal::new(RefusalCode::RuleType, what).at(rule.span))
}
