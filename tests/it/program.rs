//! The program as tests start it: in the root of the package, without the caller's environment.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program with these arguments, not yet started.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kyvtest"));
    // A clean environment: independent of the caller's terminal width and colours.
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(args)
        .stdin(Stdio::null());
    command
}

pub(crate) fn kyvtest(args: &[&str]) -> Output {
    with(args, &[])
}

pub(crate) fn with(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = command(args);
    command.envs(environment.iter().copied());
    command.output().expect("the binary starts")
}

/// With a pinned clock, so that no times are shown.
pub(crate) fn timeless(args: &[&str]) -> Output {
    with(args, &[("KYVTEST_NOW", "2026-11-16T00:00:00Z")])
}

/// Everything about a run in one string.
pub(crate) fn shown(output: &Output) -> String {
    let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
    let (stdout, stderr) = (stdout(output), stderr(output));
    format!("exit code: {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}").replace('\u{1b}', "ESC")
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is the report alone")
}
