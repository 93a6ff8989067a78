//! Rules whose `exclude` removes everything that `match` selects, as far as upstream notices.
//!
//! Upstream compares the older form field by field and `any` with `any`; an `exclude` with only `any` looks empty to
//! the former comparison, so that it removes everything.

use std::collections::BTreeSet;

use super::json;
use crate::{
    kube::LabelSelector,
    policy::{Rule, Spanned, Text},
};
use kyvtest_go_compat::{
    text::wildcard,
    yaml::{Items, Node},
};

fn items<'t>(node: Node<'t>, key: &str) -> impl Iterator<Item = Node<'t>> {
    let items = node.get(key).and_then(Node::as_seq);
    items.into_iter().flat_map(Items::iter)
}

fn texts(list: &[Text]) -> BTreeSet<&str> {
    list.iter().map(|text| text.value.as_str()).collect()
}

/// Whether the excluded set covers the matched one: an empty `excluded` does, an empty `matched` is not covered.
fn covers<T: Ord>(excluded: &BTreeSet<T>, matched: &BTreeSet<T>) -> bool {
    excluded.is_empty() || (!matched.is_empty() && matched.is_subset(excluded))
}

/// Whether a rule matches nothing.
pub(super) fn is_empty_set(rule: &Rule) -> bool {
    let Some(exclude) = &rule.exclude else {
        return false;
    };
    let source = rule.source.node();
    let Some((match_node, exclude_node)) = source.get("match").zip(source.get("exclude")) else {
        return false;
    };
    let matches = &rule.matches;
    if !exclude.all.is_empty() || !matches.all.is_empty() {
        return false;
    }
    if !matches.any.is_empty() && !exclude.any.is_empty() {
        let excluded: Vec<serde_json::Value> = items(exclude_node, "any").map(json::reflected).collect();
        return items(match_node, "any").any(|item| excluded.contains(&json::reflected(item)));
    }
    if json::reflected(exclude_node)
        .as_object()
        .is_some_and(serde_json::Map::is_empty)
    {
        return false;
    }
    let (matched, excluded) = (&matches.inline, &exclude.inline);
    let list = |list: &Option<Vec<Text>>| -> Vec<Text> { list.clone().unwrap_or_default() };
    let roles = (list(&excluded.user.roles), list(&matched.user.roles));
    let cluster_roles = (list(&excluded.user.cluster_roles), list(&matched.user.cluster_roles));
    let subjects = |node: Node<'_>| -> BTreeSet<String> { items(node, "subjects").map(json::subject).collect() };
    if !covers(&texts(&roles.0), &texts(&roles.1))
        || !covers(&texts(&cluster_roles.0), &texts(&cluster_roles.1))
        || !covers(&subjects(exclude_node), &subjects(match_node))
    {
        return false;
    }
    let (matched, excluded) = (&matched.resources, &excluded.resources);
    if let Some(name) = &excluded.name {
        let own = matched.name.as_ref().map_or("", |name| name.value.as_str());
        if !wildcard::matches(&name.value, own) {
            return false;
        }
    }
    if !excluded.names.is_empty() {
        return matched.names.iter().any(|name| {
            let mut patterns = excluded.names.iter();
            patterns.any(|pattern| wildcard::matches(&pattern.value, &name.value))
        });
    }
    let kinds = |list: &[Spanned<crate::policy::KindSelector>]| -> BTreeSet<String> {
        list.iter().map(|kind| kind.text.clone()).collect()
    };
    if !covers(&texts(&excluded.namespaces), &texts(&matched.namespaces))
        || !covers(&kinds(&excluded.kinds), &kinds(&matched.kinds))
        || !selects_less(excluded.selector.as_ref(), matched.selector.as_ref())
        || !selects_less(
            excluded.namespace_selector.as_ref(),
            matched.namespace_selector.as_ref(),
        )
    {
        return false;
    }
    match (&matched.annotations, &excluded.annotations) {
        (None, None) => true,
        (Some(matched), Some(excluded)) => {
            let set = |pairs: &[(Text, Text)]| -> BTreeSet<(String, String)> {
                let pairs = pairs.iter();
                pairs
                    .map(|(key, value)| (key.value.clone(), value.value.clone()))
                    .collect()
            };
            set(matched) == set(excluded)
        }
        _ => false,
    }
}

/// Whether both or neither have a selector, and the matched one is among the excluded ones.
fn selects_less(excluded: Option<&Spanned<LabelSelector>>, matched: Option<&Spanned<LabelSelector>>) -> bool {
    let (excluded, matched) = match (excluded, matched) {
        (None, None) => return true,
        (Some(excluded), Some(matched)) => (excluded, matched),
        _ => return false,
    };
    let of = |selector: &LabelSelector, pairs: bool| -> BTreeSet<String> {
        let requirements = selector.requirements().iter();
        requirements
            .filter(|requirement| requirement.is_pair == pairs)
            .map(|requirement| {
                format!(
                    "{:?} {:?} {:?}",
                    requirement.key, requirement.operator, requirement.values
                )
            })
            .collect()
    };
    covers(&of(excluded, false), &of(matched, false)) && covers(&of(excluded, true), &of(matched, true))
}
