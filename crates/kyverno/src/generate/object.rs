//! Metadata of objects, read and written as `unstructured.Unstructured` of the Kubernetes client does it.

use std::{collections::BTreeMap, sync::Arc};

use kyvtest_go_compat::value::Data;
use kyvtest_model::kube::parse_api_version;

/// A text of the object; empty if it is absent or of another type.
pub(crate) fn text<'d>(object: &'d Data, path: &[&str]) -> &'d str {
    object.at(path).and_then(Data::as_str).unwrap_or_default()
}

/// Sets a field; maps on the way are created, and other values there leave the object as it is.
pub(crate) fn set(object: &mut Data, path: &[&str], value: Data) {
    let Some((key, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if object.is_null() {
        *object = Data::Map(Arc::default());
    }
    let Data::Map(entries) = object else { return };
    let entries = Arc::make_mut(entries);
    if rest.is_empty() {
        entries.insert(Arc::from(*key), value);
        return;
    }
    let inner = entries
        .entry(Arc::from(*key))
        .or_insert_with(|| Data::Map(Arc::default()));
    if inner.as_map().is_some() {
        set(inner, rest, value);
    }
}

/// Removes a field.
pub(crate) fn remove(object: &mut Data, path: &[&str]) {
    let (Data::Map(entries), Some((key, rest))) = (object, path.split_first()) else {
        return;
    };
    if !entries.contains_key(*key) {
        return;
    }
    let entries = Arc::make_mut(entries);
    if rest.is_empty() {
        entries.remove(*key);
    } else if let Some(inner) = entries.get_mut(*key) {
        remove(inner, rest);
    }
}

/// Sets a text of the metadata; an empty one removes the field.
pub(crate) fn set_metadata(object: &mut Data, field: &str, value: &str) {
    if value.is_empty() {
        remove(object, &["metadata", field]);
    } else {
        set(object, &["metadata", field], value.into());
    }
}

/// The labels. Null counts as an empty text, and one value of another type hides all labels.
pub(crate) fn labels(object: &Data) -> BTreeMap<Arc<str>, Data> {
    let Some(labels) = object.at(&["metadata", "labels"]).and_then(Data::as_map) else {
        return BTreeMap::new();
    };
    let labels = labels.iter();
    let texts: Option<BTreeMap<Arc<str>, Data>> = labels
        .map(|(key, value)| match value {
            Data::String(_) => Some((key.clone(), value.clone())),
            Data::Null => Some((key.clone(), "".into())),
            _ => None,
        })
        .collect();
    texts.unwrap_or_default()
}

pub(crate) fn set_labels(object: &mut Data, labels: BTreeMap<Arc<str>, Data>) {
    set(object, &["metadata", "labels"], Data::Map(Arc::new(labels)));
}

/// Group and version; empty if the object's API version has more than one slash.
pub(crate) fn group_version(object: &Data) -> (&str, &str) {
    let api_version = text(object, &["apiVersion"]);
    if api_version.matches('/').count() > 1 {
        return ("", "");
    }
    parse_api_version(api_version)
}

/// The kind; empty if the object's API version has more than one slash.
pub(crate) fn kind(object: &Data) -> &str {
    text(object, &["kind"])
}
