//! What atoms about one value, or about two, mean together: texts by automata, integers by differences, quantities by order.
//!
//! `Impossible` is a theorem; whatever is not decided is possible.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Model;
use crate::{
    body::{
        formula::{Arena, Atom, AtomId, Formula, Place},
        shape::{Inner, Kind, Kinds},
        text::{Predicate, Texts},
    },
    language::{Base, SearchResult},
};
use kyvtest_go_compat::text::quantity::Quantity;

/// Texts that do not begin or end with white space.
const PLAIN: &str = r"^([^\s]|[^\s](?s:.)*[^\s])?$";

/// Which texts are rather chosen: validation accepts them more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::body) enum Taste {
    /// A DNS subdomain.
    Name,
    /// The key of a label.
    Key,
    /// An absolute path.
    Path,
    /// Neither begins nor ends with white space.
    Plain,
    Any,
}

impl Taste {
    fn predicate(self) -> Option<Predicate> {
        match self {
            Self::Name => Some(Predicate::In(Base::Subdomain)),
            Self::Key => Some(Predicate::In(Base::LabelKey)),
            Self::Path => Some(Predicate::StartsWith(Arc::from("/"))),
            Self::Plain => Some(Predicate::Matches(Arc::from(PLAIN))),
            Self::Any => None,
        }
    }
}

/// Whether the atoms of a model may hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Possible,
    Impossible,
    Unknown,
}

/// The theories, with what they have decided.
#[derive(Debug, Default)]
pub(in crate::body) struct Theory {
    pub(in crate::body) texts: Texts,
}

impl Theory {
    /// Checks the atoms that share a value with one that was just assigned.
    pub(super) fn check(&mut self, arena: &Arena, model: &Model, atom: AtomId) -> Verdict {
        match arena.atom(atom) {
            Atom::Kind(place, _) => kinds(arena, model, *place),
            Atom::Text(place, _) => self.text(arena, model, *place),
            Atom::Same(a, _) => {
                if arena.shape(*a).kinds.has(Kind::Text) {
                    self.text(arena, model, *a)
                } else {
                    Verdict::Possible
                }
            }
            Atom::AtMost(..) | Atom::Difference(..) => integers(arena, model),
            Atom::Double(place, ..) => doubles(arena, model, *place),
            Atom::Quantity(..) | Atom::QuantityOrder(..) => quantities(arena, model),
            Atom::Present(_) | Atom::True(_) | Atom::AtLeast(..) | Atom::Free(_) => Verdict::Possible,
        }
    }

    /// What else holds because of an atom's value.
    pub(super) fn facts(arena: &mut Arena, atom: AtomId) -> Vec<Formula> {
        let mut facts = Vec::new();
        let places: Vec<Place> = match arena.atom(atom) {
            Atom::AtMost(place, _) => vec![*place],
            Atom::Difference(a, b, _) => vec![*a, *b],
            _ => Vec::new(),
        };
        for place in places {
            let shape = arena.shape(place).clone();
            if shape.nonzero {
                // Zero is left out.
                let (negative, zero) = (arena.at_most(place, -1), arena.at_most(place, 0));
                let positive = arena.not(zero);
                facts.push(arena.or([negative, positive]));
            }
        }
        facts
    }

    /// The predicates on a text and on all texts that equal it.
    fn text(&mut self, arena: &Arena, model: &Model, place: Place) -> Verdict {
        let class = class(arena, model, place);
        for atom in &model.order {
            if let Atom::Same(a, b) = arena.atom(*atom)
                && !model.values[atom]
                && class.contains(a)
                && class.contains(b)
            {
                return Verdict::Impossible;
            }
        }
        match self.find(arena, model, &class, &(Vec::new(), Taste::Any)) {
            SearchResult::No => Verdict::Impossible,
            SearchResult::Yes(_) => Verdict::Possible,
            SearchResult::Incomplete => Verdict::Unknown,
        }
    }

    /// A text for a class of equal places, other than some texts; if wished one that validation rather accepts.
    pub(in crate::body) fn find(
        &mut self,
        arena: &Arena,
        model: &Model,
        class: &[Place],
        (not, taste): &(Vec<Arc<str>>, Taste),
    ) -> SearchResult {
        let mut query: Vec<(Predicate, bool)> = Vec::new();
        let mut choices: Option<Vec<Arc<str>>> = None;
        for place in class {
            let shape = arena.shape(*place);
            match &shape.inner {
                Inner::Text(base) => query.extend(base.iter().map(|predicate| (predicate.clone(), true))),
                Inner::Choice(own) => {
                    choices = Some(match choices {
                        None => own.clone(),
                        Some(others) => others.into_iter().filter(|one| own.contains(one)).collect(),
                    });
                }
                Inner::Quantity => query.push((Predicate::Quantity, true)),
                _ => {}
            }
            if shape.nonzero {
                query.push((Predicate::Is(Arc::from("")), false));
            }
        }
        for atom in &model.order {
            if let Atom::Text(place, predicate) = arena.atom(*atom)
                && class.contains(place)
            {
                query.push((predicate.clone(), model.values[atom]));
            }
        }
        query.extend(not.iter().map(|text| (Predicate::Is(Arc::clone(text)), false)));
        query.extend(taste.predicate().map(|predicate| (predicate, true)));
        if let Some(choices) = choices {
            let fits = |choice: &&Arc<str>| {
                query
                    .iter()
                    .all(|(predicate, wanted)| predicate.holds(choice) == *wanted)
            };
            return choices
                .iter()
                .find(fits)
                .map_or(SearchResult::No, |text| SearchResult::Yes(text.to_string()));
        }
        self.texts.find(query)
    }
}

/// All places whose texts equal that of a place.
pub(in crate::body) fn class(arena: &Arena, model: &Model, place: Place) -> Vec<Place> {
    let mut class = vec![place];
    loop {
        let before = class.len();
        for atom in &model.order {
            if let Atom::Same(a, b) = arena.atom(*atom)
                && model.values[atom]
                && class.contains(a) != class.contains(b)
            {
                class.push(if class.contains(a) { *b } else { *a });
            }
        }
        if class.len() == before {
            class.sort_unstable();
            return class;
        }
    }
}

fn kinds(arena: &Arena, model: &Model, place: Place) -> Verdict {
    let mut allowed: Kinds = arena.shape(place).kinds;
    let mut chosen: Option<Kind> = None;
    for atom in &model.order {
        if let Atom::Kind(own, kind) = arena.atom(*atom)
            && *own == place
        {
            if model.values[atom] {
                if chosen.is_some_and(|other| other != *kind) {
                    return Verdict::Impossible;
                }
                chosen = Some(*kind);
            } else {
                allowed = allowed.without(*kind);
            }
        }
    }
    let fits = match chosen {
        Some(kind) => allowed.has(kind),
        None => allowed.0 != 0,
    };
    if fits { Verdict::Possible } else { Verdict::Impossible }
}

/// Difference constraints `x - y <= c` over all integers of the model, the bounds of each against zero: a negative cycle is a
/// contradiction.
fn integers(arena: &Arena, model: &Model) -> Verdict {
    let mut numbers: FxHashMap<Place, usize> = FxHashMap::default();
    let mut edges: Vec<(usize, usize, i128)> = Vec::new();
    let mut number = |place: Place, edges: &mut Vec<(usize, usize, i128)>| {
        let next = numbers.len() + 1;
        *numbers.entry(place).or_insert_with(|| {
            let (low, high) = match arena.shape(place).inner {
                Inner::Int(low, high) => (low, high),
                _ => (i64::MIN, i64::MAX),
            };
            // x - 0 <= high, 0 - x <= -low
            edges.push((next, 0, i128::from(high)));
            edges.push((0, next, -i128::from(low)));
            next
        })
    };
    for atom in &model.order {
        let holds = model.values[atom];
        match arena.atom(*atom) {
            Atom::AtMost(place, most) => {
                let x = number(*place, &mut edges);
                if holds {
                    edges.push((x, 0, i128::from(*most)));
                } else {
                    edges.push((0, x, -i128::from(*most) - 1));
                }
            }
            Atom::Difference(a, b, most) => {
                let (x, y) = (number(*a, &mut edges), number(*b, &mut edges));
                if holds {
                    edges.push((x, y, i128::from(*most)));
                } else {
                    edges.push((y, x, -i128::from(*most) - 1));
                }
            }
            _ => {}
        }
    }
    match potentials(numbers.len() + 1, &edges) {
        Some(_) => Verdict::Possible,
        None => Verdict::Impossible,
    }
}

/// Bellman and Ford: distances that satisfy all constraints, or nothing if there is a negative cycle.
fn potentials(count: usize, edges: &[(usize, usize, i128)]) -> Option<Vec<i128>> {
    let mut distance = vec![0i128; count];
    for round in 0..=count {
        let mut changed = false;
        for &(x, y, most) in edges {
            // x <= y + most
            if distance[y] + most < distance[x] {
                distance[x] = distance[y] + most;
                changed = true;
            }
        }
        if !changed {
            return Some(distance);
        }
        if round == count {
            return None;
        }
    }
    None
}

/// Integers that satisfy a model's atoms.
pub(in crate::body) fn integer_values(arena: &Arena, model: &Model) -> FxHashMap<Place, i64> {
    let mut places: Vec<Place> = Vec::new();
    for atom in &model.order {
        match arena.atom(*atom) {
            Atom::AtMost(place, _) => places.push(*place),
            Atom::Difference(a, b, _) => places.extend([*a, *b]),
            _ => {}
        }
    }
    places.sort_unstable();
    places.dedup();
    // Zero is the first node; each place is bounded by its shape, which comes last so that small values are found first.
    let at = |place: &Place| places.binary_search(place).map_or(0, |at| at + 1);
    let mut edges: Vec<(usize, usize, i128)> = Vec::new();
    for place in &places {
        let (low, high) = match arena.shape(*place).inner {
            Inner::Int(low, high) => (low, high),
            _ => (i64::MIN, i64::MAX),
        };
        edges.push((at(place), 0, i128::from(high)));
        edges.push((0, at(place), -i128::from(low)));
    }
    for atom in &model.order {
        let holds = model.values[atom];
        match arena.atom(*atom) {
            Atom::AtMost(place, most) if holds => edges.push((at(place), 0, i128::from(*most))),
            Atom::AtMost(place, most) => edges.push((0, at(place), -i128::from(*most) - 1)),
            Atom::Difference(a, b, most) if holds => edges.push((at(a), at(b), i128::from(*most))),
            Atom::Difference(a, b, most) => edges.push((at(b), at(a), -i128::from(*most) - 1)),
            _ => {}
        }
    }
    let Some(distance) = potentials(places.len() + 1, &edges) else {
        return FxHashMap::default();
    };
    let found = places.iter().map(|place| {
        let value = distance[at(place)] - distance[0];
        (*place, i64::try_from(value).unwrap_or_default())
    });
    found.collect()
}

fn doubles(arena: &Arena, model: &Model, place: Place) -> Verdict {
    let (mut low, mut high) = ((f64::NEG_INFINITY, false), (f64::INFINITY, false));
    for atom in &model.order {
        if let Atom::Double(own, bits, strict) = arena.atom(*atom)
            && *own == place
        {
            let bound = f64::from_bits(*bits);
            if model.values[atom] {
                if bound < high.0 || bound == high.0 && *strict {
                    high = (bound, *strict);
                }
            } else if bound > low.0 || bound == low.0 && !*strict {
                low = (bound, !*strict);
            }
        }
    }
    if low.0 > high.0 || low.0 == high.0 && (low.1 || high.1) {
        Verdict::Impossible
    } else {
        Verdict::Possible
    }
}

/// The order of quantities: places and constants, each `<=` or `<` another; a cycle with a strict step is a contradiction.
fn quantities(arena: &Arena, model: &Model) -> Verdict {
    let mut places: Vec<Place> = Vec::new();
    let mut constants: Vec<Quantity> = Vec::new();
    for atom in &model.order {
        match arena.atom(*atom) {
            Atom::Quantity(place, amount, _) => {
                places.push(*place);
                constants.push(amount.0.clone());
            }
            Atom::QuantityOrder(a, b, _) => places.extend([*a, *b]),
            _ => {}
        }
    }
    places.sort_unstable();
    places.dedup();
    constants.sort();
    constants.dedup();
    let at = |place: &Place| places.binary_search(place).unwrap_or_default();
    let constant = |amount: &Quantity| {
        let found = constants.iter().position(|own| own == amount);
        places.len() + found.unwrap_or_default()
    };
    let count = places.len() + constants.len();
    // 0: nothing is known, 1: at most, 2: less.
    let mut order = vec![vec![0u8; count]; count];
    let mut less = |x: usize, y: usize, strict: bool| {
        let own = &mut order[x][y];
        *own = (*own).max(1 + u8::from(strict));
    };
    for pair in constants.windows(2) {
        if let [small, large] = pair {
            less(constant(small), constant(large), true);
        }
    }
    for atom in &model.order {
        let holds = model.values[atom];
        match arena.atom(*atom) {
            Atom::Quantity(place, amount, strict) if holds => less(at(place), constant(&amount.0), *strict),
            Atom::Quantity(place, amount, strict) => less(constant(&amount.0), at(place), !*strict),
            Atom::QuantityOrder(a, b, strict) if holds => less(at(a), at(b), *strict),
            Atom::QuantityOrder(a, b, strict) => less(at(b), at(a), !*strict),
            _ => {}
        }
    }
    for through in 0..count {
        for from in 0..count {
            for to in 0..count {
                let (first, second) = (order[from][through], order[through][to]);
                if first > 0 && second > 0 {
                    order[from][to] = order[from][to].max(first.max(second));
                }
            }
        }
    }
    if (0..count).any(|one| order[one][one] == 2) {
        Verdict::Impossible
    } else {
        Verdict::Possible
    }
}
