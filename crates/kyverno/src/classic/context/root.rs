//! The document of a context: made when something looks at it, because most rules have no variables.

use std::{cell::OnceCell, sync::Arc};

use super::merge;
use kyvtest_go_compat::value::Data;

/// Has the document that a context starts with.
pub trait Start {
    /// The document.
    fn document(&self) -> &Data;
}

/// The document of a context.
#[derive(Clone)]
pub(super) struct Root<'o> {
    start: Option<&'o dyn Start>,
    /// What is merged into the document as soon as it is made, each value under a path of keys.
    pending: Vec<(Vec<String>, Data)>,
    made: OnceCell<Data>,
}

impl<'o> Root<'o> {
    /// A document that is there.
    pub(super) fn of(data: Data) -> Self {
        Self {
            start: None,
            pending: Vec::new(),
            made: OnceCell::from(data),
        }
    }

    /// A document that is made on demand.
    pub(super) fn starting_with(start: &'o dyn Start) -> Self {
        Self {
            start: Some(start),
            pending: Vec::new(),
            made: OnceCell::new(),
        }
    }

    pub(super) fn get(&self) -> &Data {
        self.made.get_or_init(|| {
            let mut data = self
                .start
                .map_or_else(|| Data::Map(Arc::default()), |start| start.document().clone());
            for (path, value) in &self.pending {
                merge_at(&mut data, path, value.clone(), false);
            }
            data
        })
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Data)) {
        self.get();
        let mut data = self.made.take().unwrap_or_default();
        change(&mut data);
        self.made = OnceCell::from(data);
    }

    /// Merges a value under a path of keys; with `overwrite`, maps replace maps.
    pub(super) fn merge_at(&mut self, path: &[&str], value: Data, overwrite: bool) {
        if self.made.get().is_none() && !overwrite {
            let path = path.iter().map(|key| (*key).to_owned()).collect();
            self.pending.push((path, value));
            return;
        }
        self.change(|data| merge_at(data, path, value, overwrite));
    }
}

fn merge_at(data: &mut Data, path: &[impl AsRef<str>], value: Data, overwrite: bool) {
    let wrapped = path
        .iter()
        .rev()
        .fold(value, |value, key| Data::from_iter([(Arc::from(key.as_ref()), value)]));
    if let Data::Map(entries) = wrapped {
        merge(&entries, data, overwrite);
    }
}
