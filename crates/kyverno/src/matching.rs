//! Does a classic rule apply to a request: `match`, `exclude`, and the `match` of v2 PolicyExceptions.
//!
//! Upstream counterpart: `pkg/engine/utils/{match,exceptions}.go` and `pkg/utils/match`. The code is written against
//! [`Facts`]; what upstream collects as reasons is collected by a `Sink`, so that the verdict and its explanation are one
//! piece of code.
//!
//! Known deviations: if a wildcard of `matchLabels` finds a label that Kubernetes itself would reject, upstream returns
//! a parse error and we match; if two wildcards find the same label, upstream's result depends on Go's map order.

mod filter;
mod reason;
mod selector;

pub use reason::Reason;

use std::fmt::Write;

use self::{
    filter::{Block, empty_for_exception, filter_applies, filter_exempts},
    reason::{Listing, Quiet, Sink},
};
use kyvtest_go_compat::text::wildcard;
use kyvtest_model::{
    kube::{Atom, Facts, Pattern, RequestClass, Resource, Text},
    policy::{KindSelector, MatchResources, ResourceFilter},
    verdict::Part,
};

/// What decides whether a rule applies.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'p> {
    /// The rule's `match`.
    pub matches: &'p MatchResources,
    /// The rule's `exclude`.
    pub exclude: Option<&'p MatchResources>,
    /// The policy's namespace; empty for a ClusterPolicy.
    pub policy_namespace: &'p str,
}

/// Why a rule does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch<'p> {
    /// The request has no object at all.
    NoObject,
    /// The policy is for another namespace.
    PolicyNamespace,
    /// The rule's own reasons.
    Reasons(Vec<Reason<'p>>),
}

impl Mismatch<'_> {
    /// The message that Kyverno logs for a rule.
    pub fn text(&self, rule: &str) -> String {
        match self {
            Self::NoObject => "resource is empty".to_owned(),
            Self::PolicyNamespace => "policy and resource namespaces mismatch".to_owned(),
            Self::Reasons(reasons) => {
                let mut text = format!("rule {rule} not matched:");
                for (i, reason) in reasons.iter().enumerate() {
                    let _ = write!(text, "\n {}. {reason}", i + 1);
                }
                text
            }
        }
    }
}

/// Whether a rule applies to the requests of a cell.
pub fn applies<'p>(selection: Selection<'p>, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
    mismatch(selection, cell, facts).is_none()
}

/// The part that keeps the requests of a cell from a rule; `None` if it applies.
pub(crate) fn mismatch<'p>(
    selection: Selection<'p>,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Option<Part> {
    if gate(selection, cell, facts).is_some() || !matched(selection.matches, cell, facts, &mut Quiet) {
        return Some(Part::Match);
    }
    let mut exclude = selection.exclude.filter(|exclude| !exclude.is_empty()).into_iter();
    let excluded = exclude.any(|exclude| excluded(exclude, cell, facts, &mut Quiet));
    excluded.then_some(Part::Exclude)
}

/// Whether a rule applies, and if not, why.
///
/// # Errors
/// The reasons, in upstream's order.
pub fn explain<'p>(
    selection: Selection<'p>,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Result<(), Mismatch<'p>> {
    if let Some(mismatch) = gate(selection, cell, facts) {
        return Err(mismatch);
    }
    let mut listing = Listing::default();
    if selected(selection, cell, facts, &mut listing) {
        Ok(())
    } else {
        Err(Mismatch::Reasons(listing.reasons))
    }
}

/// The filter of a block that selects the requests of a cell: `any[0]`; `all` if it takes all of them.
pub(crate) fn filter_that_applies<'p>(
    matches: &'p MatchResources,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> String {
    let applies = |filter: &'p _| filter_applies(filter, Block::Match, cell, facts, &mut Quiet);
    match matches.any.iter().position(applies) {
        Some(number) => format!("any[{number}]"),
        None if matches.all.is_empty() => "resources".to_owned(),
        None => "all".to_owned(),
    }
}

/// Whether the `match` of a v2 PolicyException selects the requests of a cell. Operations do not count there, and the
/// older form of the block selects nothing.
pub fn exempts<'p>(matches: &'p MatchResources, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
    let mut one = |filter: &'p _| !empty_for_exception(filter) && filter_exempts(filter, cell, facts);
    if !matches.any.is_empty() {
        matches.any.iter().any(one)
    } else if !matches.all.is_empty() {
        matches.all.iter().all(&mut one)
    } else {
        false
    }
}

/// Whether one filter of a `match` block selects the requests of a cell, or one of an `exclude` block.
pub(crate) fn filter_selects<'p>(
    filter: &'p ResourceFilter,
    of_exclude: bool,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> bool {
    let block = if of_exclude { Block::Exclude } else { Block::Match };
    filter_applies(filter, block, cell, facts, &mut Quiet)
}

/// Whether a kind selector means a resource. With `ephemeral` a selector of core Pods also means their ephemeral
/// containers, as it does in rules and exceptions.
pub fn kind_matches(selector: &KindSelector, resource: &Resource, ephemeral: bool) -> bool {
    let same = |pattern: &str, text: &str| pattern == "*" || wildcard::matches(pattern, text);
    same(&selector.group, &resource.group)
        && same(&selector.version, &resource.version)
        && same(&selector.kind, &resource.kind)
        && (same(&selector.subresource, &resource.subresource)
            || ephemeral
                && resource.subresource == "ephemeralcontainers"
                && resource.group.is_empty()
                && resource.version == "v1"
                && resource.kind == "Pod")
}

/// Why the rule is not evaluated at all.
fn gate<'p>(selection: Selection<'p>, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> Option<Mismatch<'p>> {
    if cell.subject.is_none() {
        return Some(Mismatch::NoObject);
    }
    let own = selection.policy_namespace;
    (!own.is_empty() && !facts.ask(Atom::Text(Text::Namespace, Pattern::Exact(own))))
        .then_some(Mismatch::PolicyNamespace)
}

fn selected<'p>(
    selection: Selection<'p>,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
    sink: &mut impl Sink<'p>,
) -> bool {
    matched(selection.matches, cell, facts, sink)
        && selection
            .exclude
            .filter(|exclude| !exclude.is_empty())
            .is_none_or(|exclude| !excluded(exclude, cell, facts, sink))
}

fn matched<'p>(
    block: &'p MatchResources,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
    sink: &mut impl Sink<'p>,
) -> bool {
    if block.any.is_empty() {
        let mut all = true;
        for filter in block.filters() {
            all &= filter_applies(filter, Block::Match, cell, facts, sink);
            if !all && !sink.wants_more() {
                return false;
            }
        }
        return all;
    }
    let one = block
        .any
        .iter()
        .any(|filter| filter_applies(filter, Block::Match, cell, facts, &mut Quiet));
    if !one {
        sink.note(Reason::NoFilter);
    }
    one
}

fn excluded<'p>(
    block: &'p MatchResources,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
    sink: &mut impl Sink<'p>,
) -> bool {
    let mut one = |filter: &'p _| filter_applies(filter, Block::Exclude, cell, facts, &mut Quiet);
    if block.any.is_empty() && !block.all.is_empty() {
        let all = block.all.iter().all(one);
        if all {
            sink.note(Reason::ExcludedByAll);
        }
        return all;
    }
    let mut any = false;
    for filter in block.filters() {
        if one(filter) {
            any = true;
            if !sink.note(Reason::Excluded) {
                break;
            }
        }
    }
    any
}
