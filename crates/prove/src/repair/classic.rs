//! What a classic rule says about the requests of a place.
//!
//! This follows `kyverno::matching` and `kyverno::failure_action`, which decide, part by part: here their answers become a
//! formula. Nothing rests on that: what is made of the formula is proven against those two.

use super::{
    formula::{Entries, Formula},
    place::{Class, Place},
};
use kyvtest_go_compat::text::wildcard;
use kyvtest_kyverno::matching::kind_matches;
use kyvtest_model::{
    kube::{LabelSelector, Operation},
    policy::{
        ClassicPolicy, FailureAction, FailureActionOverride, KindSelector, MatchResources, PolicyKind,
        ResourceDescription, ResourceFilter, Rule, SubjectPattern, Text, UserFilter,
    },
};

/// A rule with the exceptions that name it.
pub(super) struct Source<'p> {
    pub(super) policy: &'p ClassicPolicy,
    pub(super) rule: &'p Rule,
    pub(super) exceptions: Vec<&'p MatchResources>,
    /// Whether the namespace of a Policy is part of the formula.
    pub(super) own_namespace: bool,
}

/// Requests of one place and operation.
#[derive(Clone, Copy)]
struct At<'a> {
    place: &'a Place,
    operation: Operation,
}

fn filters(block: &MatchResources) -> impl Iterator<Item = &ResourceFilter> {
    std::iter::once(&block.inline).chain(&block.all).chain(&block.any)
}

fn selectors(block: &MatchResources) -> impl Iterator<Item = &KindSelector> {
    filters(block).flat_map(|filter| filter.resources.kinds.iter().map(|kind| &kind.value))
}

impl Source<'_> {
    /// The kinds of `match`.
    pub(super) fn matched(&self) -> Vec<&KindSelector> {
        selectors(&self.rule.matches).collect()
    }

    /// The kinds of `exclude` and of exceptions.
    pub(super) fn excluded(&self) -> Vec<&KindSelector> {
        let blocks = self.rule.exclude.iter().chain(self.exceptions.iter().copied());
        blocks.flat_map(selectors).collect()
    }

    /// When the rule applies.
    pub(super) fn applies(&self, place: &Place, operation: Operation) -> Formula {
        let at = At { place, operation };
        let block = &self.rule.matches;
        let matched = if block.any.is_empty() {
            Formula::all(block.filters().iter().map(|filter| at.filter(filter)))
        } else {
            Formula::any(block.any.iter().map(|filter| at.filter(filter)))
        };
        let mut parts = vec![matched];
        if let Some(exclude) = self.rule.exclude.as_ref().filter(|exclude| !exclude.is_empty()) {
            let each = exclude.filters().iter().map(|filter| at.filter(filter));
            let excluded = if exclude.any.is_empty() && !exclude.all.is_empty() {
                Formula::all(each)
            } else {
                Formula::any(each)
            };
            parts.push(excluded.negate());
        }
        for exception in &self.exceptions {
            let each =
                |list: &[ResourceFilter]| -> Vec<Formula> { list.iter().map(|filter| at.exception(filter)).collect() };
            let lifted = if exception.any.is_empty() {
                let all = each(&exception.all);
                if all.is_empty() {
                    Formula::FALSE
                } else {
                    Formula::all(all)
                }
            } else {
                Formula::any(each(&exception.any))
            };
            parts.push(lifted.negate());
        }
        if self.policy.kind == PolicyKind::Policy && self.own_namespace {
            let own = self.policy.metadata.namespace.as_ref();
            let own = own.map_or("default", |namespace| namespace.value.as_str());
            parts.push(match place.class() {
                Class::Namespaced => Formula::Namespace(vec![own.to_owned()]),
                Class::Cluster | Class::Namespace => Formula::FALSE,
            });
        }
        Formula::all(parts)
    }

    /// When a violation refuses the request.
    pub(super) fn denies(&self, place: &Place, operation: Operation) -> Formula {
        let at = At { place, operation };
        let spec = &self.policy.spec;
        let validate = self.rule.validate.as_ref();
        let own = validate.and_then(|validate| validate.failure_action.as_ref());
        let own = own.map(|action| action.value);
        let of_rule = validate.and_then(|validate| validate.failure_action_overrides.as_deref());
        let of_rule = of_rule.unwrap_or_default();
        let of_policy = spec.validation_failure_action_overrides.as_slice();
        let enforced = |action: FailureAction| Formula::Known(action == FailureAction::Enforce);
        let last = enforced(own.unwrap_or(spec.validation_failure_action));
        let has_webhook = spec
            .webhook
            .as_ref()
            .is_some_and(|webhook| !webhook.match_conditions.is_empty());
        let reviewed = if has_webhook {
            Formula::TRUE
        } else {
            let overrides = if of_rule.is_empty() { of_policy } else { of_rule };
            let known = match place.class() {
                Class::Namespaced => true,
                Class::Cluster => false,
                Class::Namespace => operation != Operation::Create,
            };
            first(overrides.iter().map(|entry| {
                let global = entry.namespaces.is_empty() && entry.namespace_selector.is_none();
                let fits = if global {
                    Formula::TRUE
                } else if known {
                    Formula::any([at.override_names(entry, true), at.override_labels(entry)])
                } else {
                    Formula::FALSE
                };
                let action = entry.action.as_ref().map(|action| action.value);
                (fits, Formula::Known(action == Some(FailureAction::Enforce)))
            }))(last)
        };
        let overriding = |overrides: &[FailureActionOverride], last: Formula| {
            let entries = overrides.iter().filter_map(|entry| {
                let action = entry.action.as_ref()?.value;
                let names = if entry.namespaces.is_empty() {
                    Formula::TRUE
                } else {
                    at.override_names(entry, false)
                };
                let labels = if entry.namespace_selector.is_none() {
                    Formula::TRUE
                } else {
                    at.override_labels(entry)
                };
                Some((Formula::all([names, labels]), enforced(action)))
            });
            first(entries)(last)
        };
        let rest = match own {
            Some(action) => enforced(action),
            None => overriding(of_policy, enforced(spec.validation_failure_action)),
        };
        Formula::all([reviewed, overriding(of_rule, rest)])
    }
}

/// What the first entry that fits says, else the last word.
fn first(entries: impl Iterator<Item = (Formula, Formula)>) -> impl FnOnce(Formula) -> Formula {
    let entries: Vec<(Formula, Formula)> = entries.collect();
    move |last| {
        let entries = entries.into_iter().rev();
        entries.fold(last, |rest, (fits, word)| {
            if rest == word {
                return rest;
            }
            let not = fits.clone().negate();
            Formula::any([Formula::all([fits, word]), Formula::all([not, rest])])
        })
    }
}

impl At<'_> {
    /// The names of namespaces.
    fn namespaces(self, patterns: &[Text]) -> Formula {
        text(patterns, self.place.class() == Class::Cluster, Formula::Namespace)
    }

    fn connects(self) -> bool {
        self.operation == Operation::Connect
    }

    /// A filter of a rule.
    fn filter(self, filter: &ResourceFilter) -> Formula {
        let wanted = &filter.resources;
        if wanted.is_empty() && filter.user.is_absent() {
            return Formula::FALSE;
        }
        let operations = &wanted.operations;
        let operation = operations.is_empty() || operations.iter().any(|text| text.value == self.operation.as_str());
        if !operation {
            return Formula::FALSE;
        }
        Formula::all([self.resources(wanted, true), user(&filter.user)])
    }

    /// A filter of an exception, in which operations do not count.
    fn exception(self, filter: &ResourceFilter) -> Formula {
        if filter.resources.is_empty() && filter.user.is_empty() {
            return Formula::FALSE;
        }
        Formula::all([self.resources(&filter.resources, false), user(&filter.user)])
    }

    fn resources(self, wanted: &ResourceDescription, in_rule: bool) -> Formula {
        let kinds = &wanted.kinds;
        if !kinds.is_empty() && !kinds.iter().any(|kind| kind_matches(kind, &self.place.resource, true)) {
            return Formula::FALSE;
        }
        let mut parts = Vec::new();
        if let Some(name) = &wanted.name {
            parts.push(text(std::slice::from_ref(name), self.connects(), Formula::Name));
        }
        if !wanted.names.is_empty() {
            parts.push(text(&wanted.names, self.connects(), Formula::Name));
        }
        if !wanted.namespaces.is_empty() {
            parts.push(self.namespaces(&wanted.namespaces));
        }
        for (key, value) in wanted.annotations.iter().flatten() {
            parts.push(if self.connects() {
                Formula::FALSE
            } else {
                Formula::Pair(Entries::Annotations, key.value.clone(), value.value.clone())
            });
        }
        if let Some(selector) = &wanted.selector {
            let formula = Formula::selector(selector, false);
            parts.push(if self.connects() {
                without_labels(formula)
            } else {
                formula
            });
        }
        if let Some(selector) = &wanted.namespace_selector {
            parts.push(self.namespace_selector(selector, in_rule));
        }
        Formula::all(parts)
    }

    fn namespace_selector(self, selector: &LabelSelector, in_rule: bool) -> Formula {
        let formula = Formula::selector(selector, true);
        match self.place.class() {
            Class::Namespaced => formula,
            Class::Cluster => without_labels(formula),
            Class::Namespace => Formula::Known(!in_rule),
        }
    }

    /// Whether an override names the namespace. When Kyverno decides whether to review a request, a Namespace is in
    /// itself; otherwise it is in none.
    fn override_names(self, entry: &FailureActionOverride, of_itself: bool) -> Formula {
        let patterns = &entry.namespaces;
        let nowhere = match self.place.class() {
            Class::Namespaced => false,
            Class::Cluster => true,
            Class::Namespace => !of_itself,
        };
        text(patterns, nowhere, Formula::Namespace)
    }

    fn override_labels(self, entry: &FailureActionOverride) -> Formula {
        let Some(selector) = &entry.namespace_selector else {
            return Formula::FALSE;
        };
        let selector = selector.clone().compile();
        if selector.error().is_some() {
            return Formula::FALSE;
        }
        // Wildcards are taken as they are here, and such a label does not exist.
        let formula = Formula::selector(&selector, true);
        match self.place.class() {
            Class::Namespaced => formula,
            Class::Cluster => without_labels(formula),
            Class::Namespace => Formula::Hidden("the labels of a Namespace before an update".to_owned()),
        }
    }
}

/// Patterns of a text, of which one must fit; where the text is known, it is empty.
fn text(patterns: &[Text], known: bool, make: impl FnOnce(Vec<String>) -> Formula) -> Formula {
    if patterns.is_empty() {
        return Formula::FALSE;
    }
    if known {
        return Formula::Known(patterns.iter().any(|pattern| wildcard::matches(pattern, "")));
    }
    if patterns.iter().any(|pattern| pattern.value == "*") {
        return Formula::TRUE;
    }
    make(patterns.iter().map(|pattern| pattern.value.clone()).collect())
}

/// What is left of a statement about labels where there are none.
fn without_labels(formula: Formula) -> Formula {
    match formula {
        Formula::All(parts) => Formula::all(parts.into_iter().map(without_labels)),
        Formula::Any(parts) => Formula::any(parts.into_iter().map(without_labels)),
        Formula::Label(need) | Formula::NamespaceLabel(need) => Formula::Known(!need.holds),
        Formula::Pair(..) | Formula::Hidden(_) => Formula::FALSE,
        other => other,
    }
}

fn user(wanted: &UserFilter) -> Formula {
    let some = |list: &Option<Vec<Text>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let mut parts = Vec::new();
    for (list, what) in [(&wanted.roles, "roles"), (&wanted.cluster_roles, "cluster roles")] {
        if some(list) {
            parts.push(Formula::Hidden(format!("the {what} of the user")));
        }
    }
    if let Some(subjects) = wanted.subjects.as_deref().filter(|subjects| !subjects.is_empty()) {
        parts.push(Formula::any(subjects.iter().map(|subject| match &subject.pattern {
            Some(SubjectPattern::User(name)) => Formula::User(name.clone()),
            Some(SubjectPattern::Group(name)) => Formula::Group(name.clone()),
            None => Formula::FALSE,
        })));
    }
    Formula::all(parts)
}
