//! The behaviours of a policy: all requests, sorted by which answers of the match part matter and by what becomes of them.
//!
//! The paths of the prover are merged by side, outcome and the answers that matter once the path is generalised. A path on which
//! expressions are evaluated has two or three behaviours: the request complies, violates or is skipped by a condition. They are
//! found by search, so a behaviour that neither a found request nor the suite shows is not counted.
//!
//! Policies that change objects have behaviours of their own, see [`mutating_behaviours`].
//!
//! No upstream counterpart. Known limit: errors of validations are not separate behaviours.

mod metadata;
mod mutation;
mod proven;
mod review;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use self::{
    metadata::decorated,
    review::{Reviewed, Reviewer, Validation},
};
use super::{
    Options, Target,
    body::examples::ExampleSearch,
    candidates::{Pairs, Plans},
    example,
    explain::{Table, literals},
    native_target,
    replay::Engines,
    sides::{LoweredSides, PerSide, SelectedRules},
    solver::{Literal, Solver},
    symbolic::{Budget, Path, explore},
    universe,
    witness::{Scenario, Witness},
};
use crate::pair::Pair;
use kyvtest_cel::host::{Host, Mocks};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::value::Document;
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    compare::Divergence,
    kube::{Concrete, Discovery, Environment, Facts, Request, RequestClass, World},
    verdict::{Effect, Status, Verdict},
};
pub use mutation::mutating_behaviours;

/// How many paths of a behaviour are searched for a request, and how many requests are tried on each.
const PLACES: usize = 3;
const TRIES: usize = 300;

/// The work limit of finding the facts that matter: beyond it, paths are distinguished by their outcome alone.
const WORK: usize = 200_000_000;

/// The maximum number of reported behaviours.
const BEHAVIOURS: usize = 400;

/// What becomes of the requests of a behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// The policy does not look at them.
    LeftAlone,
    /// They comply.
    Complies,
    /// They violate the policy, with this effect.
    Violates(Effect),
    /// A condition lets them pass by.
    Skipped,
    /// The policy changes the object.
    Changed,
    /// The policy applies, and the object stays as it is.
    Unchanged,
    /// The mutation fails, with this effect.
    Fails(Effect),
}

impl RequestOutcome {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeftAlone => "not matched",
            Self::Complies => "admitted",
            Self::Violates(Effect::Deny) => "denied",
            Self::Violates(Effect::Audit) => "audited",
            Self::Violates(Effect::Warn) => "warned about",
            Self::Violates(Effect::Admit) => "violating without effect",
            Self::Skipped => "skipped",
            Self::Changed => "changed",
            Self::Unchanged => "left unchanged",
            Self::Fails(Effect::Deny) => "denied because the mutation fails",
            Self::Fails(_) => "admitted although the mutation fails",
        }
    }

    /// Of requests that a side looks at; `None` where it could not decide.
    fn of(verdict: &Verdict) -> Option<Self> {
        match verdict.status {
            Status::Pass => Some(Self::Complies),
            Status::Fail | Status::Warn => Some(Self::Violates(verdict.effect)),
            Status::Skip => Some(Self::Skipped),
            Status::NoMatch => Some(Self::LeftAlone),
            Status::Error | Status::NeedsRegistry | Status::Unsupported => None,
        }
    }
}

/// A request that shows a behaviour, and what is said to it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The request and the cluster around it.
    pub scenario: Scenario,
    pub kyverno: Verdict,
    /// The verdict of the native counterpart, if there is one.
    pub native: Option<Verdict>,
    /// How the two differ.
    pub divergence: Option<Divergence>,
}

/// Requests of which the same becomes for the same reasons.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Whose behaviour it is: Kyverno's, the native policy's or both's.
    pub sides: &'static str,
    /// What becomes of the requests.
    pub fate: RequestOutcome,
    /// Whether it is a behaviour of mutation.
    pub mutates: bool,
    /// Which requests, for people.
    pub text: String,
    /// The resources and operations.
    pub cells: Vec<String>,
    /// Whether a request of the suite belongs to it.
    pub exercised: bool,
    /// A request that belongs to it; may be missing where the suite has one.
    pub witness: Option<Shown>,
}

/// The behaviours of a policy.
#[derive(Debug, Clone, Default)]
pub struct Behaviours {
    /// The behaviours, best known kinds first.
    pub list: Vec<Behaviour>,
    /// Why they may not be all or not exact; empty where nothing is missing.
    pub note: String,
}

/// A request of a suite, and what Kyverno says to it.
#[derive(Debug, Clone)]
pub struct Tried {
    pub request: Request,
    pub kyverno: Verdict,
}

/// Whose paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Kyverno,
    Native,
}

impl Side {
    fn of(self, both: &PerSide) -> &SelectedRules {
        match self {
            Self::Kyverno => &both.kyverno,
            Self::Native => &both.native,
        }
    }
}

/// Paths with the same outcome for the same reasons.
#[derive(Default)]
struct Group<'p> {
    /// By cell and path.
    places: BTreeSet<(usize, usize)>,
    literals: Vec<Literal<'p>>,
    kyverno: bool,
    native: bool,
}

/// A request of the suite with everything that is known of it.
struct Seen<'t> {
    request: &'t Request,
    both: PerSide,
    /// What becomes of it at Kyverno; `None` if that is not decided.
    fate: Option<RequestOutcome>,
    /// What becomes of it at the API server; `None` if that is not decided.
    native: Option<RequestOutcome>,
    namespace: Option<kyvtest_model::kube::Namespace>,
}

/// Finds the behaviours of a policy, and which of them requests exercise.
pub fn behaviours(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    tried: &[Tried],
    world: &World,
    host: &dyn Host,
) -> Behaviours {
    found_from(original, exceptions, discovery, options, tried, world, host, None)
}

/// Finds requests that people would write first: for as common kinds as possible, from parts of objects that the rule is about.
pub fn examples(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    seeds: &[serde_json::Value],
) -> Behaviours {
    let (world, host) = (World::new(), Mocks::default());
    found_from(
        original,
        exceptions,
        discovery,
        options,
        &[],
        &world,
        &host,
        Some(seeds),
    )
}

#[expect(clippy::too_many_arguments, reason = "the arguments of both functions above")]
fn found_from(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    tried: &[Tried],
    world: &World,
    host: &dyn Host,
    seeds: Option<&[serde_json::Value]>,
) -> Behaviours {
    let mut found = Behaviours::default();
    let universe = universe::with_unknown(discovery);
    let pair = Pair::new(original.clone(), exceptions, discovery, options.now);
    let target = native_target(&pair);
    let has_native = target.is_ok();
    let target: Target = target.unwrap_or_default();
    let engines = match Engines::new(original, exceptions, &target, &options.config, options.layer, &universe) {
        Ok(engines) => engines,
        Err(message) => {
            found.note = format!("Kyverno rejects the policy: {message}");
            return found;
        }
    };
    let sides = LoweredSides::new(original, exceptions, &target, &options.config, options.layer, &universe);
    if let Some(first) = sides.inexact.first() {
        found.note.clone_from(first);
    }
    let mut solver = Solver::default();
    let sees = |_: &RequestClass<'_>| true;
    let explored = explored((&sides, &sees), &universe, &mut solver, options, &mut found.note);
    let seen: Vec<Seen<'_>> = tried
        .iter()
        .map(|tried| {
            let request = &tried.request;
            let native = pair.native(request, Environment::new(world, discovery, host));
            let native = native.and_then(|native| RequestOutcome::of(&native.verdict));
            let fate = RequestOutcome::of(&tried.kyverno);
            Seen::new(request, (&sides, &sees), &universe, world, (fate, native))
        })
        .collect();
    let reviewer = Validation {
        engines: &engines,
        pair: &pair,
        has_native,
        is_example: seeds.is_some(),
    };
    let prover = seeds
        .is_none()
        .then(|| proven::prover(original, exceptions, discovery, options))
        .flatten();
    let search = Search {
        solver,
        reviewer: &reviewer,
        sides: &sides,
        explored: &explored,
        has_native,
        plans: Plans::new(original, &sides.bodies),
        seeds,
        parts: &[],
        prover: prover.as_ref(),
        proofs: proven::PROOFS,
        made: 0,
    };
    search.list(&seen, &mut found);
    found
}

/// Whether requests of a class reach the policy at all.
type Sees<'s> = &'s dyn Fn(&RequestClass<'_>) -> bool;

/// What both sides select of a request or on a path; nothing if the request does not reach the policy.
fn selected<'p>(
    (sides, sees): (&'p LoweredSides, Sees<'_>),
    cell: &RequestClass<'_>,
    universe: &Discovery,
    facts: &mut impl Facts<'p>,
) -> PerSide {
    if sees(cell) {
        return sides.run(cell, universe, facts);
    }
    PerSide {
        kyverno: SelectedRules::new(),
        native: SelectedRules::new(),
    }
}

/// The paths of all request classes; `note` says if some are missing.
fn explored<'p, 'u>(
    (sides, sees): (&'p LoweredSides, Sees<'_>),
    universe: &'u Discovery,
    solver: &mut Solver<'p>,
    options: &Options<'_>,
    note: &mut String,
) -> Vec<(RequestClass<'u>, Vec<Path<'p, PerSide>>)> {
    let mut budget = Budget {
        paths: options.paths,
        stop: options.stop,
    };
    let mut explored = Vec::new();
    for cell in universe::cells(universe) {
        let paths = explore(solver, &mut budget, &cell, |facts| {
            selected((sides, sees), &cell, universe, facts)
        });
        match paths {
            Ok(paths) => explored.push((cell, paths)),
            Err(_) => {
                "not every request was examined: the budget is spent, or a condition was too complex to decide"
                    .clone_into(note);
                break;
            }
        }
    }
    explored
}

impl<'t> Seen<'t> {
    fn new(
        request: &'t Request,
        (sides, sees): (&LoweredSides, Sees<'_>),
        universe: &Discovery,
        world: &World,
        (fate, native): (Option<RequestOutcome>, Option<RequestOutcome>),
    ) -> Self {
        let namespace = world.namespace(&request.namespace).cloned().or_else(|| {
            let name = request.namespace.as_str();
            (!name.is_empty()).then(|| kyvtest_model::kube::Namespace::minimal(name))
        });
        let mut facts = Concrete::new(request, namespace.as_ref());
        Self {
            request,
            both: selected((sides, sees), &request.cell(), universe, &mut facts),
            fate,
            native,
            namespace,
        }
    }
}

/// What paths come to, why, and which they are.
type Merged<'p> = ((SelectedRules, String), Group<'p>);

/// The paths of both sides by what they come to and why, in the order of their first places; and whether there was too much to do.
fn grouped<'p>(explored: &[(RequestClass<'_>, Vec<Path<'p, PerSide>>)], has_native: bool) -> (Vec<Merged<'p>>, bool) {
    let mut left = WORK;
    let mut groups: BTreeMap<(SelectedRules, String), Group<'p>> = BTreeMap::new();
    let sides: &[Side] = if has_native {
        &[Side::Kyverno, Side::Native]
    } else {
        &[Side::Kyverno]
    };
    for side in sides {
        for (at, (_, paths)) in explored.iter().enumerate() {
            let table = Table::new(paths);
            let mut others: BTreeMap<&SelectedRules, Vec<usize>> = BTreeMap::new();
            for (number, path) in paths.iter().enumerate() {
                let own = side.of(&path.outcome);
                left = left.saturating_sub(paths.len() * (1 + path.literals.len()));
                let kept = if left > 0 {
                    let others = others.entry(own).or_insert_with(|| {
                        let all = paths.iter().enumerate();
                        let others = all.filter(|(_, other)| side.of(&other.outcome) != own);
                        others.map(|(number, _)| number).collect()
                    });
                    table.generalise(number, others).1
                } else {
                    Vec::new()
                };
                let group = groups.entry((own.clone(), literals(&kept))).or_default();
                match side {
                    Side::Kyverno => group.kyverno = true,
                    Side::Native => group.native = true,
                }
                group.places.insert((at, number));
                group.literals = kept;
            }
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, group)| (group.places.first().copied(), key.clone()));
    (groups, left == 0)
}

/// Looks for requests.
struct Search<'s, 'p, 'u> {
    solver: Solver<'p>,
    reviewer: &'s dyn Reviewer,
    sides: &'p LoweredSides,
    explored: &'s [(RequestClass<'u>, Vec<Path<'p, PerSide>>)],
    has_native: bool,
    plans: Plans<'p>,
    /// Parts of objects to start from, if examples are wanted.
    seeds: Option<&'s [serde_json::Value]>,
    /// Parts of objects to try besides those that the conditions name.
    parts: &'s [serde_json::Value],
    /// Finds requests that the search does not find; `None` if only examples are wanted.
    prover: Option<&'s ExampleSearch<'s>>,
    /// How many groups the prover may still be used for.
    proofs: usize,
    /// How many requests were found.
    made: usize,
}

impl<'p> Search<'_, 'p, '_> {
    /// Lists the behaviours of all groups.
    fn list(mut self, seen: &[Seen<'_>], found: &mut Behaviours) {
        let (groups, is_rough) = grouped(self.explored, self.has_native);
        if is_rough {
            "there are too many paths to explain all of them".clone_into(&mut found.note);
        }
        for ((said, text), group) in groups {
            if found.list.len() >= BEHAVIOURS {
                found.note = format!("the policy has more than {BEHAVIOURS} behaviours; the others are not listed");
                break;
            }
            self.add(&said, &text, &group, seen, &mut found.list);
        }
    }

    /// Adds the behaviours of a group.
    fn add(
        &mut self,
        said: &SelectedRules,
        text: &str,
        group: &Group<'p>,
        seen: &[Seen<'_>],
        found: &mut Vec<Behaviour>,
    ) {
        let side = if group.kyverno { Side::Kyverno } else { Side::Native };
        let mut fates: BTreeMap<RequestOutcome, (bool, Option<Shown>)> = BTreeMap::new();
        for seen in seen.iter().filter(|seen| self.belongs(side, said, group, seen)) {
            let fate = match side {
                Side::Kyverno => seen.fate,
                Side::Native => seen.native,
            };
            if said.is_empty() {
                fates.entry(RequestOutcome::LeftAlone).or_default().0 = true;
            } else if let Some(fate) = fate {
                fates.entry(fate).or_default().0 = true;
            }
        }
        for (fate, shown) in self.shown(side, said, group) {
            fates.entry(fate).or_default().1 = Some(shown);
        }
        let cells = self.cells(group);
        for (fate, (exercised, witness)) in fates {
            found.push(Behaviour {
                sides: match (group.kyverno, group.native || !self.has_native) {
                    (true, true) => "both",
                    (true, false) => "kyverno",
                    (false, _) => "vap",
                },
                fate,
                mutates: self.reviewer.mutates(),
                text: describe(&cells, text, fate),
                cells: cells.clone(),
                exercised,
                witness,
            });
        }
    }

    /// Whether a request of the suite takes one of the paths of a group.
    fn belongs(&self, side: Side, said: &SelectedRules, group: &Group<'p>, seen: &Seen<'_>) -> bool {
        let request = seen.request;
        let same = |cell: &RequestClass<'_>| {
            let (ours, theirs) = (cell.resource, &*request.resource);
            (cell.operation, cell.collection) == (request.operation, request.collection)
                && (&ours.group, &ours.version, &ours.plural, &ours.subresource)
                    == (&theirs.group, &theirs.version, &theirs.plural, &theirs.subresource)
        };
        let cells: BTreeSet<usize> = group.places.iter().map(|(at, _)| *at).collect();
        let mut facts = Concrete::new(request, seen.namespace.as_ref());
        side.of(&seen.both) == said
            && cells
                .iter()
                .any(|at| self.explored.get(*at).is_some_and(|(cell, _)| same(cell)))
            && group.literals.iter().all(|(atom, holds)| facts.ask(*atom) == *holds)
    }

    /// Requests of a group, one for each fate.
    fn shown(&mut self, side: Side, said: &SelectedRules, group: &Group<'p>) -> BTreeMap<RequestOutcome, Shown> {
        let mut found: BTreeMap<RequestOutcome, Shown> = BTreeMap::new();
        let number_of_body = said.first().map(|(body, _)| *body);
        let body = number_of_body.and_then(|body| self.sides.bodies.get(body));
        let mut places: Vec<(usize, usize)> = group.places.iter().copied().collect();
        if self.seeds.is_some() {
            // No example is needed of what is left alone, nor of what only the native policy does.
            if said.is_empty() || side == Side::Native {
                return found;
            }
            places.sort_by_key(|(at, _)| self.explored.get(*at).map(|(cell, _)| example::rank(cell)));
        }
        let count = if self.seeds.is_some() { example::PLACES } else { PLACES };
        for &(at, number) in places.iter().take(count) {
            let Some((cell, path)) = self
                .explored
                .get(at)
                .and_then(|(cell, paths)| Some((cell, paths.get(number)?)))
            else {
                continue;
            };
            let Some(witness) = Witness::new(&mut self.solver, cell, &path.literals) else {
                continue;
            };
            let mut objects = self.plans.candidates(cell.resource, number_of_body, false);
            objects = objects.with_seeds(self.seeds.unwrap_or(self.parts));
            let mut pairs = Pairs::new();
            for _ in 0..if said.is_empty() { 1 } else { TRIES } {
                let Some((new, old)) = pairs.next(&mut objects) else {
                    break;
                };
                let mut scenario = witness.scenario(cell, new, old);
                if self.seeds.is_some() {
                    example::keep_metadata(&mut scenario, new);
                }
                self.take(side, said, group, scenario, &mut found);
                if self.is_enough(&found) {
                    return found;
                }
            }
            let Some(body) = body else { continue };
            let least = objects.least();
            for scenario in decorated(&witness.scenario(cell, least, least), body) {
                self.take(side, said, group, scenario, &mut found);
                if self.is_enough(&found) {
                    return found;
                }
            }
        }
        if !said.is_empty() && side == Side::Kyverno {
            self.prove(said, group, &mut found);
        }
        found
    }

    /// Whether nothing more is looked for: of examples, one that complies and one that violates are wanted.
    fn is_enough(&self, found: &BTreeMap<RequestOutcome, Shown>) -> bool {
        if let Some(wanted) = self.reviewer.wanted() {
            return found.len() >= wanted;
        }
        let is_violation = |fate: &RequestOutcome| matches!(fate, RequestOutcome::Violates(_));
        found.contains_key(&RequestOutcome::Complies) && found.keys().any(is_violation)
    }

    /// Asks about a request, and keeps it if it shows something new.
    fn take(
        &mut self,
        side: Side,
        said: &SelectedRules,
        group: &Group<'p>,
        scenario: Scenario,
        found: &mut BTreeMap<RequestOutcome, Shown>,
    ) {
        let reviewed = self.reviewer.review(&scenario);
        let fate = if said.is_empty() {
            let unmatched = reviewed.kyverno.status == Status::NoMatch || side == Side::Native;
            Some(RequestOutcome::LeftAlone).filter(|_| unmatched)
        } else {
            reviewed.fate(side).filter(|fate| *fate != RequestOutcome::LeftAlone)
        };
        let again = reviewed.after(&scenario);
        if let Some(Entry::Vacant(place)) = fate.map(|fate| found.entry(fate))
            // What was added to the request may have led it to another path.
            && follows(&scenario, group)
        {
            self.made += 1;
            let (scenario, reviewed) = self
                .renamed(&scenario, &reviewed, group)
                .unwrap_or((scenario, reviewed));
            place.insert(Shown {
                divergence: self.reviewer.divergence(&scenario, &reviewed),
                native: self.has_native.then_some(reviewed.native),
                scenario,
                kyverno: reviewed.kyverno,
            });
        }
        // A changed object shows whether the policy changes it again.
        if let Some(again) = again.filter(|_| !found.contains_key(&RequestOutcome::Unchanged)) {
            let reviewed = self.reviewer.review(&again);
            if reviewed.fate(side) == Some(RequestOutcome::Unchanged) {
                self.take(side, said, group, again, found);
            }
        }
    }

    /// The same request about an object with a name of its own, if that changes nothing: so that the requests of several
    /// behaviours can stand in one suite.
    fn renamed(&self, scenario: &Scenario, reviewed: &Reviewed, group: &Group<'p>) -> Option<(Scenario, Reviewed)> {
        let name = format!("sample-{}", self.made);
        let mut scenario = scenario.clone();
        let request = &mut scenario.request;
        // The name of a Namespace is a label of it, too.
        if request.collection || request.resource.object_kind.kind == "Namespace" {
            return None;
        }
        for document in [&mut request.object, &mut request.old_object] {
            let mut object = document.root().to_serde();
            if let Some(old) = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("name")) {
                *old = serde_json::Value::from(name.as_str());
                *document = Document::from(&object);
            }
        }
        request.name = name;
        if !follows(&scenario, group) {
            return None;
        }
        let again = self.reviewer.review(&scenario);
        again.is_same(reviewed).then_some((scenario, again))
    }

    fn cells(&self, group: &Group<'p>) -> Vec<String> {
        let cells: BTreeSet<usize> = group.places.iter().map(|(at, _)| *at).collect();
        let cells = cells.iter().filter_map(|at| self.explored.get(*at));
        // Versions of the same resource have the same name.
        let mut known = BTreeSet::new();
        let names = cells.map(|(cell, _)| universe::name(cell));
        names.filter(|name| known.insert(name.clone())).collect()
    }
}

/// Whether a request gives the answers that matter to a group.
fn follows(scenario: &Scenario, group: &Group<'_>) -> bool {
    let namespace = scenario.world.namespace(&scenario.request.namespace);
    let mut facts = Concrete::new(&scenario.request, namespace);
    group.literals.iter().all(|(atom, holds)| facts.ask(*atom) == *holds)
}

/// Describes a behaviour.
fn describe(cells: &[String], literals: &str, fate: RequestOutcome) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = cells.iter().take(SHOWN).map(String::as_str).collect();
    let more = cells.len().saturating_sub(SHOWN);
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
    format!("{}{more}{conditions}: {}", shown.join(", "), fate.as_str())
}
