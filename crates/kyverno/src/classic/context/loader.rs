//! Entries that are loaded when a query first names them.
//!
//! Upstream counterpart: `pkg/engine/context/deferred.go`. An entry belongs to the checkpoint at which it was added;
//! while one is loaded, only those before it are visible.

use std::sync::Arc;

use super::{Context, entry::Source};
use kyvtest_go_compat::value::Data;

/// How an entry gets its data.
#[derive(Debug, Clone)]
pub(super) enum Load {
    /// The images of a resource.
    Images(Data),
    /// A context entry, and what it fetched before.
    Entry(Arc<Source>, Option<Data>),
}

/// An entry that is waiting, or has been loaded.
#[derive(Debug, Clone)]
pub(super) struct Loader {
    name: String,
    level: usize,
    matched: bool,
    /// What was loaded, for those that remember it.
    data: Option<Data>,
    load: Load,
}

impl Context<'_> {
    pub(super) fn add_loader(&mut self, name: &str, load: Load) {
        self.loaders.push(Loader {
            name: name.to_owned(),
            level: self.checkpoints.len(),
            matched: false,
            data: None,
            load,
        });
    }

    /// Loads what a query names and has not been loaded.
    pub(super) fn load_matching(&mut self, query: &str) -> Result<(), String> {
        let (level, end) = self.limit.unwrap_or((self.checkpoints.len(), self.loaders.len()));
        loop {
            let found = self.loaders.iter().take(end).position(|loader| {
                !loader.matched && loader.data.is_none() && loader.level <= level && names(query, &loader.name)
            });
            let Some(index) = found else { return Ok(()) };
            if let Some(loader) = self.loaders.get_mut(index) {
                loader.matched = true;
            }
            self.load_at(index)?;
        }
    }

    fn load_at(&mut self, index: usize) -> Result<(), String> {
        let Some(loader) = self.loaders.get(index) else {
            return Ok(());
        };
        let (name, level) = (loader.name.clone(), loader.level);
        let load = match &loader.load {
            Load::Entry(source, _) => Load::Entry(source.clone(), loader.data.clone()),
            load @ Load::Images(_) => load.clone(),
        };
        self.limit = Some((level, index));
        let loaded = self.load(&name, &load);
        self.limit = None;
        let data = loaded?;
        if let Some(loader) = self.loaders.get_mut(index) {
            loader.data = data;
        }
        Ok(())
    }

    /// Sorts out the loaders after the document went back to a checkpoint.
    pub(super) fn reset_loaders(&mut self, restored: bool) {
        let level = self.checkpoints.len();
        for loader in &mut self.loaders {
            loader.matched = false;
        }
        let mut index = 0;
        while let Some(loader) = self.loaders.get(index) {
            let (own, loaded) = (loader.level, loader.data.is_some());
            if own > level {
                self.loaders.remove(index);
                continue;
            }
            if loaded && (restored || own < level) {
                // Upstream only logs an error here.
                let _ = self.load_at(index);
            }
            if own == level && (loaded || !restored) {
                self.loaders.remove(index);
                continue;
            }
            index += 1;
        }
    }
}

/// Whether a query has a name as a word of its own that does not follow a dot, a letter or a digit.
fn names(query: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ends_in_word = name.ends_with(is_word);
    query.match_indices(name).any(|(at, _)| {
        let before = query[..at].chars().next_back();
        let after = query[at + name.len()..].chars().next();
        before.is_none_or(|c| c != '.' && !c.is_ascii_alphanumeric()) && after.is_some_and(is_word) != ends_in_word
    })
}
