//! Hazards of `match` blocks.

use std::{fmt::Write as _, sync::Arc};

use crate::{
    Action, Item,
    build::{self, Merge},
    classic::Plan,
    place::At,
    report::Report,
};
use kyvtest_model::{
    kube::{Discovery, LabelSelector, Operation, Operator, Resource},
    policy::{KindSelector, ResourceDescription, Spanned, autogen},
};

/// A kind that the policy matches.
pub(super) struct Matched<'p> {
    pub(super) kind: &'p KindSelector,
    pub(super) filter: &'p ResourceDescription,
    pub(super) at: At<'p>,
    /// The resource that it means; `None` for all kinds.
    pub(super) resource: Option<Arc<Resource>>,
    /// Whether the cluster serves it in other versions, too.
    has_versions: bool,
}

impl Matched<'_> {
    /// Whether objects without a namespace are among them, Namespaces aside.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        let Some(resource) = &self.resource else { return true };
        !resource.namespaced && !self.is_namespace()
    }

    /// Whether Namespace objects are among them.
    pub(super) fn is_namespace(&self) -> bool {
        let Some(resource) = &self.resource else { return true };
        resource.group.is_empty() && resource.plural == "namespaces"
    }

    /// Whether the operation is among those that the filter is about.
    pub(super) fn has(&self, operation: Operation) -> bool {
        let there = self
            .resource
            .as_ref()
            .is_none_or(|resource| resource.operations.contains(operation));
        there && build::operations(self.filter).contains(&operation)
    }
}

/// The kinds that a policy matches.
pub(super) fn kinds<'p>(plan: &Plan<'p>, discovery: &Discovery) -> Vec<Matched<'p>> {
    let mut kinds = Vec::new();
    for (filter, at) in &plan.filters {
        for (i, kind) in filter.kinds.iter().enumerate() {
            let kind = &kind.value;
            let found = discovery.find(&kind.group, &kind.version, &kind.kind, &kind.subresource);
            let versions = discovery.find(&kind.group, "*", &kind.kind, &kind.subresource);
            kinds.push(Matched {
                kind,
                filter,
                at: at.key("kinds").item(i),
                resource: found.first().filter(|_| kind.text != "*").cloned(),
                has_versions: versions.len() > 1,
            });
        }
    }
    kinds
}

pub(super) fn detect(plan: &Plan<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    for kind in kinds {
        of_kind(kind, report);
    }
    namespaces(plan, kinds, report);
    for (filter, at) in &plan.filters {
        of_filter(filter, at, kinds, report);
    }
    for merge in &plan.matched.merges {
        merged(merge, true, report);
    }
    let controllers = autogen::controllers(plan.policy);
    let is_none = controllers.iter().all(|name| name.is_empty() || name == "none");
    if !is_none && autogen::is_about_pods(plan.rule) && !autogen::is_generated(&plan.rule.name.value) {
        let names: Vec<&str> = controllers.iter().map(String::as_str).collect();
        let text = format!("rules for {} are not generated", names.join(", "));
        report.hazard("H27", Action::Narrowed, &plan.rule_at().key("match"), text);
    }
}

fn of_kind(kind: &Matched<'_>, report: &mut Vec<Item>) {
    let operations = join(&build::operations(kind.filter));
    let Some(resource) = &kind.resource else {
        report.mapped(
            "kind",
            &kind.at,
            format!("all resources of all groups, on {operations}"),
        );
        if kind.has(Operation::Update) {
            let text = "updates of `pods/ephemeralcontainers` are not evaluated";
            report.hazard("H19", Action::Narrowed, &kind.at, text);
        }
        return;
    };
    let mut text = format!("`{}` of `{}`", resource.name(), resource.gvr().api_version());
    if resource.name() == "pods" {
        text.push_str(" with `pods/ephemeralcontainers`");
    }
    let _ = write!(text, ", on {operations}");
    report.mapped("kind", &kind.at, text);
    let patterns = [&kind.kind.kind, &kind.kind.subresource];
    if patterns.iter().any(|pattern| pattern.contains(['*', '?'])) {
        let text = format!("`{}` is fixed to `{}`", kind.kind.text, resource.name());
        report.hazard("H18", Action::Narrowed, &kind.at, text);
    }
    if kind.has_versions {
        let text = "in a cluster, objects of other versions are converted";
        report.hazard("H20", Action::Mapped, &kind.at, text);
    }
    let has_names = kind.filter.name.is_some() || !kind.filter.names.is_empty();
    if !resource.subresource.is_empty() && has_names {
        let text = "names are compared with the request, not with the object";
        report.hazard("H21", Action::Widened, &kind.at, text);
    } else if has_names && kind.has(Operation::Delete) {
        let text = "names are unknown when a collection is deleted";
        report.hazard("H23", Action::Narrowed, &kind.at, text);
    }
}

/// Operations as a list.
fn join(operations: &[Operation]) -> String {
    let words: Vec<&str> = operations.iter().map(|operation| operation.as_str()).collect();
    words.join(", ")
}

/// Namespaces of several filters, of which the last one counts.
fn namespaces(plan: &Plan<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    let Some(((last, last_at), others)) = plan.filters.split_last() else {
        return;
    };
    let names = |filter: &ResourceDescription| {
        let mut names: Vec<String> = filter.namespaces.iter().map(|text| text.value.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let kept = names(last);
    if !kept.is_empty() {
        let text = format!(
            "a namespace selector: `kubernetes.io/metadata.name` in {}",
            kept.join(", ")
        );
        report.mapped("namespaces", &last_at.key("namespaces"), text);
    }
    for (filter, at) in others {
        let own = names(filter);
        if own == kept {
            continue;
        }
        if kept.is_empty() {
            let text = format!("{} is lost: the last filter has no namespaces", own.join(", "));
            report.hazard("H02", Action::Widened, &at.key("namespaces"), text);
        } else {
            let text = format!("the kinds of this filter are evaluated only in {}", kept.join(", "));
            let at = if own.is_empty() {
                at.key("kinds")
            } else {
                at.key("namespaces")
            };
            report.hazard("H02b", Action::Narrowed, &at, text);
        }
    }
    // The selector is that of all rules.
    if !kept.is_empty()
        && let Some(kind) = kinds.iter().find(|kind| kind.is_cluster_scoped())
    {
        let text = format!("`{}`, which has no namespace, is also evaluated", kind.kind.text);
        report.hazard("H11", Action::Widened, &last_at.key("namespaces"), text);
    }
}

fn of_filter(filter: &ResourceDescription, at: &At<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    let namespace_at = at.key("namespaceSelector");
    if let Some(selector) = &filter.namespace_selector {
        if filter.namespaces.is_empty() {
            report.mapped(
                "namespace-selector",
                &namespace_at,
                "the namespace selector of the native policy",
            );
            for kind in kinds {
                if kind.is_cluster_scoped() && !fits_nothing(selector) {
                    let text = format!("`{}`, which has no namespace, is also evaluated", kind.kind.text);
                    report.hazard("H12", Action::Widened, &namespace_at, text);
                }
                if kind.is_namespace() {
                    let text = "Namespaces are evaluated if their own labels match";
                    report.hazard("H13", Action::Widened, &namespace_at, text);
                }
            }
        } else {
            let text = "the selector is not in the native policy: the names of namespaces are";
            report.hazard("H03", Action::Dropped, &namespace_at, text);
        }
        patterns(selector, &namespace_at, report);
    }
    let object_at = at.key("selector");
    if let Some(selector) = &filter.selector {
        report.mapped("selector", &object_at, "the object selector of the native policy");
        patterns(selector, &object_at, report);
        if kinds.iter().any(|kind| kind.has(Operation::Update)) {
            let text = "an update is also evaluated if the old labels match";
            report.hazard("H14", Action::Widened, &object_at, text);
        }
    }
}

/// Whether a selector fits an object without labels.
fn fits_nothing(selector: &LabelSelector) -> bool {
    let negative = |operator| matches!(operator, Some(Operator::NotIn | Operator::DoesNotExist));
    selector
        .requirements()
        .iter()
        .all(|requirement| negative(requirement.operator))
}

/// Reports patterns in a selector, which the API server rejects.
fn patterns(selector: &Spanned<LabelSelector>, at: &At<'_>, report: &mut Vec<Item>) {
    let wild = |text: &str| text.contains(['*', '?']);
    let found = selector.requirements().iter().find_map(|requirement| {
        let texts = std::iter::once(&requirement.key).chain(&requirement.values);
        texts.into_iter().find(|text| wild(text))
    });
    if let Some(pattern) = found {
        report.hazard(
            "H15",
            Action::Dropped,
            at,
            format!("`{pattern}` is not a valid label for the API server"),
        );
    }
}

/// A kind that joined the rule of another filter.
pub(super) fn merged(merge: &Merge<'_>, is_match: bool, report: &mut Vec<Item>) {
    let wanted: Vec<&Operation> = merge.operations.iter().collect();
    let lost = wanted
        .iter()
        .any(|operation| !merge.rule.operations.contains(operation));
    // What an exclusion loses is judged.
    let action = |lost: bool| {
        if lost == is_match {
            Action::Narrowed
        } else {
            Action::Widened
        }
    };
    if !same(&merge.operations, &merge.rule.operations) {
        let text = format!(
            "`{}` is merged into the rule for {}, whose operations are {}",
            merge.kind,
            merge.rule.resources.join(", "),
            join(&merge.rule.operations)
        );
        report.hazard("H04", action(lost), &merge.at, text);
    }
    if !same(&merge.names, &merge.rule.resource_names) {
        let names = if merge.rule.resource_names.is_empty() {
            "which has no names".to_owned()
        } else {
            format!("whose names are {}", merge.rule.resource_names.join(", "))
        };
        let text = format!(
            "`{}` is merged into the rule for {}, {names}",
            merge.kind,
            merge.rule.resources.join(", ")
        );
        let own = &merge.names;
        let lost = !merge.rule.resource_names.is_empty()
            && (own.is_empty() || own.iter().any(|name| !merge.rule.resource_names.contains(name)));
        let code = match (is_match, merge.rule.is_namespaces, merge.at.is_exception()) {
            (true, _, _) => "H05",
            (false, true, _) => "H06",
            (false, false, true) => "H32",
            (false, false, false) => "H05",
        };
        report.hazard(code, action(lost), &merge.at, text);
    }
}

fn same<T: Ord>(left: &[T], right: &[T]) -> bool {
    left.iter().all(|item| right.contains(item)) && right.iter().all(|item| left.contains(item))
}
