//! The edit of the second side that makes it the first: every one-step edit is tried on the requests that are known to tell
//! the sides apart, and what passes is proven.

use std::collections::BTreeSet;

use kyvtest_go_compat::diagnostic::FileId;
use serde_json::Value as Json;

use super::{
    super::{Counterexample, Match, compare_sides, hunt},
    blame::{Decision, sources, whole},
    cel::Hints,
    edit::{Edit, Objects},
    structure::edits,
    text,
};
use crate::{Label, witness::Scenario};

/// An edit after which the sides are proven to be the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The edit of the second side.
    pub edit: Edit,
    /// The objects of the second side after it, as [`super::Explanation::objects`] has them before.
    pub objects: Vec<Json>,
    /// The file in which the object is.
    pub file: FileId,
    /// The text of that file after the edit; `None` if it cannot be edited in place.
    pub text: Option<String>,
}

/// How many edits are tried.
const EDITS: usize = 600;

/// How many edited sides are compared.
const PROOFS: usize = 8;

impl Match<'_> {
    /// Looks for one edit of the second side after which the pair is PROVEN.
    pub(super) fn suggest(&self, found: &Counterexample, blamed: Option<&Decision>) -> Option<Suggestion> {
        let [first, second] = self.sides;
        let objects = Objects::of(second)?;
        let mut candidates = edits(&objects, &self.hints());
        let is_blamed =
            |edit: &Edit| blamed.is_some_and(|own| own.object == edit.object && edit.path.starts_with(&own.path));
        candidates.sort_by_key(|edit| !is_blamed(edit));
        candidates.truncate(EDITS);
        let mut known: Vec<Scenario> = vec![found.scenario().clone()];
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut proofs = 0;
        for edit in candidates {
            let Some(json) = edit.apply(objects.json(edit.object)) else {
                continue;
            };
            if !seen.insert(format!("{} {json}", edit.object)) {
                continue;
            }
            let changed = objects.with(edit.object, json);
            let Some(side) = changed.side(self) else {
                continue;
            };
            let agrees = |scenario: &Scenario| {
                let sides = [first, &side];
                let [a, b] = sides.map(|side| side.decide(scenario, self.discovery, &self.mocks).effect);
                a == b
            };
            // The request that refuted the last edits is the likeliest to refute this one.
            if !known.iter().rev().all(agrees) {
                continue;
            }
            if proofs >= PROOFS {
                return None;
            }
            proofs += 1;
            let compared = compare_sides(first, &side, self.given, self.options);
            if compared.label == Label::Proven && !compared.fault {
                let (kind, name, source) = sources(second.loaded()).into_iter().nth(edit.object)?;
                let root = whole(&source, &kind, &name)?;
                return Some(Suggestion {
                    text: text::edited(root, &edit, changed.json(edit.object)),
                    file: source.file(),
                    edit,
                    objects: changed.into_json(),
                });
            }
            known.extend(compared.counterexample.map(|found| found.scenario().clone()));
        }
        None
    }

    /// The constants that only the first side has.
    fn hints(&self) -> Hints {
        let [first, second] = self.sides.map(hunt::constants);
        Hints {
            common: first.0.clone(),
            texts: first
                .0
                .difference(&second.0)
                .filter(|text| text.len() < 80)
                .cloned()
                .collect(),
            numbers: first.1.difference(&second.1).copied().collect(),
        }
    }
}
