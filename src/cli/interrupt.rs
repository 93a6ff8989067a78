//! Ctrl-C: the first stops long work between two pieces, so that results so far are still written; the second ends the
//! process at once.

use std::{
    process,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Exit;

/// Whether the user interrupted the run. Long work checks it between two pieces.
static STOP: AtomicBool = AtomicBool::new(false);

/// The flag, set by Ctrl-C from the first call on. Commands without long work never call it and end at the first
/// Ctrl-C.
pub(super) fn flag() -> &'static AtomicBool {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // If signals cannot be handled, Ctrl-C ends the process as usual.
        let _ = ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                #[expect(clippy::exit, reason = "the user does not want to wait")]
                process::exit(i32::from(Exit::Interrupted.code()));
            }
        });
    });
    &STOP
}
