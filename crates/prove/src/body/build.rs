//! Requests from models: what formulas say of places becomes objects, and what they do not say looks ordinary.

mod complete;
mod fill;
mod outside;

use std::{collections::BTreeMap, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value as Json, json};

use kyvtest_go_compat::{text::quantity::Quantity, value::Document};
use kyvtest_model::kube::{self, Namespace, Operation, UserInfo, World};

use self::fill::fill;
pub(super) use self::{
    complete::{complete as complete_object, completed, supplied},
    fill::ordinary,
};
use super::{
    formula::{Arena, Atom, Place, Step},
    request::Request,
    shape::{Inner, Kind},
    side::add_objects,
    solve::{Model, Taste, Theory, class, integer_values},
};
use crate::{calls::Calls, language::SearchResult, seeds::merge, witness::Scenario};

/// Builds a request.
pub(super) struct Builder<'b> {
    arena: &'b Arena,
    theory: &'b mut Theory,
    model: &'b Model,
    children: FxHashMap<Place, Vec<Place>>,
    touched: FxHashSet<Place>,
    integers: FxHashMap<Place, i64>,
    texts: BTreeMap<Place, String>,
}

impl<'b> Builder<'b> {
    pub(super) fn new(arena: &'b Arena, theory: &'b mut Theory, model: &'b Model) -> Self {
        let mut touched = FxHashSet::default();
        let mut touch = |place: Place| {
            let mut at = Some(place);
            while let Some(place) = at {
                touched.insert(place);
                at = arena.parent(place);
            }
        };
        for atom in &model.order {
            match arena.atom(*atom) {
                Atom::Present(place) if !model.values[atom] => {
                    if let Some(parent) = arena.parent(*place) {
                        touch(parent);
                    }
                }
                atom => atom.places().for_each(&mut touch),
            }
        }
        for elements in model.elements.values() {
            for element in elements {
                touch(*element);
            }
        }
        let mut children: FxHashMap<Place, Vec<Place>> = FxHashMap::default();
        for place in arena.places() {
            if let Some(parent) = arena.parent(place)
                && touched.contains(&place)
            {
                children.entry(parent).or_default().push(place);
            }
        }
        let integers = integer_values(arena, model);
        let mut builder = Self {
            arena,
            theory,
            model,
            children,
            touched,
            integers,
            texts: BTreeMap::new(),
        };
        builder.convert_texts();
        builder.choose_texts();
        builder
    }

    fn literal(&self, atom: &Atom) -> Option<bool> {
        let id = self.arena.known(atom)?;
        self.model.values.get(&id).copied()
    }

    /// Gives every text a value; texts that must differ get different ones.
    fn choose_texts(&mut self) {
        let mut places: Vec<Place> = Vec::new();
        for atom in &self.model.order {
            match self.arena.atom(*atom) {
                Atom::Text(place, _) => places.push(*place),
                Atom::Same(a, b) => places.extend([*a, *b]),
                _ => {}
            }
        }
        places.sort_unstable();
        places.dedup();
        for place in places {
            if self.texts.contains_key(&place) {
                continue;
            }
            let own = class(self.arena, self.model, place);
            let mut not: Vec<Arc<str>> = Vec::new();
            for atom in &self.model.order {
                if let Atom::Same(a, b) = self.arena.atom(*atom)
                    && !self.model.values[atom]
                {
                    for (one, other) in [(a, b), (b, a)] {
                        if own.contains(one)
                            && let Some(text) = self.texts.get(other)
                        {
                            not.push(Arc::from(text.as_str()));
                        }
                    }
                }
            }
            let is_key = own.iter().any(|place| *self.arena.step(*place) == Step::Key);
            let is_path = |place: &Place| self.arena.generic(*place).ends_with(".paths[].path");
            let first = if is_key {
                Taste::Key
            } else if own.iter().any(is_path) {
                Taste::Path
            } else {
                Taste::Name
            };
            // Elements of one list should have different names.
            let mut apart = not.clone();
            for place in &own {
                apart.extend(self.siblings(*place));
            }
            let tries = [
                (&apart, first),
                (&apart, Taste::Plain),
                (&not, Taste::Plain),
                (&not, Taste::Any),
            ];
            let sample = own.iter().find_map(|place| self.sample(*place, &apart));
            let found = sample.or_else(|| {
                tries.into_iter().find_map(|(not, taste)| {
                    match self.theory.find(self.arena, self.model, &own, &(not.clone(), taste)) {
                        SearchResult::Yes(text) => Some(text),
                        SearchResult::No | SearchResult::Incomplete => None,
                    }
                })
            });
            if let Some(text) = found {
                for place in own {
                    self.texts.insert(place, text.clone());
                }
            }
        }
    }

    /// The texts of the same field of the other elements of a list, or of the other elements themselves.
    fn siblings(&self, place: Place) -> Vec<Arc<str>> {
        let own = self.arena.generic(place);
        let Some(list) = self.arena.element(place).and_then(|element| self.arena.parent(element)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (other, text) in &self.texts {
            let other_list = self
                .arena
                .element(*other)
                .and_then(|element| self.arena.parent(element));
            if *other != place && other_list == Some(list) && self.arena.generic(*other) == own {
                all.push(Arc::from(text.as_str()));
            }
        }
        all.sort_unstable();
        all
    }

    /// An ordinary text for a field that validation looks at, if it fits.
    fn sample(&mut self, place: Place, not: &[Arc<str>]) -> Option<String> {
        let path = self.arena.generic(place);
        let samples: &[&str] = if path.ends_with(".accessModes[]") {
            &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]
        } else if path.ends_with(".hostPath.path") {
            &["/data", "/"]
        } else if path.ends_with(".seccompProfile.type") || path.ends_with(".appArmorProfile.type") {
            &["Unconfined", "RuntimeDefault"]
        } else {
            return None;
        };
        let is_type = path.rsplit('.').next() == Some("type");
        let fits = |text: &&&str| {
            let apart = is_type || not.iter().all(|other| &**other != **text);
            apart
                && self.model.order.iter().all(|atom| match self.arena.atom(*atom) {
                    Atom::Text(own, predicate) if *own == place => predicate.holds(text) == self.model.values[atom],
                    _ => true,
                })
        };
        samples.iter().find(fits).map(|text| (*text).to_owned())
    }

    fn is_absent(&self, place: Place) -> bool {
        self.arena.is_optional(place) && self.literal(&Atom::Present(place)) != Some(true)
    }

    /// The value of a place that is there.
    fn value(&mut self, place: Place) -> Json {
        let shape = self.arena.shape(place).clone();
        let chosen = Kind::ALL
            .into_iter()
            .find(|kind| shape.kinds.has(*kind) && self.literal(&Atom::Kind(place, *kind)) == Some(true));
        let not_refused = |builder: &Self, kind: &Kind| builder.literal(&Atom::Kind(place, *kind)) != Some(false);
        let kind = chosen.or_else(|| {
            let likely = if self.texts.contains_key(&place) {
                Some(Kind::Text)
            } else if self.integers.contains_key(&place) {
                Some(Kind::Int)
            } else if self.model.elements.contains_key(&place) && shape.kinds.has(Kind::List) {
                Some(Kind::List)
            } else if self.children.get(&place).is_some_and(|own| !own.is_empty()) {
                Some(Kind::Map)
            } else {
                None
            };
            let order = [
                Kind::Text,
                Kind::Map,
                Kind::List,
                Kind::Bool,
                Kind::Int,
                Kind::Double,
                Kind::Null,
            ];
            likely
                .into_iter()
                .chain(order)
                .find(|kind| shape.kinds.has(*kind) && not_refused(self, kind))
        });
        match kind {
            Some(Kind::Bool) => json!(shape.nonzero || self.literal(&Atom::True(place)) == Some(true)),
            Some(Kind::Int) => {
                let known = self.integers.get(&place).copied();
                json!(known.unwrap_or(i64::from(shape.nonzero)))
            }
            Some(Kind::Double) => json!(self.double(place)),
            Some(Kind::Text) => json!(self.text(place)),
            Some(Kind::List) => {
                let elements = self.model.elements.get(&place).cloned().unwrap_or_default();
                let mut items = Vec::new();
                for element in elements {
                    if !self.is_absent(element) {
                        items.push(self.value(element));
                    }
                }
                if let Inner::List(item) = &shape.inner
                    && shape.nonzero
                    && items.is_empty()
                {
                    items.push(complete::element(
                        &self.arena.generic(place),
                        item.kinds.has(Kind::Text),
                    ));
                }
                Json::Array(items)
            }
            Some(Kind::Map) => self.map(place),
            Some(Kind::Null) | None => Json::Null,
        }
    }

    fn map(&mut self, place: Place) -> Json {
        let mut map = Map::new();
        for child in self.children.get(&place).cloned().unwrap_or_default() {
            match self.arena.step(child).clone() {
                Step::Field(key) if !self.is_absent(child) => {
                    let value = self.value(child);
                    map.insert(key.to_string(), value);
                }
                Step::Some(_) if !self.is_absent(child) => {
                    let own = self.children.get(&child).cloned().unwrap_or_default();
                    let key = own.iter().find(|place| *self.arena.step(**place) == Step::Key).copied();
                    let value = own
                        .iter()
                        .find(|place| *self.arena.step(**place) == Step::Value)
                        .copied();
                    let key = key.map_or_else(|| "other".to_owned(), |key| self.text(key));
                    let value = value.map_or_else(|| json!("x"), |value| self.value(value));
                    map.insert(key, value);
                }
                _ => {}
            }
        }
        let shape = self.arena.shape(place);
        if map.is_empty() && shape.nonzero && matches!(shape.inner, Inner::Map(_) | Inner::Labels) {
            let read = self.arena.keys(place);
            let (keys, value) = match &shape.inner {
                Inner::Map(value) if value.inner == Inner::Quantity => (["cpu", "memory", "ephemeral-storage"], "1"),
                _ => (["other", "another", "third"], "x"),
            };
            let key = keys.into_iter().find(|key| !read.iter().any(|own| &**own == *key));
            map.insert(key.unwrap_or("other").to_owned(), json!(value));
        }
        Json::Object(map)
    }

    fn text(&mut self, place: Place) -> String {
        if self.arena.shape(place).inner == Inner::Quantity
            && let Some(amount) = self.quantity(place)
        {
            return amount;
        }
        if let Some(text) = self.texts.get(&place) {
            return text.clone();
        }
        if let Some(amount) = self.quantity(place) {
            return amount;
        }
        if let Some(text) = self.sample(place, &[]) {
            return text;
        }
        // Numbers that may be texts are mostly percentages then.
        let kinds = self.arena.shape(place).kinds;
        if kinds.has(Kind::Int) && !kinds.has(Kind::Map) {
            return "50%".to_owned();
        }
        match self
            .theory
            .find(self.arena, self.model, &[place], &(Vec::new(), Taste::Plain))
        {
            SearchResult::Yes(text) => text,
            SearchResult::No | SearchResult::Incomplete => "x".to_owned(),
        }
    }

    fn double(&self, place: Place) -> f64 {
        let mut tries = vec![0.5];
        for atom in &self.model.order {
            if let Atom::Double(own, bits, _) = self.arena.atom(*atom)
                && *own == place
            {
                let bound = f64::from_bits(*bits);
                tries.extend([bound, bound + 0.5, bound - 0.5]);
            }
        }
        let fits = |number: &f64| {
            self.model.order.iter().all(|atom| match self.arena.atom(*atom) {
                Atom::Double(own, bits, strict) if *own == place => {
                    let bound = f64::from_bits(*bits);
                    let below = if *strict { *number < bound } else { *number <= bound };
                    below == self.model.values[atom]
                }
                _ => true,
            })
        };
        tries.into_iter().find(fits).unwrap_or_default()
    }

    /// A quantity within the bounds of the model; those of other places are not looked at.
    fn quantity(&self, place: Place) -> Option<String> {
        let own = self.model.order.iter().filter_map(|atom| match self.arena.atom(*atom) {
            Atom::Quantity(at, amount, strict) if *at == place => Some((&amount.0, *strict, self.model.values[atom])),
            _ => None,
        });
        let own: Vec<(&Quantity, bool, bool)> = own.collect();
        if own.is_empty() {
            return None;
        }
        let one = Quantity::parse("1").ok()?;
        let milli = Quantity::parse("1m").ok()?;
        let mut tries = Vec::new();
        for (amount, ..) in &own {
            tries.push((*amount).clone());
            for step in [&one, &milli] {
                tries.push(amount.add(step));
                tries.push(amount.sub(step));
            }
        }
        tries.push(Quantity::parse("0").ok()?);
        let fits = |amount: &Quantity| {
            own.iter().all(|(bound, strict, holds)| {
                let below = if *strict { amount < *bound } else { amount <= *bound };
                below == *holds
            })
        };
        let positive = tries.iter().find(|amount| fits(amount) && amount.sign() >= 0);
        positive
            .or_else(|| tries.iter().find(|amount| fits(amount)))
            .map(Quantity::canonical)
    }

    /// The fields that the model says are absent, below a place.
    fn absent(&self, root: Place) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for atom in &self.model.order {
            if let Atom::Present(place) = self.arena.atom(*atom)
                && !self.model.values[atom]
            {
                let mut path = Vec::new();
                let mut at = Some(*place);
                let mut inside = false;
                while let Some(place) = at {
                    match self.arena.step(place) {
                        Step::Field(key) => path.push(key.to_string()),
                        Step::Item(_) | Step::Some(_) => {
                            let list = self.arena.parent(place);
                            let elements = list.and_then(|list| self.model.elements.get(&list));
                            let there: Vec<Place> = elements
                                .into_iter()
                                .flatten()
                                .copied()
                                .filter(|element| !self.is_absent(*element))
                                .collect();
                            match there.iter().position(|element| *element == place) {
                                Some(position) => path.push(format!("#{position}")),
                                None => break,
                            }
                        }
                        Step::Root(_) => inside = place == root,
                        _ => break,
                    }
                    at = self.arena.parent(place);
                }
                if inside {
                    path.reverse();
                    all.push(path);
                }
            }
        }
        all
    }

    /// The request of the model.
    pub(super) fn scenario(&mut self, request: &Request<'_>) -> Scenario {
        let cell = &request.cell;
        let name = request
            .name
            .map_or_else(|| "sample".to_owned(), |place| self.usual(place, "sample"));
        let namespace = request.namespace.map(|place| self.usual(place, "apps"));
        let base = ordinary(cell.resource);
        let new = request.object.map(|root| {
            let built = self.object(root, &base, &name, namespace.as_deref());
            self.without(built, root)
        });
        let old = request.old_object.map(|root| {
            let under = new.as_ref().unwrap_or(&base).clone();
            // What only the new object must not have may be there in the old one.
            let built = self.object(root, &under, &name, namespace.as_deref());
            self.without(built, root)
        });
        let mut user = UserInfo {
            username: "alice".to_owned(),
            groups: Some(vec!["system:authenticated".to_owned()]),
            ..UserInfo::default()
        };
        if self.touched.contains(&request.user) {
            let built = self.value(request.user);
            if let Some(text) = built["username"].as_str() {
                text.clone_into(&mut user.username);
            }
            if let Some(groups) = built["groups"].as_array() {
                let groups = groups.iter().filter_map(|group| group.as_str().map(str::to_owned));
                user.groups = Some(groups.collect());
            }
        }
        let mut labels: Vec<(String, String)> = Vec::new();
        if let Some(root) = request.namespace_object {
            let built = self.value(root);
            let own = built["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            for (key, value) in own {
                labels.push((key, value.as_str().unwrap_or_default().to_owned()));
            }
        }
        let mut scenario = make(request, (new, old), (&name, namespace.as_deref()), user, labels);
        let found = self.looked_up(&name, namespace.as_deref());
        add_objects(&mut scenario.world.params, found);
        scenario.calls = self.calls(&name, namespace.as_deref());
        scenario
    }

    fn usual(&mut self, place: Place, usual: &str) -> String {
        match self.texts.get(&place) {
            Some(text) => text.clone(),
            None => usual.to_owned(),
        }
    }

    fn object(&mut self, root: Place, base: &Json, name: &str, namespace: Option<&str>) -> Json {
        let built = if self.touched.contains(&root) {
            self.value(root)
        } else {
            json!({})
        };
        let mut object = merge(base, &built);
        put_nulls(&mut object, &built);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = json!(name);
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    fn without(&self, mut object: Json, root: Place) -> Json {
        for path in self.absent(root) {
            remove(&mut object, &path);
        }
        object
    }
}

/// Puts a request together.
pub(super) fn make(
    request: &Request<'_>,
    (new, old): (Option<Json>, Option<Json>),
    (name, namespace): (&str, Option<&str>),
    user: UserInfo,
    mut labels: Vec<(String, String)>,
) -> Scenario {
    let cell = &request.cell;
    let document = |object: Option<Json>| match object {
        None => Document::null(),
        Some(mut object) => {
            let kind = &cell.resource.object_kind;
            object["apiVersion"] = json!(kind.api_version());
            object["kind"] = json!(kind.kind);
            fill(&mut object, "");
            if kind.kind == "Service" && object["spec"].is_object() && object["spec"].get("ports").is_none() {
                // Only a headless service has no ports.
                object["spec"]["clusterIP"] = json!("None");
            }
            Document::from(&object)
        }
    };
    let is_namespace = cell.resource.group.is_empty() && cell.resource.object_kind.kind == "Namespace";
    let mut world = World::new();
    let mut in_namespace = namespace.unwrap_or_default().to_owned();
    if is_namespace {
        name.clone_into(&mut in_namespace);
    } else if let Some(namespace) = namespace {
        labels.retain(|(key, _)| key != kube::NAME_LABEL);
        labels.push((kube::NAME_LABEL.to_owned(), namespace.to_owned()));
        labels.sort();
        let entries = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        world.add_namespace(Namespace::with_labels(namespace, entries));
    }
    let request = kube::Request {
        operation: cell.operation,
        resource: Arc::new(cell.resource.clone()),
        name: if cell.collection {
            String::new()
        } else {
            name.to_owned()
        },
        namespace: in_namespace,
        object: document(new.filter(|_| cell.operation != Operation::Delete)),
        old_object: document(old),
        user,
        roles: Some(Vec::new()),
        cluster_roles: Some(Vec::new()),
        dry_run: false,
        options: Document::null(),
        collection: cell.collection,
    };
    Scenario {
        request,
        world,
        namespace_labels: labels,
        calls: Calls::default(),
    }
}

/// Sets what is null in one object in another one.
fn put_nulls(object: &mut Json, from: &Json) {
    if let (Json::Object(object), Json::Object(from)) = (object, from) {
        for (key, value) in from {
            if value.is_null() {
                object.insert(key.clone(), Json::Null);
            } else if let Some(own) = object.get_mut(key) {
                put_nulls(own, value);
            }
        }
    }
}

fn remove(object: &mut Json, path: &[String]) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let mut at = object;
    for step in before {
        let next = match (
            step.strip_prefix('#').and_then(|number| number.parse::<usize>().ok()),
            at,
        ) {
            (Some(position), Json::Array(items)) => items.get_mut(position),
            (_, Json::Object(map)) => map.get_mut(step),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return,
        }
    }
    if let Json::Object(map) = at {
        map.remove(last);
    }
}
