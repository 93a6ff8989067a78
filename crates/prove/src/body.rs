//! Proofs about any two sets of policies, whatever their texts: for all requests of a class, or here is one.
//!
//! Both sides become formulas about the same unknown request (module `side`), and a solver looks for a request on which one of
//! them has an effect that the other does not have. A request that it finds goes through both engines before it counts; what
//! is not modelled is an unknown value, or makes the answer `UNKNOWN`. No upstream counterpart.
//!
//! What a proof rests on: types, defaults, requirements and non-empty values of built-in kinds
//! (`kyvtest_normalise::schema`), `spec` and `status` of custom kinds that are maps, names and namespaces that both objects of a
//! request share, and a user with a name.

mod build;
mod cel;
mod changed;
mod classic;
#[cfg(test)]
mod differential;
mod document;
pub mod examples;
pub mod explain;
mod formula;
mod hunt;
mod lookup;
pub mod mutation;
mod options;
mod parts;
mod read;
mod refusal;
mod request;
mod shape;
mod side;
mod solve;
mod split;
mod text;
mod value;
mod within;
mod write;

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    compare,
    kube::{Discovery, RequestClass, Resource},
    verdict::{DivergenceClass, Effect, Verdict},
};

use self::{
    build::{Builder, completed, supplied},
    formula::{Arena, Formula},
    hunt::Hunt,
    lookup::{Lookup, Source},
    refusal::{forbidden, not_accepted},
    request::Request,
    solve::{Cut, Model, SolveResult, Solver, Theory},
    value::Unsupported,
};
pub use self::{
    hunt::samples,
    options::Options,
    read::load,
    side::{Setting, Side},
    within::{Reads, reads},
    write::{exception_objects, policy_object},
};
pub(crate) use self::{
    hunt::{Lookups, lookups_of},
    within::Within,
};
use crate::{
    Kind, Label, NEITHER,
    admitted::decoded,
    calls::Calls,
    server::{Data, Refused, Server},
    universe,
    witness::Scenario,
};

/// A request on which both sides were evaluated, and differ. There is no other way to make one than to evaluate both.
#[derive(Debug, Clone)]
pub struct Counterexample {
    scenario: Scenario,
    verdicts: [Verdict; 2],
    class: DivergenceClass,
    data: Data,
    /// The objects after admission, where they are compared.
    objects: [Option<Document>; 2],
    /// Whether each side changed the object.
    changed: [bool; 2],
}

impl Counterexample {
    /// `raw` if the difference shows only on objects that an API server rejects or changes.
    pub fn data(&self) -> Data {
        self.data
    }

    /// The request and the cluster around it.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What each side decides.
    pub fn verdicts(&self) -> &[Verdict; 2] {
        &self.verdicts
    }

    /// How the second side differs from the first.
    pub fn class(&self) -> DivergenceClass {
        self.class
    }
}

/// The answer about two sides.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What is known.
    pub label: Label,
    /// Why it is not more; empty if nothing is missing.
    pub reason: String,
    /// The request on which the sides differ.
    pub counterexample: Option<Box<Counterexample>>,
    /// How many requests went through both engines.
    pub requests: u64,
    /// Whether the engines contradict a proof.
    pub fault: bool,
}

/// Two sides in one cluster.
#[derive(Debug)]
struct Match<'s> {
    sides: [&'s Side; 2],
    /// The kinds of the world.
    discovery: &'s Discovery,
    /// The kinds that are given, without the unknown ones.
    given: &'s Discovery,
    mocks: Mocks,
    /// What both sides look up.
    lookups: Lookups,
    /// Completes the objects of requests.
    server: Server,
    options: &'s Options,
    /// The requests that count; all if `None`.
    within: Option<Within<'s>>,
    /// How many cases the next question may have.
    cases: u64,
    /// How many elements lists have at most; `None` if there may be any number.
    limit: Option<u32>,
    requests: u64,
    /// Requests of models on which the engines do not differ: one of their neighbours may show a difference.
    near: Vec<Scenario>,
}

impl<'s> Match<'s> {
    fn new(sides: [&'s Side; 2], universe: &'s Discovery, given: &'s Discovery, options: &'s Options) -> Self {
        let mut both = Self {
            sides,
            discovery: universe,
            given,
            mocks: Mocks::new(),
            lookups: hunt::lookups(sides),
            server: Server::new(universe, Vec::new()).without_service_accounts(),
            options,
            within: None,
            cases: options.cases,
            limit: None,
            requests: 0,
            near: Vec::new(),
        };
        both.mocks = both.host(&[], &Calls::default());
        both
    }

    /// A host that answers what is looked up.
    fn host(&self, objects: &[Document], calls: &Calls) -> Mocks {
        let mut mocks = Mocks::new();
        if let Some(now) = self.options.now {
            mocks.set_now(now);
        }
        self.lookups.answer(objects, &mut mocks);
        calls.answer(&mut mocks);
        mocks
    }

    /// Whether a request can be sent in the world of the comparison.
    fn can_send(&self, scenario: &Scenario) -> bool {
        self.options.data == Data::Raw || decoded(scenario, &self.server).is_ok()
    }

    /// Evaluates a request on both sides; `None` if the effects are the same.
    fn replay(&mut self, scenario: Scenario) -> Option<Counterexample> {
        if self.within.is_some_and(|within| !within.has(&scenario)) {
            return None;
        }
        self.requests += 1;
        let own;
        let mocks = if self.lookups.reads_objects() || !scenario.calls.is_empty() {
            // Parameters and what is looked up are the same objects.
            own = self.host(&scenario.world.params, &scenario.calls);
            &own
        } else {
            &self.mocks
        };
        let verdicts = self.sides.map(|side| side.decide(&scenario, self.discovery, mocks));
        if verdicts[0].effect == verdicts[1].effect {
            return None;
        }
        if self.options.counts.is_some_and(|counts| !counts(verdicts[1].status)) {
            return None;
        }
        let class = compare::class(&verdicts[0], &verdicts[1])?;
        Some(Counterexample {
            scenario,
            verdicts,
            class,
            data: Data::Raw,
            objects: [None, None],
            changed: [false; 2],
        })
    }

    /// Evaluates a request as the API server shows it to admission; `None` if it refuses the objects or the effects are the
    /// same.
    fn replay_admitted(&mut self, scenario: &Scenario) -> Option<Counterexample> {
        let seen = decoded(scenario, &self.server).ok()?;
        let mut found = self.replay(seen)?;
        found.data = Data::Normalised;
        Some(found)
    }

    /// Evaluates a request as the API server shows it to admission, and if it refuses the objects, a completed one.
    ///
    /// # Errors
    /// The server's last refusal, if the effects are not shown to differ.
    fn replay_or_complete(&mut self, scenario: &Scenario) -> Result<Counterexample, Option<Refused>> {
        let Err(first) = decoded(scenario, &self.server) else {
            return self.replay_admitted(scenario).ok_or(None);
        };
        let mut completed = completed(scenario);
        if let Some(found) = self.replay_admitted(&completed) {
            return Ok(found);
        }
        for _ in 0..SUPPLIES {
            let refusal = decoded(&completed, &self.server).err();
            let Some(further) = refusal.and_then(|refusal| supplied(&completed, &refusal)) else {
                break;
            };
            completed = further;
            if let Some(found) = self.replay_admitted(&completed) {
                return Ok(found);
            }
        }
        Err(Some(decoded(&completed, &self.server).err().unwrap_or(first)))
    }
}

/// What is known about one class of requests.
enum Found {
    Equal,
    Differs(Box<Counterexample>),
    Open(Open),
}

/// Why a class is not decided.
struct Open {
    cause: Cause,
    reason: String,
}

/// What keeps a class from being decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Something that is not modelled.
    Unsupported,
    Budget,
    /// Lists that may have any number of elements.
    Lists,
    /// A difference that no request shows: a function of which nothing is known, or objects that a server refuses.
    NotShown,
}

impl Open {
    fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }
}

/// Why a class is not modelled in a version: the sides see another one.
const CONVERTED: &str = "objects that are converted to another version";

/// What part of the cases a question has once a class is open.
const LATER: u64 = 16;

/// How many elements lists have where any number is too many, the largest number first.
const BOUNDS: [u32; 3] = [3, 2, 1];

/// What part of the cases a question about short lists has.
const WITHIN: u64 = 4;

/// How often a request is completed by what its refusals name.
const SUPPLIES: usize = 3;

/// What part of the tries the neighbours of one model get.
const NEIGHBOURS: u64 = 3;

/// How many models' neighbours are tried.
const NEAR: usize = 24;

/// How many models are tried before a class is left open.
const MODELS: usize = 12;

/// Compares two sets of policies.
pub fn compare_sides(a: &Side, b: &Side, discovery: &Discovery, options: &Options) -> Comparison {
    compare_within(a, b, discovery, options, None)
}

/// Compares two sets of policies on some requests.
fn compare_within(
    a: &Side,
    b: &Side,
    discovery: &Discovery,
    options: &Options,
    within: Option<Within<'_>>,
) -> Comparison {
    let universe = universe::with_unknown(discovery);
    let mut both = Match::new([a, b], &universe, discovery, options);
    both.within = within;
    let mut theory = Theory::default();
    let mut undecided: Vec<(RequestClass<'_>, Open)> = Vec::new();
    let mut decided: Vec<RequestClass<'_>> = Vec::new();
    let cells = universe::cells(&universe);
    let cells = cells.into_iter().filter(|cell| match within {
        Some(within) => within.is_about(cell),
        None => options.collections || !cell.collection,
    });
    for cell in cells {
        if !a.may_see(&cell, &universe) && !b.may_see(&cell, &universe) {
            continue;
        }
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        match both.class(cell, &mut theory) {
            Found::Equal => decided.push(cell),
            Found::Differs(found) => return both.refuted(*found),
            Found::Open(open) => {
                // Nothing can be proven any more, and differences are found early or not at all.
                both.cases = options.cases / LATER;
                undecided.push((cell, open));
                if options.tries == 0 {
                    return both.undecided(&undecided, decided.len(), None);
                }
            }
        }
    }
    let k = match both.within_bounds(&undecided, &mut theory) {
        Ok(k) => k,
        Err(found) => return both.refuted(*found),
    };
    let mut hunt = Hunt::new(a, b, options.now);
    for near in std::mem::take(&mut both.near) {
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        if let Some(found) = hunt.search_near(&mut both, &near, options.tries / NEIGHBOURS)
            && k.is_none()
        {
            return both.refuted(found);
        }
    }
    for (cell, _) in &undecided {
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        if let Some(found) = hunt.search(&mut both, cell, options.tries) {
            let within = |k: u32| longest_list(&found.scenario.request) <= k as usize;
            return if k.is_some_and(within) {
                both.contradicted(cell, found)
            } else {
                both.refuted(found)
            };
        }
    }
    for cell in decided.iter().filter(|_| undecided.is_empty()) {
        if options.is_stopped() {
            return both.stopped(0);
        }
        if let Some(found) = hunt.search(&mut both, cell, options.checks) {
            return both.contradicted(cell, found);
        }
    }
    both.undecided(&undecided, decided.len(), k)
}

/// How many elements the longest list in a request's objects has.
fn longest_list(request: &kyvtest_model::kube::Request) -> usize {
    fn longest(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Array(items) => items.iter().map(longest).max().unwrap_or_default().max(items.len()),
            serde_json::Value::Object(entries) => entries.values().map(longest).max().unwrap_or_default(),
            _ => 0,
        }
    }
    let objects = [&request.object, &request.old_object];
    let longest = objects.map(|object| longest(&object.root().to_serde()));
    longest[0].max(longest[1])
}

impl Match<'_> {
    fn answer(&self, label: Label, reason: String) -> Comparison {
        Comparison {
            label,
            reason,
            counterexample: None,
            requests: self.requests,
            fault: false,
        }
    }

    /// Nothing is claimed by a comparison that was cut short.
    fn stopped(&self, decided: usize) -> Comparison {
        let reason = format!("stopped after {decided} request classes without a difference");
        self.answer(Label::Unknown, reason)
    }

    fn contradicted(&self, cell: &RequestClass<'_>, found: Counterexample) -> Comparison {
        let reason = format!("the engines contradict a proof on {}", universe::name(cell));
        Comparison {
            counterexample: Some(Box::new(found)),
            fault: true,
            ..self.answer(Label::Unknown, reason)
        }
    }

    /// The answer if no request was found on which the sides differ.
    fn undecided(&self, open: &[(RequestClass<'_>, Open)], decided: usize, k: Option<u32>) -> Comparison {
        let mut reasons: Vec<&str> = Vec::new();
        for (_, open) in open {
            if !reasons.contains(&open.reason.as_str()) {
                reasons.push(&open.reason);
            }
        }
        let reasons = reasons.join("; ");
        if open.is_empty() {
            let reason = if decided == 0 { NEITHER } else { "" };
            return self.answer(Label::Proven, reason.to_owned());
        }
        if let Some(k) = k {
            let elements = if k == 1 { "element" } else { "elements" };
            let reason = format!("every list that both sides read has at most {k} {elements}: {reasons}");
            return self.answer(Label::Bounded { k }, reason);
        }
        if open.iter().any(|(_, open)| open.cause == Cause::Budget) {
            let (all, requests) = (decided + open.len(), self.requests);
            let reason = format!(
                "budget: {reasons}; covered: {decided} of {all} request classes, and {requests} requests without a difference"
            );
            return self.answer(Label::Unknown, reason);
        }
        self.answer(Label::Tested { tested: self.requests }, reasons)
    }

    /// Decides classes for lists that are not longer than a number: the largest number for which all of them are decided.
    fn within_bounds(
        &mut self,
        open: &[(RequestClass<'_>, Open)],
        theory: &mut Theory,
    ) -> Result<Option<u32>, Box<Counterexample>> {
        if open.is_empty() || open.iter().any(|(_, open)| open.cause == Cause::NotShown) {
            return Ok(None);
        }
        let before = self.cases;
        self.cases = self.options.cases / WITHIN;
        for k in BOUNDS {
            self.limit = Some(k);
            let mut all = true;
            for (cell, _) in open {
                match self.class(*cell, theory) {
                    Found::Equal => {}
                    Found::Differs(found) => return Err(found),
                    Found::Open(open) => {
                        all = false;
                        if open.cause != Cause::Budget {
                            // Shorter lists do not help.
                            self.limit = None;
                            self.cases = before;
                            return Ok(None);
                        }
                        break;
                    }
                }
            }
            if all {
                self.limit = None;
                self.cases = before;
                return Ok(Some(k));
            }
        }
        self.limit = None;
        self.cases = before;
        Ok(None)
    }

    fn refuted(&self, found: Counterexample) -> Comparison {
        Comparison {
            counterexample: Some(Box::new(found.clone())),
            ..self.answer(Label::Refuted(Kind::of(found.class)), String::new())
        }
    }

    /// Decides a class of requests, in the version of the objects that both sides see.
    fn class<'d>(&mut self, cell: RequestClass<'d>, theory: &mut Theory) -> Found
    where
        Self: 'd,
    {
        let discovery = self.discovery;
        let mut found = self.class_as(cell, cell.resource, theory);
        for other in discovery.equivalents(cell.resource) {
            if !matches!(&found, Found::Open(open) if open.reason.ends_with(CONVERTED)) {
                break;
            }
            found = self.class_as(RequestClass { ..cell }, other, theory);
        }
        found
    }

    fn class_as(&mut self, cell: RequestClass<'_>, seen: &Resource, theory: &mut Theory) -> Found {
        let mut arena = Arena::with_limit(self.limit);
        let mut request = Request::new(&mut arena, cell, seen, self.options.data);
        for (atom, holds) in self.within.iter().flat_map(|within| within.facts) {
            let fact = request.question(&mut arena, *atom);
            let fact = if *holds { fact } else { arena.not(fact) };
            request.assumptions.push(fact);
        }
        let discovery = self.discovery;
        let first = self.sides[0].model(&mut arena, &request, discovery);
        let second = self.sides[1].model(&mut arena, &request, discovery);
        let (first, second) = match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(Unsupported(what)), _) | (_, Err(Unsupported(what))) => {
                return Found::Open(Open::new(Cause::Unsupported, format!("not modelled: {what}")));
            }
        };
        if self.options.counts.is_some() {
            // A suite can only have answers of services that are maps.
            for Lookup { place, source, .. } in arena.lookups().to_vec() {
                if matches!(source, Source::Service { .. }) {
                    request.assumptions.push(arena.is_kind(place, shape::Kind::Map));
                }
            }
        }
        let mut open: Option<Open> = None;
        let within = arena.within_limit();
        for effect in [Effect::Deny, Effect::Audit, Effect::Warn] {
            let (ours, theirs) = (first.at_least(&mut arena, effect), second.at_least(&mut arena, effect));
            if ours == theirs {
                continue;
            }
            let (not_ours, not_theirs) = (arena.not(ours), arena.not(theirs));
            for (yes, no) in [(ours, not_theirs), (theirs, not_ours)] {
                match self.question(&mut arena, theory, &request, [within, yes, no]) {
                    Found::Equal => {}
                    Found::Differs(found) => return Found::Differs(found),
                    // One that no request shows is the last word about the class.
                    Found::Open(found) if open.as_ref().is_none_or(|open| open.cause != Cause::NotShown) => {
                        open = Some(found);
                    }
                    Found::Open(_) => {}
                }
            }
        }
        open.map_or(Found::Equal, Found::Open)
    }

    /// Looks for a request on which one side has an effect, the other has not, and the engines differ.
    fn question(
        &mut self,
        arena: &mut Arena,
        theory: &mut Theory,
        request: &Request<'_>,
        [within, yes, no]: [Formula; 3],
    ) -> Found {
        let base = arena.and(request.assumptions.iter().copied().chain([within]));
        let goal = arena.and([base, yes, no]);
        let mut budget = self.cases;
        let mut first = Some([base, yes, no]);
        let mut refused = Vec::new();
        let mut reason = String::new();
        for _ in 0..MODELS {
            if self.options.is_stopped() {
                return Found::Open(Open::new(Cause::Unsupported, "stopped"));
            }
            let answer = if let Some(question) = first.take() {
                parts::solve(arena, theory, question, &mut budget)
            } else {
                let mut solver = Solver::new(arena, theory, &mut budget);
                solver.refused.clone_from(&refused);
                solver.solve(goal)
            };
            match answer {
                SolveResult::No if refused.is_empty() => return Found::Equal,
                SolveResult::No => return Found::Open(Open::new(Cause::NotShown, reason)),
                SolveResult::Incomplete(_) if !reason.is_empty() => {
                    return Found::Open(Open::new(Cause::NotShown, reason));
                }
                SolveResult::Incomplete(cut) => {
                    let cause = match cut {
                        Cut::Budget => Cause::Budget,
                        Cut::Elements => Cause::Lists,
                    };
                    let reason = format!("gave up on {}: {}", universe::name(&request.cell), cut.as_str());
                    return Found::Open(Open::new(cause, reason));
                }
                SolveResult::Yes(model) => {
                    let scenario = Builder::new(arena, theory, &model).scenario(request);
                    let refusal = match self.replay_or_complete(&scenario) {
                        Ok(found) => return Found::Differs(Box::new(found)),
                        Err(refusal) => refusal,
                    };
                    let near = if refusal.is_some() {
                        completed(&scenario)
                    } else {
                        scenario.clone()
                    };
                    match self.replay(scenario) {
                        Some(found) if self.options.data == Data::Raw => return Found::Differs(Box::new(found)),
                        Some(_) => {
                            reason = not_accepted(refusal.as_ref());
                            refused.extend(forbidden(arena, &model, refusal.as_ref()));
                        }
                        None => {
                            if self.near.len() < NEAR {
                                self.near.push(near);
                            }
                            if reason.is_empty() {
                                "a possible difference could not be shown on a request".clone_into(&mut reason);
                            }
                        }
                    }
                    refused.push(other(arena, &model));
                }
            }
        }
        Found::Open(Open::new(Cause::NotShown, reason))
    }
}

/// The formula that a model does not fit again.
fn other(arena: &mut Arena, model: &Model) -> Formula {
    let mut literals = Vec::new();
    for atom in &model.order {
        let literal = arena.signed(*atom, model.values[atom]);
        literals.push(arena.not(literal));
    }
    arena.or(literals)
}
