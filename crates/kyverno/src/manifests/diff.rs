//! The differences between a manifest and an object, by flattened keys.
//!
//! Upstream counterpart: `pkg/util/mapnode` and `matchResourceWithManifest` of `k8s-manifest-sigstore`.

use std::collections::{BTreeMap, BTreeSet};

use super::ignore::IgnoreFields;
use kyvtest_go_compat::{regex::Regex, value::Data};

struct Difference {
    key: String,
    before: Data,
    after: Data,
}

/// The scalars of a value by their keys, joined by dots. Empty maps and lists have none.
pub(super) fn flatten(value: &Data) -> BTreeMap<String, Data> {
    fn walk(value: &Data, path: &str, found: &mut BTreeMap<String, Data>) {
        let below = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            }
        };
        match value {
            Data::Map(entries) => entries.iter().for_each(|(key, item)| walk(item, &below(key), found)),
            Data::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    walk(item, &below(&i.to_string()), found);
                }
            }
            scalar => {
                found.insert(path.to_owned(), scalar.with_doubles());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(value, "", &mut found);
    found
}

/// The differences as upstream prints them; `None` if there are none that count.
pub(super) fn difference(manifest: &Data, object: &Data, ignore: &IgnoreFields) -> Option<String> {
    let (before, after) = (flatten(manifest), flatten(object));
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let (mut items, mut mistyped) = (Vec::new(), Vec::new());
    for key in keys {
        let value = |side: &BTreeMap<String, Data>| side.get(key).cloned().unwrap_or_default();
        let (from, to) = (value(&before), value(&after));
        if from == to {
            continue;
        }
        let difference = Difference {
            key: key.clone(),
            before: from,
            after: to,
        };
        let same_type = difference.before.is_null()
            || difference.after.is_null()
            || difference.before.go_type() == difference.after.go_type();
        if same_type {
            items.push(difference);
        } else {
            mistyped.push(Difference {
                before: typed(&difference.before),
                after: typed(&difference.after),
                ..difference
            });
        }
    }
    let mut items = without_moved(items);
    // A text that is empty counts as absent.
    items.retain(|item| {
        let empty = |value: &Data| value.as_str() == Some("");
        !(item.before.is_null() && empty(&item.after) || item.after.is_null() && empty(&item.before))
    });
    items.append(&mut mistyped);
    items.sort_by(|a, b| a.key.cmp(&b.key));
    items.retain(|item| !is_completed_image(item));
    let patterns = ignore.patterns(object);
    items.retain(|item| !patterns.iter().any(|pattern| pattern.matches(&item.key)));
    items.retain(|item| item.key != "metadata.namespace" || !item.before.is_null());
    (!items.is_empty()).then(|| json(items))
}

/// A value of another type, as Go prints it.
fn typed(value: &Data) -> Data {
    let kind = value.go_type();
    let text = match value {
        Data::String(text) => format!("(type: {kind}) {text}"),
        other => format!("(type: {kind}) %!s({kind}={})", other.to_go()),
    };
    text.into()
}

/// Leaves out what only moved within a list: gone at one place, and there at another.
fn without_moved(items: Vec<Difference>) -> Vec<Difference> {
    let Ok(place) = Regex::new(r"\.\d+\.") else {
        return items;
    };
    let moved: Vec<bool> = items
        .iter()
        .map(|item| {
            let one_sided = item.before.is_null() || item.after.is_null();
            if !one_sided || !place.is_match(&item.key) {
                return false;
            }
            let mut pattern = String::new();
            let mut from = 0;
            for span in place.find_all(&item.key, None) {
                pattern.push_str(&item.key[from..span.start]);
                pattern.push_str(r"\.\d+\.");
                from = span.end;
            }
            pattern.push_str(&item.key[from..]);
            let Ok(pattern) = Regex::new(&pattern) else {
                return false;
            };
            items.iter().any(|other| {
                let gone = item.after.is_null() && other.before.is_null() && item.before == other.after;
                let come = item.before.is_null() && other.after.is_null() && item.after == other.before;
                pattern.is_match(&other.key) && (gone || come)
            })
        })
        .collect();
    let kept = items.into_iter().zip(moved).filter(|(_, moved)| !moved);
    kept.map(|(item, _)| item).collect()
}

/// Whether an image only got the default registry or tag.
fn is_completed_image(item: &Difference) -> bool {
    let (Some(before), Some(after)) = (item.before.as_str(), item.after.as_str()) else {
        return false;
    };
    item.key.ends_with("image") && (after == format!("docker.io/{before}") || after == format!("{before}:latest"))
}

fn json(items: Vec<Difference>) -> String {
    let items: Data = items
        .into_iter()
        .map(|item| -> Data {
            let values: Data = [("after".into(), item.after), ("before".into(), item.before)]
                .into_iter()
                .collect();
            [("key".into(), item.key.into()), ("values".into(), values)]
                .into_iter()
                .collect()
        })
        .collect();
    let root: Data = [("items".into(), items)].into_iter().collect();
    root.to_go_json().unwrap_or_default()
}
