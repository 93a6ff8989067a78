//! Formulas over what can be read of a request: places in documents, atoms about them, and their Boolean combinations.
//!
//! Everything is stored once and named by a number, so that equal formulas are equal numbers. Formulas are kept in negation
//! normal form. No upstream counterpart.

mod atoms;
mod nodes;
mod notes;
mod reduce;
mod substitute;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use kyvtest_go_compat::text::quantity::Quantity;

use self::nodes::Nodes;
pub(super) use self::nodes::{Node, Signature, signature_of};
use super::{
    lookup::Lookup,
    shape::{Inner, Kind, Shape},
    text::Predicate,
    value::Conversion,
};

/// A place in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u32);

/// An atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AtomId(pub(super) u32);

/// A formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Formula(pub(super) u32);

impl Formula {
    pub(super) const FALSE: Self = Self(0);
    pub(super) const TRUE: Self = Self(1);

    pub(super) fn of(value: bool) -> Self {
        if value { Self::TRUE } else { Self::FALSE }
    }
}

/// How a place is reached from the one above it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Step {
    /// A document, or an unknown value that is named by its expression.
    Root(Arc<str>),
    /// The value of a key.
    Field(Arc<str>),
    /// The element of a list that a quantifier is about; the number tells nested quantifiers over one list apart.
    Bound(u32),
    /// An element at a position.
    Item(u32),
    /// Some other element.
    Some(u32),
    /// The key of a map's entry.
    Key,
    /// The value of a map's entry.
    Value,
    /// The unknown value of an expression, named by the expression. It belongs to the innermost element that it reads.
    Term(Arc<str>),
}

#[derive(Debug)]
struct PlaceData {
    parent: Option<Place>,
    step: Step,
    shape: Shape,
    optional: bool,
}

/// What can be true or false of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Atom {
    /// A field is there.
    Present(Place),
    /// A value is of a kind.
    Kind(Place, Kind),
    /// A text has a predicate.
    Text(Place, Predicate),
    /// A Boolean is true.
    True(Place),
    /// An integer is at most the number.
    AtMost(Place, i64),
    /// A floating-point number is at most, or less than, the number (its bits).
    Double(Place, u64, bool),
    /// The first number minus the second is at most the third.
    Difference(Place, Place, i64),
    /// A text read as a quantity is at most, or less than, the quantity (canonical text).
    Quantity(Place, Amount, bool),
    /// A quantity is at most, or less than, the quantity of another place.
    QuantityOrder(Place, Place, bool),
    /// Two values are equal.
    Same(Place, Place),
    /// At least N elements of a list, or entries of a map, have a property.
    AtLeast(Place, Place, Formula, u32),
    /// Something of which nothing is known.
    Free(Arc<str>),
}

impl Atom {
    /// The places that it is about; what it says of their elements aside.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let (first, second) = match self {
            Self::Present(place)
            | Self::Kind(place, _)
            | Self::Text(place, _)
            | Self::True(place)
            | Self::AtMost(place, _)
            | Self::Double(place, ..)
            | Self::Quantity(place, ..)
            | Self::AtLeast(place, ..) => (Some(*place), None),
            Self::Difference(a, b, _) | Self::QuantityOrder(a, b, _) | Self::Same(a, b) => (Some(*a), Some(*b)),
            Self::Free(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// A quantity as a key.
#[derive(Debug, Clone)]
pub(super) struct Amount(pub(super) Quantity);

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Amount {}

impl std::hash::Hash for Amount {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

/// Which values two maps share.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shared {
    Only(&'static [&'static str]),
    AllBut(&'static str),
}

impl Shared {
    fn has(self, key: &str) -> bool {
        match self {
            Self::Only(keys) => keys.contains(&key),
            Self::AllBut(other) => key != other,
        }
    }
}

/// Keys with their places; a key without one cannot be there.
type Fields = Vec<(Arc<str>, Option<Place>)>;

/// All places, atoms and formulas of a proof.
#[derive(Debug)]
pub(super) struct Arena {
    places: Vec<PlaceData>,
    place_ids: FxHashMap<(Option<Place>, Step), Place>,
    atoms: Vec<Atom>,
    atom_ids: FxHashMap<Atom, AtomId>,
    nodes: Nodes,
    reductions: FxHashMap<Formula, Formula>,
    /// Maps some of whose values are those of other maps.
    shared: Vec<(Place, Place, Shared)>,
    /// The fields of places, as far as they are used.
    fields: FxHashMap<Place, Fields>,
    /// Formulas about other places, by the places that are exchanged.
    moved: FxHashMap<(Place, Place), FxHashMap<Formula, Formula>>,
    /// The constant keys that are read of maps, by the maps' places without positions.
    keys: FxHashMap<String, Vec<Arc<str>>>,
    /// How many elements the lists that expressions go through have at most; `None` if there may be any number.
    limit: Option<u32>,
    /// The lists that this holds for.
    limited: Vec<Place>,
    /// Lists of the pieces of texts: list, text, separator.
    splits: Vec<(Place, Place, Arc<str>)>,
    /// Values that are read from texts: value, text, when it can be read, and how.
    conversions: Vec<(Place, Place, Formula, Conversion)>,
    lookups: Vec<Lookup>,
    /// Group version and kind of the new object, if a strategic merge goes through it: in lists that it joins by keys every key
    /// is there once.
    merged: Option<(String, String)>,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            place_ids: FxHashMap::default(),
            atoms: Vec::new(),
            atom_ids: FxHashMap::default(),
            nodes: Nodes::new(),
            reductions: FxHashMap::default(),
            shared: Vec::new(),
            fields: FxHashMap::default(),
            moved: FxHashMap::default(),
            keys: FxHashMap::default(),
            limit: None,
            limited: Vec::new(),
            splits: Vec::new(),
            conversions: Vec::new(),
            lookups: Vec::new(),
            merged: None,
        }
    }

    /// How many formulas there are: the measure of a proof's memory.
    pub(super) fn size(&self) -> usize {
        self.nodes.count()
    }

    /// Says that a strategic merge goes through the new object.
    pub(super) fn set_merged(&mut self, api_version: String, kind: String) {
        self.merged = Some((api_version, kind));
    }

    /// The kind of the new object, if a strategic merge goes through it.
    pub(super) fn merged(&self) -> Option<(&str, &str)> {
        self.merged
            .as_ref()
            .map(|(version, kind)| (version.as_str(), kind.as_str()))
    }

    // Places.

    pub(super) fn root(&mut self, name: &str, shape: Shape) -> Place {
        self.place(None, Step::Root(Arc::from(name)), shape, false)
    }

    fn place(&mut self, parent: Option<Place>, step: Step, shape: Shape, optional: bool) -> Place {
        if let Some(known) = self.place_ids.get(&(parent, step.clone())) {
            return *known;
        }
        let id = Place(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        self.places.push(PlaceData {
            parent,
            step: step.clone(),
            shape,
            optional,
        });
        self.place_ids.insert((parent, step), id);
        id
    }

    pub(super) fn shape(&self, place: Place) -> &Shape {
        &self.places[place.0 as usize].shape
    }

    pub(super) fn step(&self, place: Place) -> &Step {
        &self.places[place.0 as usize].step
    }

    pub(super) fn parent(&self, place: Place) -> Option<Place> {
        self.places[place.0 as usize].parent
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..u32::try_from(self.places.len()).unwrap_or(u32::MAX)).map(Place)
    }

    /// Gives a map some of the values of another one.
    pub(super) fn share(&mut self, map: Place, other: Place, keys: Shared) {
        self.shared.push((map, other, keys));
    }

    /// The place of a field; `None` if the map cannot have it.
    pub(super) fn field(&mut self, parent: Place, key: &str) -> Option<Place> {
        let known = self.fields.get(&parent).into_iter().flatten();
        if let Some((_, found)) = known.into_iter().find(|(own, _)| &**own == key) {
            return *found;
        }
        let shares = |(map, _, keys): &&(Place, Place, Shared)| *map == parent && keys.has(key);
        let found = match self.shared.iter().find(shares) {
            Some((_, other, _)) => self.field(*other, key),
            None => self.new_field(parent, key),
        };
        self.fields.entry(parent).or_default().push((Arc::from(key), found));
        found
    }

    fn new_field(&mut self, parent: Place, key: &str) -> Option<Place> {
        let decoded = self.is_stored(parent);
        let (shape, optional) = self.shape(parent).field(key, decoded)?;
        if matches!(
            self.shape(parent).inner,
            Inner::Map(_) | Inner::Labels | Inner::Unknown | Inner::Custom | Inner::Written
        ) {
            let generic = self.generic(parent);
            let keys = self.keys.entry(generic).or_default();
            if !keys.iter().any(|own| &**own == key) {
                keys.push(Arc::from(key));
            }
        }
        Some(self.place(Some(parent), Step::Field(Arc::from(key)), shape, optional))
    }

    /// Whether a place is in an object that was stored before the request.
    fn is_stored(&self, place: Place) -> bool {
        match (self.parent(place), self.step(place)) {
            (_, Step::Term(_)) => true,
            (Some(parent), _) => self.is_stored(parent),
            (None, Step::Root(name)) => &**name != "object",
            (None, _) => false,
        }
    }

    /// The element of a list, or the entry of a map, that a quantifier is about.
    pub(super) fn bound(&mut self, parent: Place, number: u32) -> Option<Place> {
        let shape = self.element_shape(parent)?;
        Some(self.place(Some(parent), Step::Bound(number), shape, false))
    }

    pub(super) fn item(&mut self, parent: Place, position: u32) -> Place {
        let shape = self.shape(parent).item();
        self.place(Some(parent), Step::Item(position), shape, false)
    }

    /// A further element, or a further entry of a map, which may not be there.
    pub(super) fn some(&mut self, parent: Place, number: u32, optional: bool) -> Option<Place> {
        let shape = self.element_shape(parent)?;
        // Odd numbers are certain, so that the two never meet.
        let number = 2 * number + u32::from(!optional);
        Some(self.place(Some(parent), Step::Some(number), shape, optional))
    }

    pub(super) fn is_optional(&self, place: Place) -> bool {
        self.places[place.0 as usize].optional
    }

    fn element_shape(&self, parent: Place) -> Option<Shape> {
        let own = self.shape(parent);
        if own.kinds.has(Kind::List) && !matches!(own.inner, Inner::Map(_) | Inner::Labels | Inner::Struct(_)) {
            Some(own.item())
        } else {
            own.entry()
        }
    }

    pub(super) fn entry_key(&mut self, entry: Place) -> Option<Place> {
        let Inner::Entry(key, _) = self.shape(entry).inner.clone() else {
            return None;
        };
        Some(self.place(Some(entry), Step::Key, *key, false))
    }

    pub(super) fn entry_value(&mut self, entry: Place) -> Option<Place> {
        let Inner::Entry(_, value) = self.shape(entry).inner.clone() else {
            return None;
        };
        Some(self.place(Some(entry), Step::Value, *value, false))
    }

    /// The place's path without positions.
    pub(super) fn generic(&self, place: Place) -> String {
        let data = &self.places[place.0 as usize];
        let mut path = data.parent.map_or_else(String::new, |parent| self.generic(parent));
        match &data.step {
            Step::Root(name) => path.push_str(name),
            Step::Field(key) => {
                path.push('.');
                path.push_str(key);
            }
            Step::Bound(_) | Step::Item(_) | Step::Some(_) => path.push_str("[]"),
            Step::Key => path.push_str("{key}"),
            Step::Value => path.push_str("{value}"),
            Step::Term(name) => {
                path.push('<');
                path.push_str(name);
                path.push('>');
            }
        }
        path
    }

    /// The closest element of a list, or entry of a map, that a place is or is below of.
    pub(super) fn element(&self, place: Place) -> Option<Place> {
        match self.step(place) {
            Step::Bound(_) | Step::Item(_) | Step::Some(_) => Some(place),
            _ => self.parent(place).and_then(|parent| self.element(parent)),
        }
    }

    fn is_within(&self, place: Place, outer: Place) -> bool {
        place == outer || self.parent(place).is_some_and(|parent| self.is_within(parent, outer))
    }

    /// The unknown value of an expression over places: equal expressions over equal places are one value. `None` if the
    /// places belong to elements of which none contains the other, so that no single element determines the value.
    pub(super) fn term(&mut self, name: &str, args: &[Place], shape: Shape) -> Option<Place> {
        let elements: Vec<Place> = args.iter().filter_map(|place| self.element(*place)).collect();
        if elements.len() > 1 && elements.iter().all(|place| self.is_written_out(*place)) {
            // Elements at positions are values like any other.
            let places: Vec<String> = args.iter().map(|place| self.exact(*place)).collect();
            let step = Step::Term(Arc::from(format!("{name}({})", places.join(", "))));
            return Some(self.place(None, step, shape, false));
        }
        let innermost = elements.iter().copied().find(|one| {
            let mut all = elements.iter();
            all.all(|other| self.is_within(*one, *other))
        });
        if innermost.is_none() && !elements.is_empty() {
            return None;
        }
        let paths: Vec<String> = args.iter().map(|place| self.generic(*place)).collect();
        let step = Step::Term(Arc::from(format!("{name}({})", paths.join(", "))));
        Some(self.place(innermost, step, shape, false))
    }

    /// Whether a place is reached by positions alone, in an arena that writes elements out.
    fn is_written_out(&self, place: Place) -> bool {
        let fixed = match self.step(place) {
            Step::Bound(_) | Step::Some(_) | Step::Key | Step::Value => false,
            Step::Root(_) | Step::Field(_) | Step::Item(_) | Step::Term(_) => true,
        };
        fixed && self.limit.is_some() && self.parent(place).is_none_or(|parent| self.is_written_out(parent))
    }

    /// The place's path with positions.
    fn exact(&self, place: Place) -> String {
        let parent = self.parent(place).map_or_else(String::new, |parent| self.exact(parent));
        format!("{parent}/{:?}", self.step(place))
    }

    /// The constant keys of a map that are read anywhere.
    pub(super) fn keys(&self, map: Place) -> Vec<Arc<str>> {
        self.keys.get(&self.generic(map)).cloned().unwrap_or_default()
    }

    // Formulas.

    /// The signature of a formula.
    pub(super) fn signature(&self, formula: Formula) -> Signature {
        self.nodes.signature(formula)
    }

    pub(super) fn look(&self, formula: Formula) -> &Node {
        self.nodes.look(formula)
    }

    pub(super) fn atom(&self, id: AtomId) -> &Atom {
        &self.atoms[id.0 as usize]
    }

    /// The number of an atom, if any formula has it.
    pub(super) fn known(&self, atom: &Atom) -> Option<AtomId> {
        self.atom_ids.get(atom).copied()
    }

    pub(super) fn literal(&mut self, atom: Atom) -> Formula {
        let id = match self.atom_ids.get(&atom) {
            Some(known) => *known,
            None => {
                let id = AtomId(u32::try_from(self.atoms.len()).unwrap_or(u32::MAX));
                self.atoms.push(atom.clone());
                self.atom_ids.insert(atom, id);
                id
            }
        };
        self.nodes.literal(id, true)
    }

    pub(super) fn signed(&mut self, id: AtomId, holds: bool) -> Formula {
        self.nodes.literal(id, holds)
    }

    pub(super) fn not(&mut self, formula: Formula) -> Formula {
        if let Some(known) = self.nodes.opposed(formula) {
            return known;
        }
        let negated = match self.look(formula).clone() {
            Node::False => Formula::TRUE,
            Node::True => Formula::FALSE,
            Node::Literal(atom, holds) => self.nodes.literal(atom, !holds),
            Node::And(parts) => {
                let parts: Vec<Formula> = parts.iter().map(|part| self.not(*part)).collect();
                self.or(parts)
            }
            Node::Or(parts) => {
                let parts: Vec<Formula> = parts.iter().map(|part| self.not(*part)).collect();
                self.and(parts)
            }
        };
        self.nodes.oppose(formula, negated);
        negated
    }

    pub(super) fn and(&mut self, parts: impl IntoIterator<Item = Formula>) -> Formula {
        self.join(parts, true)
    }

    pub(super) fn or(&mut self, parts: impl IntoIterator<Item = Formula>) -> Formula {
        self.join(parts, false)
    }

    /// The parts of a disjunction within a conjunction, or the other way round.
    fn inner(&self, part: Formula, is_and: bool) -> &[Formula] {
        match (self.look(part), is_and) {
            (Node::Or(inner), true) | (Node::And(inner), false) => inner,
            _ => &[],
        }
    }

    fn join(&mut self, parts: impl IntoIterator<Item = Formula>, is_and: bool) -> Formula {
        let (neutral, decisive) = (Formula::of(is_and), Formula::of(!is_and));
        let parts = parts.into_iter();
        let mut flat: Vec<Formula> = Vec::with_capacity(parts.size_hint().0);
        for part in parts {
            match self.look(part) {
                Node::And(inner) if is_and => flat.extend(inner.iter()),
                Node::Or(inner) if !is_and => flat.extend(inner.iter()),
                _ if part == neutral => {}
                _ if part == decisive => return decisive,
                _ => flat.push(part),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        let has = |part: &Formula| flat.binary_search(part).is_ok();
        let has_negation = |part: &Formula| self.nodes.known_negation(*part).is_some_and(|other| has(&other));
        if flat.iter().any(has_negation) {
            return decisive;
        }
        let inner = |part: &Formula| self.inner(*part, is_and);
        // Only what has no atoms but theirs can be one of the parts, or the opposite of one.
        let atoms = flat.iter().fold(0, |all, part| all | self.signature(*part));
        let may_have = |part: &Formula| self.signature(*part) & !atoms == 0;
        // Absorption: `a || (a && b)` is `a`.
        let absorbs = |part: &Formula| may_have(part) && has(part);
        // Resolution: `a || (!a && b)` is `a || b`.
        let resolved = |part: &Formula| may_have(part) && has_negation(part);
        // Mostly neither applies.
        if flat
            .iter()
            .any(|part| inner(part).iter().any(|part| absorbs(part) || resolved(part)))
        {
            let (shrinking, mut parts): (Vec<Formula>, Vec<Formula>) = flat
                .iter()
                .copied()
                .filter(|part| !inner(part).iter().any(absorbs))
                .partition(|part| inner(part).iter().any(resolved));
            if !shrinking.is_empty() {
                let rest = |part| inner(part).iter().copied().filter(|part| !resolved(part)).collect();
                let rests: Vec<Vec<Formula>> = shrinking.iter().map(rest).collect();
                for rest in rests {
                    parts.push(self.join(rest, !is_and));
                }
                return self.join(parts, is_and);
            }
            flat = parts;
        }
        match flat.as_slice() {
            [] => neutral,
            [one] => *one,
            parts => self.nodes.joined(parts, is_and),
        }
    }

    /// `condition ? then : otherwise`
    pub(super) fn choose(&mut self, condition: Formula, then: Formula, otherwise: Formula) -> Formula {
        if then == otherwise {
            return then;
        }
        let not = self.not(condition);
        let (yes, no) = (self.and([condition, then]), self.and([not, otherwise]));
        self.or([yes, no])
    }

    /// Whether a formula is about an element, or about something below it.
    pub(super) fn mentions(&self, formula: Formula, element: Place) -> bool {
        match self.look(formula) {
            Node::True | Node::False => false,
            Node::And(parts) | Node::Or(parts) => parts.iter().any(|part| self.mentions(*part, element)),
            Node::Literal(atom, _) => {
                let atom = self.atom(*atom);
                let is_about = || atom.places().any(|place| self.is_within(place, element));
                match atom {
                    Atom::AtLeast(_, bound, body, _) => {
                        *bound != element && (is_about() || self.mentions(*body, element))
                    }
                    _ => is_about(),
                }
            }
        }
    }
}
