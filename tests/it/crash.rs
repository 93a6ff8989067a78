//! A bug in kyvtest itself: a report that requests the input, and exit code 70.
//!
//! The test has its own binary, because the panic hook belongs to the whole process.

use std::{ffi::OsString, thread};

use kyvtest::cli::{Exit, guarded};

#[test]
fn a_panic_becomes_a_report() {
    let args = ["kyvtest", "cel", "it's", "--object", "pod.yaml"].map(OsString::from);

    let mut report = Vec::new();
    let exit = guarded(&args, &mut report, || Exit::Divergence);
    assert_eq!((exit, report.len()), (Exit::Divergence, 0));

    let exit = guarded(&args, &mut report, || panic!("index 3 is out of range\nof something"));
    assert_eq!((exit, exit.code()), (Exit::Internal, 70));
    insta::assert_snapshot!("panic", stable(&report));

    // A panic in another thread is the one that is reported, not the one that propagates it.
    let mut report = Vec::new();
    let worker = || -> Exit { panic!("{}", "long ".repeat(10_000)) };
    let exit = guarded(&args, &mut report, || {
        thread::spawn(worker).join().expect("the worker is fine")
    });
    assert_eq!(exit, Exit::Internal);
    let text = stable(&report);
    assert!(
        text.contains("long long") && text.contains(" …\n") && text.len() < 3_000,
        "{text}"
    );
    assert!(!text.contains("the worker is fine"), "{text}");

    // The process is as before.
    let result = std::panic::catch_unwind(|| ());
    assert!(result.is_ok());
}

/// The report without parts that differ between machines and versions.
fn stable(report: &[u8]) -> String {
    let text = String::from_utf8_lossy(report);
    let lines = text.lines().map(|line| {
        let (word, rest) = line.trim_start().split_once(' ').unwrap_or_default();
        match word {
            "location" => format!("  location {}", rest.split(':').next().unwrap_or_default()),
            "version" => "  version  VERSION".to_owned(),
            _ => line.to_owned(),
        }
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text.push('\n');
    // A requested backtrace follows the text, or otherwise the hint about it.
    let end = text
        .find("still occurs.\n")
        .map_or(text.len(), |at| at + "still occurs.\n".len());
    text.truncate(end);
    text
}
