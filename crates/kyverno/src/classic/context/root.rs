//! The document of a context: made when something looks at it, because most rules have no variables.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use super::merge;
use kyvtest_go_compat::value::{Data, Document};

/// Has the document that a context starts with.
pub trait Start {
    fn document(&self) -> &Data;
}

/// A value for the document of a context.
#[derive(Debug, Clone)]
pub struct Part(Source);

#[derive(Debug, Clone)]
enum Source {
    Data(Data),
    /// An object that is converted when something looks at the document, once for all checkpoints.
    Document(Rc<(Document, OnceCell<Data>)>),
}

impl Part {
    fn data(&self) -> Data {
        match &self.0 {
            Source::Data(data) => data.clone(),
            Source::Document(lazy) => lazy.1.get_or_init(|| Data::from(lazy.0.root())).clone(),
        }
    }
}

impl From<Data> for Part {
    fn from(data: Data) -> Self {
        Self(Source::Data(data))
    }
}

impl From<&Document> for Part {
    fn from(document: &Document) -> Self {
        Self(Source::Document(Rc::new((document.clone(), OnceCell::new()))))
    }
}

/// A change that is made as soon as the document is.
#[derive(Clone)]
struct Pending {
    path: Vec<String>,
    value: Part,
    /// Whether the value takes the place of the one under the path, instead of being merged into it.
    replaces: bool,
}

/// The document of a context.
#[derive(Clone)]
pub(super) struct Root<'o> {
    start: Option<&'o dyn Start>,
    pending: Vec<Pending>,
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
            for Pending { path, value, replaces } in &self.pending {
                if *replaces {
                    clear(&mut data, path);
                }
                merge_at(&mut data, path, value.data(), false);
            }
            data
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut Data)) {
        self.get();
        let mut data = self.made.take().unwrap_or_default();
        change(&mut data);
        self.made = OnceCell::from(data);
    }

    /// Merges a value under a path of keys; with `overwrite`, maps replace maps.
    pub(super) fn merge_at(&mut self, path: &[&str], value: Data, overwrite: bool) {
        if self.made.get().is_none() && !overwrite {
            self.wait(path, value.into(), false);
            return;
        }
        self.change(|data| merge_at(data, path, value, overwrite));
    }

    /// Replaces the value under a path of keys.
    pub(super) fn replace_at(&mut self, path: &[&str], value: Part) {
        if self.made.get().is_none() {
            self.pending.retain(|pending| pending.path != path);
            self.wait(path, value, true);
            return;
        }
        self.change(|data| {
            clear(data, path);
            merge_at(data, path, value.data(), false);
        });
    }

    fn wait(&mut self, path: &[&str], value: Part, replaces: bool) {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        self.pending.push(Pending { path, value, replaces });
    }
}

/// Removes the value under a path of keys.
fn clear(data: &mut Data, path: &[impl AsRef<str>]) {
    let (Data::Map(entries), Some((key, rest))) = (data, path.split_first()) else {
        return;
    };
    let key = key.as_ref();
    if rest.is_empty() {
        if entries.contains_key(key) {
            Arc::make_mut(entries).remove(key);
        }
    } else if entries.get(key).is_some_and(|inner| inner.as_map().is_some())
        && let Some(inner) = Arc::make_mut(entries).get_mut(key)
    {
        clear(inner, rest);
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
