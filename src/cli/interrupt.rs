//! Ctrl-C: the first asks the work to stop its location, so that what is known is still written; the second ends the
//! process at once.

use std::{
    process,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Exit;

/// Whether the user has asked to stop. Long work looks at it between two pieces.
static STOP: AtomicBool = AtomicBool::new(false);

/// The flag, watched from the first call on. Commands without long work never call it and end at the first Ctrl-C.
pub(super) fn flag() -> &'static AtomicBool {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // Where signals cannot be watched, Ctrl-C ends the process as it always did.
        let _ = ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                #[expect(clippy::exit, reason = "the user does not want to wait")]
                process::exit(i32::from(Exit::Interrupted.code()));
            }
        });
    });
    &STOP
}
