//! The handling of panics: a short report that requests the input, and exit code 70.
//!
//! The hook only records the panic. The report is written after the panic has unwound, when no stream is locked and
//! buffered output has been dropped.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    ffi::OsString,
    fmt::Write as _,
    io::Write,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, PoisonError},
};

use super::Exit;

/// The maximum length of a panic's message in the report.
const LONGEST_MESSAGE: usize = 2000;

/// The recorded panic.
struct Crash {
    message: String,
    place: String,
    backtrace: Option<String>,
}

/// Runs `job`; if it panics, in this thread or in one that it waits for, writes a report and returns
/// [`Exit::Internal`].
///
/// The panic hook of the process is replaced while the job runs.
pub fn guarded(args: &[OsString], report: &mut dyn Write, job: impl FnOnce() -> Exit) -> Exit {
    let first: Arc<Mutex<Option<Crash>>> = Arc::default();
    let notes = Arc::clone(&first);
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let backtrace = Backtrace::capture();
        let crash = Crash {
            message: info.payload_as_str().unwrap_or("unknown").to_owned(),
            place: info
                .location()
                .map_or_else(|| "unknown".to_owned(), ToString::to_string),
            backtrace: (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string()),
        };
        notes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(crash);
    }));
    // Nothing of the job is used after a panic, so no broken invariant can be observed.
    let result = panic::catch_unwind(AssertUnwindSafe(job));
    panic::set_hook(previous);
    result.unwrap_or_else(|_| {
        let crash = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = report.write_all(text(crash.as_ref(), args).as_bytes());
        Exit::Internal
    })
}

fn text(crash: Option<&Crash>, args: &[OsString]) -> String {
    let (message, place) = crash.map_or(("unknown", "unknown"), |crash| (&crash.message, &crash.place));
    let end = message.floor_char_boundary(LONGEST_MESSAGE);
    let cut = if end < message.len() { " …" } else { "" };
    let message = message[..end].trim_end().replace('\n', "\n           ");
    let command: Vec<String> = args.iter().map(quoted).collect();
    let mut text = format!(
        "internal error: kyvtest stopped because of a bug\n\n\x20 message  {message}{cut}\n\x20 location \
         {place}\n\x20 version  {version} ({os}, {arch})\n\x20 command  {command}\n\nPlease report this message \
         together with the files that the command read:\nsuite, policies and resources, reduced as far as the error \
         still occurs.\n",
        version = env!("CARGO_PKG_VERSION"),
        os = std::env::consts::OS,
        arch = std::env::consts::ARCH,
        command = command.join(" "),
    );
    match crash.and_then(|crash| crash.backtrace.as_deref()) {
        Some(backtrace) => {
            let _ = write!(text, "\n{}\n", backtrace.trim_end());
        }
        None => text.push_str("Set RUST_BACKTRACE=1 in the environment to get a more detailed report.\n"),
    }
    text
}

/// Quotes an argument for a shell.
fn quoted(word: &OsString) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    let shown: String = word
        .chars()
        .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
        .collect();
    format!("'{}'", shown.replace('\'', r"'\''"))
}
