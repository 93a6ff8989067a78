//! Texts for the values that expressions read from them, and the objects that expressions look up. No upstream counterpart.

use kyvtest_go_compat::{text::time::Timestamp, value::Document};
use serde_json::json;

use super::Builder;
use crate::body::{
    formula::{Atom, Node},
    solve::class,
    value::{Conversion, Sym},
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
        for lookup in self.arena.lookups() {
            if !self.touched.contains(&lookup.place) {
                continue;
            }
            let mut object = self.value(lookup.place);
            if !object.is_object() {
                continue;
            }
            let text = |builder: &Self, sym: &Sym| match sym {
                Sym::Text(text) => Some(text.to_string()),
                Sym::At(place) => Some(match builder.texts.get(place) {
                    Some(text) => text.clone(),
                    None if builder.arena.generic(*place).ends_with("namespace") => namespace?.to_owned(),
                    None => name.to_owned(),
                }),
                _ => None,
            };
            let (Some(own_namespace), Some(own_name)) = (text(self, &lookup.namespace), text(self, &lookup.name))
            else {
                continue;
            };
            let (_, kind) = crate::body::cel::kind_of(&lookup.api_version, &lookup.plural);
            object["apiVersion"] = json!(&*lookup.api_version);
            object["kind"] = json!(kind);
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["name"] = json!(own_name);
            if !own_namespace.is_empty() {
                object["metadata"]["namespace"] = json!(own_namespace);
            }
            all.push(Document::from(&object));
        }
        all
    }
}
