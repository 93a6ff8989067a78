//! What is known of places besides their shapes: lists that are written out, pieces of texts, values that are read from texts, and
//! objects that are looked up. No upstream counterpart.

use std::sync::Arc;

use super::{Arena, Formula, Place};
use crate::body::{lookup::Lookup, value::Conversion};

impl Arena {
    /// An arena for lists of at most `k` elements.
    pub(in crate::body) fn with_limit(limit: Option<u32>) -> Self {
        Self { limit, ..Self::new() }
    }

    /// How many elements lists have at most, if that is limited.
    pub(in crate::body) fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Notes that the elements of a list are written out.
    pub(in crate::body) fn write_out(&mut self, list: Place) {
        if !self.limited.contains(&list) {
            self.limited.push(list);
        }
    }

    /// That the lists whose elements were written out have no further ones.
    pub(in crate::body) fn within_limit(&mut self) -> Formula {
        let Some(limit) = self.limit else {
            return Formula::TRUE;
        };
        let mut all = Vec::new();
        for list in self.limited.clone() {
            if let Some(bound) = self.bound(list, 0) {
                let longer = self.at_least(list, bound, Formula::TRUE, limit + 1);
                all.push(self.not(longer));
            }
        }
        self.and(all)
    }

    pub(in crate::body) fn note_split(&mut self, list: Place, text: Place, separator: &Arc<str>) {
        if self.split_of(list).is_none() {
            self.splits.push((list, text, Arc::clone(separator)));
        }
    }

    /// The text and the separator that a list consists of the pieces of.
    pub(in crate::body) fn split_of(&self, list: Place) -> Option<(Place, Arc<str>)> {
        let found = self.splits.iter().find(|(own, ..)| *own == list);
        found.map(|(_, text, separator)| (*text, Arc::clone(separator)))
    }

    pub(in crate::body) fn note_conversion(
        &mut self,
        value: Place,
        text: Place,
        readable: Formula,
        conversion: Conversion,
    ) {
        let entry = (value, text, readable, conversion);
        if !self.conversions.contains(&entry) {
            self.conversions.push(entry);
        }
    }

    pub(in crate::body) fn conversions(&self) -> &[(Place, Place, Formula, Conversion)] {
        &self.conversions
    }

    pub(in crate::body) fn note_lookup(&mut self, lookup: Lookup) {
        if self.lookups.iter().all(|own| own.place != lookup.place) {
            self.lookups.push(lookup);
        }
    }

    pub(in crate::body) fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }
}
