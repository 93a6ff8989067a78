//! The time limit of one proof.
//!
//! The effect of a time limit depends on the machine: the result is then UNKNOWN, and there is no limit by default.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::super::interrupt;

/// The polling interval for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Stops a proof at its time limit, or when the user interrupts it.
pub(super) struct Limit {
    seconds: Option<u64>,
    stop: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    /// Ends the watcher when dropped.
    _watcher: Sender<()>,
}

impl Limit {
    pub(super) fn new(seconds: Option<u64>) -> Self {
        let interrupted = interrupt::flag();
        let (stop, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (watcher, ended) = mpsc::channel::<()>();
        let (own_stop, own_over) = (Arc::clone(&stop), Arc::clone(&over));
        let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let look = move || {
            if end.is_some_and(|end| Instant::now() >= end) {
                own_over.store(true, Ordering::Relaxed);
                own_stop.store(true, Ordering::Relaxed);
            }
            if interrupted.load(Ordering::Relaxed) {
                own_stop.store(true, Ordering::Relaxed);
            }
        };
        look();
        thread::spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                look();
            }
        });
        Self {
            seconds,
            stop,
            over,
            _watcher: watcher,
        }
    }

    pub(super) fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    pub(super) fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The reason why a stopped proof is UNKNOWN.
    pub(super) fn reason(&self) -> String {
        format!(
            "time limit of {} s reached (`--timeout`)",
            self.seconds.unwrap_or_default()
        )
    }
}
