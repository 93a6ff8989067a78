//! From paths to an answer: where the sides differ, a request that shows it, and what label that makes.

mod guarded;
mod starts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use self::starts::Starts;
use super::{
    IDLE, Kind, Label, NEITHER, Options, Proof, Stats, Target,
    candidates::{Candidates, Pairs, Plans},
    difference::{self, Way, has_other_text, ways},
    explain::{self, Table},
    guards::{Ignoring, Reads},
    objects,
    params::{self, Parameters},
    region::{OwnedLiteral, Region},
    replay::{Engines, Replayed},
    server::Data,
    shrink::shrink,
    sides::{LoweredSides, PerSide, ignores},
    solver::{Literal, Solver},
    symbolic::{Budget, Incomplete, Path, Variables, explore},
    universe,
    witness::{Scenario, Witness},
};
use crate::pair::Note;
use kyvtest_kyverno::lens::Lens;
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    compare::Divergence,
    kube::{Concrete, Discovery, Namespace, RequestClass, Resource, Text},
    policy::MatchConstraints,
    verdict::DivergenceClass,
};

/// The maximum number of reported regions, and of requests that are tried for one.
const REGIONS: usize = 48;
const TRIES: u64 = 4_000;

/// How many objects are tried with each list of parameters.
const WITH_PARAMS: usize = 24;

/// How many objects are tried where both sides were shown to agree.
const VERIFIED: usize = 4;

/// How many requests may be tried for a witness that an API server accepts, once there is one that it refuses.
const TYPED: u64 = 200;

/// The note of a refutation whose witness no API server accepts.
const RAW: &str = "no counterexample was found that an API server would accept; this one is marked data=raw";

/// How many cells are searched for each guard.
const SEARCHED: usize = 8;

/// The cells of a universe with their paths.
pub(super) struct Search<'p, 'u> {
    original: &'p Policy,
    sides: &'p LoweredSides,
    engines: &'p Engines<'u>,
    discovery: &'u Discovery,
    /// What Kubernetes itself serves, from Go types.
    builtin: Discovery,
    /// What the conversion says about a difference.
    cause: &'p dyn Fn(&Replayed) -> Option<Divergence>,
    ignoring: Ignoring,
    /// Whether the native policies list nothing that the cluster serves.
    is_idle: bool,
    params: Parameters,
    plans: Plans<'p>,
    starts: Starts<'p>,
    options: &'p Options<'p>,
    cells: Vec<RequestClass<'u>>,
    explored: Vec<(RequestClass<'u>, Vec<Path<'p, PerSide>>)>,
    requests: u64,
    /// Where only reports differ: exactly one side evaluates or errs, to the same effect.
    reported: Vec<String>,
    /// What contradicts itself: a bug.
    fault: Option<String>,
}

/// A path of a cell, and the answers of it that matter.
struct Place<'p> {
    cell: usize,
    path: usize,
    literals: Vec<Literal<'p>>,
}

/// The namespace of a request as matching sees it.
fn namespace(scenario: &Scenario) -> Option<Namespace> {
    let name = &scenario.request.namespace;
    let known = scenario.world.namespace(name).cloned();
    known.or_else(|| (!name.is_empty()).then(|| Namespace::minimal(name)))
}

impl<'p, 'u> Search<'p, 'u> {
    /// Starts a search.
    pub(super) fn new(
        (original, lens): (&'p Policy, Lens),
        target: &Target,
        sides: &'p LoweredSides,
        engines: &'p Engines<'u>,
        discovery: &'u Discovery,
        cause: &'p dyn Fn(&Replayed) -> Option<Divergence>,
        options: &'p Options<'p>,
    ) -> Self {
        let ours = original.as_validating().is_some_and(|policy| ignores(policy));
        let theirs = target.policies.iter().any(|policy| {
            let word = policy.failure_policy.as_ref();
            word.is_some_and(|word| word.value != "Fail")
        });
        let cells = universe::cells(discovery);
        let lists = |constraints: &MatchConstraints| cells.iter().any(|cell| constraints.lists(cell));
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
            builtin: Discovery::kubernetes(),
            cause,
            ignoring: Ignoring {
                kyverno: ours,
                native: theirs,
            },
            params: Parameters::new(original, target, &sides.bodies),
            plans: Plans::new(original, &sides.bodies),
            starts: Starts::new(original, lens, options.samples),
            options,
            cells,
            explored: Vec::new(),
            requests: 0,
            reported: Vec::new(),
            fault: None,
        }
    }

    /// Follows every path of every cell. With `paranoid` in the options each path is checked with a request of its own.
    ///
    /// # Errors
    /// If not every path could be followed.
    pub(super) fn explore(&mut self, solver: &mut Solver<'p>, budget: &mut Budget<'_>) -> Result<(), Incomplete> {
        self.explored.reserve(self.cells.len());
        for cell in std::mem::take(&mut self.cells) {
            if !self.options.exempt && !cell.resource.reaches_native_policies() {
                continue;
            }
            let (sides, discovery) = (self.sides, self.discovery);
            let paths = explore(solver, budget, &cell, |facts| sides.run(&cell, discovery, facts))?;
            if self.options.paranoid {
                for path in &paths {
                    let witness = Witness::new(solver, &cell, &path.literals);
                    let said = witness.map(|witness| self.said(&cell, &witness));
                    if said.as_ref() != Some(&path.outcome) {
                        self.blame(&cell, &path.literals, "the request of a path does not follow it");
                    }
                }
            }
            self.explored.push((cell, paths));
        }
        Ok(())
    }

    fn equivalents(&self, cell: &RequestClass<'u>) -> Vec<&'u Resource> {
        let all = self.discovery.equivalents(cell.resource);
        all.map(|resource| &**resource).collect()
    }

    /// The request of a path with these objects.
    fn scenario(&self, witness: &Witness, cell: &RequestClass<'u>, new: &Json, old: &Json) -> Scenario {
        let mut scenario = witness.scenario(cell, new, old);
        if let Some(spoil) = self.options.spoil {
            spoil(&mut scenario);
        }
        scenario
    }

    /// What both sides say to the request of a path, by the questions that they ask.
    fn said(&self, cell: &RequestClass<'u>, witness: &Witness) -> PerSide {
        let scenario = &self.scenario(witness, cell, &Json::Null, &Json::Null);
        let namespace = namespace(scenario);
        let mut facts = Concrete::new(&scenario.request, namespace.as_ref());
        self.sides.run(cell, self.discovery, &mut facts)
    }

    fn blame(&mut self, cell: &RequestClass<'_>, literals: &[Literal<'_>], what: &str) {
        let place = universe::name(cell);
        let answers = explain::literals(literals);
        self.fault.get_or_insert_with(|| format!("{what}: {place} {answers}"));
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
        self.sides.inexact.clone()
    }

    /// Draws the conclusion of what was explored.
    pub(super) fn conclude(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) {
        let Options {
            paranoid,
            messages,
            warnings,
            ..
        } = *self.options;
        let reads = self.reads();
        let unshown = self.differences(solver, proof, &reads);
        let broken = self.guarded(solver, proof, &reads);
        if !self.sides.inexact.is_empty() {
            self.sample(solver, proof);
        }
        let is_decided = unshown.is_none() && broken.is_none() && self.sides.inexact.is_empty();
        if proof.regions.is_empty() && !is_decided {
            self.try_samples(solver, proof);
        }
        if messages && proof.regions.is_empty() {
            let text = "both deny, with different messages";
            self.seek(solver, proof, DivergenceClass::Message, text);
        }
        let warns = warnings && proof.notes.iter().any(|note| note == Note::AuditWarnings.as_str());
        if warns && proof.regions.is_empty() {
            let text = "both audit, and the native policy also warns the client";
            self.seek(solver, proof, DivergenceClass::Action, text);
        }
        self.note_reports(proof);
        proof.regions.sort_by_key(|region| Kind::of(region.class));
        if !proof.regions.is_empty() {
            // The label follows below.
        } else if warns {
            "no request was found on which the native policy warns the client".clone_into(&mut proof.reason);
        } else if let Some(text) = unshown {
            proof.reason = format!("the match blocks may differ, but no request was found that shows it: {text}");
        } else if let Some(problem) = self.sides.inexact.first() {
            proof.reason.clone_from(problem);
            if self.requests > 0 {
                proof.label = Label::Tested { tested: self.requests };
            }
        } else if let Some(about) = broken {
            // What the authorizer answers is not part of a request.
            if !about.contains("D12") {
                proof.label = Label::ProvenMatch { tested: self.requests };
            }
            proof.reason = about;
        } else if self.is_idle {
            // True, and worth nothing: most likely the kind is one that this world does not have.
            IDLE.clone_into(&mut proof.reason);
        } else {
            proof.label = Label::Proven;
            let applies =
                |path: &Path<'p, PerSide>| !path.outcome.kyverno.is_empty() || !path.outcome.native.is_empty();
            if !self.explored.iter().any(|(_, paths)| paths.iter().any(applies)) {
                proof.notes.push(NEITHER.to_owned());
            }
            if paranoid {
                self.verify(solver);
            }
        }
        for region in &mut proof.regions {
            self.engines.note_data(&mut region.witness);
        }
        if let Some(first) = proof.regions.first() {
            proof.label = Label::Refuted(Kind::of(first.class));
            let raw = first.witness.raw_reason().is_some();
            if raw && self.options.data == Data::Normalised {
                proof.notes.push(RAW.to_owned());
            }
            proof.world.data = if raw { Data::Raw } else { Data::Normalised }.name();
        }
        if paranoid {
            for region in &proof.regions {
                let again = shrink(self.engines, region.witness.clone()).scenario().request.clone();
                let request = &region.witness.scenario().request;
                if again.object != request.object || again.old_object != request.old_object {
                    self.fault
                        .get_or_insert_with(|| format!("a smallest request shrinks: {}", region.text));
                }
            }
        }
        if let Some(fault) = &self.fault {
            proof.label = Label::Unknown;
            proof.reason.clone_from(fault);
            proof.fault = true;
            proof.regions.clear();
        }
    }

    /// Finds the regions in which the match parts differ; the answer is one that no request shows.
    fn differences(&mut self, solver: &mut Solver<'p>, proof: &mut Proof, reads: &[Reads]) -> Option<String> {
        let mut groups: BTreeMap<(Way, String), Vec<Place<'p>>> = BTreeMap::new();
        for (cell, (_, paths)) in self.explored.iter().enumerate() {
            let mut table = None;
            for way in [Way::Weaker, Way::Stricter] {
                let differs =
                    |path: &Path<'p, PerSide>| !has_other_text(&path.outcome) && ways(&path.outcome).contains(&way);
                if !paths.iter().any(differs) {
                    continue;
                }
                let table = table.get_or_insert_with(|| Table::new(paths));
                let (own, others): (Vec<usize>, Vec<usize>) =
                    (0..paths.len()).partition(|number| paths.get(*number).is_some_and(differs));
                let mut covered = Vec::new();
                for path in own {
                    if covered.iter().any(|region| table.covers(region, path)) {
                        continue;
                    }
                    let (bits, literals) = table.generalise(path, &others);
                    covered.push(bits);
                    let places = groups.entry((way, explain::literals(&literals))).or_default();
                    places.push(Place { cell, path, literals });
                }
            }
        }
        // The best known cells first, and what is said in few words.
        let mut groups: Vec<((Way, String), Vec<Place<'p>>)> = groups.into_iter().collect();
        groups.sort_by_cached_key(|(key, places)| {
            let first = places.first().map(|place| (place.cell, place.literals.len()));
            (first, key.clone())
        });
        let mut unshown = None;
        self.reported.clear();
        let total = groups.len();
        for ((way, text), places) in groups {
            if proof.regions.len() >= REGIONS {
                proof
                    .notes
                    .push(format!("{total} regions differ; the first {REGIONS} are shown"));
                break;
            }
            let names: Vec<String> = places
                .iter()
                .filter_map(|place| self.explored.get(place.cell))
                .map(|(cell, _)| universe::name(cell))
                .collect();
            let cells: Vec<RequestClass<'u>> = places
                .iter()
                .filter_map(|place| self.explored.get(place.cell))
                .map(|(cell, _)| *cell)
                .collect();
            let text = difference::describe(way, &cells, &text);
            match self.show(solver, &places, way) {
                Some(witness) if Kind::of(witness.class()) == Kind::Applicability => {
                    if !places.iter().all(|place| self.is_constant(place, reads)) {
                        unshown = unshown.or(Some(text.clone()));
                    }
                    self.reported.push(text);
                }
                Some(witness) => {
                    let first = places.first().map_or(&[][..], |place| &place.literals);
                    let region = self.region(witness, text, names, first);
                    proof.regions.push(region);
                }
                None => unshown = unshown.or(Some(text)),
            }
        }
        unshown
    }

    /// A request of one of these paths that both engines decide differently, best as a decision.
    fn show(&mut self, solver: &mut Solver<'p>, places: &[Place<'p>], way: Way) -> Option<Replayed> {
        let mut best: Option<Replayed> = None;
        let until = self.requests + TRIES;
        for place in places.iter().take(6) {
            let (cell, paths) = self.explored.get(place.cell)?;
            let (cell, path) = (*cell, paths.get(place.path)?);
            let said = if way == Way::Weaker {
                &path.outcome.kyverno
            } else {
                &path.outcome.native
            };
            let body = said.first().map(|(body, _)| *body);
            let mut objects = self.candidates(&cell, body);
            let Some(witness) = Witness::new(solver, &cell, &place.literals) else {
                self.blame(&cell, &place.literals, "a path has no request");
                return None;
            };
            let said = self.said(&cell, &witness);
            if !ways(&said).contains(&way) {
                self.blame(&cell, &place.literals, "the request of a path does not follow it");
                return None;
            }
            let mut wanted = |found: &Replayed| {
                let kind = Kind::of(found.class());
                if best.as_ref().is_none_or(|best| kind < Kind::of(best.class())) {
                    best = Some(found.clone());
                }
                kind == Kind::Decision
            };
            let mut found = self.attempt(&witness, &cell, &mut objects, until, &mut wanted);
            if found.is_none() {
                let variations = self.variations(&witness, &cell).into_iter();
                let differing: Vec<Witness> = variations
                    .filter(|witness| ways(&self.said(&cell, witness)).contains(&way))
                    .collect();
                found = differing.iter().find_map(|witness| {
                    let mut least = Candidates::only_least(cell.resource);
                    self.attempt(witness, &cell, &mut least, until, &mut wanted)
                });
            }
            if found.is_some() || self.requests >= until {
                break;
            }
        }
        best
    }

    /// Asks both engines about a path's request with these objects, and with every list of parameters, until a difference is
    /// wanted.
    fn attempt(
        &mut self,
        witness: &Witness,
        cell: &RequestClass<'u>,
        objects: &mut Candidates,
        mut until: u64,
        mut wanted: impl FnMut(&Replayed) -> bool,
    ) -> Option<Replayed> {
        let mut raw = None;
        let worlds = self.params.worlds();
        let most = if worlds.len() > 1 { WITH_PARAMS } else { usize::MAX };
        for params in worlds {
            let mut pairs = Pairs::new();
            for _ in 0..most {
                let Some((new, old)) = pairs.next(objects) else { break };
                if self.requests >= until {
                    return raw;
                }
                self.requests += 1;
                let mut scenario = self.scenario(witness, cell, new, old);
                params::place(&mut scenario, params, self.discovery);
                if let Some(found) = self.engines.replay(scenario)
                    && wanted(&found)
                {
                    if self.engines.shows_in_cluster(&found) {
                        return Some(found);
                    }
                    raw = raw.or(Some(found));
                    until = until.min(self.requests + TYPED);
                }
            }
        }
        raw
    }

    /// Objects of a cell to try with a body, those of rules and of the user first.
    fn candidates(&self, cell: &RequestClass<'u>, body: Option<usize>) -> Candidates {
        let floats = self.may_have_floats(cell.resource);
        let candidates = self.plans.candidates(cell.resource, body, floats);
        candidates.with_seeds(&self.starts.of(cell.resource))
    }

    /// The request and the objects of a path.
    fn prepared(
        &self,
        solver: &mut Solver<'p>,
        at: usize,
        number: usize,
    ) -> Option<(RequestClass<'u>, Witness, Candidates)> {
        let (cell, paths) = self.explored.get(at)?;
        let (cell, path) = (*cell, paths.get(number)?);
        let said = path.outcome.kyverno.first().or(path.outcome.native.first());
        let body = said.map_or(0, |(body, _)| *body);
        let objects = self.candidates(&cell, Some(body));
        let witness = Witness::new(solver, &cell, &path.literals)?;
        Some((cell, witness, objects))
    }

    /// The first difference, but in applicability, that an object makes on a path.
    fn try_path(&mut self, solver: &mut Solver<'p>, at: usize, number: usize, until: u64) -> Option<Replayed> {
        let (cell, witness, mut objects) = self.prepared(solver, at, number)?;
        let wanted = |found: &Replayed| Kind::of(found.class()) != Kind::Applicability;
        let found = self.attempt(&witness, &cell, &mut objects, until, wanted);
        if found.is_some() {
            return found;
        }
        self.variations(&witness, &cell).iter().find_map(|witness| {
            let mut least = Candidates::only_least(cell.resource);
            self.attempt(witness, &cell, &mut least, until, wanted)
        })
    }

    /// The request of a path with metadata that matching does not look at, but that expressions may: labels and names that
    /// they compare with.
    fn variations(&self, witness: &Witness, cell: &RequestClass<'u>) -> Vec<Witness> {
        let variables = Variables::new(cell);
        let mut all = Vec::new();
        for body in &self.sides.bodies {
            // A Scale has no labels.
            let is_scale = cell.resource.object_kind.kind == "Scale";
            let labels = if is_scale {
                Vec::new()
            } else {
                objects::labels(Some(body))
            };
            all.extend(labels.iter().map(|labels| witness.with_labels(labels)));
            for text in objects::texts(body) {
                let fits = |kind: Text| variables.text(kind).contains(&text).then_some(text.as_str());
                let names = [
                    (fits(Text::Name), None, None),
                    (None, fits(Text::Namespace).filter(|_| cell.namespaced), None),
                    (None, None, Some(text.as_str())),
                ];
                let named = names
                    .into_iter()
                    .filter(|(name, namespace, user)| name.is_some() || namespace.is_some() || user.is_some());
                all.extend(named.map(|(name, namespace, user)| witness.with_names(name, namespace, user)));
            }
        }
        all
    }

    /// Tries requests of all paths of cells in which something applies, and of all cells if there are none; those of
    /// reported regions are left out.
    fn sample(&mut self, solver: &mut Solver<'p>, proof: &mut Proof) {
        let applies = |path: &Path<'p, PerSide>| !path.outcome.kyverno.is_empty() || !path.outcome.native.is_empty();
        let is_idle = !self.explored.iter().any(|(_, paths)| paths.iter().any(applies));
        let reported: BTreeSet<&String> = proof.regions.iter().flat_map(|region| &region.cells).collect();
        let mut places = Vec::new();
        for (at, (cell, paths)) in self.explored.iter().enumerate() {
            if (is_idle || paths.iter().any(applies)) && !reported.contains(&universe::name(cell)) {
                // Where nothing applies, that may be what is not exact.
                let mut own: Vec<usize> = (0..paths.len()).collect();
                own.sort_by_key(|number| !paths.get(*number).is_some_and(applies));
                places.extend(own.into_iter().take(6).map(|number| (at, number)));
            }
        }
        let until = self.requests + TRIES;
        for (at, number) in places.into_iter().take(SEARCHED * 6) {
            if let Some(found) = self.try_path(solver, at, number, until) {
                let names = self.explored.get(at).map(|(cell, _)| universe::name(cell));
                let region = self.region(found, "found by search".to_owned(), names.into_iter().collect(), &[]);
                proof.regions.push(region);
                return;
            }
        }
    }

    /// Tells where only reports differ: that refutes nothing.
    fn note_reports(&mut self, proof: &mut Proof) {
        let is_reported = |region: &Region| Kind::of(region.class) == Kind::Applicability;
        let (reported, shown): (Vec<Region>, Vec<Region>) = proof.regions.drain(..).partition(is_reported);
        proof.regions = shown;
        self.reported.extend(reported.into_iter().map(|region| region.text));
        let notes = self.reported.iter().map(|text| format!("only reports differ: {text}"));
        proof.notes.extend(notes);
    }

    /// Looks for requests on which both sides apply and differ in a class.
    fn seek(&mut self, solver: &mut Solver<'p>, proof: &mut Proof, class: DivergenceClass, text: &str) {
        let until = self.requests + TRIES;
        let objects = |path: &Path<'p, PerSide>| !path.outcome.kyverno.is_empty() && !path.outcome.native.is_empty();
        let mut places = Vec::new();
        for (at, (_, paths)) in self.explored.iter().enumerate() {
            places.extend(paths.iter().position(objects).map(|number| (at, number)));
        }
        for (at, number) in places.into_iter().take(SEARCHED) {
            let Some((cell, witness, mut objects)) = self.prepared(solver, at, number) else {
                continue;
            };
            let mut pairs = Pairs::new();
            while let Some((new, old)) = pairs.next(&mut objects) {
                if self.requests >= until {
                    return;
                }
                self.requests += 1;
                let found = self.engines.replay_texts(self.scenario(&witness, &cell, new, old));
                if let Some(found) = found.filter(|found| found.class() == class) {
                    let region = self.region(found, text.to_owned(), vec![universe::name(&cell)], &[]);
                    proof.regions.push(region);
                    return;
                }
            }
        }
    }

    /// Reviews requests of every path of what is proven: another effect contradicts the proof. That only one side evaluates or
    /// errs, to the same effect, is not part of the claim.
    fn verify(&mut self, solver: &mut Solver<'p>) {
        for at in 0..self.explored.len() {
            let count = self.explored.get(at).map_or(0, |(_, paths)| paths.len());
            for number in 0..count {
                let Some((cell, witness, mut objects)) = self.prepared(solver, at, number) else {
                    continue;
                };
                for number in 0..VERIFIED {
                    let Some(object) = objects.get(number) else { break };
                    self.requests += 1;
                    let found = self.engines.replay(self.scenario(&witness, &cell, object, object));
                    if found.is_some_and(|found| matches!(Kind::of(found.class()), Kind::Decision | Kind::Action)) {
                        self.blame(&cell, &[], "the engines contradict a proof");
                        return;
                    }
                }
            }
        }
    }

    /// A region with what the hazards of the conversion say about its witness.
    fn region(&self, witness: Replayed, text: String, cells: Vec<String>, literals: &[Literal<'p>]) -> Region {
        let witness = shrink(self.engines, witness);
        let divergence = (self.cause)(&witness);
        Region {
            class: witness.class(),
            hazard: divergence.as_ref().and_then(|divergence| divergence.code.clone()),
            cause: divergence.map(|divergence| divergence.cause).unwrap_or_default(),
            text,
            cells,
            answers: literals.iter().map(|literal| OwnedLiteral::new(*literal)).collect(),
            witness,
        }
    }
}
