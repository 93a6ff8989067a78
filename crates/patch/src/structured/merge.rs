//! The merge of two values of one type.
//!
//! Upstream counterpart: `typed/merge.go` of structured-merge-diff v6 with the rule that keeps the right-hand side. Both
//! values have been validated, so that upstream's errors cannot occur.

use kyvtest_go_compat::value::{Builder, Document, List, Map, Value};

use super::{
    config::{Input, kind},
    element::Element,
    schema::{ListType, MapType, Type},
    validate::{Forms, deduce},
};

/// Merges `right` into `left`.
pub(super) fn merge(ty: Type<'_>, left: Value<'_>, right: Value<'_>) -> Document {
    let mut builder = Builder::new();
    if let Some(merged) = value(ty, Some(left), Some(right)) {
        merged.build(&mut builder);
    }
    builder.finish()
}

/// A merged value: a part of either side, or something new.
enum Merged<'a> {
    Value(Value<'a>),
    List(Vec<Merged<'a>>),
    Map(Vec<(&'a str, Merged<'a>)>),
}

impl Merged<'_> {
    fn build(&self, builder: &mut Builder) {
        match self {
            Self::Value(value) => builder.value(*value),
            Self::List(items) => {
                builder.begin_list();
                for item in items {
                    item.build(builder);
                }
                builder.end();
            }
            Self::Map(entries) => {
                builder.begin_map();
                for (key, item) in entries {
                    builder.key(key);
                    item.build(builder);
                }
                builder.end();
            }
        }
    }
}

/// Merges two counterparts of which at least one is present; `None` if nothing remains.
fn value<'a>(ty: Type<'_>, left: Option<Value<'a>>, right: Option<Value<'a>>) -> Option<Merged<'a>> {
    // A side that is absent takes the form of the other; otherwise the right-hand side decides.
    let forms = match (left, right) {
        (_, Some(value)) | (Some(value), None) => deduce(ty.atom(), kind(value)),
        (None, None) => return None,
    };
    let leaf = || right.or(left).map(Merged::Value);
    match forms {
        Forms { map: Some(map), .. } => {
            let entries = |side: Option<Value<'a>>| side.and_then(Value::as_map).filter(|map| !map.is_empty());
            match (entries(left), entries(right)) {
                (None, None) => leaf(),
                _ if map.is_atomic => leaf(),
                (left, right) => merge_maps(ty, map, left, right),
            }
        }
        Forms { scalar: Some(_), .. } => leaf(),
        Forms { list: Some(list), .. } => {
            let items = |side: Option<Value<'a>>| side.and_then(Value::as_list).filter(|list| !list.is_empty());
            match (items(left), items(right)) {
                (None, None) => leaf(),
                _ if list.is_atomic => leaf(),
                (left, right) => merge_lists(ty, list, left, right),
            }
        }
        _ => leaf(),
    }
}

fn merge_maps<'a>(ty: Type<'_>, map: &MapType, left: Option<Map<'a>>, right: Option<Map<'a>>) -> Option<Merged<'a>> {
    let mut out = Vec::new();
    let mut add = |key: &'a str, left, right| {
        let Some(field) = map.field(key) else { return };
        if let Some(merged) = value(ty.at(field), left, right) {
            out.push((key, merged));
        }
    };
    for (key, value) in left.iter().flat_map(|left| left.iter()) {
        add(key.text(), Some(value), right.and_then(|right| right.get_key(key)));
    }
    for (key, value) in right.iter().flat_map(|right| right.iter()) {
        if left.is_none_or(|left| !left.contains(key)) {
            add(key.text(), None, Some(value));
        }
    }
    (!out.is_empty()).then_some(Merged::Map(out))
}

/// The elements of one side with their identities.
struct Side<'a> {
    elements: Vec<Element>,
    items: Vec<Value<'a>>,
}

impl<'a> Side<'a> {
    fn new(list: &ListType, items: Option<List<'a>>) -> Self {
        let mut side = Self {
            elements: Vec::new(),
            items: Vec::new(),
        };
        for item in items.iter().flat_map(|items| items.iter()) {
            if let Ok(element) = Element::of(list, Input::Value(item)) {
                side.elements.push(element);
                side.items.push(item);
            }
        }
        side
    }

    fn contains(&self, element: &Element) -> bool {
        self.elements.contains(element)
    }

    /// The element with an identity; null if several have it.
    fn get(&self, element: &Element) -> Option<Value<'a>> {
        let mut matching = (0..self.elements.len()).filter(|&i| self.elements[i] == *element);
        let first = matching.next()?;
        Some(match matching.next() {
            None => self.items[first],
            Some(_) => Value::Null,
        })
    }
}

fn merge_lists<'a>(
    ty: Type<'_>,
    list: &ListType,
    left: Option<List<'a>>,
    right: Option<List<'a>>,
) -> Option<Merged<'a>> {
    let left = Side::new(list, left);
    let right = Side::new(list, right);
    let mut shared = right.elements.iter().filter(|element| left.contains(element));
    let mut next = shared.next();
    let mut done: Vec<&Element> = Vec::new();
    let mut out = Vec::new();
    let item = ty.at(list.item);
    let (mut l, mut r) = (0, 0);
    while l < left.elements.len() || r < right.elements.len() {
        if let (Some(ours), Some(theirs)) = (left.elements.get(l), right.elements.get(r)) {
            if ours == theirs {
                done.push(ours);
                out.extend(value(item, left.get(ours), right.get(ours)));
                l += 1;
                r += 1;
                next = shared.next();
                continue;
            }
            // A shared element that comes later in the order of the right-hand side.
            if right.contains(ours) && next.is_some_and(|next| next != ours) {
                l += 1;
                continue;
            }
        }
        if let Some(ours) = left.elements.get(l) {
            if !right.contains(ours) {
                out.extend(value(item, Some(left.items[l]), None));
                l += 1;
                continue;
            }
            if done.contains(&ours) {
                l += 1;
            }
        }
        if let Some(theirs) = right.elements.get(r) {
            done.push(theirs);
            out.extend(value(item, left.get(theirs), right.get(theirs)));
            r += 1;
            if next == Some(theirs) {
                next = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Merged::List(out))
}
