//! The changes that normalisation made, and their causes.
//!
//! Upstream counterpart: none.

use kyvtest_go_compat::value::{Document, diff};

use crate::Plugin;

/// Step that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Decoding: unknown fields, empty fields, canonical quantities and times, fields that are always written.
    Decode,
    /// A default of the version.
    Default,
    /// A mutating admission plugin.
    Plugin(Plugin),
    /// The strategy of the kind: status, allocated values, generated names and labels.
    Strategy,
}

impl Source {
    /// Words for reports.
    pub fn name(self) -> &'static str {
        match self {
            Source::Decode => "decoding",
            Source::Default => "default",
            Source::Plugin(plugin) => plugin.name(),
            Source::Strategy => "strategy",
        }
    }
}

/// One difference between the object as sent and as admission sees it.
#[derive(Clone, Debug)]
pub struct Change {
    /// Path such as `spec.containers[0].image`.
    pub path: String,
    /// `None` if the field was absent.
    pub before: Option<Document>,
    /// `None` if the field is gone.
    pub after: Option<Document>,
    pub source: Source,
}

/// Appends the differences between two states of an object.
pub(crate) fn record(before: &Document, after: &Document, source: Source, out: &mut Vec<Change>) {
    out.extend(diff(before.root(), after.root()).into_iter().map(|change| Change {
        path: change.path,
        before: change.left,
        after: change.right,
        source,
    }));
}
