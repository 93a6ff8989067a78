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
mod classic;
#[cfg(test)]
mod differential;
pub mod explain;
mod formula;
mod hunt;
mod read;
mod request;
mod shape;
mod side;
mod solve;
mod text;
mod value;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kyvtest_cel::host::Mocks;
use kyvtest_model::{
    compare,
    kube::{Discovery, RequestClass, Resource},
    verdict::{DivergenceClass, Effect, Verdict},
};

use self::{
    build::Builder,
    formula::{Arena, Formula},
    hunt::Hunt,
    request::Request,
    solve::{Model, SolveResult, Solver, Theory},
    value::Unsupported,
};
pub use self::{
    hunt::samples,
    side::{Setting, Side},
};
use crate::{
    Kind, Label, NEITHER,
    admitted::decoded,
    server::{Data, Server},
    universe,
    witness::Scenario,
};

/// How to compare two sides.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which objects a difference may be shown on.
    pub data: Data,
    /// Whether deletions of collections belong to the world.
    pub collections: bool,
    /// How many cases one question may have.
    pub cases: u64,
    /// How many requests of each class are tried where nothing is proven.
    pub tries: u64,
    /// How many requests of each class are tried against a proof.
    pub checks: u64,
    /// Cancels the comparison when set: the answer is then `UNKNOWN`.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Data::Normalised,
            collections: true,
            cases: 8_000,
            tries: 300,
            checks: 300,
            stop: None,
        }
    }
}

/// A request on which both sides were evaluated, and differ. There is no other way to make one than to evaluate both.
#[derive(Debug, Clone)]
pub struct Counterexample {
    scenario: Scenario,
    verdicts: [Verdict; 2],
    class: DivergenceClass,
    data: Data,
}

impl Counterexample {
    /// `raw` if the difference shows only on objects that an API server refuses or changes.
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
    /// Completes the objects of requests.
    server: Server,
    options: &'s Options,
    /// How many cases the next question may have.
    cases: u64,
    requests: u64,
}

impl<'s> Match<'s> {
    fn new(sides: [&'s Side; 2], universe: &'s Discovery, given: &'s Discovery, options: &'s Options) -> Self {
        Self {
            sides,
            discovery: universe,
            given,
            mocks: Mocks::new(),
            server: Server::new(universe, Vec::new()).without_service_accounts(),
            options,
            cases: options.cases,
            requests: 0,
        }
    }

    /// Whether a request can be sent in the world of the comparison.
    fn can_send(&self, scenario: &Scenario) -> bool {
        self.options.data == Data::Raw || decoded(scenario, &self.server).is_ok()
    }

    /// Evaluates a request on both sides; `None` if the effects are the same.
    fn replay(&mut self, scenario: Scenario) -> Option<Counterexample> {
        self.requests += 1;
        let verdicts = self
            .sides
            .map(|side| side.decide(&scenario, self.discovery, &self.mocks));
        if verdicts[0].effect == verdicts[1].effect {
            return None;
        }
        let class = compare::class(&verdicts[0], &verdicts[1])?;
        Some(Counterexample {
            scenario,
            verdicts,
            class,
            data: Data::Raw,
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
}

/// What is known about one class of requests.
enum Found {
    Equal,
    Differs(Box<Counterexample>),
    Open(String),
}

/// Why a class is not modelled in a version: the sides see another one.
const CONVERTED: &str = "objects that are converted to another version";

/// What part of the cases a question has once a class is open.
const LATER: u64 = 16;

/// How many models are tried before a class is left open.
const MODELS: usize = 12;

/// Compares two sets of policies.
pub fn compare_sides(a: &Side, b: &Side, discovery: &Discovery, options: &Options) -> Comparison {
    let universe = universe::with_unknown(discovery);
    let mut both = Match::new([a, b], &universe, discovery, options);
    let mut theory = Theory::default();
    let mut open: Vec<String> = Vec::new();
    let mut undecided: Vec<RequestClass<'_>> = Vec::new();
    let mut decided: Vec<RequestClass<'_>> = Vec::new();
    let cells = universe::cells(&universe);
    let cells = cells.into_iter().filter(|cell| options.collections || !cell.collection);
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
            Found::Open(reason) => {
                // Nothing can be proven any more, and differences are found early or not at all.
                both.cases = options.cases / LATER;
                undecided.push(cell);
                if !open.contains(&reason) {
                    open.push(reason);
                }
            }
        }
    }
    let mut hunt = Hunt::new(a, b);
    for cell in &undecided {
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        if let Some(found) = hunt.search(&mut both, cell, options.tries) {
            return both.refuted(found);
        }
    }
    if !open.is_empty() {
        return Comparison {
            label: Label::Tested { tested: both.requests },
            reason: open.join("; "),
            counterexample: None,
            requests: both.requests,
            fault: false,
        };
    }
    for cell in &decided {
        if options.is_stopped() {
            return both.stopped(0);
        }
        if let Some(found) = hunt.contradict(&mut both, cell, options.checks) {
            let reason = format!("the engines contradict a proof on {}", universe::name(cell));
            return Comparison {
                label: Label::Unknown,
                reason,
                counterexample: Some(Box::new(found)),
                requests: both.requests,
                fault: true,
            };
        }
    }
    let reason = if decided.is_empty() { NEITHER } else { "" };
    Comparison {
        label: Label::Proven,
        reason: reason.to_owned(),
        counterexample: None,
        requests: both.requests,
        fault: false,
    }
}

impl Match<'_> {
    /// Nothing is claimed by a comparison that was cut short.
    fn stopped(&self, decided: usize) -> Comparison {
        Comparison {
            label: Label::Unknown,
            reason: format!("stopped after {decided} request classes without a difference"),
            counterexample: None,
            requests: self.requests,
            fault: false,
        }
    }

    fn refuted(&self, found: Counterexample) -> Comparison {
        Comparison {
            label: Label::Refuted(Kind::of(found.class)),
            reason: String::new(),
            requests: self.requests,
            counterexample: Some(Box::new(found)),
            fault: false,
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
            if !matches!(&found, Found::Open(reason) if reason.ends_with(CONVERTED)) {
                break;
            }
            found = self.class_as(RequestClass { ..cell }, other, theory);
        }
        found
    }

    fn class_as(&mut self, cell: RequestClass<'_>, seen: &Resource, theory: &mut Theory) -> Found {
        let mut arena = Arena::new();
        let request = Request::new(&mut arena, cell, seen, self.options.data);
        let discovery = self.discovery;
        let first = self.sides[0].model(&mut arena, &request, discovery);
        let second = self.sides[1].model(&mut arena, &request, discovery);
        let (first, second) = match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(Unsupported(what)), _) | (_, Err(Unsupported(what))) => {
                return Found::Open(format!("not modelled: {what}"));
            }
        };
        let mut open = None;
        for effect in [Effect::Deny, Effect::Audit, Effect::Warn] {
            let (ours, theirs) = (first.at_least(&mut arena, effect), second.at_least(&mut arena, effect));
            if ours == theirs {
                continue;
            }
            let (not_ours, not_theirs) = (arena.not(ours), arena.not(theirs));
            for (yes, no) in [(ours, not_theirs), (not_ours, theirs)] {
                let differs = arena.and([yes, no]);
                match self.question(&mut arena, theory, &request, differs) {
                    Found::Equal => {}
                    Found::Differs(found) => return Found::Differs(found),
                    Found::Open(reason) => open = Some(reason),
                }
            }
        }
        open.map_or(Found::Equal, Found::Open)
    }

    /// Looks for a request on which a formula holds and the engines differ.
    fn question(&mut self, arena: &mut Arena, theory: &mut Theory, request: &Request<'_>, formula: Formula) -> Found {
        let goal = arena.and(request.assumptions.iter().copied().chain([formula]));
        let mut budget = self.cases;
        let mut refused = Vec::new();
        let mut reason = String::new();
        for _ in 0..MODELS {
            if self.options.is_stopped() {
                return Found::Open("stopped".to_owned());
            }
            let answer = {
                let mut solver = Solver::new(arena, theory, &mut budget);
                solver.refused.clone_from(&refused);
                solver.solve(goal)
            };
            match answer {
                SolveResult::No if refused.is_empty() => return Found::Equal,
                SolveResult::No => return Found::Open(reason),
                SolveResult::Incomplete(why) => {
                    let gave_up = || format!("gave up on {}: {why}", universe::name(&request.cell));
                    return Found::Open(if reason.is_empty() { gave_up() } else { reason });
                }
                SolveResult::Yes(model) => {
                    let scenario = Builder::new(arena, theory, &model).scenario(request);
                    if let Some(found) = self.replay_admitted(&scenario) {
                        return Found::Differs(Box::new(found));
                    }
                    match self.replay(scenario) {
                        Some(found) if self.options.data == Data::Raw => return Found::Differs(Box::new(found)),
                        Some(_) => {
                            "a difference was found only on objects that an API server refuses".clone_into(&mut reason);
                        }
                        None => {
                            if reason.is_empty() {
                                "a possible difference could not be shown on a request".clone_into(&mut reason);
                            }
                        }
                    }
                    refused.push(other(arena, &model));
                }
            }
        }
        Found::Open(reason)
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
