//! Can answers be given together? One group of questions at a time: a text, a map of texts, the user's groups.
//!
//! Groups share no variable, so answers that each group can give can be given together. `No` is a theorem; whatever is cut
//! off is `Incomplete`, and makes the whole proof unknown.

use rustc_hash::FxHashMap;

use super::{
    language::{Base, SearchResult, shortest},
    symbolic::Scratch,
};
use kyvtest_model::kube::{Atom, Pattern};

/// A question with its answer.
pub(crate) type Literal<'p> = (Atom<'p>, bool);

/// What a group of questions can be answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Model<T> {
    /// With nothing.
    No,
    /// With this.
    Yes(T),
    /// Not decided.
    Incomplete,
}

/// How many negative questions about pairs a search may dodge.
const DODGES: usize = 10;

/// How many placements of pairs are tried.
const PLACEMENTS: usize = 2_000;

type Query<'p> = (Base, Vec<Pattern<'p>>, Vec<Pattern<'p>>);

/// Solves questions, and keeps the results.
#[derive(Debug, Default)]
pub struct Solver<'p> {
    texts: FxHashMap<Query<'p>, SearchResult>,
    possible: FxHashMap<Domain, FxHashMap<Vec<Literal<'p>>, Possible>>,
    /// Scratch memory of the current question.
    pub(super) room: Scratch<'p>,
}

/// What a group of questions is about, and where its answers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Domain {
    /// A text of a language.
    Text(Base),
    Map(MapBase<'static>),
    /// The user's groups.
    Groups,
}

/// Whether answers can be given together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Possible {
    /// They cannot.
    No,
    /// They can.
    Yes,
    /// Not decided.
    Incomplete,
}

impl<T> From<Model<T>> for Possible {
    fn from(model: Model<T>) -> Self {
        match model {
            Model::No => Self::No,
            Model::Yes(_) => Self::Yes,
            Model::Incomplete => Self::Incomplete,
        }
    }
}

/// The languages of a map, and a key that is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapBase<'r> {
    /// The language of keys.
    pub key: Base,
    /// The language of values.
    pub value: Base,
    /// A key that is spoken for elsewhere.
    pub(crate) reserved: Option<&'r str>,
}

/// A key in the making.
#[derive(Debug, Clone, Default)]
struct Slot<'p> {
    key: Option<&'p str>,
    keys: Vec<Pattern<'p>>,
    values: Vec<Pattern<'p>>,
}

/// What the literals of a map say.
#[derive(Default)]
struct MapQuestions<'p> {
    present: Vec<&'p str>,
    absent: Vec<&'p str>,
    values: Vec<(&'p str, Pattern<'p>, bool)>,
    some: Vec<(Pattern<'p>, Pattern<'p>)>,
    none: Vec<(Pattern<'p>, Pattern<'p>)>,
}

impl<'p> Solver<'p> {
    /// Whether these answers of one group can be given together. The cells of a universe ask the same again and again.
    pub(crate) fn possible(&mut self, domain: Domain, literals: &[Literal<'p>]) -> Possible {
        if let Some(known) = self.possible.get(&domain).and_then(|known| known.get(literals)) {
            return *known;
        }
        let found = match domain {
            Domain::Text(base) => self.text_of(base, literals).into(),
            Domain::Map(base) => self.map(base, literals).into(),
            Domain::Groups => self.groups(literals).into(),
        };
        self.possible
            .entry(domain)
            .or_default()
            .insert(literals.to_vec(), found);
        found
    }

    /// A shortest text with these answers to questions about it.
    pub(crate) fn text_of(&mut self, base: Base, literals: &[Literal<'p>]) -> Model<String> {
        let of = |wanted: bool| -> Vec<Pattern<'p>> {
            let literals = literals.iter().filter(|(_, holds)| *holds == wanted);
            literals
                .filter_map(|(atom, _)| match atom {
                    Atom::Text(_, pattern) => Some(*pattern),
                    _ => None,
                })
                .collect()
        };
        self.text(base, of(true), of(false))
    }

    /// A shortest text with these answers.
    pub fn text(
        &mut self,
        base: Base,
        mut positive: Vec<Pattern<'p>>,
        mut negative: Vec<Pattern<'p>>,
    ) -> Model<String> {
        for patterns in [&mut positive, &mut negative] {
            patterns.sort_unstable();
            patterns.dedup();
        }
        let query = (base, positive, negative);
        if let Some(found) = self.texts.get(&query) {
            return found.clone().into();
        }
        let found = shortest(query.0, &query.1, &query.2);
        self.texts.insert(query, found.clone());
        found.into()
    }

    /// A map with these answers: its entries, sorted.
    pub fn map(&mut self, base: MapBase<'_>, literals: &[Literal<'p>]) -> Model<Vec<(String, String)>> {
        let mut questions = MapQuestions::default();
        for (atom, holds) in literals {
            match (*atom, *holds) {
                (Atom::Has(_, key), true) => questions.present.push(key),
                (Atom::Has(_, key), false) => questions.absent.push(key),
                (Atom::Value(_, key, pattern), holds) => questions.values.push((key, pattern, holds)),
                (Atom::AnyPair(_, key, value), true) => questions.some.push((key, value)),
                (Atom::AnyPair(_, key, value), false) => questions.none.push((key, value)),
                _ => return Model::Incomplete,
            }
        }
        // A question about a value implies that its key is present.
        questions.present.extend(questions.values.iter().map(|(key, ..)| *key));
        questions.present.sort_unstable();
        questions.present.dedup();
        if questions.present.iter().any(|key| questions.absent.contains(key)) {
            return Model::No;
        }
        let slots: Vec<Slot<'p>> = questions
            .present
            .iter()
            .map(|key| Slot {
                key: Some(*key),
                ..Slot::default()
            })
            .collect();
        let mut tried = 0;
        self.place(base, &questions, slots, 0, &mut tried)
    }

    fn place(
        &mut self,
        base: MapBase<'_>,
        questions: &MapQuestions<'p>,
        slots: Vec<Slot<'p>>,
        next: usize,
        tried: &mut usize,
    ) -> Model<Vec<(String, String)>> {
        let Some(&(key, value)) = questions.some.get(next) else {
            return self.fill(base, questions, &slots);
        };
        let mut gave_up = false;
        for i in 0..=slots.len() {
            *tried += 1;
            if *tried > PLACEMENTS {
                return Model::Incomplete;
            }
            let mut slots = slots.clone();
            match slots.get_mut(i) {
                Some(slot) if slot.key.is_some_and(|own| !key.matches(own)) => continue,
                Some(slot) => {
                    slot.keys.push(key);
                    slot.values.push(value);
                }
                None => slots.push(Slot {
                    key: None,
                    keys: vec![key],
                    values: vec![value],
                }),
            }
            match self.place(base, questions, slots, next + 1, tried) {
                Model::No => {}
                Model::Incomplete => gave_up = true,
                yes @ Model::Yes(_) => return yes,
            }
        }
        if gave_up { Model::Incomplete } else { Model::No }
    }

    /// Gives keys and values to slots.
    fn fill(
        &mut self,
        base: MapBase<'_>,
        questions: &MapQuestions<'p>,
        slots: &[Slot<'p>],
    ) -> Model<Vec<(String, String)>> {
        let mut entries: Vec<(String, String)> = Vec::new();
        for slot in slots.iter().filter(|slot| slot.key.is_some()) {
            let key = slot.key.unwrap_or_default();
            let own = questions.values.iter().filter(|(of, ..)| *of == key);
            let mut positive = slot.values.clone();
            positive.extend(own.clone().filter(|(.., holds)| *holds).map(|(_, pattern, _)| *pattern));
            let mut negative: Vec<Pattern<'p>> = own
                .filter(|(.., holds)| !*holds)
                .map(|(_, pattern, _)| *pattern)
                .collect();
            let none = questions.none.iter().filter(|(pattern, _)| pattern.matches(key));
            negative.extend(none.map(|(_, value)| *value));
            match self.text(base.value, positive, negative) {
                Model::No => return Model::No,
                Model::Incomplete => return Model::Incomplete,
                Model::Yes(value) => entries.push((key.to_owned(), value)),
            }
        }
        for slot in slots.iter().filter(|slot| slot.key.is_none()) {
            match self.fresh(base, questions, slot, &entries) {
                Model::No => return Model::No,
                Model::Incomplete => return Model::Incomplete,
                Model::Yes(entry) => entries.push(entry),
            }
        }
        entries.sort();
        Model::Yes(entries)
    }

    /// A key that no question names, with a value; it dodges each negative pair by its key or by its value.
    fn fresh(
        &mut self,
        base: MapBase<'_>,
        questions: &MapQuestions<'p>,
        slot: &Slot<'p>,
        taken: &[(String, String)],
    ) -> Model<(String, String)> {
        if questions.none.len() > DODGES {
            return Model::Incomplete;
        }
        let mut gave_up = false;
        for choice in 0..1_usize << questions.none.len() {
            let mut keys: Vec<Pattern<'p>> = questions
                .present
                .iter()
                .chain(&questions.absent)
                .map(|key| Pattern::Exact(key))
                .collect();
            let mut values = Vec::new();
            for (i, (key, value)) in questions.none.iter().enumerate() {
                if choice & (1 << i) == 0 {
                    keys.push(*key);
                } else {
                    values.push(*value);
                }
            }
            let is_free = |key: &str| base.reserved != Some(key) && taken.iter().all(|(other, _)| other != key);
            let key = match self.text(base.key, slot.keys.clone(), keys.clone()) {
                Model::No => continue,
                Model::Yes(key) if is_free(&key) => key,
                Model::Incomplete => {
                    gave_up = true;
                    continue;
                }
                Model::Yes(_) => {
                    let mut avoided: Vec<Pattern<'_>> = keys;
                    avoided.extend(base.reserved.map(Pattern::Exact));
                    avoided.extend(taken.iter().map(|(key, _)| Pattern::Exact(key)));
                    match shortest(base.key, &slot.keys, &avoided) {
                        SearchResult::Yes(key) => key,
                        // Without the keys of other slots there might be one.
                        SearchResult::No if taken.is_empty() => continue,
                        SearchResult::No | SearchResult::Incomplete => {
                            gave_up = true;
                            continue;
                        }
                    }
                }
            };
            match self.text(base.value, slot.values.clone(), values) {
                Model::No => {}
                Model::Incomplete => gave_up = true,
                Model::Yes(value) => return Model::Yes((key, value)),
            }
        }
        if gave_up { Model::Incomplete } else { Model::No }
    }

    /// The user's groups with these answers.
    pub fn groups(&mut self, literals: &[Literal<'p>]) -> Model<Vec<String>> {
        let (mut some, mut none, mut lists, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (atom, holds) in literals {
            match (*atom, *holds) {
                (Atom::AnyGroup(pattern), true) => some.push(pattern),
                (Atom::AnyGroup(pattern), false) => none.push(pattern),
                (Atom::GroupsAre(list), true) => lists.push(list),
                (Atom::GroupsAre(list), false) => others.push(list),
                _ => return Model::Incomplete,
            }
        }
        if let Some(list) = lists.first() {
            let fits = lists.iter().all(|other| other == list)
                && !others.contains(list)
                && some
                    .iter()
                    .all(|pattern| list.iter().any(|group| pattern.matches(group)))
                && !none
                    .iter()
                    .any(|pattern| list.iter().any(|group| pattern.matches(group)));
            return if fits { Model::Yes(list.to_vec()) } else { Model::No };
        }
        let mut groups = Vec::new();
        for pattern in &some {
            match self.text(Base::NonEmpty, vec![*pattern], none.clone()) {
                Model::No => return Model::No,
                Model::Incomplete => return Model::Incomplete,
                Model::Yes(group) => groups.push(group),
            }
        }
        groups.sort();
        groups.dedup();
        let usual = "system:authenticated".to_owned();
        let padding = if none.iter().any(|pattern| pattern.matches(&usual)) {
            match self.text(Base::NonEmpty, Vec::new(), none) {
                Model::No => groups.first().cloned(),
                Model::Incomplete => return Model::Incomplete,
                Model::Yes(group) => Some(group),
            }
        } else {
            Some(usual.clone())
        };
        if padding.as_ref() == Some(&usual) {
            groups.push(usual);
        }
        // One more group than there are lists to avoid is always enough.
        for _ in 0..=others.len() {
            if !others.iter().any(|list| **list == groups) {
                return Model::Yes(groups);
            }
            let Some(padding) = &padding else { return Model::No };
            groups.push(padding.clone());
        }
        Model::Incomplete
    }
}

impl From<SearchResult> for Model<String> {
    fn from(found: SearchResult) -> Self {
        match found {
            SearchResult::No => Self::No,
            SearchResult::Yes(text) => Self::Yes(text),
            SearchResult::Incomplete => Self::Incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_model::kube::Pairs;

    fn next(seed: &mut u64) -> usize {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize
    }

    fn holds(map: &[(String, String)], atom: Atom<'_>) -> bool {
        let of = |key: &str| map.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
        match atom {
            Atom::Has(_, key) => of(key).is_some(),
            Atom::Value(_, key, pattern) => of(key).is_some_and(|value| pattern.matches(value)),
            Atom::AnyPair(_, key, value) => map.iter().any(|(k, v)| key.matches(k) && value.matches(v)),
            _ => false,
        }
    }

    /// Every map of four keys, each absent or with one of four values.
    fn maps() -> Vec<Vec<(String, String)>> {
        let mut all = vec![Vec::new()];
        for key in ["a", "b", "ab", "q"] {
            let mut more = Vec::new();
            for map in &all {
                for value in ["", "x", "xy", "q"] {
                    let mut map: Vec<(String, String)> = map.clone();
                    map.push((key.to_owned(), value.to_owned()));
                    more.push(map);
                }
            }
            all.extend(more);
        }
        all
    }

    #[test]
    fn no_is_a_theorem_and_yes_has_a_model() {
        let maps = maps();
        let of = Pairs::NewLabels;
        let keys = ["a", "b", "ab"];
        let key_globs = ["a*", "*", "?", "b*"];
        let value_globs = ["x*", "*", "?", "x", "*y"];
        let base = MapBase {
            key: Base::LabelKey,
            value: Base::LabelValue,
            reserved: None,
        };
        let mut seed = 11;
        for _ in 0..4_000 {
            let mut solver = Solver::default();
            let mut literals: Vec<Literal<'_>> = Vec::new();
            for _ in 0..=(next(&mut seed) % 5) {
                let key = keys[next(&mut seed) % keys.len()];
                let value = Pattern::Glob(value_globs[next(&mut seed) % value_globs.len()]);
                let answer = next(&mut seed).is_multiple_of(2);
                match next(&mut seed) % 3 {
                    0 => literals.push((Atom::Has(of, key), answer)),
                    1 => literals.extend([(Atom::Has(of, key), true), (Atom::Value(of, key, value), answer)]),
                    _ => {
                        let key = Pattern::Glob(key_globs[next(&mut seed) % key_globs.len()]);
                        literals.push((Atom::AnyPair(of, key, value), answer));
                    }
                }
            }
            let fits = |map: &[(String, String)]| literals.iter().all(|(atom, answer)| holds(map, *atom) == *answer);
            match solver.map(base, &literals) {
                Model::Yes(map) => assert!(fits(&map), "{map:?} for {literals:?}"),
                Model::No => assert!(!maps.iter().any(|map| fits(map)), "{literals:?}"),
                Model::Incomplete => {}
            }
        }
    }

    #[test]
    fn groups_are_padded_or_refused() {
        let dev = ["dev".to_owned()];
        let none: [String; 0] = [];
        let mut solver = Solver::default();
        let exact = Pattern::Exact("dev");
        let padded = solver.groups(&[(Atom::AnyGroup(exact), true), (Atom::GroupsAre(&dev), false)]);
        assert!(matches!(padded, Model::Yes(groups) if groups.len() == 2));
        let all = Pattern::Glob("*");
        let empty = solver.groups(&[(Atom::AnyGroup(all), false), (Atom::GroupsAre(&none), false)]);
        assert_eq!(empty, Model::No);
        let both = solver.groups(&[(Atom::AnyGroup(exact), false), (Atom::GroupsAre(&dev), true)]);
        assert_eq!(both, Model::No);
    }
}
