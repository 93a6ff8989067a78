//! The progress bar: on standard error, on a terminal only, and only for work that takes longer than a blink.

use std::{
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that is done sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(150);

/// How far the work is. May be told from several threads.
pub(super) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    wanted: bool,
}

impl Progress {
    /// Work of so many pieces; hidden if `wanted` is false or standard error is not a terminal.
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

    /// Writes to the terminal while the bar steps aside.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.wanted { self.bar.suspend(write) } else { write() }
    }

    /// So many problems were found until now.
    pub(super) fn problems(&self, count: usize) {
        if self.wanted && count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            self.bar.set_message(format!(" · {count} problem{plural}"));
        }
    }

    /// Another piece is done.
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
    /// The bar makes room for the result.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
