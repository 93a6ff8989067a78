//! Facts about every request of a request class at once.
//!
//! A question that was answered before has the same answer; one that the earlier answers decide has that answer; any other
//! is answered both ways, one after the other, by running the engines again from the start. So every request of the class
//! follows one of the paths, and every path has a request.
//!
//! First, facts that are equal in every cluster are replaced by one, each with its source upstream:
//! - the label `kubernetes.io/metadata.name` of a namespace is its name (`pkg/apis/core/v1/defaults.go` `SetDefaults_Namespace`);
//! - the objects of a request have its name and namespace, a generated name included
//!   (`apiserver/pkg/endpoints/handlers/rest.go`, `apiserver/pkg/registry/rest/create.go` `AdmissionToValidateObjectFunc`);
//! - an update of ephemeral containers changes no metadata (`pkg/registry/core/pod/strategy.go` `dropNonEphemeralContainerUpdates`);
//! - the stored labels of a Namespace that is deleted or updated are those of the old object
//!   (`apiserver/pkg/admission/plugin/webhook/predicates/namespace/matcher.go`);
//! - the items of a collection delete have no name in their requests (`apiserver/pkg/registry/generic/registry/store.go`).

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

use super::{
    language::Base,
    solver::{Domain, Literal, MapBase, Possible, Solver},
};
use kyvtest_model::kube::{Atom, Facts, NAME_LABEL, Operation, Pairs, Pattern, RequestClass, Text};

/// The group of kinds that policies name and no cluster describes: they are taken for custom resources, whose names are DNS
/// subdomains (`apiextensions-apiserver/pkg/registry/customresource/validator.go`).
pub const ASSUMED_GROUP: &str = "unknown.kyvtest.dev";

/// How much a proof may do.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// How many paths are left.
    pub paths: u64,
    /// Set to cancel the search.
    pub stop: Option<&'a AtomicBool>,
}

impl Budget<'_> {
    fn spend(&mut self) -> Result<(), Incomplete> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Incomplete::Stopped);
        }
        self.paths = self.paths.checked_sub(1).ok_or(Incomplete::Budget)?;
        Ok(())
    }
}

/// Why an exploration is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// There are more paths than the budget has.
    Budget,
    /// A question could not be decided.
    Solver,
    /// The search was cancelled.
    Stopped,
}

/// One sequence of answers and what came of it.
#[derive(Debug, Clone)]
pub struct Path<'p, T> {
    /// The questions with their answers, those left out that follow from others.
    pub(crate) literals: Vec<Literal<'p>>,
    /// What came of it.
    pub outcome: T,
}

/// The variables of a request in a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables {
    operation: Operation,
    collection: bool,
    namespaced: bool,
    is_namespace: bool,
    /// Whether the old metadata are the new ones.
    same_metadata: bool,
    /// Whether objects have neither labels nor annotations: a Scale is built from its parent's name and namespace
    /// (`pkg/registry/apps/deployment/storage/storage.go` `scaleFromDeployment`).
    bare: bool,
    name: Base,
}

/// A question in terms of the variables.
enum Canonical<'p> {
    Known(bool),
    Ask(Atom<'p>),
    /// One of two.
    Either(Atom<'p>, Option<Atom<'p>>),
}

/// What a set of questions is about; groups share no variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    Text(Text),
    /// A map.
    Pairs(Pairs),
    /// The user's groups.
    Groups,
    /// A role.
    Free,
}

impl Variables {
    pub(crate) fn new(cell: &RequestClass<'_>) -> Self {
        let resource = cell.resource;
        let is_namespace = resource.group.is_empty() && resource.object_kind.kind == "Namespace";
        let is_review = resource.reaches_webhooks() && !resource.reaches_native_policies();
        Self {
            operation: cell.operation,
            collection: cell.collection,
            namespaced: cell.namespaced,
            is_namespace,
            same_metadata: resource.subresource == "ephemeralcontainers",
            bare: resource.object_kind.kind == "Scale",
            name: match resource.group.as_str() {
                _ if is_namespace => Base::DnsLabel,
                // Reviews usually have no name.
                _ if is_review => Base::Any,
                "" if resource.plural == "services" => Base::DnsLabel,
                // Their own validation does not look at names (`pkg/apis/core/validation/events.go`).
                "" if resource.plural == "events" => Base::Segment,
                "" | "apps" | "batch" | "example.com" | ASSUMED_GROUP => Base::Subdomain,
                _ => Base::Segment,
            },
        }
    }

    /// The language of a text.
    pub(crate) fn text(self, text: Text) -> Base {
        match text {
            Text::Name | Text::BareName | Text::RequestName | Text::GenerateName => self.name,
            Text::Namespace => Base::DnsLabel,
            Text::Username => Base::NonEmpty,
        }
    }

    /// The languages of a map.
    pub(crate) fn map(self, pairs: Pairs) -> MapBase<'static> {
        match pairs {
            Pairs::NewLabels | Pairs::OldLabels | Pairs::NamespaceLabels => MapBase {
                key: Base::LabelKey,
                value: Base::LabelValue,
                reserved: self.alias(pairs).map(|_| NAME_LABEL),
            },
            Pairs::NewAnnotations | Pairs::OldAnnotations => MapBase {
                // Only their lower case must be that of a label: `pkg/api/validation/objectmeta.go`.
                key: Base::NonEmpty,
                value: Base::Any,
                reserved: None,
            },
        }
    }

    /// The text that the name label of a map is.
    pub(crate) fn alias(self, pairs: Pairs) -> Option<Text> {
        match pairs {
            Pairs::NamespaceLabels if self.is_namespace => Some(Text::Name),
            Pairs::NamespaceLabels => Some(Text::Namespace),
            Pairs::NewLabels | Pairs::OldLabels if self.is_namespace => Some(Text::Name),
            _ => None,
        }
    }

    /// The map that a map is; `None` if it is empty, but for its alias.
    fn pairs(self, pairs: Pairs) -> Option<Pairs> {
        let new = matches!(self.operation, Operation::Create | Operation::Update);
        let old = matches!(self.operation, Operation::Update | Operation::Delete);
        match pairs {
            Pairs::NamespaceLabels => {}
            _ if self.bare => return None,
            _ => {}
        }
        match pairs {
            Pairs::NewLabels | Pairs::NewAnnotations => new.then_some(pairs),
            Pairs::OldLabels if self.same_metadata && old => Some(Pairs::NewLabels),
            Pairs::OldAnnotations if self.same_metadata && old => Some(Pairs::NewAnnotations),
            Pairs::OldLabels | Pairs::OldAnnotations => old.then_some(pairs),
            Pairs::NamespaceLabels if self.is_namespace => old.then_some(Pairs::OldLabels),
            Pairs::NamespaceLabels => self.namespaced.then_some(pairs),
        }
    }

    /// Whether the map has the name label.
    fn has_alias(self, pairs: Pairs) -> bool {
        match pairs {
            Pairs::NamespaceLabels => self.is_namespace || self.namespaced,
            _ => self.is_namespace && self.pairs(pairs).is_some(),
        }
    }

    fn canonical_text(self, text: Text, pattern: Pattern<'_>) -> Canonical<'_> {
        let connects = self.operation == Operation::Connect;
        let empty = || Canonical::Known(pattern.matches(""));
        match text {
            Text::GenerateName => empty(),
            Text::Name | Text::BareName if connects => empty(),
            Text::RequestName if self.collection => empty(),
            Text::RequestName if connects => Canonical::Ask(Atom::Text(Text::RequestName, pattern)),
            Text::Name | Text::BareName | Text::RequestName => Canonical::Ask(Atom::Text(Text::Name, pattern)),
            Text::Namespace if !self.namespaced || self.is_namespace => empty(),
            Text::Namespace | Text::Username => Canonical::Ask(Atom::Text(text, pattern)),
        }
    }

    fn canonical(self, atom: Atom<'_>) -> Canonical<'_> {
        match atom {
            Atom::Text(text, pattern) => self.canonical_text(text, pattern),
            Atom::Has(pairs, key) => {
                if key == NAME_LABEL && self.has_alias(pairs) {
                    return Canonical::Known(true);
                }
                let pairs = self.pairs(pairs);
                pairs.map_or(Canonical::Known(false), |pairs| Canonical::Ask(Atom::Has(pairs, key)))
            }
            Atom::Value(pairs, key, pattern) => {
                if key == NAME_LABEL
                    && self.has_alias(pairs)
                    && let Some(text) = self.alias(pairs)
                {
                    return self.canonical_text(text, pattern);
                }
                let pairs = self.pairs(pairs);
                pairs.map_or(Canonical::Known(false), |pairs| {
                    Canonical::Ask(Atom::Value(pairs, key, pattern))
                })
            }
            Atom::AnyPair(pairs, key, value) => {
                let rest = self.pairs(pairs).map(|pairs| Atom::AnyPair(pairs, key, value));
                match self.alias(pairs) {
                    Some(text) if self.has_alias(pairs) && key.matches(NAME_LABEL) => {
                        Canonical::Either(Atom::Text(text, value), rest)
                    }
                    _ => rest.map_or(Canonical::Known(false), Canonical::Ask),
                }
            }
            Atom::AnyGroup(_) | Atom::GroupsAre(_) | Atom::Role(_) | Atom::ClusterRole(_) => Canonical::Ask(atom),
        }
    }
}

/// The group of a question.
pub fn group(atom: Atom<'_>) -> Group {
    match atom {
        Atom::Text(text, _) => Group::Text(text),
        Atom::Has(pairs, _) | Atom::Value(pairs, ..) | Atom::AnyPair(pairs, ..) => Group::Pairs(pairs),
        Atom::AnyGroup(_) | Atom::GroupsAre(_) => Group::Groups,
        Atom::Role(_) | Atom::ClusterRole(_) => Group::Free,
    }
}

pub(crate) fn of_group<'p>(literals: &[Literal<'p>], wanted: Group) -> Vec<Literal<'p>> {
    literals
        .iter()
        .filter(|(atom, _)| group(*atom) == wanted)
        .copied()
        .collect()
}

/// Memory that is reused from class to class; its content does not matter.
#[derive(Debug, Default)]
pub(super) struct Scratch<'p> {
    trail: Vec<Step<'p>>,
    answers: FxHashMap<Atom<'p>, bool>,
    literals: Vec<Literal<'p>>,
}

/// An answer that a path has given.
#[derive(Debug, Clone, Copy)]
struct Step<'p> {
    atom: Atom<'p>,
    answer: bool,
    /// Whether the other answer was possible, too.
    free: bool,
}

/// Answers questions along one path.
///
/// Engines are functions of the answers, so a run that starts like the last one asks the same questions: what was found out
/// about them stays, and only what follows the answer that changed is decided anew.
#[derive(Debug)]
pub struct Symbolic<'s, 'p> {
    solver: &'s mut Solver<'p>,
    variables: Variables,
    trail: Vec<Step<'p>>,
    answers: FxHashMap<Atom<'p>, bool>,
    /// Memory for the answers of a group.
    literals: Vec<Literal<'p>>,
    gave_up: bool,
}

impl<'s, 'p> Symbolic<'s, 'p> {
    /// Facts about all requests of a cell; nothing is answered yet.
    pub(crate) fn new(solver: &'s mut Solver<'p>, cell: &RequestClass<'_>) -> Self {
        let Scratch {
            trail,
            answers,
            literals,
        } = std::mem::take(&mut solver.room);
        Self {
            solver,
            variables: Variables::new(cell),
            trail,
            answers,
            literals,
            gave_up: false,
        }
    }

    /// Takes back what follows the last free yes, and turns that into a no; `false` if there is none left.
    fn advance(&mut self) -> bool {
        while let Some(step) = self.trail.last_mut() {
            if step.free && step.answer {
                step.answer = false;
                self.answers.insert(step.atom, false);
                return true;
            }
            self.answers.remove(&step.atom);
            self.trail.pop();
        }
        false
    }

    /// The answers that were free.
    fn free_answers(&self) -> Vec<Literal<'p>> {
        let free = self.trail.iter().filter(|step| step.free);
        free.map(|step| (step.atom, step.answer)).collect()
    }

    /// Whether a question can be answered with yes, and with no.
    fn possible(&mut self, atom: Atom<'p>) -> (bool, bool) {
        let wanted = group(atom);
        if wanted == Group::Free {
            return (true, true);
        }
        let mut literals = std::mem::take(&mut self.literals);
        literals.clear();
        let own = self.trail.iter().filter(|step| step.free && group(step.atom) == wanted);
        literals.extend(own.map(|step| (step.atom, step.answer)));
        // Keys of a map are independent unless a condition compares two of them.
        if let Some(key) = key(atom)
            && literals.iter().all(|(other, _)| self::key(*other).is_some())
        {
            literals.retain(|(other, _)| self::key(*other) == Some(key));
        }
        let domain = match wanted {
            Group::Text(text) => Domain::Text(self.variables.text(text)),
            Group::Pairs(pairs) => Domain::Map(self.variables.map(pairs)),
            Group::Groups | Group::Free => Domain::Groups,
        };
        let mut with = |answer: bool| {
            literals.push((atom, answer));
            let possible = self.solver.possible(domain, &literals);
            literals.pop();
            self.gave_up |= possible == Possible::Incomplete;
            possible != Possible::No
        };
        // Earlier answers can be given together: what cannot be answered with yes can be answered with no.
        let yes = with(true);
        let no = !yes || with(false);
        self.literals = literals;
        (yes, no)
    }

    fn answer(&mut self, atom: Atom<'p>) -> bool {
        if let Some(answer) = self.answers.get(&atom) {
            return *answer;
        }
        let (yes, no) = self.possible(atom);
        let step = Step {
            atom,
            answer: yes,
            free: yes && no,
        };
        self.trail.push(step);
        self.answers.insert(atom, yes);
        yes
    }
}

/// The one key of a map that a question is about.
fn key(atom: Atom<'_>) -> Option<&str> {
    match atom {
        Atom::Has(_, key) | Atom::Value(_, key, _) => Some(key),
        _ => None,
    }
}

impl Variables {
    /// The answer to a question, given those to questions about variables.
    fn resolve<'p>(self, atom: Atom<'p>, mut answer: impl FnMut(Atom<'p>) -> bool) -> bool {
        match self.canonical(atom) {
            Canonical::Known(known) => known,
            Canonical::Ask(atom) => answer(atom),
            Canonical::Either(first, second) => {
                let first = match first {
                    Atom::Text(text, pattern) => match self.canonical_text(text, pattern) {
                        Canonical::Known(known) => known,
                        Canonical::Ask(atom) | Canonical::Either(atom, _) => answer(atom),
                    },
                    atom => answer(atom),
                };
                first || second.is_some_and(answer)
            }
        }
    }
}

impl<'p> Facts<'p> for Symbolic<'_, 'p> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        self.variables.resolve(atom, |atom| self.answer(atom))
    }
}

/// Runs engines on every path of a cell.
///
/// # Errors
/// If not every path could be followed.
pub fn explore<'p, T>(
    solver: &mut Solver<'p>,
    budget: &mut Budget<'_>,
    cell: &RequestClass<'_>,
    mut run: impl FnMut(&mut Symbolic<'_, 'p>) -> T,
) -> Result<Vec<Path<'p, T>>, Incomplete> {
    let mut paths = Vec::with_capacity(1);
    let mut facts = Symbolic::new(solver, cell);
    loop {
        budget.spend()?;
        let outcome = run(&mut facts);
        if facts.gave_up {
            return Err(Incomplete::Solver);
        }
        paths.push(Path {
            literals: facts.free_answers(),
            outcome,
        });
        if !facts.advance() {
            let Symbolic {
                solver,
                trail,
                answers,
                literals,
                ..
            } = facts;
            solver.room = Scratch {
                trail,
                answers,
                literals,
            };
            return Ok(paths);
        }
    }
}

/// Runs engines on the path of a cell that a request follows: every question is answered as the request answers it, and must be
/// one that some request answers so.
///
/// # Errors
/// The first answer that no request of the cell could give.
pub fn follow<'p, T>(
    solver: &mut Solver<'p>,
    cell: &RequestClass<'_>,
    request: &mut dyn Facts<'p>,
    run: impl FnOnce(&mut Following<'_, '_, 'p>) -> T,
) -> Result<T, String> {
    let mut following = Following {
        facts: Symbolic::new(solver, cell),
        request,
        odd: None,
    };
    let outcome = run(&mut following);
    match following.odd {
        None if following.facts.gave_up => Err("the solver gave up".to_owned()),
        None => Ok(outcome),
        Some(odd) => Err(odd),
    }
}

/// Facts along the path of one request.
pub struct Following<'r, 's, 'p> {
    facts: Symbolic<'s, 'p>,
    request: &'r mut dyn Facts<'p>,
    odd: Option<String>,
}

impl<'p> Facts<'p> for Following<'_, '_, 'p> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        let Self { facts, request, odd } = self;
        let answer = facts.variables.resolve(atom, |atom| {
            let wanted = request.ask(atom);
            if let Some(answer) = facts.answers.get(&atom) {
                return *answer;
            }
            let (yes, no) = facts.possible(atom);
            let possible = if wanted { yes } else { no };
            if !possible && odd.is_none() {
                *odd = Some(format!("{atom:?} is {wanted}, which no request of the cell answers so"));
            }
            facts.trail.push(Step {
                atom,
                answer: wanted,
                free: yes && no,
            });
            facts.answers.insert(atom, wanted);
            wanted
        });
        if answer != request.ask(atom) && odd.is_none() {
            *odd = Some(format!(
                "{atom:?} is {answer} in all requests of the cell, but not in this one"
            ));
        }
        answer
    }
}
