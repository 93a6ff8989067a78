//! Where both sides apply the same expressions, but may see something differently: the guards.

use kyvtest_model::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

use super::{Place, SEARCHED, Search, TRIES};
use crate::{
    Proof, condition::Reader, difference::has_other_text, guards::Reads, sides::BROKEN, solver::Solver, universe,
};
use kyvtest_cel::profile::Profile;
use kyvtest_model::kube::{Resource, may_have_floats};

/// The sides apply expressions with different texts.
const OTHER: (&str, &str) = ("text", "different expressions");

/// Why a guard that does not hold leaves the proof undecided.
fn undecided(guard: &str, about: &str) -> String {
    match guard {
        "D12" => format!("undecided: the policy uses `authorizer`, whose result depends on the cluster ({guard})"),
        "text" => format!("undecided: the two sides apply {about}"),
        _ => format!("undecided: the engines may see {about} differently ({guard})"),
    }
}

impl<'p> Search<'p, '_> {
    pub(super) fn may_have_floats(&self, resource: &Resource) -> bool {
        may_have_floats(resource, self.builtin.by_resource(&resource.gvr(), "").is_some())
    }

    pub(super) fn reader(&self) -> Reader {
        match self.original {
            Policy::Classic(_) => Reader::Classic,
            _ => Reader::Validating,
        }
    }

    /// What each body reads.
    pub(super) fn reads(&self) -> Vec<Reads> {
        let kyverno = match self.reader() {
            Reader::Classic => Profile::kyverno_classic(),
            _ => Profile::kyverno(),
        };
        let bodies = self.sides.bodies.iter();
        bodies.map(|body| Reads::of(body, kyverno, self.options.kube)).collect()
    }

    /// Whether both sides have the same effect on every request of a path as on any one: nothing that decides varies.
    pub(super) fn is_constant(&self, place: &Place<'p>, reads: &[Reads]) -> bool {
        let Some((cell, paths)) = self.explored.get(place.cell) else {
            return false;
        };
        let Some(path) = paths.get(place.path) else {
            return false;
        };
        let mut said = path.outcome.kyverno.iter().chain(&path.outcome.native);
        said.all(|(body, _)| *body == BROKEN || reads.get(*body).is_some_and(|reads| reads.is_constant(cell)))
    }

    /// Searches the cells on which a guard does not hold; the answer is what the first guard is about.
    pub(super) fn guarded(&mut self, solver: &mut Solver<'p>, proof: &mut Proof, reads: &[Reads]) -> Option<String> {
        let reader = self.reader();
        let mut groups: BTreeMap<(&str, &str), Vec<(usize, usize)>> = BTreeMap::new();
        for (at, (cell, paths)) in self.explored.iter().enumerate() {
            for (number, path) in paths.iter().enumerate() {
                let both = &path.outcome;
                if has_other_text(both) {
                    groups.entry(OTHER).or_default().push((at, number));
                    continue;
                }
                if both.kyverno.is_empty() || both.native.is_empty() {
                    continue;
                }
                let mut bodies = both.kyverno.iter().filter_map(|(body, _)| reads.get(*body));
                let reads_version = bodies.any(Reads::reads_version);
                let equivalents = self.equivalents(cell);
                if reads_version && self.sides.converts_differently(cell, &equivalents, self.discovery) {
                    let guard = ("D19", "objects that are converted to different versions");
                    groups.entry(guard).or_default().push((at, number));
                }
                for reads in both.kyverno.iter().filter_map(|(body, _)| reads.get(*body)) {
                    if let Some(guard) = reads.broken(reader, self.ignoring, cell, self.may_have_floats(cell.resource))
                    {
                        groups.entry(guard).or_default().push((at, number));
                    }
                }
            }
        }
        let mut first = None;
        for ((guard, about), places) in groups {
            first = first.or_else(|| Some(undecided(guard, about)));
            let mut cells: Vec<usize> = Vec::new();
            let until = self.requests + TRIES;
            'search: for &(at, number) in &places {
                if !cells.contains(&at) {
                    cells.push(at);
                }
                if cells.len() > SEARCHED {
                    break;
                }
                if let Some(found) = self.try_path(solver, at, number, until) {
                    let names: BTreeSet<String> = places
                        .iter()
                        .filter_map(|(at, _)| self.explored.get(*at))
                        .map(|(cell, _)| universe::name(cell))
                        .collect();
                    let text = if guard == OTHER.0 {
                        format!("both apply, with {about}")
                    } else {
                        format!("both apply, but see {about} differently")
                    };
                    let region = self.region(found, text, names.into_iter().collect(), &[]);
                    proof.regions.push(region);
                    break 'search;
                }
            }
        }
        first
    }
}
