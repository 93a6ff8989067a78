//! Guided search: requests made from the words and constants of both sides, put to the engines.
//!
//! It shares nothing with the proofs but the engines, so what it finds against a proof is an error in the proof.

mod near;
mod outside;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use serde_json::{Map, Value as Json, json};

use kyvtest_go_compat::{
    regex::{Regex, generate},
    text::{
        label::{Wording, key_problems, value_problems},
        quantity::Quantity,
        time::Timestamp,
    },
};
use kyvtest_model::{
    kube::{RequestClass, UserInfo},
    policy::{Loaded, Policy},
};

pub(crate) use self::outside::Lookups;
use super::{
    Counterexample, Data, Match, Side,
    build::{make, ordinary},
    formula::Arena,
    request::Request,
    shape::{Inner, Kind, Shape},
    side::add_objects,
};
use crate::{language::Base, seeds::merge, symbolic::ASSUMED_GROUP, witness::Scenario};

/// What both sides mention.
#[derive(Debug)]
pub(super) struct Hunt {
    words: Vec<String>,
    /// The same words: every field of every object that is made is looked up.
    known: FxHashSet<String>,
    texts: Vec<String>,
    keys: Vec<String>,
    /// Texts that expressions read as something else.
    special: Vec<String>,
    /// The texts of the request, while what it looks up is made.
    own_texts: Vec<String>,
    /// The words that follow a word in paths; those that paths begin with follow the empty one.
    chains: BTreeMap<String, Vec<String>>,
    /// The texts that are quantities.
    amounts: Vec<String>,
    numbers: Vec<i64>,
    lookups: Lookups,
    seed: u64,
    /// Whether values may be of other kinds than their fields.
    raw: bool,
}

/// How deep objects are made.
const DEPTH: u32 = 9;

impl Hunt {
    pub(super) fn new(a: &Side, b: &Side, now: Option<Timestamp>) -> Self {
        Self::of(sources(a.loaded()).into_iter().chain(sources(b.loaded())), now)
    }

    /// The words and constants of policies.
    fn of(policies: impl IntoIterator<Item = Json>, now: Option<Timestamp>) -> Self {
        let mut words = BTreeSet::new();
        let mut texts = BTreeSet::new();
        let mut numbers: BTreeSet<i64> = BTreeSet::from([0, 1]);
        let mut lookups = Lookups::default();
        let mut named = BTreeSet::new();
        let mut written = String::new();
        for document in policies {
            lookups.read(&document);
            collect(&document, &mut words, &mut texts, &mut numbers);
            let text = document.to_string();
            words::keys(&text, &mut named);
            written.push_str(&text);
        }
        // Kyverno replaces variables in texts of objects as well; a proof assumes that there are none.
        texts.retain(|text| !text.contains("{{"));
        let keys: BTreeSet<String> = texts.iter().filter(|text| is_key(text)).cloned().collect();
        let keys = keys.into_iter().chain(named).collect();
        let special = words::neighbours(&written, (&texts, &numbers), now);
        let mut all: BTreeSet<String> = special.clone();
        for text in &texts {
            vary(text, &mut all);
        }
        all.insert(String::new());
        all.insert("x".to_owned());
        let amounts = all.iter().filter(|text| Quantity::parse(text).is_ok()).cloned();
        let amounts = amounts.chain(["1", "100Mi"].map(str::to_owned)).collect();
        Self {
            known: words.iter().cloned().collect(),
            words: words.into_iter().collect(),
            texts: all.into_iter().collect(),
            keys,
            amounts,
            numbers: numbers
                .iter()
                .flat_map(|number| [number.saturating_sub(1), *number, number.saturating_add(1)])
                .collect(),
            lookups,
            special: special.into_iter().collect(),
            own_texts: Vec::new(),
            chains: words::chains(&written),
            seed: 0x9e37_79b9_7f4a_7c15,
            raw: false,
        }
    }

    /// The numbers that both sides mention, and their neighbours.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        let numbers: BTreeSet<i64> = self.numbers.iter().copied().collect();
        numbers.into_iter()
    }

    /// The texts that both sides mention, and their neighbours.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> + use<> {
        self.texts.clone().into_iter()
    }

    /// Whether one of the sides mentions a word.
    pub(super) fn names(&self, word: &str) -> bool {
        self.known.contains(word)
    }

    /// A value of a shape, made from what both sides mention.
    pub(super) fn sample(&mut self, shape: &Shape, key: &str) -> Json {
        self.value(shape, key, 1)
    }

    fn next(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from((self.seed >> 11) % (below.max(1) as u64)).unwrap_or_default()
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> Option<&'t T> {
        let at = self.next(from.len());
        from.get(at)
    }

    fn text(&mut self) -> Option<&String> {
        if !self.own_texts.is_empty() && self.next(2) == 0 {
            let at = self.next(self.own_texts.len());
            return self.own_texts.get(at);
        }
        if !self.special.is_empty() && self.next(2) == 0 {
            let at = self.next(self.special.len());
            return self.special.get(at);
        }
        let at = self.next(self.texts.len());
        self.texts.get(at)
    }

    fn key(&mut self) -> Option<&String> {
        let at = self.next(self.keys.len());
        self.keys.get(at)
    }

    fn number(&mut self) -> i64 {
        let at = self.next(self.numbers.len());
        self.numbers.get(at).copied().unwrap_or_default()
    }

    /// Tries some requests of a class in clusters that have what both sides look up.
    pub(super) fn search(
        &mut self,
        both: &mut Match<'_>,
        cell: &RequestClass<'_>,
        tries: u64,
    ) -> Option<Counterexample> {
        let mut arena = Arena::new();
        let request = Request::new(&mut arena, *cell, cell.resource, both.options.data);
        self.raw = both.options.data == Data::Raw;
        let kind = &cell.resource.object_kind;
        let shape = Shape::object(&kind.api_version(), &kind.kind);
        let base = ordinary(cell.resource);
        // Texts of a form of their own are found less often.
        let tries = if self.special.is_empty() { tries } else { 2 * tries };
        for _ in 0..tries {
            let mut scenario = self.scenario(&request, &shape, &base);
            let name = scenario.request.name.clone();
            let namespace = scenario.request.namespace.clone();
            if !self.lookups.is_empty() {
                self.own_texts = near::texts(&scenario);
                add_objects(&mut scenario.world.params, self.outside(&name, &namespace));
                scenario.calls = self.call_out();
                self.own_texts.clear();
            }
            if let Some(found) = both.replay_admitted(&scenario) {
                return Some(found);
            }
            if both.options.data == Data::Raw
                && let Some(found) = both.replay(scenario)
            {
                return Some(found);
            }
        }
        None
    }

    /// A request of a class.
    fn scenario(&mut self, request: &Request<'_>, shape: &Shape, base: &Json) -> Scenario {
        let cell = &request.cell;
        let new = merge(base, &self.value(shape, "", 0));
        let old = match self.next(3) {
            0 => new.clone(),
            1 => merge(base, &self.value(shape, "", 0)),
            _ => self.changed(&new, shape),
        };
        let raw = self.raw;
        // No server checks the names of kinds without a description.
        let assumed = cell.resource.group == ASSUMED_GROUP;
        let mut names = ["sample", "apps"].map(str::to_owned);
        for name in &mut names {
            if self.next(3) == 0
                && let Some(text) = self.texts.get(self.seed as usize % self.texts.len().max(1))
                && is_key(text)
                && (!raw || text.bytes().all(|c| c.is_ascii_alphanumeric()))
                && (!assumed || Base::Subdomain.contains(&text.to_ascii_lowercase()))
            {
                *name = text.to_ascii_lowercase();
            }
        }
        let namespace = cell.namespaced.then(|| names[1].clone());
        let set = |mut object: Json| {
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            if raw {
                // Metadata is decoded in every world.
                object["metadata"] = metadata(&object["metadata"]);
            }
            object["metadata"]["name"] = json!(names[0]);
            if let Some(namespace) = &namespace {
                object["metadata"]["namespace"] = json!(namespace);
            }
            object
        };
        let user = self.user();
        let labels = self.labels();
        make(
            request,
            (
                Some(set(new)).filter(|_| request.object.is_some()),
                Some(set(old)).filter(|_| request.old_object.is_some()),
            ),
            (&names[0], namespace.as_deref()),
            user,
            labels,
        )
    }

    fn user(&mut self) -> UserInfo {
        let mut user = UserInfo {
            username: "alice".to_owned(),
            groups: Some(vec!["system:authenticated".to_owned()]),
            ..UserInfo::default()
        };
        if self.next(3) == 0
            && let Some(name) = self.text().filter(|name| !name.is_empty())
        {
            user.username.clone_from(name);
        }
        if self.next(3) == 0
            && let Some(group) = self.text().filter(|group| !group.is_empty())
        {
            user.groups = Some(vec![group.clone(), "system:authenticated".to_owned()]);
        }
        user
    }

    fn labels(&mut self) -> Vec<(String, String)> {
        let mut labels = Vec::new();
        for _ in 0..self.next(3) {
            if let (Some(key), Some(value)) = (self.key().cloned(), self.text().cloned()) {
                labels.retain(|(own, _)| *own != key);
                labels.push((key, value));
            }
        }
        labels
    }

    /// An object with some of its parts made anew.
    fn changed(&mut self, object: &Json, shape: &Shape) -> Json {
        let Json::Object(map) = object else {
            return self.value(shape, "", 1);
        };
        let mut changed = map.clone();
        let keys: Vec<String> = map.keys().cloned().collect();
        if let Some(key) = self.pick(&keys).cloned()
            && let Some((own, _)) = shape.field(&key, true)
        {
            let value = match map.get(&key) {
                Some(inner @ Json::Object(_)) => self.changed(inner, &own),
                _ if self.next(3) == 0 => Json::Null,
                _ => self.value(&own, &key, 1),
            };
            if value.is_null() {
                changed.remove(&key);
            } else {
                changed.insert(key, value);
            }
        }
        Json::Object(changed)
    }

    fn value(&mut self, shape: &Shape, key: &str, depth: u32) -> Json {
        if depth > DEPTH {
            return Json::Null;
        }
        if self.raw && depth > 1 && self.next(12) == 0 {
            return self.anything(&Shape::any(), key, depth);
        }
        match &shape.inner {
            Inner::Struct(own) => {
                let mut map = Map::new();
                for name in own.fields() {
                    let wanted = self.names(name) || name == "metadata" && depth == 0;
                    if !wanted || matches!(name, "kind" | "apiVersion" | "status" | "managedFields") {
                        continue;
                    }
                    let Some((field, optional)) = shape.field(name, true) else {
                        continue;
                    };
                    if optional && self.next(10) < 3 {
                        continue;
                    }
                    let value = self.value(&field, name, depth + 1);
                    if !value.is_null() {
                        map.insert(name.to_owned(), value);
                    }
                }
                Json::Object(map)
            }
            Inner::List(item) => {
                let count = self.next(4).min(2 + self.next(2));
                let items = (0..count).map(|_| self.value(item, key, depth + 1));
                let items: Vec<Json> = items.filter(|item| !item.is_null()).collect();
                Json::Array(items)
            }
            Inner::Map(value) => self.entries(&value.clone(), key, depth),
            Inner::Labels => self.entries(&Shape::of(Kind::Text, Inner::Text(Vec::new())), key, depth),
            Inner::Choice(choices) => {
                let choices = choices.clone();
                self.pick(&choices).map_or(Json::Null, |choice| json!(**choice))
            }
            Inner::Int(low, high) => {
                let (low, high) = (*low, *high);
                json!(self.number().clamp(low, high))
            }
            Inner::Quantity => {
                let at = self.next(self.amounts.len());
                self.amounts.get(at).map_or(Json::Null, |amount| json!(amount))
            }
            Inner::Text(_) => self.text().map_or(Json::Null, |text| json!(text)),
            Inner::Custom | Inner::Written => {
                let mut object = self.anything(shape, key, depth);
                if !self.raw
                    && let Some(entries) = object.as_object_mut()
                {
                    entries.retain(|key, value| !matches!(key.as_str(), "spec" | "status") || value.is_object());
                }
                if let Some(entries) = object.as_object_mut()
                    && let Some((metadata, _)) = shape.field("metadata", false)
                {
                    let metadata = self.value(&metadata, "metadata", depth + 1);
                    entries.insert("metadata".to_owned(), metadata);
                }
                object
            }
            Inner::Unknown | Inner::Record(_) | Inner::Entry(..) => self.anything(shape, key, depth),
        }
    }

    fn entries(&mut self, value: &Shape, key: &str, depth: u32) -> Json {
        let mut map = Map::new();
        let more: &[&str] = if matches!(key, "limits" | "requests") {
            &["cpu", "memory"]
        } else {
            &[]
        };
        for _ in 0..self.next(4) {
            let at = self.next(self.keys.len() + more.len());
            let own = self.keys.get(at).map(String::as_str);
            let key = own.or_else(|| more.get(at - self.keys.len()).copied());
            if let Some(key) = key.map(str::to_owned) {
                let value = self.value(value, &key, depth + 1);
                map.insert(key, value);
            }
        }
        Json::Object(map)
    }

    /// A value of any of the kinds of a shape, under a key.
    fn anything(&mut self, shape: &Shape, key: &str, depth: u32) -> Json {
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| shape.kinds.has(*kind)).collect();
        match self.pick(&kinds) {
            Some(Kind::Bool) => json!(self.next(2) == 0),
            Some(Kind::Int) => json!(self.number()),
            Some(Kind::Double) => json!(0.5),
            Some(Kind::Text) => self.text().map_or(Json::Null, |text| json!(text)),
            Some(Kind::List) => {
                let count = self.next(3);
                Json::Array((0..count).map(|_| self.anything(shape, key, depth + 1)).collect())
            }
            Some(Kind::Map) if depth < 6 => {
                let mut map = Map::new();
                let following = self.chains.get(key).cloned().unwrap_or_default();
                for _ in 0..self.next(4) {
                    let known = following.len().min(following.len() * self.next(4));
                    let at = self.next(if known > 0 { known } else { self.words.len() });
                    let word = if known > 0 { &following } else { &self.words }.get(at).cloned();
                    if let Some(word) = word {
                        let value = self.anything(&Shape::any(), &word, depth + 1);
                        map.insert(word, value);
                    }
                }
                Json::Object(map)
            }
            _ => Json::Null,
        }
    }
}

/// Whether validation accepts an entry of labels or annotations.
fn is_entry(map: &str, key: &str, value: &Json) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let mut problems = Vec::new();
    key_problems(key, Wording::LabelKey, &mut problems);
    if map == "labels" {
        value_problems(text, Wording::LabelKey, &mut problems);
    }
    problems.is_empty()
}

/// The labels and annotations of an object that have the form that a server requires.
fn metadata(given: &Json) -> Json {
    let mut own = Map::new();
    for key in ["labels", "annotations"] {
        let entries = given[key].as_object().into_iter().flatten();
        let entries: Map<String, Json> = entries
            .filter(|(name, value)| is_entry(key, name, value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !entries.is_empty() {
            own.insert(key.to_owned(), Json::Object(entries));
        }
    }
    Json::Object(own)
}

/// What a policy looks up.
pub(crate) fn lookups_of(policy: &Policy) -> Lookups {
    let mut lookups = Lookups::default();
    let loaded = Loaded {
        policies: vec![policy.clone()],
        ..Loaded::default()
    };
    for document in sources(&loaded) {
        lookups.read(&document);
    }
    lookups
}

/// What the policies of both sides look up.
pub(super) fn lookups(sides: [&Side; 2]) -> Lookups {
    let mut lookups = Lookups::default();
    for document in sides.iter().flat_map(|side| sources(side.loaded())) {
        lookups.read(&document);
    }
    lookups
}

/// The texts and numbers that a side mentions.
pub(super) fn constants(side: &Side) -> (BTreeSet<String>, BTreeSet<i64>) {
    let (mut words, mut texts, mut numbers) = Default::default();
    for document in sources(side.loaded()) {
        collect(&document, &mut words, &mut texts, &mut numbers);
    }
    (texts, numbers)
}

/// Requests of a class, made from the words and constants of policies. The API server may refuse some of them.
pub fn samples(policies: &[Json], cell: &RequestClass<'_>, count: u64) -> Vec<Scenario> {
    let mut hunt = Hunt::of(policies.iter().cloned(), None);
    let mut arena = Arena::new();
    let request = Request::new(&mut arena, *cell, cell.resource, Data::Normalised);
    let kind = &cell.resource.object_kind;
    let shape = Shape::object(&kind.api_version(), &kind.kind);
    let base = ordinary(cell.resource);
    (0..count).map(|_| hunt.scenario(&request, &shape, &base)).collect()
}

/// The policies of a side as JSON.
fn sources(loaded: &Loaded) -> Vec<Json> {
    let classic = loaded.classic().map(|policy| policy.spec.source.document());
    let validating = loaded.validating().map(|policy| policy.spec.source.document());
    let native = loaded.native().map(|policy| policy.source.document());
    let bindings = loaded.bindings.iter().map(|binding| binding.source.document());
    let all = classic.chain(validating).chain(native).chain(bindings);
    all.map(|document| document.root().to_serde()).collect()
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/'))
}

/// Gathers words, constants and numbers of a policy.
fn collect(value: &Json, words: &mut BTreeSet<String>, texts: &mut BTreeSet<String>, numbers: &mut BTreeSet<i64>) {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                if matches!(key.as_str(), "message" | "status" | "managedFields") {
                    continue;
                }
                words_of(key, words);
                if is_key(key) {
                    texts.insert(key.clone());
                }
                collect(value, words, texts, numbers);
            }
        }
        Json::Array(items) => {
            for item in items {
                collect(item, words, texts, numbers);
            }
        }
        Json::String(text) => {
            words_of(text, words);
            let mut quoted = false;
            for quote in ['\'', '"', '`'] {
                for (at, part) in text.split(quote).enumerate() {
                    if at % 2 == 1 {
                        texts.insert(part.replace("\\\\", "\\"));
                        quoted = true;
                    }
                }
            }
            if !quoted && text.len() < 100 {
                for part in text.split(['|', '&']) {
                    texts.insert(part.trim().to_owned());
                    texts.insert(part.trim().trim_start_matches(['<', '>', '=', '!', ' ']).to_owned());
                }
                texts.insert(text.clone());
            }
            let mut digits = String::new();
            for c in text.chars().chain([' ']) {
                if c.is_ascii_digit() {
                    digits.push(c);
                } else if !digits.is_empty() {
                    numbers.extend(digits.parse::<i64>().ok());
                    digits.clear();
                }
            }
        }
        Json::Number(number) => numbers.extend(number.as_i64()),
        Json::Bool(_) | Json::Null => {}
    }
}

fn words_of(text: &str, words: &mut BTreeSet<String>) {
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            words.insert(word.to_owned());
        }
    }
}

/// A constant and its neighbours.
fn vary(text: &str, into: &mut BTreeSet<String>) {
    if text.len() > 200 {
        return;
    }
    into.insert(text.to_owned());
    into.insert(format!("{text}x"));
    into.insert(format!("x{text}"));
    into.insert(text.to_ascii_uppercase());
    into.insert(text.to_ascii_lowercase());
    let mut shorter = text.to_owned();
    shorter.pop();
    into.insert(shorter);
    into.insert(text.replace('*', "x").replace('?', "y"));
    into.insert(text.replace('*', ""));
    if text.contains(['^', '$', '[', '+', '(', '\\'])
        && let Ok(regex) = Regex::new(text)
    {
        for seed in 0..4 {
            into.extend(generate::text(&regex, seed).ok());
        }
    }
}
