//! Is there a request on which a formula holds? Case distinction over atoms, with the theories of texts and numbers, and with
//! elements of lists made where a statement asks for them.
//!
//! Every place has a value, also one that is absent: formulas read it only where it is there, so any value of its shape will
//! do. That an exhausted search is a proof for lists of any length rests on two facts: a statement that some elements have a
//! property gets elements of its own, or those that are there already where their number is limited; and a statement that
//! fewer have it is checked for every choice of the elements that there are. No upstream counterpart.

mod texts;
mod theory;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use self::theory::{Taste, Theory, class, integer_values};
use self::{texts::Remembered, theory::Verdict};
use super::{
    formula::{Arena, Atom, AtomId, Formula, Node, Place, Signature, Step, signature_of},
    shape::Kind,
};

/// What a search found.
#[derive(Debug)]
pub(super) enum SolveResult {
    /// The formula never holds.
    No,
    /// It holds on the requests that the atoms describe.
    Yes(Box<Model>),
    /// The search was cut off, and by what.
    Incomplete(Cut),
}

/// What cuts a search off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The budget of cases, or of formulas.
    Budget,
    /// Elements of lists that ask for further ones.
    Elements,
}

impl Cut {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "more cases than the budget has",
            Self::Elements => "elements ask for ever more elements",
        }
    }
}

/// Atoms with their values, and the elements of lists.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) values: FxHashMap<AtomId, bool>,
    /// In the order in which they were assigned.
    pub(super) order: Vec<AtomId>,
    /// The elements of lists and entries of maps that were made; keys that formulas name are not among them.
    pub(super) elements: BTreeMap<Place, Vec<Place>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    model: Model,
    /// What must hold and has not been looked at.
    goals: Vec<Formula>,
    /// What must hold besides, each simplified for so many of the atoms in the model's order.
    open: Vec<(Formula, usize)>,
    /// Statements that have got their elements.
    witnessed: FxHashSet<AtomId>,
    /// Statements with the single elements that they were checked for.
    checked: FxHashSet<(AtomId, Place)>,
    /// Statements about several elements with those that they were checked for.
    checked_together: FxHashSet<(AtomId, Vec<Place>)>,
    made: u32,
}

/// How many choices of elements one statement may be checked for.
const CHOICES: usize = 400;

/// Decides formulas under a budget of case distinctions.
pub(super) struct Solver<'s> {
    pub(super) arena: &'s mut Arena,
    pub(super) theory: &'s mut Theory,
    /// How many cases may still be looked at.
    pub(super) budget: &'s mut u64,
    /// Models that were refused: each is a set of literals that must not hold together again.
    pub(super) refused: Vec<Formula>,
    unknown: Option<Cut>,
    remembered: Remembered,
    /// That an element has not the property that no element has, by the statement and the element.
    without: FxHashMap<(AtomId, Place), Formula>,
}

/// How many elements are made before those that are there are tried first.
const FREELY: u32 = 8;

/// How many elements may be made in one case.
const ELEMENTS: u32 = 20;

/// How many formulas may be made.
const MEMORY: usize = 1_500_000;

impl<'s> Solver<'s> {
    pub(super) fn new(arena: &'s mut Arena, theory: &'s mut Theory, budget: &'s mut u64) -> Self {
        Self {
            arena,
            theory,
            budget,
            refused: Vec::new(),
            unknown: None,
            remembered: Remembered::default(),
            without: FxHashMap::default(),
        }
    }

    /// Looks for a model.
    pub(super) fn solve(&mut self, formula: Formula) -> SolveResult {
        self.unknown = None;
        let mut goals = vec![formula];
        goals.extend(&self.refused);
        let state = State {
            goals,
            ..State::default()
        };
        match self.search(state, true) {
            Some(model) => SolveResult::Yes(Box::new(model)),
            None => self.unknown.map_or(SolveResult::No, SolveResult::Incomplete),
        }
    }

    /// Looks for a model of a state. `divides`: goals about single texts are decided apart first.
    fn search(&mut self, first: State, divides: bool) -> Option<Model> {
        let mut open = vec![first];
        while let Some(mut state) = open.pop() {
            if *self.budget == 0 || self.arena.size() > MEMORY {
                self.unknown = Some(Cut::Budget);
                return None;
            }
            *self.budget -= 1;
            if !self.propagate(&mut state) || divides && !self.texts_fit(&state) {
                continue;
            }
            if let Some((atom, holds)) = self.choose(&state) {
                let mut other = state.clone();
                if self.assign(&mut other, atom, !holds) {
                    open.push(other);
                }
                if self.assign(&mut state, atom, holds) {
                    open.push(state);
                }
                continue;
            }
            if self.expand(&mut state) {
                open.push(state);
                continue;
            }
            self.first_items(&mut state.model);
            return Some(state.model);
        }
        None
    }

    /// Adds the first items of lists that are never empty and about which nothing else is said.
    fn first_items(&self, model: &mut Model) {
        for item in self.arena.places() {
            if let (Step::Item(0), Some(list)) = (self.arena.step(item), self.arena.parent(item))
                && self.arena.shape(list).nonzero
            {
                model.elements.entry(list).or_insert_with(|| vec![item]);
            }
        }
    }

    /// Simplifies goals and assigns what they force; false if one cannot hold.
    fn propagate(&mut self, state: &mut State) -> bool {
        loop {
            let mut changed = false;
            let mut known = FxHashMap::default();
            let mut open = std::mem::take(&mut state.open);
            open.extend(std::mem::take(&mut state.goals).into_iter().map(|goal| (goal, 0)));
            open.reverse();
            let mut kept = Vec::new();
            // Most goals were simplified at the same time.
            let mut span = (0, 0);
            let mut assigned = 0;
            while let Some((goal, since)) = open.pop() {
                let now = state.model.order.len();
                if span != (since, now) {
                    span = (since, now);
                    assigned = signature_of(&state.model.order[since..]);
                }
                let goal = self.simplify(goal, (&state.model.values, assigned), &mut known);
                match self.arena.look(goal).clone() {
                    Node::True => {}
                    Node::False => return false,
                    Node::Literal(atom, holds) => {
                        if !self.assign(state, atom, holds) {
                            return false;
                        }
                        // What was simplified before may become simpler.
                        known.clear();
                        changed = true;
                    }
                    Node::And(parts) => open.extend(parts.iter().rev().map(|part| (*part, now))),
                    Node::Or(_) => kept.push((goal, now)),
                }
            }
            state.open = kept;
            if !changed {
                return true;
            }
        }
    }

    /// A formula without the atoms that have values. Those that it may have are in the signature.
    fn simplify(
        &mut self,
        formula: Formula,
        (values, assigned): (&FxHashMap<AtomId, bool>, Signature),
        known: &mut FxHashMap<Formula, Formula>,
    ) -> Formula {
        if self.arena.signature(formula) & assigned == 0 {
            return formula;
        }
        // Only what has parts is worth remembering.
        let (parts, is_and) = match self.arena.look(formula) {
            Node::True | Node::False => return formula,
            Node::Literal(atom, holds) => {
                return values.get(atom).map_or(formula, |value| Formula::of(value == holds));
            }
            Node::And(parts) => (parts, true),
            Node::Or(parts) => (parts, false),
        };
        if let Some(done) = known.get(&formula) {
            return *done;
        }
        let parts = parts.clone();
        let simple = self.simplify_parts(formula, (&parts, is_and), (values, assigned), known);
        known.insert(formula, simple);
        simple
    }

    fn simplify_parts(
        &mut self,
        formula: Formula,
        (parts, is_and): (&[Formula], bool),
        (values, assigned): (&FxHashMap<AtomId, bool>, Signature),
        known: &mut FxHashMap<Formula, Formula>,
    ) -> Formula {
        let decisive = Formula::of(!is_and);
        // Most formulas stay as they are and need no list.
        let mut changed: Option<Vec<Formula>> = None;
        for (i, part) in parts.iter().enumerate() {
            let simple = self.simplify(*part, (values, assigned), known);
            if simple == decisive {
                return decisive;
            }
            match &mut changed {
                Some(list) => list.push(simple),
                None if simple != *part => {
                    let mut list = Vec::with_capacity(parts.len());
                    list.extend_from_slice(&parts[..i]);
                    list.push(simple);
                    changed = Some(list);
                }
                None => {}
            }
        }
        match changed {
            None => formula,
            Some(list) if is_and => self.arena.and(list),
            Some(list) => self.arena.or(list),
        }
    }

    /// The next atom to distinguish, from the goal with the fewest parts.
    fn choose(&self, state: &State) -> Option<(AtomId, bool)> {
        let size = |goal: &Formula| match self.arena.look(*goal) {
            Node::Or(parts) => parts.len(),
            _ => 0,
        };
        let (goal, _) = state.open.iter().min_by_key(|(goal, _)| size(goal))?;
        let mut at = *goal;
        loop {
            match self.arena.look(at) {
                Node::Literal(atom, holds) => return Some((*atom, *holds)),
                Node::And(parts) | Node::Or(parts) => {
                    let literal = parts
                        .iter()
                        .find(|part| matches!(self.arena.look(**part), Node::Literal(..)));
                    at = *literal.or(parts.first())?;
                }
                Node::True | Node::False => return None,
            }
        }
    }

    /// Gives an atom a value; false if that contradicts the others.
    fn assign(&mut self, state: &mut State, atom: AtomId, holds: bool) -> bool {
        if let Some(known) = state.model.values.get(&atom) {
            return *known == holds;
        }
        state.model.values.insert(atom, holds);
        state.model.order.push(atom);
        match self.theory.check(self.arena, &state.model, atom) {
            Verdict::Possible => {}
            Verdict::Impossible => return false,
            Verdict::Unknown => {
                // Nothing is pruned: a model may turn out to be none.
            }
        }
        let facts = Theory::facts(self.arena, atom);
        state.goals.extend(facts);
        true
    }

    /// Makes elements that statements ask for, and checks statements for the elements that there are. False if there is
    /// nothing left to do.
    fn expand(&mut self, state: &mut State) -> bool {
        let statements: Vec<(AtomId, bool)> = state
            .model
            .order
            .iter()
            .map(|atom| (*atom, state.model.values[atom]))
            .filter(|(atom, _)| matches!(self.arena.atom(*atom), Atom::AtLeast(..)))
            .collect();
        let before = state.goals.len();
        let limited: FxHashSet<Place> = statements
            .iter()
            .filter_map(|(atom, holds)| match self.arena.atom(*atom) {
                Atom::AtLeast(list, _, _, count) if !holds && *count > 1 => Some(*list),
                _ => None,
            })
            .collect();
        for (atom, holds) in &statements {
            let Atom::AtLeast(list, bound, body, count) = self.arena.atom(*atom).clone() else {
                continue;
            };
            self.place_items(state, &statements, list);
            if *holds && state.witnessed.insert(*atom) {
                self.witness(state, (list, bound, body, count), limited.contains(&list));
            }
        }
        for (atom, holds) in statements {
            let Atom::AtLeast(list, bound, body, count) = self.arena.atom(atom).clone() else {
                continue;
            };
            if !holds {
                self.refute(state, atom, (list, bound, body, count));
            }
        }
        state.goals.len() > before
    }

    /// Whether a place's elements are entries with keys.
    fn is_map(&self, list: Place) -> bool {
        self.arena.shape(list).entry().is_some() && !self.arena.shape(list).kinds.has(Kind::List)
    }

    /// The positions that a list certainly has.
    fn place_items(&mut self, state: &mut State, statements: &[(AtomId, bool)], list: Place) {
        if self.is_map(list) {
            return;
        }
        let mut count = u32::from(self.arena.shape(list).nonzero);
        for (atom, holds) in statements {
            if let Atom::AtLeast(own, _, Formula::TRUE, least) = self.arena.atom(*atom)
                && *own == list
                && *holds
            {
                count = count.max(*least);
            }
        }
        for position in 0..count.min(64) {
            let item = self.arena.item(list, position);
            let elements = state.model.elements.entry(list).or_default();
            if !elements.contains(&item) {
                elements.push(item);
            }
        }
    }

    /// The elements that there may be, each with the condition that it is there.
    fn candidates(&mut self, state: &State, list: Place) -> Vec<(Formula, Place)> {
        let mut all = Vec::new();
        if self.is_map(list) {
            for key in self.arena.keys(list) {
                if let Some(field) = self.arena.field(list, &key) {
                    all.push((self.arena.present(field), field));
                }
            }
        }
        for element in state.model.elements.get(&list).cloned().unwrap_or_default() {
            let there = match self.arena.step(element) {
                Step::Some(_) if self.arena.is_optional(element) => self.arena.present(element),
                _ => Formula::TRUE,
            };
            all.push((there, element));
        }
        all
    }

    /// Gives a statement that some elements have a property the elements it needs.
    fn witness(&mut self, state: &mut State, (list, bound, body, count): (Place, Place, Formula, u32), limited: bool) {
        if body == Formula::TRUE && !self.is_map(list) {
            // The positions are there.
            return;
        }
        // Elements that ask for further ones may go on for ever: from some number on those that are there are tried first.
        let reuses = limited || self.is_map(list) || state.made >= FREELY;
        if state.made >= ELEMENTS {
            self.unknown = Some(Cut::Elements);
            state.goals.push(Formula::FALSE);
            return;
        }
        let mut candidates = if reuses {
            self.candidates(state, list)
        } else {
            Vec::new()
        };
        let mut fresh = Vec::new();
        for _ in 0..count {
            state.made += 1;
            // Without the element fewer goals are left, which proves nothing that is not so.
            let Some(element) = self.arena.some(list, state.made, reuses) else {
                return;
            };
            state.model.elements.entry(list).or_default().push(element);
            fresh.push(element);
            if self.is_map(list) {
                self.other_key(state, list, element);
            }
        }
        if !reuses {
            for element in fresh {
                let goal = self.arena.substitute(body, bound, element);
                state.goals.push(goal);
            }
            return;
        }
        for element in fresh {
            candidates.push((self.arena.present(element), element));
        }
        let mut conditions = Vec::new();
        for (there, element) in &candidates {
            let holds = self.arena.substitute(body, bound, *element);
            conditions.push(self.arena.and([*there, holds]));
        }
        let Some(choices) = subsets(conditions.len(), count as usize) else {
            return;
        };
        let mut ways = Vec::new();
        for choice in choices {
            ways.push(self.arena.and(choice.iter().map(|at| conditions[*at])));
        }
        let goal = self.arena.or(ways);
        state.goals.push(goal);
    }

    /// The key of a further entry is none that formulas name, and no other entry's.
    fn other_key(&mut self, state: &mut State, map: Place, entry: Place) {
        let Some(key) = self.arena.entry_key(entry) else {
            return;
        };
        for known in self.arena.keys(map) {
            let same = self.arena.text(key, super::text::Predicate::Is(known));
            let goal = self.arena.not(same);
            state.goals.push(goal);
        }
        for other in state.model.elements.get(&map).cloned().unwrap_or_default() {
            if other != entry
                && let Some(other) = self.arena.entry_key(other)
            {
                let same = self.arena.same(key, other);
                let goal = self.arena.not(same);
                state.goals.push(goal);
            }
        }
    }

    /// Checks that fewer elements have a property than a statement says.
    fn refute(&mut self, state: &mut State, atom: AtomId, (list, bound, body, count): (Place, Place, Formula, u32)) {
        let candidates = self.candidates(state, list);
        if count == 1 {
            for candidate in candidates {
                if state.checked.insert((atom, candidate.1)) {
                    let goal = self.without(atom, (bound, body), candidate);
                    state.goals.push(goal);
                }
            }
            return;
        }
        let Some(choices) = subsets(candidates.len(), count as usize) else {
            return;
        };
        for choice in choices {
            let elements: Vec<Place> = choice.iter().map(|at| candidates[*at].1).collect();
            if !state.checked_together.insert((atom, elements)) {
                continue;
            }
            let mut ways = Vec::new();
            for at in choice {
                let (there, element) = candidates[at];
                let holds = self.arena.substitute(body, bound, element);
                ways.push(self.arena.not(there));
                ways.push(self.arena.not(holds));
            }
            let goal = self.arena.or(ways);
            state.goals.push(goal);
        }
    }

    /// That an element is not there, or has not a property.
    fn without(
        &mut self,
        atom: AtomId,
        (bound, body): (Place, Formula),
        (there, element): (Formula, Place),
    ) -> Formula {
        if let Some(known) = self.without.get(&(atom, element)) {
            return *known;
        }
        let holds = self.arena.substitute(body, bound, element);
        let (absent, fails) = (self.arena.not(there), self.arena.not(holds));
        let goal = self.arena.or([absent, fails]);
        self.without.insert((atom, element), goal);
        goal
    }
}

/// All ways to choose some of a number of things; `None` if there are too many.
fn subsets(of: usize, size: usize) -> Option<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        let mut longer = Vec::new();
        for chosen in all {
            let from = chosen.last().map_or(0, |last| last + 1);
            for next in from..of {
                let mut chosen = chosen.clone();
                chosen.push(next);
                longer.push(chosen);
            }
        }
        if longer.len() > CHOICES {
            return None;
        }
        all = longer;
    }
    Some(all)
}
