//! Why two sides differ, in terms of their texts: the lines that decide, the values on which they disagree, the region around
//! the witness, and an edit that removes the difference.
//!
//! Everything that is said about a request was evaluated on both sides; an edit is suggested only if the prover proves the
//! edited pair. No upstream counterpart.

mod blame;
mod cel;
mod edit;
mod path;
mod small;
mod structure;
mod suggest;
mod text;
mod vary;

use kyvtest_model::{
    kube::Discovery,
    verdict::{DivergenceClass, Effect},
};
use serde_json::Value as Json;

pub use self::{
    blame::Decision,
    edit::{Change, Edit},
    path::{FieldPath, Key},
    suggest::Suggestion,
    vary::Varied,
};
use self::{edit::Objects, vary::Variation};
use super::{Comparison, Counterexample, Found, Match, Options, Side};
use crate::{universe, witness::Scenario};

/// What is known about a difference.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The smallest request that shows it.
    pub counterexample: Counterexample,
    /// That request as it is sent: the API server completes its objects.
    pub sent: Scenario,
    /// What decides on each side; `None` if unknown.
    pub decided: [Option<Decision>; 2],
    /// The fields of the request that matter, the most important first.
    pub fields: Vec<Varied>,
    /// The classes of requests on which the sides differ.
    pub classes: Vec<DifferingClass>,
    /// The objects of the second side.
    pub objects: Vec<Json>,
    /// An edit of the second side after which the sides are proven to be the same.
    pub suggestion: Option<Suggestion>,
}

/// A class of requests on which two sides differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingClass {
    /// The operation, such as `CREATE` or `DELETE (collection)`.
    pub operation: String,
    /// The resource, such as `deployments.apps`.
    pub resource: String,
    /// How the second side differs there; `None` if it is not known whether it does.
    pub class: Option<DivergenceClass>,
}

/// Explains a refuted comparison; `None` for any other.
pub fn explain(
    a: &Side,
    b: &Side,
    discovery: &Discovery,
    options: &Options,
    found: &Comparison,
) -> Option<Explanation> {
    let example = found.counterexample.as_deref().filter(|_| !found.fault)?;
    let universe = universe::with_unknown(discovery);
    let mut both = Match::new([a, b], &universe, discovery, options);
    let shown = both.smallest(example.clone());
    let fields = Variation::new(&mut both, &shown).fields();
    let classes = both.differing();
    let paths: Vec<&FieldPath> = fields.iter().map(|field| &field.path).collect();
    let scenario = shown.found.scenario();
    let effects = shown.found.verdicts().clone().map(|verdict| verdict.effect);
    let decided = [a, b].map(|side| {
        let effect = if std::ptr::eq(side, a) { effects[0] } else { effects[1] };
        both.blame(side, scenario, &paths, effect)
    });
    let decided = both.actions(decided, effects);
    let suggestion = both.suggest(&shown.found, decided[1].as_ref());
    Some(Explanation {
        decided,
        fields,
        classes,
        objects: Objects::of(b).map(Objects::into_json).unwrap_or_default(),
        suggestion,
        sent: shown.sent,
        counterexample: shown.found,
    })
}

impl Match<'_> {
    /// The classes of requests on which the sides differ, in the order in which witnesses are looked for.
    fn differing(&mut self) -> Vec<DifferingClass> {
        let universe = self.discovery;
        let mut theory = super::Theory::default();
        let mut classes = Vec::new();
        for cell in universe::cells(universe) {
            if cell.collection && !self.options.collections {
                continue;
            }
            let [a, b] = self.sides;
            if !a.may_see(&cell, universe) && !b.may_see(&cell, universe) {
                continue;
            }
            let class = match self.class(cell, &mut theory) {
                Found::Equal => continue,
                Found::Differs(found) => Some(found.class()),
                Found::Open(_) => None,
            };
            let (operation, resource) = universe::words(&cell);
            classes.push(DifferingClass {
                operation,
                resource,
                class,
            });
        }
        classes
    }

    /// Where both sides object with different effects, the actions decide.
    fn actions(&self, mut decided: [Option<Decision>; 2], effects: [Effect; 2]) -> [Option<Decision>; 2] {
        if !effects.iter().all(|effect| effect.objects()) {
            return decided;
        }
        for (side, decision) in self.sides.iter().zip(&mut decided) {
            if let Some(own) = decision.take() {
                *decision = Some(blame::action(side, &own).unwrap_or(own));
            }
        }
        decided
    }
}
