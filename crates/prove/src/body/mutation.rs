//! Proofs about policies that change objects: are the objects after admission the same, whichever of two sets is installed?
//!
//! Per class of requests three questions are decided. Both sides must change, and refuse, the same requests: formulas about
//! matching, exceptions and conditions, as for validation (module `applied`). Where they change one, the mutations must be the
//! same texts, and nothing that the two engines do differently with the same text may show (module `guards`). What is left
//! open is searched with the concrete engines of both sides ([`crate::mutation`]), and so is every proof. No upstream
//! counterpart.
//!
//! What a proof rests on, beyond [`super`]: plugins of the API server that run again change nothing that they have changed
//! before; a side has its policies in the given order.
//!
//! Known limits: several policies that change the same requests are searched only.

mod applied;
mod guards;
mod hunt;
mod objects;
mod paths;
mod sequence;
mod side;

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    compare::{Divergence, Mutation as Outcome, compare_mutations},
    kube::{Discovery, Environment, Operation, RequestClass},
    policy::{Loaded, Policy},
    verdict::DivergenceClass,
};
use kyvtest_patch::strategic::is_stable;
use serde_json::Value as Json;

use self::applied::Applied;
pub use self::{hunt::parts, side::MutatingSide};
use super::{
    CONVERTED, Comparison, Counterexample, Options, Setting, Side,
    build::Builder,
    compare_sides,
    document::difference,
    formula::{Arena, Formula},
    other,
    request::Request,
    shape::Shape,
    solve::{SolveResult, Solver, Theory},
    value::{Unsupported, unsupported},
};
use crate::{
    Kind, Label, NEITHER,
    mutation::{Phases, Prepared, named_places},
    server::{Data, Server},
    universe,
    witness::Scenario,
};

/// Two sides in one cluster.
pub(super) struct Both<'s> {
    sides: [&'s MutatingSide; 2],
    discovery: &'s Discovery,
    server: Server,
    options: &'s Options,
    requests: u64,
    /// Whether a rule of a side merges strategically.
    merges: bool,
}

/// What is known about one class of requests.
enum Found {
    Equal,
    Differs(Box<Counterexample>),
    Open(String),
}

/// What proofs about strategic merges assume of objects.
pub const ASSUMED: &str = "assumed: lists that a strategic merge joins by keys have every key once";

/// Why a class is left open: what may differ.
const APPLY: &str = "the sides may apply to different requests";
const DENY: &str = "one side may deny requests that the other one admits";
const DIFFER: &str = "the objects may differ";

/// How many models are tried before a class is left open.
const MODELS: usize = 6;

/// Compares two sets of policies that change objects. `samples` are objects that the user has: a search starts from them.
pub fn compare_mutating_sides(
    a: &MutatingSide,
    b: &MutatingSide,
    samples: &[Json],
    discovery: &Discovery,
    options: &Options,
) -> Comparison {
    let universe = universe::with_unknown(discovery);
    let mut both = Both::new([a, b], &universe, options);
    let mut open: Vec<String> = Vec::new();
    let (mut undecided, mut decided): (Vec<RequestClass<'_>>, Vec<RequestClass<'_>>) = (Vec::new(), Vec::new());
    let same = a.is_same(b);
    for cell in universe::cells(&universe) {
        if !a.may_see(&cell, &universe) && !b.may_see(&cell, &universe) {
            continue;
        }
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        match if same { Found::Equal } else { both.class(cell) } {
            Found::Equal => decided.push(cell),
            Found::Differs(found) => {
                let found = hunt::shrink(&mut both, *found);
                return both.refuted(found);
            }
            Found::Open(reason) => {
                undecided.push(cell);
                if !open.contains(&reason) {
                    open.push(reason);
                }
            }
        }
    }
    let mut hunt = hunt::Hunt::new([a, b], samples);
    for cell in undecided.iter().filter(|cell| shows(cell)) {
        if options.is_stopped() {
            return both.stopped(decided.len());
        }
        if let Some(found) = hunt.search(&mut both, cell, options.tries) {
            let found = hunt::shrink(&mut both, found);
            return both.refuted(found);
        }
    }
    for cell in decided.iter().filter(|cell| shows(cell)) {
        if options.is_stopped() {
            return both.stopped(0);
        }
        if let Some(found) = hunt.search(&mut both, cell, options.checks) {
            return Comparison {
                label: Label::Unknown,
                reason: format!("the engines contradict a proof on {}", universe::name(cell)),
                counterexample: Some(Box::new(found)),
                requests: both.requests,
                fault: true,
            };
        }
    }
    let (label, reason) = if open.is_empty() {
        let reason = match (decided.is_empty(), both.merges && !same) {
            (true, _) => NEITHER,
            (false, true) => ASSUMED,
            (false, false) => "",
        };
        (Label::Proven, reason.to_owned())
    } else {
        (Label::Tested { tested: both.requests }, open.join("; "))
    };
    Comparison {
        label,
        reason,
        counterexample: None,
        requests: both.requests,
        fault: false,
    }
}

/// Compares two sets of policies of which some change objects. What validates is compared as well: it sees the same objects
/// on both sides if those are the same after mutation.
pub fn compare_loaded(
    [a, b]: [(Loaded, Vec<Document>); 2],
    samples: &[Json],
    discovery: &Discovery,
    setting: &Setting,
    options: &Options,
) -> Comparison {
    let side = |loaded: &Loaded| MutatingSide::new(loaded.clone(), discovery, setting.layer);
    let mutated = match (side(&a.0), side(&b.0)) {
        (Ok(a), Ok(b)) => compare_mutating_sides(&a, &b, samples, discovery, options),
        (Err(reason), _) | (_, Err(reason)) => return unknown(reason),
    };
    if matches!(mutated.label, Label::Refuted(_)) || mutated.fault || !(validates(&a.0) || validates(&b.0)) {
        return mutated;
    }
    let rest = |(mut loaded, objects): (Loaded, Vec<Document>)| {
        let changes = |policy: &Policy| policy.as_mutating().is_some() || policy.as_native_mutating().is_some();
        loaded.policies.retain(|policy| !changes(policy));
        loaded.mutating_bindings.clear();
        Side::with_setting(loaded, objects, discovery, setting)
    };
    let validated = match (rest(a), rest(b)) {
        (Ok(a), Ok(b)) => compare_sides(&a, &b, discovery, options),
        (Err(reason), _) | (_, Err(reason)) => return unknown(reason),
    };
    weaker(mutated, validated)
}

fn unknown(reason: String) -> Comparison {
    Comparison {
        label: Label::Unknown,
        reason,
        counterexample: None,
        requests: 0,
        fault: false,
    }
}

/// Whether one of the policies validates requests.
fn validates(loaded: &Loaded) -> bool {
    !loaded.bindings.is_empty()
        || loaded.policies.iter().any(|policy| match policy {
            Policy::Classic(policy) => policy.spec.rules.iter().any(|rule| rule.mutate.is_none()),
            other => other.as_validating().is_some() || other.as_native().is_some(),
        })
}

/// The weaker of two claims about the same policies, with the reasons of both.
fn weaker(one: Comparison, other: Comparison) -> Comparison {
    let requests = one.requests + other.requests;
    let strength = |found: &Comparison| match found.label {
        Label::Refuted(_) => None,
        ref label => Some(label.strength().unwrap_or(0)),
    };
    let (mut weak, strong) = if strength(&other) < strength(&one) {
        (other, one)
    } else {
        (one, other)
    };
    weak.requests = requests;
    if let Label::Tested { tested } = &mut weak.label {
        *tested = requests;
    }
    if matches!(weak.label, Label::Tested { .. }) && !strong.reason.is_empty() && strong.label != Label::Proven {
        weak.reason = format!("{}; {}", weak.reason, strong.reason);
    }
    weak
}

/// Requests on which two sets of policies differ, the first of each kind of difference, with the classes that have it.
pub fn differences<'d>(
    a: &MutatingSide,
    b: &MutatingSide,
    samples: &[Json],
    universe: &'d Discovery,
    options: &Options,
    mut kind: impl FnMut(&Counterexample) -> Option<String>,
) -> Vec<(Counterexample, Vec<RequestClass<'d>>)> {
    let mut both = Both::new([a, b], universe, options);
    let mut hunt = hunt::Hunt::new([a, b], samples);
    let mut all: Vec<(Counterexample, Vec<RequestClass<'d>>)> = Vec::new();
    for cell in universe::cells(universe) {
        if cell.collection || !a.may_see(&cell, universe) && !b.may_see(&cell, universe) || options.is_stopped() {
            continue;
        }
        if !shows(&cell) {
            continue;
        }
        let found = match both.class(cell) {
            Found::Differs(found) => Some(*found),
            Found::Equal => None,
            Found::Open(_) => hunt.search(&mut both, &cell, options.tries),
        };
        let Some(found) = found else {
            continue;
        };
        let own = (found.class(), kind(&found));
        match all.iter_mut().find(|(other, _)| (other.class(), kind(other)) == own) {
            Some((_, cells)) => cells.push(cell),
            None => all.push((hunt::shrink(&mut both, found), vec![cell])),
        }
    }
    all
}

impl<'s> Both<'s> {
    fn new(sides: [&'s MutatingSide; 2], discovery: &'s Discovery, options: &'s Options) -> Self {
        Self {
            sides,
            discovery,
            server: Server::new(discovery, Vec::new()).without_service_accounts(),
            options,
            requests: 0,
            merges: sides.iter().any(|side| side.merges()),
        }
    }

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

    /// Sends a request through both sides; `None` if the objects after admission are the same, or the server rejects the
    /// request before any policy.
    fn replay(&mut self, scenario: &Scenario) -> Option<Counterexample> {
        if !shows(&scenario.request.cell()) {
            return None;
        }
        if !is_of_subresource(&scenario.request) {
            return None;
        }
        let data = self.options.data;
        let prepared = Prepared::new(&self.server, &scenario.request, data);
        if prepared.refused.is_some() {
            return None;
        }
        if data == Data::Normalised && scenario.request.operation != Operation::Delete {
            // Objects that no server accepts show nothing.
            let mut admitted = scenario.request.clone();
            self.server.admit(&mut admitted).ok()?;
        }
        // Proofs assume that a strategic merge changes nothing but what its patch names.
        let object = prepared.request.object.root();
        if self.merges && !object.is_null() && !is_stable(object) {
            return None;
        }
        self.requests += 1;
        let mocks = Mocks::new();
        let phases = Phases {
            server: &self.server,
            prepared: &prepared,
            environment: Environment::new(&scenario.world, self.discovery, &mocks),
        };
        let [ours, theirs] = self.sides.map(|side| {
            let mut after = side.run(phases);
            after.object = after.object.map(|object| kept(&scenario.request, object));
            after
        });
        let divergence = compare_mutations(ours.outcome(), theirs.outcome(), &[])?;
        Some(counterexample(scenario.clone(), [ours, theirs], divergence.class, data))
    }

    /// Decides a class of requests.
    fn class(&mut self, cell: RequestClass<'_>) -> Found {
        let discovery = self.discovery;
        let mut found = self.class_as(cell, cell.resource);
        for other in discovery.equivalents(cell.resource) {
            if !matches!(&found, Found::Open(reason) if reason.ends_with(CONVERTED)) {
                break;
            }
            found = self.class_as(RequestClass { ..cell }, other);
        }
        found
    }

    fn class_as(&mut self, cell: RequestClass<'_>, seen: &kyvtest_model::kube::Resource) -> Found {
        let mut arena = Arena::new();
        let request = Request::new(&mut arena, cell, seen, self.options.data);
        if self.merges {
            let kind = &seen.object_kind;
            arena.set_merged(kind.api_version(), kind.kind.clone());
        }
        let applied = self
            .sides
            .map(|side| side.applied(&mut arena, &request, self.discovery));
        let [ours, theirs] = match applied {
            [Ok(ours), Ok(theirs)] => [ours, theirs],
            [Err(Unsupported(what)), _] | [_, Err(Unsupported(what))] => {
                return Found::Open(format!("not modelled: {what}"));
            }
        };
        let rules = !ours.rules.is_empty() || !theirs.rules.is_empty();
        let by_text = if rules {
            Found::Open(String::new())
        } else {
            self.by_text(&mut arena, &request, [&ours, &theirs])
        };
        let Found::Open(reason) = by_text else {
            return by_text;
        };
        match self.by_object(&mut arena, &request, [&ours, &theirs]) {
            Ok(Found::Open(own)) => Found::Open(own),
            Ok(found) => found,
            Err(Unsupported(what)) if reason.is_empty() || reason == guards::DIFFERENT => {
                Found::Open(format!("not modelled: {what}"))
            }
            Err(_) => Found::Open(reason),
        }
    }

    /// Decides a class by the texts of the mutations: the same requests are changed, and the same text changes them alike.
    fn by_text(&mut self, arena: &mut Arena, request: &Request<'_>, [ours, theirs]: [&Applied<'_>; 2]) -> Found {
        for (one, other) in [(ours.denies, theirs.denies), (ours.changes, theirs.changes)] {
            match self.both_or_neither(arena, request, [one, other], APPLY) {
                Found::Equal => {}
                found => return found,
            }
        }
        match self.same_mutations(arena, request, [ours, theirs]) {
            None => Found::Equal,
            Some(reason) => Found::Open(reason),
        }
    }

    /// Decides a class by what the mutations make of the object.
    fn by_object(
        &mut self,
        arena: &mut Arena,
        request: &Request<'_>,
        sides: [&Applied<'_>; 2],
    ) -> Result<Found, Unsupported> {
        if self.options.data != Data::Normalised {
            return unsupported("objects that are not decoded");
        }
        let mut outcomes = Vec::new();
        for side in sides {
            outcomes.push(objects::outcome(arena, request, side, |arena, formula| {
                self.is_possible(arena, request, formula).is_some()
            })?);
        }
        let [ours, theirs] = outcomes.as_slice() else {
            return unsupported("a side");
        };
        match self.both_or_neither(arena, request, [ours.denies, theirs.denies], DENY) {
            Found::Equal => {}
            found => return Ok(found),
        }
        let kind = &request.seen.object_kind;
        let shape = Shape::object(&kind.api_version(), &kind.kind);
        // Of a Pod that gets ephemeral containers the server keeps these alone.
        let path: &[&str] = match request.cell.resource.subresource.as_str() {
            "ephemeralcontainers" => &["spec", "ephemeralContainers"],
            _ => &[],
        };
        let differ = difference(arena, [&ours.object, &theirs.object], &shape, path)?;
        let denied = arena.or([ours.denies, theirs.denies]);
        let admitted = arena.not(denied);
        let differ = arena.and([admitted, differ]);
        Ok(self.question(arena, request, differ, DIFFER))
    }

    /// Looks for a request on which one of two formulas holds alone.
    fn both_or_neither(
        &mut self,
        arena: &mut Arena,
        request: &Request<'_>,
        [one, other]: [Formula; 2],
        reason: &str,
    ) -> Found {
        if one == other {
            return Found::Equal;
        }
        let (not_one, not_other) = (arena.not(one), arena.not(other));
        for parts in [[one, not_other], [not_one, other]] {
            let differs = arena.and(parts);
            match self.question(arena, request, differs, reason) {
                Found::Equal => {}
                found => return found,
            }
        }
        Found::Equal
    }

    /// Looks for a request on which a formula holds and the sides make different objects.
    fn question(&mut self, arena: &mut Arena, request: &Request<'_>, formula: Formula, reason: &str) -> Found {
        let goal = arena.and(request.assumptions.iter().copied().chain([formula]));
        let mut budget = self.options.cases;
        let mut theory = Theory::default();
        let mut refused = Vec::new();
        for _ in 0..MODELS {
            let answer = {
                let mut solver = Solver::new(arena, &mut theory, &mut budget);
                solver.refused.clone_from(&refused);
                solver.solve(goal)
            };
            match answer {
                SolveResult::No if refused.is_empty() => return Found::Equal,
                SolveResult::Yes(model) => {
                    let scenario = Builder::new(arena, &mut theory, &model).scenario(request);
                    if let Some(found) = self.replay(&scenario) {
                        return Found::Differs(Box::new(found));
                    }
                    refused.push(other(arena, &model));
                }
                SolveResult::No => break,
                SolveResult::Incomplete(why) if refused.is_empty() => {
                    return Found::Open(format!(
                        "gave up on {}: {}",
                        universe::name(&request.cell),
                        why.as_str()
                    ));
                }
                SolveResult::Incomplete(_) => break,
            }
        }
        Found::Open(reason.to_owned())
    }

    /// Why a formula may hold on a request; `None` if it never does.
    fn is_possible(&self, arena: &mut Arena, request: &Request<'_>, formula: Formula) -> Option<String> {
        let goal = arena.and(request.assumptions.iter().copied().chain([formula]));
        let mut budget = self.options.cases;
        let mut theory = Theory::default();
        let answer = Solver::new(arena, &mut theory, &mut budget).solve(goal);
        match answer {
            SolveResult::No => None,
            SolveResult::Yes(_) => Some(APPLY.to_owned()),
            SolveResult::Incomplete(why) => Some(format!(
                "gave up on {}: {}",
                universe::name(&request.cell),
                why.as_str()
            )),
        }
    }

    /// Why the sides may make different objects of a request that both change; `None` if they do not.
    fn same_mutations(&self, arena: &mut Arena, request: &Request<'_>, sides: [&Applied<'_>; 2]) -> Option<String> {
        let [ours, theirs] = sides;
        match (ours.units.as_slice(), theirs.units.as_slice()) {
            // Both change the same requests: none.
            ([], _) | (_, []) => None,
            ([one], [other]) => {
                let errs = arena.or([one.condition_errors, other.condition_errors]);
                let conditions_err = self.is_possible(arena, request, errs).is_some();
                guards::broken(one.text, other.text, &request.cell, conditions_err)
            }
            _ => Some("several policies change the same requests".to_owned()),
        }
    }
}

/// Whether a difference of objects shows in requests of a class: what the server keeps of most subresources is not known here.
fn shows(cell: &RequestClass<'_>) -> bool {
    matches!(cell.resource.subresource.as_str(), "" | "ephemeralcontainers")
}

/// Whether an update of ephemeral containers changes nothing else, as proofs assume.
fn is_of_subresource(request: &kyvtest_model::kube::Request) -> bool {
    if request.resource.subresource != "ephemeralcontainers" {
        return true;
    }
    let rest = |object: &Document| {
        let mut object = object.root().to_serde();
        let metadata = ["labels", "annotations"].map(|key| object["metadata"][key].take());
        let mut spec = object["spec"].take();
        if let Some(spec) = spec.as_object_mut() {
            spec.shift_remove("ephemeralContainers");
        }
        (metadata, spec)
    };
    rest(&request.object) == rest(&request.old_object)
}

/// What the server keeps of an object that was changed on its way to a subresource: of a Pod that gets ephemeral containers,
/// these alone (`dropNonEphemeralContainerUpdates`).
fn kept(request: &kyvtest_model::kube::Request, object: Document) -> Document {
    if request.resource.subresource != "ephemeralcontainers" {
        return object;
    }
    let own = object.root().at(&["spec", "ephemeralContainers"]).map(Value::to_serde);
    let mut old = request.old_object.root().to_serde();
    if let Some(spec) = old["spec"].as_object_mut() {
        spec.shift_remove("ephemeralContainers");
        spec.extend(own.map(|list| ("ephemeralContainers".to_owned(), list)));
    }
    Document::from(&old)
}

fn counterexample(
    scenario: Scenario,
    [ours, theirs]: [side::After; 2],
    class: DivergenceClass,
    data: Data,
) -> Counterexample {
    Counterexample {
        scenario,
        verdicts: [ours.verdict, theirs.verdict],
        class,
        data,
        objects: [ours.object, theirs.object],
        changed: [ours.changed, theirs.changed],
    }
}

impl Counterexample {
    /// The object after admission on each side; `None` where the request is refused, or where objects are not compared.
    pub fn objects(&self) -> &[Option<Document>; 2] {
        &self.objects
    }

    /// Whether the sides make different objects.
    pub fn is_about_objects(&self) -> bool {
        self.objects.iter().any(Option::is_some)
    }

    /// How the objects of the two sides differ, in words.
    pub fn text(&self, names: [&str; 2]) -> String {
        let [one, other] = names;
        match (&self.objects, self.changed) {
            ([None, _], _) => format!("{one} denies the request: {}", self.verdicts[0].message),
            ([_, None], _) => format!("{other} denies the request: {}", self.verdicts[1].message),
            ([Some(ours), Some(theirs)], changed) => {
                let who = match changed {
                    [true, false] => format!("only {one} changes the object"),
                    [false, true] => format!("only {other} changes the object"),
                    _ => "both sides change the object, differently".to_owned(),
                };
                format!("{who}{}", named_places(ours, theirs, names))
            }
        }
    }

    /// The difference with its first cause among the hazards of a conversion.
    pub fn cause(&self, conversion: &kyvtest_convert::Conversion) -> Option<Divergence> {
        let [ours, theirs] = [0, 1].map(|number| Outcome {
            verdict: &self.verdicts[number],
            object: self.objects[number].as_ref(),
            changed: self.changed[number],
        });
        crate::mutation::divergence(ours, theirs, std::slice::from_ref(conversion))
    }
}
