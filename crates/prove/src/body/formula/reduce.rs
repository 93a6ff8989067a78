//! Formulas without what their own parts decide, so that formulas that say the same are more often the same.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{Arena, AtomId, Formula, Node};

impl Arena {
    /// The same formula without what its own parts decide: in `a && (!a || b)` only `b` is left of the second.
    pub(in crate::body) fn reduced(&mut self, formula: Formula) -> Formula {
        if let Some(known) = self.reductions.get(&formula) {
            return *known;
        }
        let (parts, is_and) = match self.look(formula) {
            Node::And(parts) => (Rc::clone(parts), true),
            Node::Or(parts) => (Rc::clone(parts), false),
            _ => return formula,
        };
        let mut reduced: Vec<Formula> = parts.iter().map(|part| self.reduced(*part)).collect();
        loop {
            // A part is decided only where the others leave it open.
            let mut known = FxHashMap::default();
            for part in &reduced {
                if let Node::Literal(atom, holds) = self.look(*part) {
                    known.insert(*atom, *holds == is_and);
                }
            }
            let mut changed = false;
            for part in &mut reduced {
                if matches!(self.look(*part), Node::Literal(..)) {
                    continue;
                }
                let simpler = self.assigned(*part, &known);
                if simpler != *part {
                    *part = self.reduced(simpler);
                    changed = true;
                }
            }
            if !changed || known.is_empty() {
                break;
            }
        }
        let made = self.join(reduced, is_and);
        let made = if made == formula { formula } else { self.reduced(made) };
        self.reductions.insert(formula, made);
        made
    }

    /// A formula in which some atoms have values.
    fn assigned(&mut self, formula: Formula, values: &FxHashMap<AtomId, bool>) -> Formula {
        if values.is_empty() {
            return formula;
        }
        match self.look(formula) {
            Node::True | Node::False => formula,
            Node::Literal(atom, holds) => match values.get(atom) {
                Some(value) => Formula::of(value == holds),
                None => formula,
            },
            Node::And(parts) => {
                let parts = Rc::clone(parts);
                let made: Vec<Formula> = parts.iter().map(|part| self.assigned(*part, values)).collect();
                self.and(made)
            }
            Node::Or(parts) => {
                let parts = Rc::clone(parts);
                let made: Vec<Formula> = parts.iter().map(|part| self.assigned(*part, values)).collect();
                self.or(made)
            }
        }
    }
}
