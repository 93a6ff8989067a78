//! Requests of behaviours that the search does not find, from the prover: those that depend on looked-up objects, parameters and
//! answers, on quantities, or on several fields at once. No upstream counterpart.

use std::collections::BTreeMap;

use kyvtest_convert::Exceptions;
use kyvtest_model::{kube::Discovery, policy::Policy};

use super::{Group, RequestOutcome, Search, Shown, Side};
use crate::{
    Options,
    body::{self, Within, examples::ExampleSearch, exception_objects, policy_object},
    sides::SelectedRules,
};

/// How many groups the prover is used for, and how many cases one of its questions may have.
pub(super) const PROOFS: usize = 60;
const CASES: u64 = 2_000;

/// How many requests of a class the prover tries where it decides nothing.
const PROOF_TRIES: u64 = 30;

/// The prover for a policy; `None` if it cannot be compared.
pub(super) fn prover<'d>(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &'d Discovery,
    options: &Options<'_>,
) -> Option<ExampleSearch<'d>> {
    let mut objects = vec![policy_object(original)];
    objects.extend(exception_objects(exceptions));
    let options = body::Options {
        cases: CASES,
        tries: PROOF_TRIES,
        now: options.now,
        ..body::Options::default()
    };
    ExampleSearch::new(&objects, discovery, options).ok()
}

impl<'p> Search<'_, 'p, '_> {
    /// Uses the prover for the requests of a group that the search did not find.
    pub(super) fn prove(
        &mut self,
        selected: &SelectedRules,
        group: &Group<'p>,
        found: &mut BTreeMap<RequestOutcome, Shown>,
    ) {
        let explored = self.explored;
        let Some(prover) = self.prover.filter(|_| self.proofs > 0) else {
            return;
        };
        self.proofs -= 1;
        let Some((at, number)) = group.places.first() else {
            return;
        };
        let Some((class, paths)) = explored.get(*at) else {
            return;
        };
        let facts = paths.get(*number).map_or(&[][..], |path| &path.literals);
        let within = Within { class: *class, facts };
        let is_violation = |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::Violates(_));
        let failing = if found.keys().any(is_violation) {
            None
        } else {
            prover.failing(Some(within))
        };
        let passing = if found.contains_key(&RequestOutcome::Complies) {
            None
        } else {
            prover.passing(Some(within))
        };
        for example in [failing, passing].into_iter().flatten() {
            self.take(Side::Kyverno, selected, group, example.scenario, found);
        }
    }
}
