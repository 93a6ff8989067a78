//! Texts for the values that expressions read from them, and the objects that expressions look up. No upstream counterpart.

use kyvtest_go_compat::{text::time::Timestamp, value::Document};
use serde_json::{Value as Json, json};

use super::Builder;
use crate::{
    body::{
        formula::{Atom, Node},
        lookup::{Lookup, Source},
        solve::class,
        value::{Conversion, Sym},
    },
    calls::Calls,
    seeds::merge,
};

impl Builder<'_> {
    /// Writes texts that are read as the values which the model gives them, where nothing else speaks against it.
    pub(super) fn convert_texts(&mut self) {
        for (value, source, readable, conversion) in self.arena.conversions() {
            let is_readable = match self.arena.look(*readable) {
                Node::True => true,
                Node::Literal(atom, holds) => self.model.values.get(atom) == Some(holds),
                _ => false,
            };
            let text = match (self.integers.get(value), conversion) {
                (Some(number), _) if !is_readable => format!("not {number}"),
                (Some(number), Conversion::Integer) => number.to_string(),
                (Some(number), Conversion::Duration) => format!("{number}ns"),
                (Some(number), Conversion::Time) => match Timestamp::from_seconds(number.div_euclid(2)) {
                    Some(time) if number % 2 != 0 => time.to_string().replace('Z', ".5Z"),
                    Some(time) => time.to_string(),
                    None => continue,
                },
                (None, _) => continue,
            };
            let own = class(self.arena, self.model, *source);
            let fits = self.model.order.iter().all(|atom| match self.arena.atom(*atom) {
                Atom::Text(place, predicate) if own.contains(place) => {
                    predicate.holds(&text) == self.model.values[atom]
                }
                _ => true,
            });
            if fits {
                for place in own {
                    self.texts.insert(place, text.clone());
                    let mut at = Some(place);
                    while let Some(place) = at.filter(|place| self.touched.insert(*place)) {
                        at = self.arena.parent(place);
                        if let Some(parent) = at {
                            self.children.entry(parent).or_default().push(place);
                        }
                    }
                }
            }
        }
    }

    /// The objects that expressions look up and that exist.
    pub(super) fn looked_up(&mut self, name: &str, namespace: Option<&str>) -> Vec<Document> {
        let mut all = Vec::new();
        for Lookup { place, source, .. } in self.arena.lookups() {
            if !self.touched.contains(place) {
                continue;
            }
            let (found, api_version, kind, own_namespace) = match source {
                Source::Object {
                    api_version,
                    kind,
                    namespace,
                    ..
                } => (vec![self.value(*place)], api_version, kind, namespace),
                Source::List {
                    api_version,
                    kind,
                    namespace,
                } => {
                    let items = self.value(*place)["items"].take();
                    (elements(items), api_version, kind, namespace)
                }
                Source::Selected {
                    api_version,
                    kind,
                    namespace,
                    ..
                } => (elements(self.value(*place)), api_version, kind, namespace),
                Source::Global { .. } | Source::Service { .. } => continue,
            };
            let Some(own_namespace) = self.text_of(own_namespace, name, namespace) else {
                continue;
            };
            for (number, mut object) in found.into_iter().enumerate() {
                let own_name = match source {
                    Source::Object { name: own, .. } => self.text_of(own, name, namespace),
                    _ => object["metadata"]["name"].as_str().map(str::to_owned),
                };
                let has_name = matches!(source, Source::Object { .. });
                if !object.is_object() || has_name && own_name.is_none() {
                    continue;
                }
                object["apiVersion"] = json!(&**api_version);
                object["kind"] = json!(&**kind);
                if !object["metadata"].is_object() {
                    object["metadata"] = json!({});
                }
                object["metadata"]["name"] = json!(own_name.unwrap_or_else(|| format!("other-{}", number + 1)));
                if !own_namespace.is_empty() {
                    object["metadata"]["namespace"] = json!(own_namespace);
                }
                if let Source::Selected { labels, .. } = source {
                    object = merge(&object, &json!({"metadata": {"labels": **labels}}));
                }
                all.push(Document::from(&object));
            }
        }
        all
    }

    /// What the global context and services answer.
    pub(super) fn calls(&mut self, name: &str, namespace: Option<&str>) -> Calls {
        let mut calls = Calls::default();
        for Lookup { place, fine, source } in self.arena.lookups() {
            let is_fine = match self.arena.look(*fine) {
                Node::True => None,
                Node::Literal(atom, holds) => self.model.values.get(atom).map(|value| value == holds),
                _ => None,
            };
            let is_touched = self.touched.contains(place);
            if is_fine == Some(false) || is_fine.is_none() && !is_touched {
                continue;
            }
            let value = if is_touched { self.value(*place) } else { json!({}) };
            match source {
                // An entry that is null does not exist.
                Source::Global { name, projection } if !value.is_null() => {
                    calls.add_global(name, projection, value);
                }
                Source::Service { url } => {
                    if let Some(url) = self.text_of(url, name, namespace) {
                        calls.add_service(&url, value);
                    }
                }
                _ => {}
            }
        }
        calls
    }

    /// A text of the model, in an object with a name.
    fn text_of(&self, sym: &Sym, name: &str, namespace: Option<&str>) -> Option<String> {
        match sym {
            Sym::Text(text) => Some(text.to_string()),
            Sym::At(place) => match self.texts.get(place) {
                Some(text) => Some(text.clone()),
                None if self.arena.generic(*place).ends_with("namespace") => namespace.map(str::to_owned),
                None => Some(name.to_owned()),
            },
            _ => None,
        }
    }
}

fn elements(list: Json) -> Vec<Json> {
    match list {
        Json::Array(items) => items,
        _ => Vec::new(),
    }
}
