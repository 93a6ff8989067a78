//! Goals about one text, decided apart from all others.
//!
//! A case distinction meets the same question about one text again and again, each time among other goals that have nothing
//! to do with it: whether a name is in a list of constants, say, once for each way in which the rest of the object may be.
//! Its answer is remembered. No upstream counterpart.

use super::{Solver, State};
use crate::body::formula::{Arena, Atom, AtomId, Formula, Node, Place};

/// Goals about one text, with what is known of it.
type Question = (Vec<Formula>, Vec<(AtomId, bool)>);

/// What is remembered of one search.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The only text that a formula is about, if there is one and the formula is about nothing else.
    subjects: rustc_hash::FxHashMap<Formula, Option<Place>>,
    /// Whether goals can hold together.
    answers: rustc_hash::FxHashMap<Question, bool>,
}

impl Solver<'_> {
    /// Whether the open goals about each text can hold together; true if that was not decided.
    pub(super) fn texts_fit(&mut self, state: &State) -> bool {
        let mut groups: Vec<(Place, Vec<Formula>)> = Vec::new();
        for (goal, _) in &state.open {
            let Some(place) = subject(self.arena, &mut self.remembered, *goal) else {
                continue;
            };
            match groups.iter_mut().find(|(own, _)| *own == place) {
                Some((_, goals)) => goals.push(*goal),
                None => groups.push((place, vec![*goal])),
            }
        }
        groups.into_iter().all(|(place, goals)| self.fits(state, place, goals))
    }

    fn fits(&mut self, state: &State, place: Place, mut goals: Vec<Formula>) -> bool {
        let mut known = Vec::new();
        for atom in &state.model.order {
            match self.arena.atom(*atom) {
                // Texts that equal this one are decided together with it.
                Atom::Same(a, b) if *a == place || *b == place => return true,
                Atom::Text(own, _) if *own == place => known.push((*atom, state.model.values[atom])),
                _ => {}
            }
        }
        goals.sort_unstable();
        known.sort_unstable();
        let question = (goals, known);
        if let Some(answer) = self.remembered.answers.get(&question) {
            return *answer;
        }
        let mut alone = State {
            goals: question.0.clone(),
            ..State::default()
        };
        for (atom, holds) in &question.1 {
            alone.model.values.insert(*atom, *holds);
            alone.model.order.push(*atom);
        }
        let before = self.unknown.take();
        let found = self.search(alone, false).is_some();
        let cut = self.unknown.take().is_some();
        self.unknown = before;
        if cut {
            return true;
        }
        self.remembered.answers.insert(question, found);
        found
    }
}

/// The only text that a formula is about, if it is about nothing else.
fn subject(arena: &Arena, remembered: &mut Remembered, formula: Formula) -> Option<Place> {
    if let Some(known) = remembered.subjects.get(&formula) {
        return *known;
    }
    let found = match arena.look(formula) {
        Node::True | Node::False => None,
        Node::Literal(atom, _) => match arena.atom(*atom) {
            Atom::Text(place, _) => Some(*place),
            _ => None,
        },
        Node::And(parts) | Node::Or(parts) => {
            let mut parts = parts.iter();
            let first = parts.next().and_then(|part| subject(arena, remembered, *part));
            first.filter(|first| parts.all(|part| subject(arena, remembered, *part) == Some(*first)))
        }
    };
    remembered.subjects.insert(formula, found);
    found
}
