//! Observations of a policy: the filters that select a request, and the results of the parts of rules.
//!
//! The engine's own matching evaluates the filters again, one by one; expressions and conditions are recorded while the
//! engine evaluates them (`cel::observe`).

use super::{
    classic_policy::CompiledClassicPolicy,
    input::Input,
    matching::{Selection, applies, filter_selects},
};
use kyvtest_cel::{
    observe::{OutcomeCounts, Place},
    program::Program,
};
use kyvtest_model::policy::{MatchResources, ResourceFilter};

/// What a part of a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// A condition of `preconditions` or `deny`.
    Condition,
    /// One of several patterns.
    Pattern,
    /// An entry of `foreach`.
    Loop,
}

/// A part of a rule that is not CEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its path in the rule: `validate.deny.conditions.any[0]`.
    pub path: String,
    /// What it is.
    pub kind: PartKind,
    pub ways: OutcomeCounts,
}

/// A rule, written or generated, with its parts.
#[derive(Debug)]
pub struct WatchedRule<'p> {
    /// Its name.
    pub rule: &'p str,
    pub programs: Vec<(Place, &'p Program)>,
    /// Its other parts.
    pub parts: Vec<Part>,
}

/// Whether a filter selects a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The rule; empty for a policy without rules.
    pub rule: String,
    /// The path of the filter in the rule or spec: `match.any[0]`.
    pub path: String,
    /// Whether it selects the request.
    pub selects: bool,
}

/// The filters of a block with their places in it.
pub fn filters<'p>(block: &'p MatchResources, name: &str) -> Vec<(String, &'p ResourceFilter)> {
    let list = |word: &str, list: &'p [ResourceFilter]| -> Vec<(String, &'p ResourceFilter)> {
        let list = list.iter().enumerate();
        list.map(|(i, filter)| (format!("{name}.{word}[{i}]"), filter))
            .collect()
    };
    match (block.any.is_empty(), block.all.is_empty()) {
        (false, true) => list("any", &block.any),
        (true, false) => list("all", &block.all),
        (false, false) => [list("any", &block.any), list("all", &block.all)].concat(),
        (true, true) => vec![(name.to_owned(), &block.inline)],
    }
}

impl CompiledClassicPolicy {
    /// Returns the filters of its rules that select a request. Those of `exclude` are evaluated only if `match` selects
    /// it.
    pub fn selected(&self, input: &Input<'_>) -> Vec<Selected> {
        let cell = input.request.cell();
        let own = self.policy().metadata.namespace.as_ref();
        let policy_namespace = own.map_or("", |namespace| namespace.value.as_str());
        let mut found = Vec::new();
        for (rule, matches, exclude) in self.selections(&input.request.resource.kind) {
            let mut facts = input.facts();
            let mut ask = |block, name: &str, of_exclude| {
                for (path, filter) in filters(block, name) {
                    found.push(Selected {
                        rule: rule.to_owned(),
                        path,
                        selects: filter_selects(filter, of_exclude, &cell, &mut facts),
                    });
                }
            };
            ask(matches, "match", false);
            let selection = Selection {
                matches,
                exclude: None,
                policy_namespace,
            };
            if let Some(exclude) = exclude.filter(|exclude| !exclude.is_empty())
                && applies(selection, &cell, &mut input.facts())
            {
                ask(exclude, "exclude", true);
            }
        }
        found
    }
}
