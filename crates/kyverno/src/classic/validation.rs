//! What a classic rule checks, read once from the policy.
//!
//! Upstream counterpart: the API types of `validate` and `foreach` in `api/kyverno/v1`.

use super::{
    condition::{Conditions, policy_value},
    context::Entry,
};
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::policy::{Subtree, Validate};

/// A check with what comes before it: of a rule, or of one element of a loop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Validation {
    /// Context entries; those of a rule are loaded before.
    pub(super) entries: Vec<Entry>,
    pub(super) preconditions: Option<Conditions>,
    pub(super) check: Check,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    /// Denied where the conditions hold; without any, always.
    Deny(Option<Conditions>),
    /// A tree that must fit.
    Pattern(Data),
    /// Several, of which one must fit.
    AnyPattern(Data),
    /// Lists, each element of which is checked.
    Foreach(Vec<Loop>),
    /// None.
    Nothing,
}

/// An entry of `foreach`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loop {
    /// The query for the elements.
    pub(super) list: String,
    /// Whether patterns are about the element instead of the resource.
    pub(super) element_scope: Option<bool>,
    /// What is checked.
    pub(super) validation: Validation,
}

/// How deep loops may nest.
const DEPTH: usize = 32;

impl Validation {
    /// Reads the check of a rule. Its context and preconditions are read elsewhere.
    pub(super) fn of_rule(validate: &Validate, preconditions: Option<Conditions>) -> Self {
        let document = |part: &Option<Subtree>| part.as_ref().map_or_else(Document::null, Subtree::document);
        let parts = [
            &validate.deny,
            &validate.pattern,
            &validate.any_pattern,
            &validate.foreach,
        ];
        let parts = parts.map(document);
        let [deny, pattern, any_pattern, foreach] = parts.each_ref().map(Document::root);
        Self {
            entries: Vec::new(),
            preconditions,
            check: Check::read(deny, pattern, any_pattern, foreach, 0),
        }
    }

    fn of_element(value: Value<'_>, depth: usize) -> Self {
        let part = |name: &str| value.get(name).unwrap_or(Value::Null);
        Self {
            entries: Entry::read_all(&Data::from(part("context"))),
            preconditions: conditions(part("preconditions")),
            check: Check::read(
                part("deny"),
                part("pattern"),
                part("anyPattern"),
                part("foreach"),
                depth,
            ),
        }
    }
}

impl Check {
    /// The first part that is there decides, in upstream's order.
    fn read(deny: Value<'_>, pattern: Value<'_>, any_pattern: Value<'_>, foreach: Value<'_>, depth: usize) -> Self {
        if !deny.is_null() {
            return Self::Deny(conditions(deny.get("conditions").unwrap_or(Value::Null)));
        }
        if !pattern.is_null() {
            return Self::Pattern(policy_value(pattern));
        }
        if !any_pattern.is_null() {
            return Self::AnyPattern(policy_value(any_pattern));
        }
        let Some(list) = foreach.as_list().filter(|_| depth < DEPTH) else {
            return Self::Nothing;
        };
        Self::Foreach(list.iter().map(|entry| Loop::read(entry, depth + 1)).collect())
    }
}

impl Loop {
    fn read(value: Value<'_>, depth: usize) -> Self {
        Self {
            list: value.get("list").and_then(Value::as_str).unwrap_or_default().to_owned(),
            element_scope: value.get("elementScope").and_then(Value::as_bool),
            validation: Validation::of_element(value, depth),
        }
    }
}

/// A block of conditions, if there is one.
pub(crate) fn conditions(value: Value<'_>) -> Option<Conditions> {
    (!value.is_null()).then(|| Conditions::read(value))
}

/// The conditions of a part of a policy, if it has any.
pub(crate) fn conditions_of(part: Option<&Subtree>) -> Option<Conditions> {
    let part = part.filter(|part| !part.node().is_null())?;
    conditions(part.document().root())
}

/// The context entries of a part of a policy.
pub(crate) fn entries_of(part: Option<&Subtree>) -> Vec<Entry> {
    part.map_or_else(Vec::new, |part| Entry::read_all(&Data::from(part.document().root())))
}
