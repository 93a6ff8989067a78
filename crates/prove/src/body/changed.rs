//! Maps that expressions and patches make or change: some entries in place of those of a map of a document.
//!
//! No upstream counterpart.

use std::{rc::Rc, sync::Arc};

use super::{
    formula::{Arena, Formula, Place},
    shape::Kind,
    value::{Part, Sym, Value},
};

/// A map with entries of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Changed {
    /// The map of a document that all other entries are those of; without one there are no others.
    pub(super) base: Option<Place>,
    /// The type of an object that an expression constructs, such as `Object.spec` or `JSONPatch`.
    pub(super) type_name: Option<Arc<str>>,
    /// Sorted by key.
    pub(super) entries: Vec<(Arc<str>, Entry)>,
}

/// A value that may be absent. The cases of the value matter only where it is present.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) present: Formula,
    pub(super) value: Value,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(Arc<str>),
    /// The position of an element in its list.
    Position(Place),
}

impl Entry {
    pub(super) fn absent() -> Self {
        Self {
            present: Formula::FALSE,
            value: Value(Vec::new()),
        }
    }

    /// A value that is there.
    pub(super) fn of(value: Value) -> Self {
        Self {
            present: Formula::TRUE,
            value,
        }
    }
}

impl Changed {
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|(own, _)| (**own).cmp(key));
        found.ok().map(|at| &self.entries[at].1)
    }

    pub(super) fn set(&mut self, key: &str, entry: Entry) {
        match self.entries.binary_search_by(|(own, _)| (**own).cmp(key)) {
            Ok(at) => self.entries[at].1 = entry,
            Err(at) => self.entries.insert(at, (Arc::from(key), entry)),
        }
    }
}

/// Texts and positions one after the other.
pub(super) fn joined(parts: impl IntoIterator<Item = Piece>) -> Rc<[Piece]> {
    let mut all: Vec<Piece> = Vec::new();
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Piece::Text(before)), Piece::Text(text)) => *before = Arc::from(format!("{before}{text}")),
            (_, part) => all.push(part),
        }
    }
    Rc::from(all)
}

impl Arena {
    /// A value in two cases.
    pub(super) fn either(&mut self, condition: Formula, then: &Value, otherwise: &Value) -> Value {
        let not = self.not(condition);
        let mut cases = Vec::new();
        for (guard, value) in [(condition, then), (not, otherwise)] {
            for (own, sym) in &value.0 {
                cases.push((self.and([guard, *own]), sym.clone()));
            }
        }
        self.value(cases)
    }

    /// An entry in two cases.
    pub(super) fn either_entry(&mut self, condition: Formula, then: &Entry, otherwise: &Entry) -> Entry {
        let not = self.not(condition);
        let (first, second) = (self.and([condition, then.present]), self.and([not, otherwise.present]));
        let mut cases = Vec::new();
        for (guard, entry) in [(first, then), (second, otherwise)] {
            for (own, sym) in &entry.value.0 {
                cases.push((self.and([guard, *own]), sym.clone()));
            }
        }
        Entry {
            present: self.or([first, second]),
            value: self.value(cases),
        }
    }

    /// The entry of a map of a document.
    pub(super) fn entry_at(&mut self, map: Place, key: &str) -> Entry {
        match self.field(map, key) {
            Some(field) => Entry {
                present: self.present(field),
                value: Value::of(Sym::At(field)),
            },
            None => Entry::absent(),
        }
    }

    /// The entry of a map; `None` for anything but a map.
    pub(super) fn entry_of(&mut self, sym: &Sym, key: &str) -> Option<Entry> {
        match sym {
            Sym::At(place) => Some(self.entry_at(*place, key)),
            Sym::Changed(changed) => Some(match (changed.get(key), changed.base) {
                (Some(own), _) => own.clone(),
                (None, Some(base)) => self.entry_at(base, key),
                (None, None) => Entry::absent(),
            }),
            Sym::Map(entries) => {
                let mut entries = entries.iter();
                let found = entries.find(|(own, _)| &**own == key);
                Some(found.map_or_else(Entry::absent, |(_, value)| Entry::of(value.clone())))
            }
            _ => None,
        }
    }

    /// A map as one with entries; `None` for anything but a map, or of unknown kind.
    pub(super) fn as_changed(&self, sym: &Sym) -> Option<Changed> {
        match sym {
            Sym::At(place) => {
                let kinds = self.shape(*place).kinds;
                (kinds.is_single() && kinds.has(Kind::Map)).then(|| Changed {
                    base: Some(*place),
                    ..Changed::default()
                })
            }
            Sym::Changed(changed) => Some((**changed).clone()),
            Sym::Map(entries) => {
                let mut made = Changed::default();
                for (key, value) in entries.iter() {
                    made.set(key, Entry::of(value.clone()));
                }
                Some(made)
            }
            _ => None,
        }
    }

    /// The kinds of a value of a document in separate cases: a place of one kind each.
    pub(super) fn by_kind(&mut self, value: &Value) -> Vec<(Formula, Option<Kind>, Sym)> {
        let mut cases = Vec::new();
        for (guard, sym) in &value.0 {
            let Sym::At(place) = sym else {
                cases.push((*guard, None, sym.clone()));
                continue;
            };
            for kind in Kind::ALL {
                let own = self.is_kind(*place, kind);
                let own = self.and([*guard, own]);
                if own != Formula::FALSE {
                    cases.push((own, Some(kind), sym.clone()));
                }
            }
        }
        cases
    }

    /// The elements of a list as a document has them; `None` for anything but a list.
    pub(super) fn parts_of(&mut self, sym: &Sym) -> Option<Vec<Part>> {
        match sym {
            Sym::List(parts) => Some(parts.to_vec()),
            Sym::At(list) => {
                let bound = self.bound(*list, 0)?;
                Some(vec![Part::each(*list, bound)])
            }
            _ => None,
        }
    }
}
