//! The progress bar: on standard error, on a terminal only, and only for work that takes a noticeable time.

use std::{
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows no bar.
const PATIENCE: Duration = Duration::from_millis(150);

/// The progress of the work. May be updated from several threads.
pub(super) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    wanted: bool,
}

impl Progress {
    /// Creates a bar for a number of pieces; hidden if `wanted` is false or standard error is not a terminal.
    pub(super) fn new(pieces: usize, unit: &'static str, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(pieces as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {prefix} {elapsed}{msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(unit);
        Self {
            bar,
            begin: Instant::now(),
            wanted: wanted && stderr().is_terminal(),
        }
    }

    /// Hides the bar while `write` writes to the terminal.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.wanted { self.bar.suspend(write) } else { write() }
    }

    /// Updates the number of problems.
    pub(super) fn problems(&self, count: usize) {
        if self.wanted && count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            self.bar.set_message(format!(" · {count} problem{plural}"));
        }
    }

    /// Advances by one piece.
    pub(super) fn step(&self) {
        if !self.wanted {
            return;
        }
        if self.bar.is_hidden() && self.begin.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    /// Removes the bar.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
