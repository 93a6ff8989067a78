//! Formulas without what their own parts decide, so that formulas that say the same are more often the same.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{Arena, AtomId, Formula, Node, Signature, signature_of};

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
            let mut values = Values::of(known);
            let mut changed = false;
            for part in &mut reduced {
                if matches!(self.look(*part), Node::Literal(..)) {
                    continue;
                }
                let simpler = self.assigned(*part, &mut values);
                if simpler != *part {
                    *part = self.reduced(simpler);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let made = self.join(reduced, is_and);
        let made = if made == formula { formula } else { self.reduced(made) };
        self.reductions.insert(formula, made);
        made
    }

    /// A formula in which some atoms have values.
    fn assigned(&mut self, formula: Formula, values: &mut Values) -> Formula {
        if self.signature(formula) & values.signature == 0 {
            return formula;
        }
        let (parts, is_and) = match self.look(formula) {
            Node::True | Node::False => return formula,
            Node::Literal(atom, holds) => {
                let value = values.atoms.get(atom);
                return value.map_or(formula, |value| Formula::of(value == holds));
            }
            Node::And(parts) => (Rc::clone(parts), true),
            Node::Or(parts) => (Rc::clone(parts), false),
        };
        // Formulas share their parts: without the memory, one is visited as often as there are ways to it.
        if let Some(known) = values.made.get(&formula) {
            return *known;
        }
        let made: Vec<Formula> = parts.iter().map(|part| self.assigned(*part, values)).collect();
        let made = self.join(made, is_and);
        values.made.insert(formula, made);
        made
    }
}

/// Values of atoms, and the formulas that were simplified with them.
struct Values {
    atoms: FxHashMap<AtomId, bool>,
    signature: Signature,
    made: FxHashMap<Formula, Formula>,
}

impl Values {
    fn of(atoms: FxHashMap<AtomId, bool>) -> Self {
        let ids: Vec<AtomId> = atoms.keys().copied().collect();
        Self {
            atoms,
            signature: signature_of(&ids),
            made: FxHashMap::default(),
        }
    }
}
