//! Does a ValidatingPolicy's `matchConstraints` select a request.
//!
//! Upstream counterpart: `pkg/cel/matching`. It is Kubernetes' matcher with these differences: an absent object counts as
//! one without labels; a listed name also matches the beginning of a name that is yet to be generated; `matchPolicy` is
//! ignored, rules mean exactly what they list.

use kyvtest_model::{
    kube::{Atom, Facts, InvalidSelector, LabelSelector, Operation, Pairs, Pattern, RequestClass, Text},
    policy::{MatchConstraints, NamedRule},
};

/// Whether constraints select the requests of a cell.
///
/// # Errors
/// If everything else matches and a selector is invalid.
pub fn applies<'p>(
    constraints: &'p MatchConstraints,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Result<bool, InvalidSelector<'p>> {
    // Skip the selectors if no rule lists the resource: they cannot change the result.
    if !constraints.lists(cell) {
        return Ok(false);
    }
    let namespace = match constraints.namespace_selector.as_deref() {
        // A cluster-scoped object other than a Namespace is never exempt.
        Some(selector) if cell.namespaced || cell.resource.plural == "namespaces" => check(selector, |selector| {
            selector.matches(Some(namespace_labels(cell)), facts)
        }),
        _ => Ok(true),
    };
    if namespace == Ok(false) {
        return Ok(false);
    }
    let object = match constraints.object_selector.as_deref() {
        Some(selector) => check(selector, |selector| {
            selector.matches(Some(Pairs::NewLabels), facts) || selector.matches(Some(Pairs::OldLabels), facts)
        }),
        None => Ok(true),
    };
    if object == Ok(false) {
        return Ok(false);
    }
    let excluded = one_of(&constraints.exclude_resource_rules, cell, facts);
    let listed = constraints.resource_rules.is_empty() || one_of(&constraints.resource_rules, cell, facts);
    if excluded || !listed {
        return Ok(false);
    }
    namespace.and(object)
}

/// Explains in human-readable lines which rule selects the requests of a class, or what excludes them.
pub fn explain<'p>(constraints: &'p MatchConstraints, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> String {
    let position = |rules: &'p [NamedRule], facts: &mut _| {
        let mut rules = rules.iter();
        rules.position(|rule| rule.rule.matches(cell) && name_matches(rule, facts))
    };
    if let Ok(true) = applies(constraints, cell, facts) {
        return match position(&constraints.resource_rules, facts) {
            Some(number) => format!("matchConstraints.resourceRules[{number}] selects the request"),
            None => "matchConstraints without rules select the request".to_owned(),
        };
    }
    if let Some(number) = position(&constraints.exclude_resource_rules, facts) {
        return format!("matchConstraints.excludeResourceRules[{number}] keeps the request out");
    }
    match position(&constraints.resource_rules, facts) {
        Some(_) => "a selector of matchConstraints keeps the request out".to_owned(),
        None => "no rule of matchConstraints.resourceRules selects the request".to_owned(),
    }
}

/// The labels that a namespace selector looks at: a Namespace that is being written has them itself.
fn namespace_labels(cell: &RequestClass<'_>) -> Pairs {
    let own = cell.resource.plural == "namespaces"
        && cell.resource.subresource.is_empty()
        && matches!(cell.operation, Operation::Create | Operation::Update);
    if own { Pairs::NewLabels } else { Pairs::NamespaceLabels }
}

fn check<'p>(
    selector: &'p LabelSelector,
    matches: impl FnOnce(&'p LabelSelector) -> bool,
) -> Result<bool, InvalidSelector<'p>> {
    match selector.error() {
        Some(error) => Err(InvalidSelector { error }),
        None => Ok(matches(selector)),
    }
}

fn one_of<'p>(rules: &'p [NamedRule], cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
    rules
        .iter()
        .any(|rule| rule.rule.matches(cell) && name_matches(rule, facts))
}

fn name_matches<'p>(rule: &'p NamedRule, facts: &mut impl Facts<'p>) -> bool {
    let names = &rule.resource_names;
    if names.is_empty() {
        return true;
    }
    if facts.ask(Atom::Text(Text::RequestName, Pattern::Exact(""))) {
        let mut names = names.iter();
        return names.any(|name| facts.ask(Atom::Text(Text::GenerateName, Pattern::Prefix(name))));
    }
    let mut names = names.iter();
    names.any(|name| facts.ask(Atom::Text(Text::RequestName, Pattern::Exact(name))))
}
