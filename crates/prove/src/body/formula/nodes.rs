//! The formulas of an arena, each stored once, so that equal formulas are equal numbers. No upstream counterpart.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{AtomId, Formula};

/// A formula's structure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::body) enum Node {
    False,
    True,
    Literal(AtomId, bool),
    And(Rc<[Formula]>),
    Or(Rc<[Formula]>),
}

/// The atoms of a formula, each as one of the bits: a formula without a bit has none of its atoms.
pub(in crate::body) type Signature = u128;

/// The signature of a formula of these atoms.
pub(in crate::body) fn signature_of(atoms: &[AtomId]) -> Signature {
    atoms.iter().fold(0, |all, atom| all | 1 << (atom.0 % Signature::BITS))
}

/// All formulas.
#[derive(Debug)]
pub(super) struct Nodes {
    all: Vec<Node>,
    /// Of each formula.
    signatures: Vec<Signature>,
    /// The opposite of each formula, if it was ever made; that of a literal is found among the literals.
    negations: Vec<Option<Formula>>,
    /// Each atom's literals: that it does not hold, and that it does.
    literals: Vec<[Option<Formula>; 2]>,
    /// Disjunctions and conjunctions by their parts. They are looked up by slices: most joins make a formula that is known.
    joined: [FxHashMap<Rc<[Formula]>, Formula>; 2],
}

impl Nodes {
    pub(super) fn new() -> Self {
        let mut nodes = Self {
            all: Vec::new(),
            signatures: Vec::new(),
            negations: Vec::new(),
            literals: Vec::new(),
            joined: [FxHashMap::default(), FxHashMap::default()],
        };
        nodes.push(Node::False, 0);
        nodes.push(Node::True, 0);
        nodes
    }

    fn push(&mut self, node: Node, signature: Signature) -> Formula {
        let id = Formula(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(node);
        self.signatures.push(signature);
        self.negations.push(None);
        id
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn look(&self, formula: Formula) -> &Node {
        &self.all[formula.0 as usize]
    }

    pub(super) fn signature(&self, formula: Formula) -> Signature {
        self.signatures[formula.0 as usize]
    }

    pub(super) fn literal(&mut self, atom: AtomId, holds: bool) -> Formula {
        let number = atom.0 as usize;
        if number >= self.literals.len() {
            self.literals.resize(number + 1, [None, None]);
        }
        if let Some(known) = self.literals[number][usize::from(holds)] {
            return known;
        }
        let made = self.push(Node::Literal(atom, holds), signature_of(&[atom]));
        self.literals[number][usize::from(holds)] = Some(made);
        made
    }

    /// The conjunction or disjunction of at least two parts, which are sorted.
    pub(super) fn joined(&mut self, parts: &[Formula], is_and: bool) -> Formula {
        if let Some(known) = self.joined[usize::from(is_and)].get(parts) {
            return *known;
        }
        let shared: Rc<[Formula]> = Rc::from(parts);
        let signature = parts.iter().fold(0, |all, part| all | self.signature(*part));
        let node = if is_and { Node::And } else { Node::Or };
        let made = self.push(node(Rc::clone(&shared)), signature);
        self.joined[usize::from(is_and)].insert(shared, made);
        made
    }

    /// The opposite of a formula, if `oppose` recorded it.
    pub(super) fn opposed(&self, formula: Formula) -> Option<Formula> {
        self.negations[formula.0 as usize]
    }

    /// Records that two formulas are each other's opposite.
    pub(super) fn oppose(&mut self, formula: Formula, negated: Formula) {
        self.negations[formula.0 as usize] = Some(negated);
        self.negations[negated.0 as usize] = Some(formula);
    }

    /// The opposite of a formula, if it was ever made.
    pub(super) fn known_negation(&self, formula: Formula) -> Option<Formula> {
        match *self.look(formula) {
            Node::Literal(atom, holds) => self.literals.get(atom.0 as usize)?[usize::from(!holds)],
            _ => self.opposed(formula),
        }
    }
}
