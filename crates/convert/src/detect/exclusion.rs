//! Hazards of `exclude` blocks and of exceptions.

use super::matching::{Matched, merged};
use crate::{Action, Item, check::exception_at, classic::Plan, place::At, report::Report};
use kyvtest_model::policy::{MatchResources, ResourceDescription};

pub(super) fn detect(plan: &Plan<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    if let Some(exclude) = &plan.rule.exclude {
        let at = plan.rule_at().key("exclude");
        if !exclude.inline.resources.is_empty() {
            let at = at.key("resources");
            of_filter(&exclude.inline.resources, &at, kinds, report);
            for (selector, key) in [
                (&exclude.inline.resources.selector, "selector"),
                (&exclude.inline.resources.namespace_selector, "namespaceSelector"),
            ] {
                if selector.is_some() {
                    let text = "all objects of the kinds are excluded, regardless of their labels";
                    report.hazard("H09", Action::Narrowed, &at.key(key), text);
                }
            }
        }
        block(exclude, &at, kinds, report);
    }
    for exception in &plan.exceptions {
        let at = exception_at(exception).key("match");
        block(&exception.matches, &at, kinds, report);
    }
    for merge in &plan.excluded.merges {
        merged(merge, false, report);
    }
}

fn block(block: &MatchResources, at: &At<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    for (filters, key) in [(&block.any, "any"), (&block.all, "all")] {
        for (i, filter) in filters.iter().enumerate() {
            of_filter(&filter.resources, &at.key(key).item(i).key("resources"), kinds, report);
        }
    }
}

fn of_filter(filter: &ResourceDescription, at: &At<'_>, kinds: &[Matched<'_>], report: &mut Vec<Item>) {
    let has_names = filter.name.is_some() || !filter.names.is_empty();
    let is_exception = at.is_exception();
    let names_at = if filter.name.is_some() {
        at.key("name")
    } else {
        at.key("names")
    };
    if !filter.kinds.is_empty() {
        report.mapped("exclusion", &at.key("kinds"), "a rule under `excludeResourceRules`");
        if is_exception && !filter.operations.is_empty() {
            let text = "other operations, which Kyverno also exempts, are evaluated";
            report.hazard("H29", Action::Widened, &at.key("operations"), text);
        }
        let deletes = kinds
            .iter()
            .any(|kind| kind.has(kyvtest_model::kube::Operation::Delete));
        if has_names && deletes {
            let text = "the name is unknown when a collection is deleted, so nothing is excluded";
            report.hazard("H23", Action::Widened, &names_at, text);
        }
        return;
    }
    if !filter.namespaces.is_empty() {
        let others = kinds.iter().any(|kind| {
            let is_only_namespaces = kind.resource.is_some() && kind.is_namespace();
            !is_only_namespaces
        });
        let text = "only the Namespace objects with these names are excluded, not the objects in them";
        let at = at.key("namespaces");
        match (others, has_names, is_exception) {
            (false, false, _) => report.mapped("exclusion", &at, "a rule under `excludeResourceRules`"),
            (_, true, false) => report.hazard("H10", Action::Widened, &at, text),
            (_, _, true) => report.hazard("H30", Action::Widened, &at, text),
            (true, false, false) => report.hazard("H01", Action::Widened, &at, text),
        }
        return;
    }
    if has_names {
        let text = "nothing is excluded: the filter has no kinds";
        report.hazard("H07", Action::Dropped, &names_at, text);
    } else if !filter.operations.is_empty() {
        let text = "nothing is excluded: the filter has no kinds";
        report.hazard("H08", Action::Dropped, &at.key("operations"), text);
    }
}
