//! The merge of lists whose elements have keys.
//!
//! Upstream counterpart: kyaml v0.21.1 `yaml/walk/associative_sequence.go`, and `ElementSetter`, `ElementMatcher` and
//! `FieldMatcher` of `yaml/fns.go`. Keys are compared by their text. A list of scalars is a list with the key `""`.

use std::{borrow::Cow, collections::BTreeSet};

use super::{
    Stop,
    node::{Arena, Id, Kind},
    schema::Schema,
    walk::walk,
};

/// The key texts of one element; a missing one is empty.
type Tuple<'a> = Vec<Cow<'a, str>>;

/// The keys and values of elements to replace. There may be fewer values than keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selector<'s, 'a> {
    pub(super) keys: &'s [&'s str],
    pub(super) values: &'s [Cow<'a, str>],
}

/// Merges the elements of `origin` into those of `dest`. Elements of the patch come first, in their order.
pub(super) fn merge(
    arena: &mut Arena<'_>,
    keys: &[&str],
    schema: Option<Schema>,
    dest: Id,
    origin: Option<Id>,
) -> Result<Id, Stop> {
    let sources = [origin, Some(dest)];
    let mut tuples = tuples(arena, keys, sources.into_iter().flatten());
    let keys = if keys.is_empty() { &[""] } else { keys };
    if keys.len() > 1 {
        complete(&mut tuples);
    }
    if tuples.is_empty() {
        return Ok(dest);
    }
    let used = used_keys(&tuples, keys.len());
    let keys: Vec<&str> = used.iter().map(|&i| keys[i]).collect();
    let result = arena.new_list();
    for tuple in &tuples {
        let values: Tuple<'_> = used.iter().map(|&i| tuple[i].clone()).collect();
        let selector = Selector {
            keys: &keys,
            values: &values,
        };
        let theirs = origin.and_then(|origin| find(arena, origin, selector));
        let walked = walk(arena, schema, find(arena, dest, selector), theirs)?;
        let Some((value, _)) = walked.filter(|&(value, _)| !arena.is_null_or_empty_map(value)) else {
            set_element(arena, dest, selector, None)?;
            continue;
        };
        for (&key, text) in keys.iter().zip(&values) {
            if arena.field(value, key).is_none() && !text.is_empty() && !key.is_empty() {
                let text = arena.new_string(text.clone());
                arena.expect(Some(value), Kind::Map)?;
                arena.set_field(value, key, text)?;
            }
        }
        set_element(arena, result, selector, Some(value))?;
    }
    append_rest(arena, result, dest, &keys)?;
    Ok(result)
}

/// The distinct key tuples of all elements, in order. Without keys, the texts of the elements.
fn tuples<'a>(arena: &Arena<'a>, keys: &[&str], sources: impl Iterator<Item = Id>) -> Vec<Tuple<'a>> {
    let mut tuples: Vec<Tuple<'a>> = Vec::new();
    for source in sources {
        for &item in arena.items(source) {
            let tuple = if keys.is_empty() {
                vec![arena.shared_text(item)]
            } else {
                let text = |key: &&str| {
                    let value = arena.field(item, key).filter(|&value| !arena.is_empty(value));
                    value.map_or(Cow::Borrowed(""), |value| arena.shared_text(value))
                };
                keys.iter().map(text).collect()
            };
            if !tuples.contains(&tuple) {
                tuples.push(tuple);
            }
        }
    }
    tuples
}

/// Completes tuples from each other: two that agree somewhere and contradict each other nowhere become the same.
fn complete(tuples: &mut [Tuple<'_>]) {
    for i in 0..tuples.len() {
        let first = tuples[i].clone();
        for j in 0..tuples.len() {
            if let Some(completed) = common(&first, &tuples[j]) {
                tuples[i].clone_from(&completed);
                tuples[j] = completed;
            }
        }
    }
}

fn common<'a>(left: &Tuple<'a>, right: &Tuple<'a>) -> Option<Tuple<'a>> {
    let contradicts = |(a, b): (&Cow<'_, str>, &Cow<'_, str>)| a != b && !a.is_empty() && !b.is_empty();
    let mut pairs = left.iter().zip(right);
    if !pairs.clone().any(|(a, b)| a == b) || pairs.any(contradicts) {
        return None;
    }
    let pairs = left.iter().zip(right);
    Some(pairs.map(|(a, b)| if a.is_empty() { b } else { a }.clone()).collect())
}

/// The positions that are not empty in some tuple; all if there is none.
fn used_keys(tuples: &[Tuple<'_>], count: usize) -> Vec<usize> {
    let filled = |tuple: &Tuple<'_>| -> Vec<usize> { (0..count).filter(|&i| !tuple[i].is_empty()).collect() };
    let used: BTreeSet<usize> = tuples.iter().flat_map(filled).collect();
    if used.is_empty() {
        return (0..count).collect();
    }
    used.into_iter().collect()
}

/// The first element with these values. Keys without a value are left out unless all are.
fn find(arena: &Arena<'_>, list: Id, selector: Selector<'_, '_>) -> Option<Id> {
    let Selector { keys, values } = selector;
    let all_empty = values.iter().all(|value| value.is_empty());
    let mut items = arena.items(list).iter().copied();
    if keys == [""] {
        return items.find(|&item| arena.text(item) == values[0]);
    }
    let has_value = |item: Id, (key, value): (&&str, &Cow<'_, str>)| {
        let is_used = all_empty || !value.is_empty();
        !is_used || arena.field(item, key).is_some_and(|field| arena.text(field) == *value)
    };
    items.find(|&item| arena.kind(item) == Kind::Map && keys.iter().zip(values).all(|pair| has_value(item, pair)))
}

/// Replaces the selected elements of a list by `element`, or removes them; appends `element` if none is selected. Null and
/// empty elements are dropped.
pub(super) fn set_element(
    arena: &mut Arena<'_>,
    list: Id,
    selector: Selector<'_, '_>,
    element: Option<Id>,
) -> Result<(), Stop> {
    arena.expect(Some(list), Kind::List)?;
    let Selector { keys, values } = selector;
    let selects_maps = !keys[0].is_empty() && values.first().is_some_and(|value| !value.is_empty());
    let mut items = Vec::new();
    let mut found = false;
    for item in arena.items(list).to_vec() {
        if arena.is_null_or_empty_map(item) {
            continue;
        }
        if selects_maps && arena.kind(item) != Kind::Map {
            items.push(item);
        } else if is_selected(arena, item, selector)? {
            found = true;
            items.extend(element);
        } else if !values.is_empty() {
            items.push(item);
        }
    }
    if !found {
        items.extend(element.filter(|&element| !arena.is_null(element)));
    }
    arena.set_items(list, items);
    Ok(())
}

fn is_selected(arena: &Arena<'_>, item: Id, selector: Selector<'_, '_>) -> Result<bool, Stop> {
    let Selector { keys, values } = selector;
    // Keys beyond the values repeat the result of the key before.
    for (key, value) in keys.iter().zip(values) {
        let is_match = if key.is_empty() {
            arena.expect(Some(item), Kind::Scalar)?;
            arena.text(item) == *value
        } else {
            arena.expect(Some(item), Kind::Map)?;
            let field = arena.field(item, key);
            field.is_some_and(|field| value.is_empty() || arena.text(field) == *value)
        };
        if !is_match {
            return Ok(false);
        }
    }
    Ok(!values.is_empty())
}

/// Adds the elements of the resource's list behind those of the patch.
fn append_rest(arena: &mut Arena<'_>, result: Id, dest: Id, keys: &[&str]) -> Result<(), Stop> {
    for item in arena.items(dest).to_vec() {
        let mut values: Tuple<'_> = Vec::new();
        if keys == [""] {
            values.push(arena.shared_text(item));
        } else {
            for key in keys {
                arena.expect(Some(item), Kind::Map)?;
                match arena.field(item, key) {
                    Some(value) => values.push(arena.shared_text(value)),
                    None => arena.append(result, item),
                }
            }
        }
        let values = &values;
        if keys.len() > 1 {
            set_element(arena, result, Selector { keys, values }, None)?;
        }
        set_element(arena, result, Selector { keys, values }, Some(item))?;
    }
    Ok(())
}
