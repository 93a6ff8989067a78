//! From paths to an answer: where the sides differ, a request that shows it, and what label that makes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::{
    IDLE, Kind, Label, Options, Proof, Region, Stats, Target,
    condition::Reader,
    explain,
    guards::{Ignoring, Reads},
    objects,
    replay::{Engines, Replayed},
    sides::{BROKEN, Both, Sides, ignores},
    solver::Solver,
    symbolic::{Budget, GaveUp, Path, explore},
    universe,
    witness::Witness,
};
use crate::{
    kube::{Cell, Concrete, Discovery, Resource},
    pair::{Original, Pair},
    policy::MatchConstraints,
    vap::matching::is_exempt,
    verdict::Effect,
};

/// Which way the sides differ on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Kyverno does more.
    Weaker,
    /// The native policy does more.
    Stricter,
}

/// How many regions are told, and how many requests may be tried for one.
const REGIONS: usize = 12;
const TRIES: u64 = 4_000;

/// How many cells are searched for each guard.
const SEARCHED: usize = 8;

/// The cells of a universe with their paths.
pub(super) struct Search<'p, 'u> {
    original: &'p Original,
    sides: &'p Sides,
    engines: &'p Engines<'u>,
    discovery: &'u Discovery,
    pair: &'p Pair,
    ignoring: Ignoring,
    /// Whether the native policies list nothing that the cluster serves.
    is_idle: bool,
    explored: Vec<(Cell<'u>, Vec<Path<'p, Both>>)>,
    requests: u64,
    strays: u64,
}

fn ways(both: &Both) -> Vec<Way> {
    let effect = |said: &[(usize, Effect)], body: usize| {
        let found = said.iter().find(|(other, _)| *other == body);
        found.map_or(Effect::Admit, |(_, effect)| *effect)
    };
    let more = |a: &[(usize, Effect)], b: &[(usize, Effect)]| {
        a.iter().any(|(body, own)| *own > effect(b, *body) || b.is_empty())
    };
    let mut ways = Vec::new();
    if more(&both.kyverno, &both.native) {
        ways.push(Way::Weaker);
    }
    if more(&both.native, &both.kyverno) {
        ways.push(Way::Stricter);
    }
    ways
}

/// Whether each side asks expressions that the other does not: nothing that matching can tell.
fn has_other_text(both: &Both) -> bool {
    let lacks = |a: &[(usize, Effect)], b: &[(usize, Effect)]| {
        let mut own = a.iter().filter(|(body, _)| *body != BROKEN);
        own.any(|(body, _)| b.iter().all(|(other, _)| other != body))
    };
    lacks(&both.kyverno, &both.native) && lacks(&both.native, &both.kyverno)
}

impl<'p, 'u> Search<'p, 'u> {
    /// Starts a search.
    pub(super) fn new(
        original: &'p Original,
        target: &Target,
        sides: &'p Sides,
        engines: &'p Engines<'u>,
        discovery: &'u Discovery,
        pair: &'p Pair,
    ) -> Self {
        let ours = match original {
            Original::Policy(_) => false,
            Original::ValidatingPolicy(policy) => ignores(policy),
        };
        let theirs = target.policies.iter().any(|policy| {
            let word = policy.failure_policy.as_ref();
            word.is_some_and(|word| word.value != "Fail")
        });
        let cells = universe::cells(discovery);
        let lists = |constraints: &MatchConstraints| {
            let rules = &constraints.resource_rules;
            rules.is_empty()
                || rules
                    .iter()
                    .any(|rule| cells.iter().any(|cell| rule.rule.matches(cell)))
        };
        let mut constraints = target
            .policies
            .iter()
            .filter_map(|policy| policy.match_constraints.as_ref());
        let is_idle = !constraints.any(lists);
        Self {
            is_idle,
            original,
            sides,
            engines,
            discovery,
            pair,
            ignoring: Ignoring {
                kyverno: ours,
                native: theirs,
            },
            explored: Vec::new(),
            requests: 0,
            strays: 0,
        }
    }

    /// Follows every path of every cell. With `paranoid` in the options each path is checked with a request of its own.
    ///
    /// # Errors
    /// If not every path could be followed.
    pub(super) fn explore(
        &mut self,
        solver: &mut Solver<'p>,
        budget: &mut Budget<'_>,
        options: &Options<'_>,
    ) -> Result<(), GaveUp> {
        for cell in universe::cells(self.discovery) {
            if !options.exempt && is_exempt(cell.resource) {
                continue;
            }
            let equivalents: Vec<&Resource> = self
                .discovery
                .equivalents(cell.resource)
                .map(|resource| &**resource)
                .collect();
            let (sides, discovery) = (self.sides, self.discovery);
            let paths = explore(solver, budget, &cell, |facts| {
                sides.run(&cell, &equivalents, discovery, facts)
            })?;
            if options.paranoid {
                for path in &paths {
                    let witness = Witness::new(solver, &cell, &path.literals);
                    let follows =
                        witness.is_some_and(|witness| self.follows(&cell, &equivalents, &witness, &path.outcome));
                    self.strays += u64::from(!follows);
                }
            }
            self.explored.push((cell, paths));
        }
        Ok(())
    }

    /// Whether the request of a path follows the path.
    fn follows(&self, cell: &Cell<'u>, equivalents: &[&Resource], witness: &Witness, outcome: &Both) -> bool {
        let situation = witness.situation(cell, &Json::Null, &Json::Null);
        let namespace = situation.world.namespace(&situation.request.namespace).cloned();
        let namespace = match namespace {
            None if !situation.request.namespace.is_empty() => {
                Some(crate::kube::Namespace::minimal(&situation.request.namespace))
            }
            namespace => namespace,
        };
        let mut facts = Concrete::new(&situation.request, namespace.as_ref());
        self.sides.run(cell, equivalents, self.discovery, &mut facts) == *outcome
    }

    /// How much was done.
    pub(super) fn stats(&self) -> Stats {
        Stats {
            cells: self.explored.len() as u64,
            paths: self.explored.iter().map(|(_, paths)| paths.len() as u64).sum(),
            requests: self.requests,
        }
    }

    /// What is to be known besides.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.pair.notes().into_iter().map(str::to_owned).collect();
        notes.extend(self.sides.inexact.iter().cloned());
        notes
    }

    /// Draws the conclusion of what was explored.
    pub(super) fn conclude(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) {
        if self.strays > 0 {
            proof.reason = format!("{} requests do not follow their paths: a bug", self.strays);
            return;
        }
        let unshown = self.differences(solver, proof);
        let broken = self.guarded(solver, proof);
        proof.regions.sort_by_key(|region| Kind::of(region.class));
        if let Some(first) = proof.regions.first() {
            proof.label = Label::Refuted(Kind::of(first.class));
            proof.world.data = "raw";
        } else if let Some(text) = unshown {
            proof.reason = format!("no request was found that shows a difference of the match part: {text}");
        } else if let Some(problem) = self.sides.inexact.first() {
            proof.reason.clone_from(problem);
            self.sample(solver, proof);
            if proof.regions.is_empty() && self.requests > 0 {
                proof.label = Label::Tested { tested: self.requests };
            }
        } else if let Some(about) = broken {
            // What the authorizer answers is no part of a request.
            if !about.contains("D12") {
                proof.label = Label::ProvenMatch { tested: self.requests };
            }
            proof.reason = format!("the sides see differently: {about}");
        } else if self.is_idle {
            // True, and worth nothing: most likely the kind is one that this world does not have.
            IDLE.clone_into(&mut proof.reason);
        } else {
            proof.label = Label::Proven;
        }
    }

    /// Finds the regions in which the match parts differ; the answer is one that no request shows.
    fn differences(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) -> Option<String> {
        let mut groups: BTreeMap<(Way, String), Vec<(usize, usize)>> = BTreeMap::new();
        for (at, (_, paths)) in self.explored.iter().enumerate() {
            for way in [Way::Weaker, Way::Stricter] {
                let differs = |both: &Both| !has_other_text(both) && ways(both).contains(&way);
                let mut told: Vec<String> = Vec::new();
                for (number, path) in paths.iter().enumerate().filter(|(_, path)| differs(&path.outcome)) {
                    let text = explain::literals(&explain::generalise(path, paths, differs));
                    if !told.contains(&text) {
                        groups.entry((way, text.clone())).or_default().push((at, number));
                        told.push(text);
                    }
                }
            }
        }
        // The best known cells first.
        let mut groups: Vec<(_, Vec<(usize, usize)>)> = groups.into_iter().collect();
        groups.sort_by_key(|(key, places)| (places.first().copied(), key.clone()));
        let mut unshown = None;
        let total = groups.len();
        for ((way, text), places) in groups {
            if proof.regions.len() >= REGIONS {
                proof
                    .notes
                    .push(format!("{total} regions differ, the first {REGIONS} are told"));
                break;
            }
            let names: Vec<String> = places
                .iter()
                .filter_map(|(at, _)| self.explored.get(*at))
                .map(|(cell, _)| universe::name(cell))
                .collect();
            let text = told(way, &names, &text);
            match self.show(solver, &places, way) {
                Some(witness) => {
                    let region = self.region(witness, text, names);
                    proof.regions.push(region);
                }
                None => unshown = unshown.or(Some(text)),
            }
        }
        unshown
    }

    /// A request of one of these paths that both engines decide differently, best as a decision.
    fn show(&mut self, solver: &mut Solver<'p>, places: &[(usize, usize)], way: Way) -> Option<Replayed> {
        let mut best: Option<Replayed> = None;
        let until = self.requests + TRIES;
        for &(at, number) in places.iter().take(6) {
            let (cell, paths) = self.explored.get(at)?;
            let (cell, path) = (*cell, paths.get(number)?);
            let said = if way == Way::Weaker {
                &path.outcome.kyverno
            } else {
                &path.outcome.native
            };
            let body = said.first().and_then(|(body, _)| self.sides.bodies.get(*body));
            let objects = objects::candidates(cell.resource, body);
            let Some(witness) = Witness::new(solver, &cell, &path.literals) else {
                continue;
            };
            for (new, old) in pairs(&objects) {
                if self.requests >= until {
                    return best;
                }
                self.requests += 1;
                let Some(found) = self.engines.replay(witness.situation(&cell, new, old)) else {
                    continue;
                };
                let kind = Kind::of(found.class());
                if best.as_ref().is_none_or(|best| kind < Kind::of(best.class())) {
                    best = Some(found);
                }
                if kind == Kind::Decision {
                    return best;
                }
            }
        }
        best
    }

    /// Searches the cells on which a guard does not hold; the answer is what the first guard is about.
    fn guarded(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) -> Option<String> {
        let reads: Vec<Reads> = self.sides.bodies.iter().map(Reads::of).collect();
        let reader = match self.original {
            Original::Policy(_) => Reader::Classic,
            Original::ValidatingPolicy(_) => Reader::Validating,
        };
        let mut groups: BTreeMap<(&str, &str), Vec<(usize, usize)>> = BTreeMap::new();
        for (at, (cell, paths)) in self.explored.iter().enumerate() {
            for (number, path) in paths.iter().enumerate() {
                let both = &path.outcome;
                if has_other_text(both) {
                    groups
                        .entry(("text", "other expressions"))
                        .or_default()
                        .push((at, number));
                    continue;
                }
                if both.kyverno.is_empty() || both.native.is_empty() {
                    continue;
                }
                for reads in both.kyverno.iter().filter_map(|(body, _)| reads.get(*body)) {
                    if let Some(guard) = reads.broken(reader, self.ignoring, cell) {
                        groups.entry(guard).or_default().push((at, number));
                    }
                }
            }
        }
        let mut first = None;
        for ((guard, about), places) in groups {
            first = first.or_else(|| Some(format!("{about} ({guard})")));
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
                    let text = format!("both apply, and see differently: {about}");
                    let region = self.region(found, text, names.into_iter().collect());
                    proof.regions.push(region);
                    break 'search;
                }
            }
        }
        first
    }

    /// The first difference, but in applicability, that an object makes on a path.
    fn try_path(&mut self, solver: &mut Solver<'p>, at: usize, number: usize, until: u64) -> Option<Replayed> {
        let (cell, paths) = self.explored.get(at)?;
        let (cell, path) = (*cell, paths.get(number)?);
        let said = path.outcome.kyverno.first().or(path.outcome.native.first());
        let body = said.and_then(|(body, _)| self.sides.bodies.get(*body));
        let objects = objects::candidates(cell.resource, body);
        let witness = Witness::new(solver, &cell, &path.literals)?;
        for (new, old) in pairs(&objects) {
            if self.requests >= until {
                return None;
            }
            self.requests += 1;
            let found = self.engines.replay(witness.situation(&cell, new, old));
            if let Some(found) = found
                && Kind::of(found.class()) != Kind::Applicability
            {
                return Some(found);
            }
        }
        None
    }

    /// Tries requests of all paths on which something applies.
    fn sample(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) {
        let applies = |both: &Both| !both.kyverno.is_empty() || !both.native.is_empty();
        let mut places = Vec::new();
        for (at, (_, paths)) in self.explored.iter().enumerate() {
            let own = paths.iter().enumerate().filter(|(_, path)| applies(&path.outcome));
            places.extend(own.take(4).map(|(number, _)| (at, number)));
        }
        let until = self.requests + TRIES;
        for (at, number) in places.into_iter().take(SEARCHED * 4) {
            if let Some(found) = self.try_path(solver, at, number, until) {
                let names = self.explored.get(at).map(|(cell, _)| universe::name(cell));
                let region = self.region(found, "found by search".to_owned(), names.into_iter().collect());
                proof.label = Label::Refuted(Kind::of(region.class));
                proof.world.data = "raw";
                proof.regions.push(region);
                return;
            }
        }
    }

    /// A region with what the hazards of the conversion say about its witness.
    fn region(&self, witness: Replayed, text: String, cells: Vec<String>) -> Region {
        let divergence = self
            .pair
            .cause(witness.kyverno(), witness.native(), &witness.situation().request);
        Region {
            class: witness.class(),
            hazard: divergence.as_ref().and_then(|divergence| divergence.code.clone()),
            cause: divergence.map(|divergence| divergence.cause).unwrap_or_default(),
            text,
            cells,
            witness,
        }
    }
}

/// Pairs of new and old objects: the same, then a new one over the least, then an old one under the least.
fn pairs(objects: &[Json]) -> impl Iterator<Item = (&Json, &Json)> {
    let least = objects.first();
    let same = objects.iter().map(|object| (object, object));
    let over = objects.iter().skip(1).filter_map(move |object| Some((object, least?)));
    let under = objects.iter().skip(1).filter_map(move |object| Some((least?, object)));
    same.chain(over).chain(under)
}

/// A region for people.
fn told(way: Way, cells: &[String], literals: &str) -> String {
    let who = match way {
        Way::Weaker => "Kyverno does more than the native policy",
        Way::Stricter => "the native policy does more than Kyverno",
    };
    let shown: Vec<&str> = cells.iter().take(6).map(String::as_str).collect();
    let more = cells.len().saturating_sub(shown.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let conditions = if literals.is_empty() {
        String::new()
    } else {
        format!(" where {literals}")
    };
    format!("{who}: {}{more}{conditions}", shown.join(", "))
}
