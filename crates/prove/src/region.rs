//! Where two policies differ: the requests of a region, as data that outlive the proof.

use super::{replay::Replayed, solver::Literal, universe};
use kyvtest_model::{
    kube::{Atom, Concrete, Facts, Namespace, Pairs, Pattern, Request, Text},
    verdict::DivergenceClass,
};

/// Requests on which the sides differ in the same way.
#[derive(Debug, Clone)]
pub struct Region {
    /// How they differ.
    pub class: DivergenceClass,
    /// The code of the hazard that causes it, where one is known.
    pub hazard: Option<String>,
    /// Which requests, for people.
    pub text: String,
    /// Why, for people; empty if unknown.
    pub cause: String,
    /// The resources and operations.
    pub cells: Vec<String>,
    /// What else their requests have in common.
    pub(crate) answers: Vec<OwnedLiteral>,
    /// One of the requests.
    pub witness: Replayed,
}

impl Region {
    /// Whether a request is one of the region's, in a namespace of which this is known.
    pub fn contains(&self, request: &Request, namespace: Option<&Namespace>) -> bool {
        let name = universe::name(&request.cell());
        let mut facts = Concrete::new(request, namespace);
        self.cells.contains(&name) && self.answers.iter().all(|answer| answer.fits(&mut facts))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnPattern {
    Exact(String),
    Glob(String),
    Prefix(String),
}

impl OwnPattern {
    fn new(pattern: Pattern<'_>) -> Self {
        match pattern {
            Pattern::Exact(text) => Self::Exact(text.to_owned()),
            Pattern::Glob(text) => Self::Glob(text.to_owned()),
            Pattern::Prefix(text) => Self::Prefix(text.to_owned()),
        }
    }

    fn pattern(&self) -> Pattern<'_> {
        match self {
            Self::Exact(text) => Pattern::Exact(text),
            Self::Glob(text) => Pattern::Glob(text),
            Self::Prefix(text) => Pattern::Prefix(text),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnAtom {
    Text(Text, OwnPattern),
    Has(Pairs, String),
    Value(Pairs, String, OwnPattern),
    AnyPair(Pairs, OwnPattern, OwnPattern),
    AnyGroup(OwnPattern),
    GroupsAre(Vec<String>),
    Role(String),
    ClusterRole(String),
}

/// A fact about requests and its value, without the policy that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedLiteral {
    atom: OwnAtom,
    holds: bool,
}

impl OwnedLiteral {
    /// Of a path.
    pub(super) fn new((atom, holds): Literal<'_>) -> Self {
        let own = OwnPattern::new;
        let atom = match atom {
            Atom::Text(text, pattern) => OwnAtom::Text(text, own(pattern)),
            Atom::Has(pairs, key) => OwnAtom::Has(pairs, key.to_owned()),
            Atom::Value(pairs, key, pattern) => OwnAtom::Value(pairs, key.to_owned(), own(pattern)),
            Atom::AnyPair(pairs, key, value) => OwnAtom::AnyPair(pairs, own(key), own(value)),
            Atom::AnyGroup(pattern) => OwnAtom::AnyGroup(own(pattern)),
            Atom::GroupsAre(groups) => OwnAtom::GroupsAre(groups.to_vec()),
            Atom::Role(role) => OwnAtom::Role(role.to_owned()),
            Atom::ClusterRole(role) => OwnAtom::ClusterRole(role.to_owned()),
        };
        Self { atom, holds }
    }

    fn fits<'a>(&'a self, facts: &mut impl Facts<'a>) -> bool {
        let atom = match &self.atom {
            OwnAtom::Text(text, pattern) => Atom::Text(*text, pattern.pattern()),
            OwnAtom::Has(pairs, key) => Atom::Has(*pairs, key),
            OwnAtom::Value(pairs, key, pattern) => Atom::Value(*pairs, key, pattern.pattern()),
            OwnAtom::AnyPair(pairs, key, value) => Atom::AnyPair(*pairs, key.pattern(), value.pattern()),
            OwnAtom::AnyGroup(pattern) => Atom::AnyGroup(pattern.pattern()),
            OwnAtom::GroupsAre(groups) => Atom::GroupsAre(groups),
            OwnAtom::Role(role) => Atom::Role(role),
            OwnAtom::ClusterRole(role) => Atom::ClusterRole(role),
        };
        facts.ask(atom) == self.holds
    }
}
