//! The region around a witness: which of its fields matter, and for which of the values that were tried the sides differ.
//!
//! Fields of the request change one at a time: they are taken away, get the constants of both texts and their neighbours, and
//! fields that the texts name are added. What is listed was evaluated on both sides; nothing is claimed about other values.

use serde_json::{Value as Json, json};

use super::{
    super::{
        Match,
        hunt::Hunt,
        shape::{Inner, Shape},
    },
    path::{FieldPath, Key, below},
    small::{Shown, Which, is_identity},
};
use crate::witness::Scenario;
use kyvtest_model::{
    kube::{NAME_LABEL, Namespace},
    verdict::DivergenceClass,
};

/// A field of the witness on whose value the difference depends.
#[derive(Debug, Clone, PartialEq)]
pub struct Varied {
    /// The object in which it is, `object` or `oldObject`, or `request`.
    pub object: &'static str,
    pub path: FieldPath,
    /// Its value in the witness; `None` if it is absent there.
    pub value: Option<Json>,
    /// Other values with which the sides differ in the same way; `None` is absence.
    pub differs: Vec<Option<Json>>,
    /// Values with which they do not.
    pub agrees: Vec<Option<Json>>,
}

/// How many values of a field are listed.
const LISTED: usize = 4;

/// How many values of a field are tried.
const TRIED: usize = 24;

/// How many requests are tried in all.
const RUNS: usize = 1_500;

/// Tries requests around a witness.
pub(super) struct Variation<'m, 's> {
    both: &'m mut Match<'s>,
    hunt: Hunt,
    shown: Shown,
    class: DivergenceClass,
    runs: usize,
    found: Vec<Varied>,
}

impl<'m, 's> Variation<'m, 's> {
    pub(super) fn new(both: &'m mut Match<'s>, shown: &Shown) -> Self {
        Self {
            hunt: Hunt::new(both.sides[0], both.sides[1], both.options.now),
            both,
            class: shown.found.class(),
            shown: shown.clone(),
            runs: 0,
            found: Vec::new(),
        }
    }

    /// The fields that matter, those with a value first and the innermost of them first.
    pub(super) fn fields(mut self) -> Vec<Varied> {
        for which in Which::of(&self.shown.sent) {
            let object = which.object(&self.shown.sent);
            let mut paths = below(&object, &FieldPath::default());
            paths.retain(|path| !is_identity(path));
            for path in &paths {
                self.changed(*which, &object, path);
            }
            let kind = &self.shown.sent.request.resource.object_kind;
            let shape = Shape::object(&kind.api_version(), &kind.kind);
            self.added(*which, &object, &shape, &FieldPath::default());
        }
        self.user();
        self.name();
        let mut found = self.found;
        // A parent matters because of what is in it.
        let inner: Vec<(&str, FieldPath)> = found.iter().map(|field| (field.object, field.path.clone())).collect();
        found.retain(|field| {
            let has_inner = |(object, path): &(&str, FieldPath)| {
                *object == field.object && path.starts_with(&field.path) && path.depth() > field.path.depth()
            };
            field.value.is_none() || !field.value.as_ref().is_some_and(is_composite) || !inner.iter().any(has_inner)
        });
        found.sort_by_key(|field| {
            let composite = field.value.as_ref().is_some_and(is_composite);
            (field.value.is_none(), composite, std::cmp::Reverse(field.path.depth()))
        });
        found
    }

    /// Whether the sides still differ in the same way; `None` if the request cannot be sent.
    fn still(&mut self, sent: &Scenario) -> Option<bool> {
        if self.runs >= RUNS {
            return None;
        }
        self.runs += 1;
        if !self.both.can_send(sent) {
            return None;
        }
        Some(self.both.show(sent).is_some_and(|found| found.class() == self.class))
    }

    fn note(&mut self, which: &'static str, path: &FieldPath, value: Option<Json>, tried: Vec<(Option<Json>, bool)>) {
        if !tried.iter().any(|(_, differs)| !differs) {
            return;
        }
        let of = |wanted: bool| {
            let values = tried.iter().filter(move |(_, differs)| *differs == wanted);
            let mut values: Vec<Option<Json>> = values.map(|(value, _)| value.clone()).collect();
            values.sort_by_key(|value| value.as_ref().map_or(0, |value| value.to_string().len()));
            values.truncate(LISTED);
            values
        };
        self.found.push(Varied {
            object: which,
            path: path.clone(),
            value,
            differs: of(true),
            agrees: of(false),
        });
    }

    /// Tries other values of a field, and its absence.
    fn changed(&mut self, which: Which, object: &Json, path: &FieldPath) {
        let Some(own) = path.get(object).cloned() else {
            return;
        };
        let mut values: Vec<Option<Json>> = match &own {
            Json::Bool(own) => vec![Some(json!(!own))],
            Json::Number(_) => self.hunt.numbers().map(|number| Some(json!(number))).collect(),
            Json::String(_) => self.hunt.texts().map(|text| Some(json!(text))).collect(),
            _ => Vec::new(),
        };
        values.truncate(TRIED);
        values.push(None);
        let mut tried = Vec::new();
        for value in values {
            if value.as_ref() == Some(&own) {
                continue;
            }
            let mut object = object.clone();
            let done = match &value {
                Some(value) => path.set(&mut object, value.clone()),
                None => path.remove(&mut object),
            };
            let mut sent = self.shown.sent.clone();
            which.replace(&mut sent, &object);
            if done && let Some(differs) = self.still(&sent) {
                tried.push((value, differs));
            }
        }
        self.note(which.name(), path, Some(own), tried);
    }

    /// Tries fields that the texts name and the witness does not have.
    fn added(&mut self, which: Which, object: &Json, shape: &Shape, at: &FieldPath) {
        match (at.get(object), &shape.inner) {
            (Some(Json::Object(map)), Inner::Struct(own)) => {
                let names: Vec<String> = own.fields().map(str::to_owned).collect();
                for name in names {
                    let path = at.field(&name);
                    let Some((inner, _)) = shape.field(&name, true) else {
                        continue;
                    };
                    if map.contains_key(&name) {
                        self.added(which, object, &inner, &path);
                    } else if self.hunt.names(&name) && !matches!(name.as_str(), "status" | "kind" | "apiVersion") {
                        self.absent(which, object, &inner, &path);
                    }
                }
            }
            (Some(Json::Array(list)), Inner::List(inner)) => {
                for number in 0..list.len() {
                    self.added(which, object, inner, &at.item(number));
                }
            }
            _ => {}
        }
    }

    fn absent(&mut self, which: Which, object: &Json, shape: &Shape, path: &FieldPath) {
        let mut tried: Vec<(Option<Json>, bool)> = Vec::new();
        for _ in 0..8 {
            let value = self.hunt.sample(shape, path.name());
            if value.is_null() || tried.iter().any(|(other, _)| other.as_ref() == Some(&value)) {
                continue;
            }
            let mut object = object.clone();
            let mut sent = self.shown.sent.clone();
            if path.set(&mut object, value.clone()) {
                which.replace(&mut sent, &object);
                if let Some(differs) = self.still(&sent) {
                    tried.push((Some(value), differs));
                }
            }
        }
        self.note(which.name(), path, None, tried);
    }

    /// Tries other users.
    fn user(&mut self) {
        let sent = self.shown.sent.clone();
        let user = &sent.request.user;
        let mut tried = Vec::new();
        for text in ["bob".to_owned()].into_iter().chain(self.hunt.texts()).take(TRIED) {
            if text.is_empty() || text == user.username {
                continue;
            }
            let mut other = sent.clone();
            other.request.user.username.clone_from(&text);
            if let Some(differs) = self.still(&other) {
                tried.push((Some(json!(text)), differs));
            }
        }
        let path = FieldPath::fields(&["userInfo", "username"]);
        self.note("request", &path, Some(json!(user.username)), tried);
        let own = user.groups.clone().unwrap_or_default();
        let mut tried = Vec::new();
        for text in self.hunt.texts().take(TRIED) {
            let mut other = sent.clone();
            other.request.user.groups = Some(vec![text.clone(), "system:authenticated".to_owned()]);
            if let Some(differs) = self.still(&other) {
                tried.push((Some(json!([text])), differs));
            }
        }
        let path = FieldPath::fields(&["userInfo", "groups"]);
        self.note("request", &path, Some(json!(own)), tried);
    }

    /// Tries other names of the object and of its namespace.
    fn name(&mut self) {
        let sent = self.shown.sent.clone();
        for (field, own) in [
            ("name", sent.request.name.clone()),
            ("namespace", sent.request.namespace.clone()),
        ] {
            let resource = &sent.request.resource;
            let is_namespace = resource.group.is_empty() && resource.object_kind.kind == "Namespace";
            if own.is_empty() || is_namespace || field == "namespace" && !resource.namespaced {
                continue;
            }
            let mut tried = Vec::new();
            for text in ["other".to_owned()]
                .into_iter()
                .chain(self.hunt.texts())
                .take(2 * TRIED)
            {
                let is_name = !text.is_empty()
                    && text
                        .bytes()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
                if !is_name || text == own {
                    continue;
                }
                let mut other = sent.clone();
                for which in [Which::New, Which::Old] {
                    let mut object = which.object(&other);
                    if object["metadata"].get(field).is_some() {
                        object["metadata"][field] = json!(text);
                        which.replace(&mut other, &object);
                    }
                }
                if field == "name" {
                    other.request.name.clone_from(&text);
                } else {
                    other.request.namespace.clone_from(&text);
                    let labels = sent.namespace_labels.iter().filter(|(key, _)| key != NAME_LABEL);
                    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
                    let labels = labels.chain([(NAME_LABEL, text.as_str())]);
                    other.world.add_namespace(Namespace::with_labels(&text, labels));
                }
                if let Some(differs) = self.still(&other) {
                    tried.push((Some(json!(text)), differs));
                }
            }
            self.note(
                "object",
                &FieldPath::fields(&["metadata", field]),
                Some(json!(own)),
                tried,
            );
        }
    }
}

fn is_composite(value: &Json) -> bool {
    value.is_object() || value.is_array()
}

/// The words of a path that say most, the innermost last.
pub(super) fn words(path: &FieldPath) -> Vec<&str> {
    let fields = path.keys().iter().filter_map(|key| match key {
        Key::Field(name) => Some(name.as_str()),
        Key::Item(_) => None,
    });
    fields.filter(|name| !matches!(*name, "spec" | "metadata")).collect()
}
