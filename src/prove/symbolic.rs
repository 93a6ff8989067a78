//! Facts about every request of a cell at once.
//!
//! A question that was answered before has the same answer; one that the earlier answers decide has that answer; any other
//! is answered both ways, one after the other, by running the engines again from the start. So every request of the cell
//! follows one of the paths, and every path has a request.
//!
//! Before anything is asked, what is the same in every cluster is replaced by one thing, each with its source upstream:
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
    solver::{Literal, MapBase, Model, Solver},
};
use crate::kube::{Atom, Cell, Facts, NAME_LABEL, Operation, Pairs, Pattern, Text};

/// How much a proof may do.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// How many paths are left.
    pub paths: u64,
    /// Set by somebody who does not want to wait any longer.
    pub stop: Option<&'a AtomicBool>,
}

impl Budget<'_> {
    fn spend(&mut self) -> Result<(), GaveUp> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(GaveUp::Stopped);
        }
        self.paths = self.paths.checked_sub(1).ok_or(GaveUp::Budget)?;
        Ok(())
    }
}

/// Why an exploration is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// There are more paths than the budget has.
    Budget,
    /// A question could not be decided.
    Solver,
    /// Somebody asked to stop.
    Stopped,
}

/// One sequence of answers and what came of it.
#[derive(Debug, Clone)]
pub struct Path<'p, T> {
    /// The questions with their answers, those left out that follow from others.
    pub literals: Vec<Literal<'p>>,
    /// What came of it.
    pub outcome: T,
}

/// The variables of a request in a cell.
#[derive(Debug, Clone, Copy)]
pub struct Variables {
    operation: Operation,
    collection: bool,
    namespaced: bool,
    is_namespace: bool,
    /// Whether the old metadata are the new ones.
    same_metadata: bool,
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
    /// A text.
    Text(Text),
    /// A map.
    Pairs(Pairs),
    /// The user's groups.
    Groups,
    /// A role.
    Free,
}

impl Variables {
    /// Of a cell.
    pub fn new(cell: &Cell<'_>) -> Self {
        let resource = cell.resource;
        let is_namespace = resource.group.is_empty() && resource.object_kind.kind == "Namespace";
        let asks = resource.subresource.is_empty() && resource.is_vap_exempt();
        Self {
            operation: cell.operation,
            collection: cell.collection,
            namespaced: cell.namespaced,
            is_namespace,
            same_metadata: resource.subresource == "ephemeralcontainers",
            name: match resource.group.as_str() {
                _ if is_namespace => Base::DnsLabel,
                // Questions to the server have no name, usually.
                _ if asks => Base::Any,
                "" if resource.plural == "services" => Base::DnsLabel,
                "" | "apps" | "batch" | "example.com" => Base::Subdomain,
                _ => Base::Segment,
            },
        }
    }

    /// The language of a text.
    pub fn text(self, text: Text) -> Base {
        match text {
            Text::Name | Text::BareName | Text::RequestName | Text::GenerateName => self.name,
            Text::Namespace => Base::DnsLabel,
            Text::Username => Base::NonEmpty,
        }
    }

    /// The languages of a map.
    pub fn map(self, pairs: Pairs) -> MapBase<'static> {
        match pairs {
            Pairs::NewLabels | Pairs::OldLabels | Pairs::NamespaceLabels => MapBase {
                value: Base::LabelValue,
                reserved: self.alias(pairs).map(|_| NAME_LABEL),
            },
            Pairs::NewAnnotations | Pairs::OldAnnotations => MapBase {
                value: Base::Any,
                reserved: None,
            },
        }
    }

    /// The text that the name label of a map is.
    pub fn alias(self, pairs: Pairs) -> Option<Text> {
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

/// The literals of a group.
pub fn of_group<'p>(literals: &[Literal<'p>], wanted: Group) -> Vec<Literal<'p>> {
    literals
        .iter()
        .filter(|(atom, _)| group(*atom) == wanted)
        .copied()
        .collect()
}

/// A text with the answers of its group.
pub fn solve_text<'p>(solver: &mut Solver<'p>, base: Base, literals: &[Literal<'p>]) -> Model<String> {
    let of = |wanted: bool| -> Vec<Pattern<'p>> {
        let literals = literals.iter().filter(|(_, holds)| *holds == wanted);
        literals
            .filter_map(|(atom, _)| match atom {
                Atom::Text(_, pattern) => Some(*pattern),
                _ => None,
            })
            .collect()
    };
    solver.text(base, of(true), of(false))
}

/// Answers questions along one path.
#[derive(Debug)]
pub struct Symbolic<'s, 'p> {
    solver: &'s mut Solver<'p>,
    variables: Variables,
    script: Vec<bool>,
    /// How many entries of the script are used up.
    read: usize,
    literals: Vec<Literal<'p>>,
    answers: FxHashMap<Atom<'p>, bool>,
    gave_up: bool,
}

impl<'p> Symbolic<'_, 'p> {
    fn is_possible(&mut self, literal: Literal<'p>) -> bool {
        let group = group(literal.0);
        let mut literals = of_group(&self.literals, group);
        literals.push(literal);
        let (possible, gave_up) = match group {
            Group::Text(text) => known(&solve_text(self.solver, self.variables.text(text), &literals)),
            Group::Pairs(pairs) => known(&self.solver.map(self.variables.map(pairs), &literals)),
            Group::Groups => known(&self.solver.groups(&literals)),
            Group::Free => (true, false),
        };
        self.gave_up |= gave_up;
        possible
    }

    fn answer(&mut self, atom: Atom<'p>) -> bool {
        if let Some(answer) = self.answers.get(&atom) {
            return *answer;
        }
        let answer = match (self.is_possible((atom, true)), self.is_possible((atom, false))) {
            (true, true) => {
                let answer = self.script.get(self.read).copied().unwrap_or(true);
                if self.read == self.script.len() {
                    self.script.push(answer);
                }
                self.read += 1;
                self.literals.push((atom, answer));
                answer
            }
            (answer, _) => answer,
        };
        self.answers.insert(atom, answer);
        answer
    }
}

fn known<T>(model: &Model<T>) -> (bool, bool) {
    (!matches!(model, Model::No), matches!(model, Model::GaveUp))
}

impl<'p> Facts<'p> for Symbolic<'_, 'p> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        match self.variables.canonical(atom) {
            Canonical::Known(answer) => answer,
            Canonical::Ask(atom) => self.answer(atom),
            Canonical::Either(first, second) => {
                let first = match first {
                    Atom::Text(text, pattern) => match self.variables.canonical_text(text, pattern) {
                        Canonical::Known(answer) => answer,
                        Canonical::Ask(atom) | Canonical::Either(atom, _) => self.answer(atom),
                    },
                    atom => self.answer(atom),
                };
                first || second.is_some_and(|atom| self.answer(atom))
            }
        }
    }
}

/// Runs engines on every path of a cell.
///
/// # Errors
/// If not every path could be followed.
pub fn explore<'p, T>(
    solver: &mut Solver<'p>,
    budget: &mut Budget<'_>,
    cell: &Cell<'_>,
    mut run: impl FnMut(&mut Symbolic<'_, 'p>) -> T,
) -> Result<Vec<Path<'p, T>>, GaveUp> {
    let variables = Variables::new(cell);
    let mut paths = Vec::new();
    let mut script = Vec::new();
    loop {
        budget.spend()?;
        let mut facts = Symbolic {
            solver,
            variables,
            script,
            read: 0,
            literals: Vec::new(),
            answers: FxHashMap::default(),
            gave_up: false,
        };
        let outcome = run(&mut facts);
        if facts.gave_up {
            return Err(GaveUp::Solver);
        }
        let Symbolic {
            script: mut used,
            read,
            literals,
            ..
        } = facts;
        paths.push(Path { literals, outcome });
        // What the run did not look at belongs to no path.
        used.truncate(read);
        while used.last() == Some(&false) {
            used.pop();
        }
        match used.last_mut() {
            Some(last) => *last = false,
            None => return Ok(paths),
        }
        script = used;
    }
}
