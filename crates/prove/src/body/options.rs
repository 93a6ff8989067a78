//! How two sides are compared. No upstream counterpart.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kyvtest_go_compat::text::time::Timestamp;
use kyvtest_model::verdict::Status;

use crate::server::Data;

/// How to compare two sides.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which objects a difference may be shown on.
    pub data: Data,
    /// Whether deletions of collections belong to the world.
    pub collections: bool,
    /// How many cases one question may have.
    pub cases: u64,
    /// How many requests of each class are tried where nothing is proven; if none, nothing but a proof is of interest, and
    /// the comparison ends where there cannot be one.
    pub tries: u64,
    /// How many requests of each class are tried against a proof: a few by default, [`Options::THOROUGH`] in tests.
    pub checks: u64,
    /// The clock of the requests that are evaluated; a proof holds at any time.
    pub now: Option<Timestamp>,
    /// The differences that count, by the second side's status, where only a request is of interest: others are no
    /// differences then, so that a label says nothing.
    pub counts: Option<fn(Status) -> bool>,
    /// Cancels the comparison when set: the answer is then `UNKNOWN`.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    /// How many requests of each class tests try against a proof.
    pub const THOROUGH: u64 = 400;

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Data::Normalised,
            collections: true,
            cases: 8_000,
            tries: 300,
            checks: 8,
            now: None,
            counts: None,
            stop: None,
        }
    }
}
