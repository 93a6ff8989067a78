//! The time that one proof may take.
//!
//! What a time limit cuts off depends on the machine: such an answer is UNKNOWN, and the limit is off unless it is given.

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

/// How often the watcher looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Stops a proof at the end of its time, or when the user interrupts it.
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

    /// Why a proof that was stopped claims nothing.
    pub(super) fn reason(&self) -> String {
        format!(
            "time limit of {} s reached (`--timeout`)",
            self.seconds.unwrap_or_default()
        )
    }
}
