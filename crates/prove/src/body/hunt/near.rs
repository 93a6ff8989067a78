//! Requests near one that a model describes: where nothing is known of a function, a model names the values that it is applied
//! to, and one of their neighbours may show the difference. No upstream counterpart.

use serde_json::{Value as Json, json};

use kyvtest_go_compat::{text::quantity::Quantity, value::Document};

use super::{Counterexample, Data, Hunt, Match, is_key};
use crate::{body::build::complete_object, witness::Scenario};

/// How many values of one request are changed at most.
const CHANGES: usize = 3;

/// Keys whose values a request repeats elsewhere, or on which everything else depends.
const FIXED: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

/// The texts of a request's objects and of those around it.
pub(super) fn texts(scenario: &Scenario) -> Vec<String> {
    let request = &scenario.request;
    let objects = [&request.object, &request.old_object];
    let mut texts = Vec::new();
    for object in objects.into_iter().chain(&scenario.world.params) {
        gather(&object.root().to_serde(), &mut texts);
    }
    texts
}

impl Hunt {
    /// Tries some neighbours of a request.
    pub(in crate::body) fn search_near(
        &mut self,
        both: &mut Match<'_>,
        near: &Scenario,
        tries: u64,
    ) -> Option<Counterexample> {
        self.raw = both.options.data == Data::Raw;
        for _ in 0..tries {
            let scenario = self.neighbour(near);
            if let Some(found) = both.replay_admitted(&scenario) {
                return Some(found);
            }
        }
        None
    }

    fn neighbour(&mut self, near: &Scenario) -> Scenario {
        let mut scenario = near.clone();
        let request = &mut scenario.request;
        let mut objects = [&request.object, &request.old_object].map(|object| object.root().to_serde());
        let mut outside: Vec<Json> = near
            .world
            .params
            .iter()
            .map(|object| object.root().to_serde())
            .collect();
        let texts = texts(near);
        for _ in 0..=self.next(CHANGES) {
            let mut targets: Vec<&mut Json> = objects.iter_mut().chain(&mut outside).collect();
            targets.retain(|target| target.is_object());
            let which = self.next(targets.len());
            if let Some(target) = targets.get_mut(which) {
                self.change(target, &texts);
            }
        }
        objects
            .iter_mut()
            .filter(|object| object.is_object())
            .for_each(complete_object);
        let [object, old] = objects;
        if object.is_object() {
            request.object = Document::from(&object);
        }
        if old.is_object() {
            request.old_object = Document::from(&old);
        }
        scenario.world.params = outside.iter().map(Document::from).collect();
        if self.names("authorizer") && self.next(2) == 0 {
            scenario.request.user.groups = Some(vec!["system:masters".to_owned()]);
        }
        scenario
    }

    /// Changes one value of an object.
    fn change(&mut self, object: &mut Json, texts: &[String]) {
        if self.next(4) == 0 && self.copy_entry(object, texts) {
            return;
        }
        let mut paths = Vec::new();
        leaves(object, &mut String::new(), &mut paths);
        let Some(path) = self.pick(&paths).cloned() else {
            return;
        };
        let Some(value) = object.pointer(&path).cloned() else {
            return;
        };
        let changed = match &value {
            Json::String(text) => json!(self.near_text(text, texts)),
            Json::Number(_) => json!(self.number()),
            Json::Bool(own) => json!(!own),
            _ => return,
        };
        if let Some(place) = object.pointer_mut(&path) {
            *place = changed;
        }
    }

    /// Gives one map of texts an entry with a key of another one; false if there are none.
    fn copy_entry(&mut self, object: &mut Json, texts: &[String]) -> bool {
        for key in ["labels", "annotations"] {
            if object["metadata"].is_object() && self.names(key) && !object["metadata"][key].is_object() {
                object["metadata"][key] = json!({});
            }
        }
        let mut paths = Vec::new();
        maps(object, &mut String::new(), &mut paths);
        let (Some(from), Some(to)) = (self.pick(&paths).cloned(), self.pick(&paths).cloned()) else {
            return false;
        };
        let entries = object.pointer(&from).and_then(Json::as_object);
        let entries: Vec<(String, String)> = entries
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let named = |text: &&String| is_key(text) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let names: Vec<String> = texts.iter().filter(named).cloned().collect();
        let entry = match self.next(3) {
            0 => self.pick(&names).map(|name| (name.clone(), String::new())),
            _ => self.pick(&entries).cloned(),
        };
        let Some((key, value)) = entry else {
            return false;
        };
        let value = if self.next(2) == 0 {
            value
        } else {
            self.near_text(&value, texts)
        };
        match object.pointer_mut(&to).and_then(Json::as_object_mut) {
            Some(map) => map.insert(key, json!(value)).is_none() || from != to,
            None => false,
        }
    }

    /// A text near another one: a constant, a text of the request, or a part or an extension of one of them.
    fn near_text(&mut self, text: &str, texts: &[String]) -> String {
        if Quantity::parse(text).is_ok() && self.next(3) > 0 {
            let at = self.next(self.amounts.len());
            return self.amounts.get(at).cloned().unwrap_or_default();
        }
        let other = match self.next(3) {
            0 => self.text().cloned(),
            1 => self.pick(texts).cloned(),
            _ => None,
        };
        let base = other.unwrap_or_else(|| text.to_owned());
        let mut characters: Vec<char> = base.chars().collect();
        let at = self.next(characters.len());
        match self.next(12) {
            0 => characters.truncate(at),
            1 => drop(characters.drain(..at)),
            2 if characters.len() > 2 => characters[at] = '.',
            3 if !characters.is_empty() => characters[at] = characters[at].to_ascii_uppercase(),
            4 => characters.clear(),
            5 => characters.push('x'),
            6 => {
                let further = self.text().cloned().unwrap_or_default();
                characters.extend(further.chars());
            }
            _ => {}
        }
        characters.into_iter().collect()
    }
}

/// The texts of an object.
fn gather(value: &Json, into: &mut Vec<String>) {
    match value {
        Json::String(text) => into.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| gather(item, into)),
        Json::Object(map) => map.values().for_each(|value| gather(value, into)),
        _ => {}
    }
}

/// The pointers of the maps of texts.
fn maps(value: &Json, path: &mut String, into: &mut Vec<String>) {
    let before = path.len();
    let Json::Object(map) = value else { return };
    let is_free = ["/labels", "/annotations", "/data"]
        .iter()
        .any(|end| path.ends_with(end));
    if is_free || path.ends_with("Labels") || path.ends_with("nodeSelector") {
        into.push(path.clone());
    }
    for (key, value) in map {
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        maps(value, path, into);
        path.truncate(before);
    }
}

/// The pointers of the values that may change.
fn leaves(value: &Json, path: &mut String, into: &mut Vec<String>) {
    let before = path.len();
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                if FIXED.contains(&key.as_str()) && path.matches('/').count() < 2 {
                    continue;
                }
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                leaves(value, path, into);
                path.truncate(before);
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push('/');
                path.push_str(&at.to_string());
                leaves(item, path, into);
                path.truncate(before);
            }
        }
        Json::Null => {}
        _ => into.push(path.clone()),
    }
}
