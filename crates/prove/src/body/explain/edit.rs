//! Sides whose objects are changed: what an edited policy decides.

use kyvtest_go_compat::{diagnostic::Severity, value::Document, yaml};
use kyvtest_model::{
    policy::{self, Loaded, PolicyId, Purpose},
    verdict::Effect,
};
use serde_json::Value as Json;

use super::{
    super::{Match, Setting, Side},
    blame::{is_of, sources, whole},
    path::FieldPath,
};
use crate::witness::Scenario;

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The number of the object.
    pub object: usize,
    /// Where it changes.
    pub path: FieldPath,
    /// What the change is.
    pub(crate) change: Change,
    /// The change in words.
    pub text: String,
}

/// What becomes of a part of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It becomes this value; it may have been absent.
    Set(Json),
    /// It is taken away.
    Remove,
    /// The key of the entry becomes another one.
    Rename(String),
}

impl Edit {
    /// The changed object.
    pub(crate) fn apply(&self, object: &Json) -> Option<Json> {
        let mut object = object.clone();
        let done = match &self.change {
            Change::Set(value) => self.path.set(&mut object, value.clone()),
            Change::Remove => self.path.remove(&mut object),
            Change::Rename(key) => {
                let (parent, last) = self.path.split()?;
                let super::path::Key::Field(old) = last else {
                    return None;
                };
                let map = parent.get_mut(&mut object)?.as_object_mut()?;
                if map.contains_key(key) || !map.contains_key(old) {
                    return None;
                }
                let entries = std::mem::take(map).into_iter();
                *map = entries
                    .map(|(own, value)| (if own == *old { key.clone() } else { own }, value))
                    .collect();
                true
            }
        };
        done.then_some(object)
    }
}

/// The policies and bindings of a side as values.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    list: Vec<Json>,
    /// Exceptions, which do not change.
    rest: Loaded,
    /// Objects of the cluster.
    others: Vec<Document>,
    setting: Setting,
}

impl Objects {
    /// Those of a side; `None` if one of them is part of something larger.
    pub(super) fn of(side: &Side) -> Option<Self> {
        let loaded = side.loaded();
        let mut objects = Vec::new();
        for (kind, name, source) in sources(loaded) {
            let node = whole(&source, &kind, &name)?;
            objects.push(Document::from(node).root().to_serde());
        }
        Some(Self {
            list: objects,
            rest: Loaded {
                exceptions: loaded.exceptions.clone(),
                cel_exceptions: loaded.cel_exceptions.clone(),
                ..Loaded::default()
            },
            others: side.objects().to_vec(),
            setting: side.setting().clone(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn json(&self, number: usize) -> &Json {
        self.list.get(number).unwrap_or(&Json::Null)
    }

    pub(super) fn into_json(self) -> Vec<Json> {
        self.list
    }

    /// The same with another object.
    pub(super) fn with(&self, number: usize, json: Json) -> Self {
        let mut other = self.clone();
        if let Some(own) = other.list.get_mut(number) {
            *own = json;
        }
        other
    }

    pub(super) fn policy(&self, id: &PolicyId) -> Option<usize> {
        self.list.iter().position(|json| is_of(id, json))
    }

    pub(super) fn named(&self, kind: &str, name: &str) -> Option<usize> {
        let is = |json: &Json| json["kind"] == kind && json["metadata"]["name"] == name;
        self.list.iter().position(is)
    }

    /// The side that these objects make; `None` if Kyverno or the API server rejects one.
    pub(super) fn side(&self, both: &Match<'_>) -> Option<Side> {
        let mut loaded = self.rest.clone();
        for object in &self.list {
            let text = object.to_string();
            let file = kyvtest_go_compat::diagnostic::Sources::new().add("object.json", text.as_str());
            let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
            policy::load(stream, file, Purpose::Policies, &mut loaded);
        }
        let is_wrong = |severity: Severity| severity == Severity::Error;
        if loaded.diagnostics.iter().any(|problem| is_wrong(problem.severity)) {
            return None;
        }
        Side::with_setting(loaded, self.others.clone(), both.given, &self.setting).ok()
    }

    /// What the side decides about a request.
    pub(super) fn decide(&self, both: &Match<'_>, scenario: &Scenario) -> Option<Effect> {
        let side = self.side(both)?;
        Some(side.decide(scenario, both.discovery, &both.mocks).effect)
    }
}
