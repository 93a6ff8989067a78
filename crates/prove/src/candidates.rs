//! Objects to try: what a body reads, filled with the constants that it compares with.
//!
//! This is search, not proof: it looks for an object to which the side that applies objects, so that a difference is shown
//! as a decision and not only as a matter of reports. Objects are made on demand: mostly one of the first shows
//! the difference.

use std::{cell::OnceCell, collections::BTreeSet, rc::Rc};

use serde_json::{Value as Json, json};

use super::{
    objects::{Constant, Hints, Reading, Step, Steps, least, set},
    seeds::merge,
    sides::LoweredRule,
};
use kyvtest_model::kube::Resource;
use kyvtest_model::policy::Policy;

/// How many objects are tried.
const LIMIT: usize = 400;

/// The longest list that is tried.
const LONGEST: usize = 32;

/// What is worth trying for each body.
pub(super) struct Plans<'p> {
    bodies: &'p [LoweredRule],
    hints: Hints,
    read: Vec<OnceCell<Rc<Plan>>>,
}

/// The places that a body reads, and what to put there.
#[derive(Debug, Default)]
struct Plan {
    found: Vec<Steps>,
    constants: Vec<Json>,
    /// How long lists may have to be, for bodies that compare sizes.
    lengths: Vec<usize>,
    /// Integral floats, for kinds whose numbers may be floats.
    floats: Vec<Json>,
}

impl<'p> Plans<'p> {
    /// Nothing is read yet.
    pub(super) fn new(original: &Policy, bodies: &'p [LoweredRule]) -> Self {
        Self {
            bodies,
            hints: Hints::new(original),
            read: vec![OnceCell::new(); bodies.len()],
        }
    }

    /// Objects of a resource without metadata, the least one first: new ones and old ones may be any of them.
    /// `floats` says that numbers may be integral floats.
    pub(super) fn candidates(&self, resource: &Resource, body: Option<usize>, floats: bool) -> Candidates {
        let plan = body.and_then(|body| {
            let (plan, body) = (self.read.get(body)?, self.bodies.get(body)?);
            Some(Rc::clone(plan.get_or_init(|| Rc::new(Plan::new(body, &self.hints)))))
        });
        Candidates::new(resource, plan, floats)
    }
}

impl Plan {
    fn new(body: &LoweredRule, hints: &Hints) -> Self {
        let mut reading = Reading::of(body, &["object", "oldObject"]);
        if body.opaque.is_some() {
            reading.found.extend(hints.found.iter().cloned());
            reading.constants.extend(hints.constants.iter().cloned());
        }
        let metadata = Step::Field("metadata".to_owned());
        let fixed = |steps: &Steps| {
            let second = steps.get(1);
            steps.first() == Some(&metadata)
                && !matches!(second, Some(Step::Field(name)) if !matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations"))
        };
        let found = reading.found.into_iter();
        let constants = reading.constants.iter().flat_map(|constant| match constant {
            Constant::Text(text) => vec![
                json!(text),
                json!(format!("{text}x")),
                json!(format!("x{text}")),
                json!([text]),
            ],
            Constant::Int(number) => vec![
                json!(number),
                json!(number.saturating_add(1)),
                json!(number.saturating_sub(1)),
            ],
        });
        let lengths = reading.constants.iter().filter_map(|constant| match constant {
            Constant::Int(number) => usize::try_from(*number)
                .ok()
                .filter(|length| (1..=LONGEST).contains(length)),
            Constant::Text(_) => None,
        });
        let numbers = reading.constants.iter().filter_map(|constant| match constant {
            Constant::Int(number) => Some(*number as f64),
            Constant::Text(_) => None,
        });
        Self {
            found: found.filter(|steps| !steps.is_empty() && !fixed(steps)).collect(),
            constants: constants.collect(),
            lengths: lengths.collect(),
            floats: [1.0, 0.0]
                .into_iter()
                .chain(numbers)
                .map(|number| json!(number))
                .collect(),
        }
    }
}

/// One field at a time, with what it may be compared with; then everything at once; then anything.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Floats,
    Constants,
    Lists,
    Whole,
    Plain,
    Done,
}

/// Objects to try.
#[derive(Debug)]
pub(super) struct Candidates {
    /// The objects made so far.
    made: Vec<Json>,
    known: BTreeSet<String>,
    plan: Option<Rc<Plan>>,
    phase: Phase,
    /// How far the phase is.
    at: usize,
    /// How many were given, and are not made here.
    given: usize,
}

impl Candidates {
    fn new(resource: &Resource, plan: Option<Rc<Plan>>, floats: bool) -> Self {
        let least = least(resource);
        Self {
            known: BTreeSet::from([least.to_string()]),
            made: vec![least],
            phase: match &plan {
                None => Phase::Done,
                Some(_) if floats => Phase::Floats,
                Some(_) => Phase::Constants,
            },
            plan,
            at: 0,
            given: 0,
        }
    }

    /// The least object and no other one.
    pub(super) fn only_least(resource: &Resource) -> Self {
        Self::new(resource, None, false)
    }

    /// The same with parts of objects to start from, each put over the least object.
    #[must_use]
    pub(super) fn with_seeds(mut self, seeds: &[Json]) -> Self {
        let merged: Vec<Json> = seeds.iter().map(|seed| merge(self.least(), seed)).collect();
        self.given += merged.len();
        self.made.splice(1..1, merged);
        self
    }

    /// The least object.
    pub(super) fn least(&self) -> &Json {
        self.made.first().unwrap_or(&Json::Null)
    }

    /// An object by its number.
    pub(super) fn get(&mut self, number: usize) -> Option<&Json> {
        while self.made.len() <= number {
            let next = self.make()?;
            self.made.push(next);
        }
        self.made.get(number)
    }

    fn make(&mut self) -> Option<Json> {
        const WHOLE: [fn() -> Json; 3] = [|| json!(true), || json!("x"), || json!(100_000)];
        let plan = Rc::clone(self.plan.as_ref()?);
        let plain;
        loop {
            match self.phase {
                Phase::Floats => match self.one_by_one(&plan, &plan.floats, LIMIT / 4) {
                    Some(object) => return Some(object),
                    None => self.enter(Phase::Constants),
                },
                Phase::Constants => match self.one_by_one(&plan, &plan.constants, LIMIT / 2) {
                    Some(object) => return Some(object),
                    None => self.enter(Phase::Lists),
                },
                Phase::Lists => match self.long_list(&plan) {
                    Some(object) => return Some(object),
                    None => self.enter(Phase::Whole),
                },
                Phase::Whole => match WHOLE.get(self.at) {
                    Some(value) => {
                        self.at += 1;
                        let (mut object, value) = (self.least().clone(), value());
                        for steps in &plan.found {
                            set(&mut object, steps, &value);
                        }
                        return Some(object);
                    }
                    None => self.enter(Phase::Plain),
                },
                Phase::Plain => {
                    plain = plain_values();
                    let object = self.one_by_one(&plan, &plain, LIMIT);
                    if object.is_none() {
                        self.enter(Phase::Done);
                    }
                    return object;
                }
                Phase::Done => return None,
            }
        }
    }

    /// The least object with one list of it made longer than the next length, its items with different names.
    fn long_list(&mut self, plan: &Plan) -> Option<Json> {
        let count = plan.found.len();
        loop {
            let length = *plan.lengths.get(self.at.checked_div(count)?)?;
            let steps = plan.found.get(self.at.checked_rem(count)?)?;
            self.at += 1;
            let mut object = self.least().clone();
            if lengthen(&mut object, steps, length + 1) && self.known.insert(object.to_string()) {
                return Some(object);
            }
        }
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.at) = (phase, 0);
    }

    /// The least object with the next of these values in the next place, if that is a new object.
    fn one_by_one(&mut self, plan: &Plan, values: &[Json], most: usize) -> Option<Json> {
        while self.made.len() - self.given < most {
            let count = plan.found.len();
            let value = values.get(self.at.checked_div(count)?)?;
            let steps = plan.found.get(self.at.checked_rem(count)?)?;
            self.at += 1;
            let mut object = self.least().clone();
            set(&mut object, steps, value);
            if self.known.insert(object.to_string()) {
                return Some(object);
            }
        }
        None
    }
}

/// Repeats the first item of the list that steps lead to; `false` if there is no such list.
fn lengthen(object: &mut Json, steps: &[Step], length: usize) -> bool {
    let mut value = object;
    for step in steps {
        let inner = match step {
            Step::Field(name) => value.get_mut(name),
            Step::Item => value.get_mut(0),
        };
        let Some(inner) = inner else { return false };
        value = inner;
    }
    let Some(list) = value.as_array_mut() else {
        return false;
    };
    let Some(first) = list.first().cloned() else {
        return false;
    };
    for number in list.len()..length {
        let mut item = first.clone();
        if let Some(Json::String(name)) = item.get_mut("name") {
            name.push_str(&number.to_string());
        }
        list.push(item);
    }
    true
}

fn plain_values() -> [Json; 9] {
    [
        json!(true),
        json!(false),
        json!("x"),
        json!(1),
        json!(0),
        json!(-1),
        json!(""),
        json!([]),
        json!({}),
    ]
}

/// Which of two objects an [`Pairs`] varies.
#[derive(Debug, Clone, Copy)]
enum Vary {
    PerSide,
    New,
    Old,
}

/// Pairs of new and old objects: the same, then a new one over the least, then an old one under the least.
#[derive(Debug)]
pub(super) struct Pairs {
    vary: Vary,
    at: usize,
}

impl Pairs {
    /// Before the first pair.
    pub(super) fn new() -> Self {
        Self {
            vary: Vary::PerSide,
            at: 0,
        }
    }

    pub(super) fn next<'c>(&mut self, candidates: &'c mut Candidates) -> Option<(&'c Json, &'c Json)> {
        if candidates.get(self.at).is_none() {
            self.vary = match self.vary {
                Vary::PerSide => Vary::New,
                Vary::New => Vary::Old,
                Vary::Old => return None,
            };
            self.at = 1;
            candidates.get(self.at)?;
        }
        let (least, object) = (candidates.made.first()?, candidates.made.get(self.at)?);
        self.at += 1;
        Some(match self.vary {
            Vary::PerSide => (object, object),
            Vary::New => (object, least),
            Vary::Old => (least, object),
        })
    }
}
