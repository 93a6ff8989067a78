//! Smaller requests that show the same: hierarchical delta debugging.
//!
//! What matching reads of a witness is smallest already, because the solver made it. Here the rest of its objects shrinks: parts
//! are taken away, outermost first, then scalars become plain ones, as long as both engines still differ in the same way. What
//! the least object of the kind has stays, and so does what identifies the object.

use serde_json::{Value as Json, json};

use super::{
    objects,
    replay::{Engines, Replayed},
    witness::Scenario,
};
use kyvtest_go_compat::value::{Document, Value};

/// The maximum number of evaluations.
const RUNS: usize = 600;

/// Which object of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Both, where they are the same.
    Both,
    New,
    Old,
}

/// A smallest request around a difference. One that shows in a cluster stays so.
pub fn shrink(engines: &Engines<'_>, found: Replayed) -> Replayed {
    let real = engines.shows_in_cluster(&found);
    let class = found.class();
    shrunk(found, Replayed::scenario, &mut |tried| {
        if engines.class(tried) != Some(class) {
            return None;
        }
        let smaller = engines.replay_texts(tried.clone())?;
        (!real || engines.shows_in_cluster(&smaller)).then_some(smaller)
    })
}

/// A smallest request that keeps a property. The stored object of an UPDATE shrinks with the new one where they are the same.
pub(crate) fn smallest(found: Scenario, keeps: &mut dyn FnMut(&Scenario) -> bool) -> Scenario {
    shrunk(found, |best| best, &mut |tried| keeps(tried).then(|| tried.clone()))
}

/// Takes smaller objects as long as `accept` finds what is looked for in the smaller request.
fn shrunk<T>(found: T, scenario: impl Fn(&T) -> &Scenario, accept: &mut dyn FnMut(&Scenario) -> Option<T>) -> T {
    let mut best = found;
    let mut runs = 0;
    while let Some(smaller) = smaller(scenario(&best), &mut runs, accept) {
        best = smaller;
    }
    best
}

/// The first request with one step less that is accepted; `None` if there is none, or after too many attempts.
fn smaller<T>(from: &Scenario, runs: &mut usize, accept: &mut dyn FnMut(&Scenario) -> Option<T>) -> Option<T> {
    let request = &from.request;
    let (new, old) = (json_of(request.object.root()), json_of(request.old_object.root()));
    let which: &[Which] = if new == old {
        &[Which::Both]
    } else {
        &[Which::New, Which::Old]
    };
    let least = objects::least(&request.resource);
    for which in which {
        let mut tried = from.clone();
        let object = if *which == Which::Old { &old } else { &new };
        for candidate in candidates(object, &least) {
            if *runs >= RUNS {
                return None;
            }
            *runs += 1;
            replace(&mut tried, *which, &candidate);
            if let Some(found) = accept(&tried) {
                return Some(found);
            }
        }
    }
    None
}

fn json_of(value: Value<'_>) -> Json {
    if value.is_null() { Json::Null } else { value.to_serde() }
}

fn replace(scenario: &mut Scenario, which: Which, object: &Json) {
    let document = Document::from(object);
    if which == Which::Both {
        scenario.request.old_object = document.clone();
    }
    if which == Which::Old {
        scenario.request.old_object = document;
    } else {
        scenario.request.object = document;
    }
}

/// Everything that is one step smaller, the greatest steps first.
fn candidates<'j>(object: &'j Json, least: &Json) -> impl Iterator<Item = Json> + use<'j> {
    let mut places = Vec::new();
    collect(object, least, &mut Vec::new(), &mut places);
    places.sort_by_key(Vec::len);
    let steps: [fn(&mut Json, &[Key]) -> bool; 2] = [remove, simplify];
    (0..steps.len() * places.len()).filter_map(move |number| {
        let (step, path) = (steps.get(number / places.len())?, places.get(number % places.len())?);
        let mut smaller = object.clone();
        step(&mut smaller, path).then_some(smaller)
    })
}

#[derive(Debug, Clone)]
enum Key {
    Field(String),
    Item(usize),
}

/// The places that may be taken away: all but identity, metadata and what the least object has.
fn collect(value: &Json, least: &Json, path: &mut Vec<Key>, places: &mut Vec<Vec<Key>>) {
    if path.len() > 24 {
        return;
    }
    let mut visit = |key: Key, inner: &Json, least: Option<&Json>| {
        path.push(key);
        if least.is_none() {
            places.push(path.clone());
        }
        collect(inner, least.unwrap_or(&Json::Null), path, places);
        path.pop();
    };
    match value {
        Json::Object(map) => {
            for (key, inner) in map {
                visit(Key::Field(key.clone()), inner, least.get(key));
            }
        }
        Json::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                visit(Key::Item(i), inner, least.get(i));
            }
        }
        _ => {}
    }
    if path.is_empty() {
        places.retain(|path| {
            let first = path.first();
            !matches!(first, Some(Key::Field(name)) if matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
        });
    }
}

fn at<'j>(value: &'j mut Json, path: &[Key]) -> Option<&'j mut Json> {
    path.iter().try_fold(value, |value, key| match key {
        Key::Field(name) => value.get_mut(name),
        Key::Item(i) => value.get_mut(*i),
    })
}

fn remove(value: &mut Json, path: &[Key]) -> bool {
    let Some((last, parents)) = path.split_last() else {
        return false;
    };
    match (at(value, parents), last) {
        (Some(Json::Object(map)), Key::Field(name)) => map.shift_remove(name).is_some(),
        (Some(Json::Array(list)), Key::Item(i)) if *i < list.len() => {
            list.remove(*i);
            true
        }
        _ => false,
    }
}

/// Makes a scalar plain; `false` if it is.
fn simplify(value: &mut Json, path: &[Key]) -> bool {
    let Some(found) = at(value, path) else {
        return false;
    };
    let plain = match found {
        Json::String(text) if text != "x" => json!("x"),
        Json::Number(number) if number.as_i64() != Some(0) => json!(0),
        Json::Bool(true) => json!(false),
        _ => return false,
    };
    *found = plain;
    true
}
