//! `preconditions` and `deny.conditions`, translated: keys, operators and values, in `any` and `all` or in a list.
//!
//! Upstream counterpart: `pkg/engine/variables/evaluate.go` and `pkg/engine/variables/operator` (Kyverno 1.19), as in
//! `kyvtest_kyverno::classic::condition`. Kyverno evaluates conditions in order and stops at the first error; CEL's `&&` and `||`
//! forgive an error on one side if the other decides. Where a condition may fail, a conditional keeps the order.

mod equality;
mod membership;
mod order;

use kyvtest_go_compat::{diagnostic::FileId, value::Data, value::Document, yaml::Node};
use kyvtest_model::{
    kube::Operation,
    policy::{Subtree, place},
};

use crate::{
    Expr, Refusal, RefusalCode,
    names::Names,
    query::{self, Missing, Type, Value},
};

/// A translated condition.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    /// True where the condition holds.
    pub(crate) expr: Expr,
    /// Whether it can fail to evaluate.
    pub(crate) fails: bool,
}

impl Test {
    pub(crate) fn constant(holds: bool) -> Self {
        Self {
            expr: Expr::bool(holds),
            fails: false,
        }
    }

    /// Both, the first one first.
    fn and(self, other: Self) -> Self {
        if self.expr.is_bool(false) && !self.fails {
            return self;
        }
        let expr = if self.fails && !other.expr.is_bool(true) {
            self.expr.choose(&other.expr, &Expr::bool(false))
        } else {
            Expr::all([self.expr, other.expr])
        };
        let fails = self.fails || other.fails;
        Self { expr, fails }
    }

    /// One of them, the first one first.
    fn or(self, other: Self) -> Self {
        if self.expr.is_bool(true) && !self.fails {
            return self;
        }
        let expr = if self.fails && !other.expr.is_bool(false) {
            self.expr.choose(&Expr::bool(true), &other.expr)
        } else {
            Expr::any([self.expr, other.expr])
        };
        let fails = self.fails || other.fails;
        Self { expr, fails }
    }

    /// Both, and both are evaluated whatever the other one is.
    fn strict_and(self, other: Self) -> Self {
        match (self.fails, other.fails) {
            (true, true) => {
                let holds = Expr::primary("holds");
                let expr = Expr::list([self.expr, other.expr]).call("all", [holds.clone(), holds]);
                Self { expr, fails: true }
            }
            (false, true) => other.and(self),
            _ => self.and(other),
        }
    }
}

/// What becomes of a condition that fails because a key is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The expression fails as well.
    Kept,
    /// The block does not hold: `foreach` passes over elements whose preconditions fail.
    Unmet,
}

/// Translates a block of conditions. The result is true where they hold, and an error where Kyverno's evaluation is one.
///
/// # Errors
/// The first condition without a translation, with its place.
pub(crate) fn conditions(tree: &Subtree, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    Ok(block(tree.node(), tree.file(), Failure::Kept, names)?.expr)
}

/// The same for a part of a tree.
///
/// # Errors
/// See [`conditions`].
pub(crate) fn block(node: Node<'_>, file: FileId, failure: Failure, names: &mut Names<'_>) -> Result<Test, Refusal> {
    if let Some(items) = node.as_seq() {
        return all_of(items.iter(), file, failure, names);
    }
    let list = |name: &str| node.get(name).filter(|list| !list.is_null());
    let any = match list("any").and_then(Node::as_seq) {
        None => Test::constant(true),
        Some(items) => {
            let mut tests = Vec::with_capacity(items.len());
            // A failure ends the block; only the last condition has nothing behind it.
            for (i, item) in items.iter().enumerate() {
                let failure = if i + 1 == items.len() { failure } else { Failure::Kept };
                tests.push(condition(item, file, failure, names)?);
            }
            // From the right, so that a conditional has the rest on one side.
            tests
                .into_iter()
                .rev()
                .fold(Test::constant(false), |rest, test| test.or(rest))
        }
    };
    let all = match list("all").and_then(Node::as_seq) {
        None => Test::constant(true),
        Some(items) => all_of(items.iter(), file, failure, names)?,
    };
    Ok(any.strict_and(all))
}

fn all_of<'t>(
    items: impl Iterator<Item = Node<'t>>,
    file: FileId,
    failure: Failure,
    names: &mut Names<'_>,
) -> Result<Test, Refusal> {
    let tests = items.map(|item| condition(item, file, failure, names));
    let tests: Vec<Test> = tests.collect::<Result<_, _>>()?;
    Ok(tests
        .into_iter()
        .rev()
        .fold(Test::constant(true), |rest, test| test.and(rest)))
}

/// A value as a policy's types keep it: a number that stands alone is a double.
fn policy_value(node: Option<Node<'_>>) -> Data {
    match node.map(|node| Data::from(Document::from(node).root())) {
        Some(data @ (Data::Int(_) | Data::Uint(_))) => data.with_doubles(),
        Some(data) => data,
        None => Data::Null,
    }
}

fn condition(node: Node<'_>, file: FileId, failure: Failure, names: &mut Names<'_>) -> Result<Test, Refusal> {
    let at = |part: &str| place(file, node.get(part).unwrap_or(node).span());
    let translated = |part: &str, names: &mut Names<'_>| {
        let value = query::data(&policy_value(node.get(part)), names)?;
        if failure == Failure::Unmet {
            return Ok(value.or_null());
        }
        value.of_condition()
    };
    let key = translated("key", names).map_err(|refusal: Refusal| refusal.at(at("key")))?;
    let value = translated("value", names).map_err(|refusal: Refusal| refusal.at(at("value")))?;
    let operator = node.get("operator").and_then(Node::as_str).unwrap_or_default();
    if let Some(holds) = of_operations(operator, &key, &value, names.scope.operations()) {
        return Ok(Test::constant(holds));
    }
    let mut expr = evaluate(operator, &key, &value).map_err(|refusal| refusal.at(at("operator")))?;
    let mut fails = key.fails_if_read() || value.fails_if_read();
    if failure == Failure::Unmet {
        let loads = [&key, &value].map(|side| side.loads.as_deref().cloned().unwrap_or_else(|| Expr::bool(true)));
        expr = Expr::all(loads.into_iter().chain([key.present(), value.present(), expr]));
        fails = [&key, &value].iter().any(|side| side.fails && side.loads.is_none());
    }
    Ok(Test { expr, fails })
}

/// Whether a condition on the operation of the request holds, if that is the same for all operations.
fn of_operations(operator: &str, key: &Value, value: &Value, operations: &[Operation]) -> Option<bool> {
    if key.plain().as_str() != "request.operation" || value.literal.is_none() {
        return None;
    }
    let mut results = operations.iter().map(|operation| {
        let key = Value::literal(&Data::from(operation.as_str())).ok()?;
        let result = evaluate(operator, &key, value).ok()?;
        [true, false].into_iter().find(|known| result.is_bool(*known))
    });
    let first = results.next()??;
    results.all(|other| other == Some(first)).then_some(first)
}

fn evaluate(operator: &str, key: &Value, value: &Value) -> Result<Expr, Refusal> {
    use membership::Membership;
    if key.drops_nulls || value.drops_nulls {
        return unknown("the list may have nulls, which count in Kyverno's conditions");
    }
    let member = |membership: Membership| membership::translate(membership, key, value);
    match operator.to_lowercase().as_str() {
        "equal" | "equals" => Ok(guarded(key, equality::equals(key, value)?)),
        "notequal" | "notequals" => Ok(guarded(key, equality::not_equals(key, value)?)),
        "in" => member(Membership::In),
        "notin" => member(Membership::NotIn),
        "anyin" => member(Membership::AnyIn),
        "allin" => member(Membership::AllIn),
        "anynotin" => member(Membership::AnyNotIn),
        "allnotin" => member(Membership::AllNotIn),
        _ => {
            let (name, durations) = match operator.strip_prefix("Duration") {
                Some(name) => (name, true),
                None => (operator, false),
            };
            let relation = match name {
                "GreaterThan" => ">",
                "GreaterThanOrEquals" => ">=",
                "LessThan" => "<",
                "LessThanOrEquals" => "<=",
                _ => return unknown(format!("Kyverno has no operator `{operator}`")),
            };
            let expr = order::compare(relation, key, value, durations)?;
            Ok(guarded(key, guarded(value, expr)))
        }
    }
}

/// An expression about a value that may be null, which makes the condition false.
fn guarded(value: &Value, expr: Expr) -> Expr {
    if value.missing == Missing::Null {
        return Expr::all([value.present(), expr]);
    }
    expr
}

fn unknown<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Condition, reason))
}

fn type_unknown<T>(value: &Value) -> Result<T, Refusal> {
    unknown(format!(
        "the operator depends on the type of `{}`, which is not known; convert it in the expression",
        value.plain()
    ))
}

/// Whether a text is a duration as Go reads it, for a guard in front of `duration()`.
fn is_duration(text: &Expr) -> Expr {
    text.call(
        "matches",
        [Expr::string(
            "^[-+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$",
        )],
    )
}

fn is_numeric_text(text: &Expr) -> Expr {
    text.call(
        "matches",
        [Expr::string("^[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?$")],
    )
}

fn is_text(value: &Value) -> bool {
    matches!(value.ty, Type::Text(_))
}
